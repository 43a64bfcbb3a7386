"""One table of state as people see it: the parts it lies in, and the columns in which they are shown.

A view is a value that travels: Spark's tasks show their parts by it, and in one process it is read part after part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from flintstream.engine.state_tables import Part, SavepointPart, no_rows
from flintstream.engine.state_tables_columns import Layout, exploded, layout_of
from flintstream.state.broadcast import is_broadcast


@dataclass(frozen=True)
class View:
    """A table in parts; with `explode` lists are shown element by element."""

    parts: tuple[Part, ...]
    explode: bool = False

    @cached_property
    def layout(self) -> Layout:
        """The columns; found by looking at what the parts say of themselves, not at their rows."""
        found: list[pa.Schema] = []
        seen: set[tuple[str, int]] = set()
        for part in self.parts:
            if isinstance(part, SavepointPart):
                # Of the files of a savepoint that are alike one will do.
                alike = part.entry.file.rpartition("/")[0], part.entry.schema
                if alike in seen:
                    continue
                seen.add(alike)
            found += part.schemas()
        return layout_of([exploded(no_rows(each)).schema for each in found] if self.explode else found)

    def shown(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one part."""
        for batch in self.parts[number].read():
            yield self.layout.show(exploded(in_order(batch)) if self.explode else in_order(batch))

    def to_arrow(self) -> pa.Table:
        """Return all rows."""
        batches = [batch for number in range(len(self.parts)) for batch in self.shown(number)]
        return pa.Table.from_batches(batches, self.layout.schema)


def in_order(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the pairs of a broadcast map in their order; other tables have none."""
    if not is_broadcast(batch):
        return batch
    return batch.take(pa.array(np.argsort(batch.column("place").to_numpy(), kind="stable")))
