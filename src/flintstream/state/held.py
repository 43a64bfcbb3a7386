"""State of records that wait for event time: columns in the order of arrival, and a horizon below which all is gone.

A record leaves when event time passes its timestamp, and event time passes all records up to it at once. So nothing
needs to be removed one by one: a changelog has the rows that came, and the one number up to which they left. Rows that
come and go within an epoch never enter it.

A batch of this table has the rows `(key_group, time, place, value)`; the horizon stands in its schema's metadata. Both
event time and thus the horizon are the same in all partitions of an operator, so files of several may be put together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flintstream.model.time import MIN_TIMESTAMP
from flintstream.state.codec import Kind, decode, encode, field_of, kind_of_field
from flintstream.state.partials import TABLE_METADATA

_HORIZON = b"flintstream.horizon"
_HELD = b"held"
MOST_PARTS = 32

I64 = npt.NDArray[np.int64]


class Held(NamedTuple):
    """Records by ascending time, equal ones in the order of arrival; `places` order keys among equal times."""

    times: I64
    places: I64
    groups: I64
    values: pa.Array
    kind: Kind

    def slice(self, start: int, stop: int) -> Held:
        """Return the records from `start` to before `stop`."""
        columns = (self.times[start:stop], self.places[start:stop], self.groups[start:stop])
        return Held(*columns, self.values.slice(start, stop - start), self.kind)

    def take(self, order: I64) -> Held:
        """Return the records in another order."""
        return Held(
            self.times[order], self.places[order], self.groups[order], self.values.take(pa.array(order)), self.kind
        )

    def after(self, time: int) -> Held:
        """Return the records later than `time`."""
        return self.slice(int(np.searchsorted(self.times, time, "right")), len(self.times))


class HeldTable:
    """Records that wait, in a few parts, each sorted by time.

    `generation` changes whenever the table has become another one than its owner made it.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._parts: list[Held] = []
        self._added: list[Held] = []
        self._left = False
        self.horizon = MIN_TIMESTAMP

    def add(self, part: Held) -> None:
        """Take in records in their order of arrival."""
        self._added.append(self._pile(part))

    def _pile(self, part: Held) -> Held:
        if bool((part.times[1:] < part.times[:-1]).any()):
            part = part.take(np.argsort(part.times, kind="stable"))
        self._parts.append(part)
        if len(self._parts) > MOST_PARTS:
            self._parts = [_by_time(self._parts)]
        return part

    def take_until(self, time: int) -> Held | None:
        """Remove the records not later than `time` and return them, by time and then in the order of arrival."""
        due: list[Held] = []
        rest: list[Held] = []
        for part in self._parts:
            later = part.after(time)
            if len(later.times):
                rest.append(later)
            if len(later.times) < len(part.times):
                due.append(part.slice(0, len(part.times) - len(later.times)))
        self._parts, self.horizon = rest, max(self.horizon, time)
        self._left = self._left or bool(due)
        return _by_time(due) if due else None

    def parts(self) -> list[Held]:
        """Return the records, in parts."""
        return list(self._parts)

    def delta(self, max_parallelism: int) -> pa.RecordBatch | None:
        """Return what was added and is still there, and the horizon."""
        added = [part.after(self.horizon) for part in self._added]
        if not self._left and not any(len(part.times) for part in added):
            return None
        return to_batch(added, self.horizon)

    def snapshot(self, max_parallelism: int) -> pa.RecordBatch | None:
        """Return all records, and the horizon."""
        if not self._parts and self.horizon == MIN_TIMESTAMP:
            return None
        return to_batch(self._parts, self.horizon)

    def mark_clean(self) -> None:
        """What was added is in a changelog now."""
        self._added.clear()
        self._left = False

    def apply(self, batch: pa.RecordBatch, keep_gone: bool = False) -> None:
        """Bring the table forward by a changelog batch."""
        self.generation += 1
        self.horizon = max(self.horizon, horizon_of(batch))
        self._parts = [later for part in self._parts if len((later := part.after(self.horizon)).times)]
        part = from_batch(batch).after(self.horizon)
        if len(part.times):
            self._pile(part)

    def clear(self) -> None:
        """Forget everything."""
        self.generation += 1
        self._parts.clear()
        self.mark_clean()
        self.horizon = MIN_TIMESTAMP

    def __len__(self) -> int:
        return sum(len(part.times) for part in self._parts)


def is_held(batch: pa.RecordBatch) -> bool:
    """Whether a changelog batch is of a HeldTable."""
    return (batch.schema.metadata or {}).get(TABLE_METADATA) == _HELD


def horizon_of(batch: pa.RecordBatch) -> int:
    """Return the time up to which records have left."""
    return int((batch.schema.metadata or {})[_HORIZON])


def _by_time(parts: Sequence[Held]) -> Held:
    """Return all records of some parts, whose order is that of arrival, as one part."""
    if len(parts) == 1:
        return parts[0]
    values, kind = _joined(parts)
    joined = Held(
        np.concatenate([part.times for part in parts]),
        np.concatenate([part.places for part in parts]),
        np.concatenate([part.groups for part in parts]),
        values,
        kind,
    )
    return joined.take(np.argsort(joined.times, kind="stable"))


def _joined(parts: Sequence[Held]) -> tuple[pa.Array, Kind]:
    """Return the values of all parts; where they are of several types, as one column that can hold them all."""
    first = parts[0]
    if all(part.kind == first.kind and part.values.type == first.values.type for part in parts):
        return pa.concat_arrays([part.values for part in parts]), first.kind
    rows: list[Any] = []
    for part in parts:
        rows += decode(part.values, part.kind)
    return encode(rows)


def to_batch(parts: Iterable[Held], horizon: int) -> pa.RecordBatch:
    """Return records and the horizon as a changelog batch."""
    present = [part for part in parts if len(part.times)]
    metadata = {TABLE_METADATA: _HELD, _HORIZON: str(horizon).encode()}
    none = np.zeros(0, np.int64)
    held = _by_time(present) if present else Held(none, none, none, pa.nulls(0), "none")
    fields = [
        pa.field("key_group", pa.int32()),
        pa.field("time", pa.int64()),
        pa.field("place", pa.int64()),
        field_of("value", held.values, held.kind),
    ]
    columns = [pa.array(held.groups.astype(np.int32)), pa.array(held.times), pa.array(held.places), held.values]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata))


def from_batch(batch: pa.RecordBatch) -> Held:
    """Return the records of a changelog batch."""
    column = batch.schema.get_field_index("value")
    return Held(
        batch.column("time").to_numpy(),
        batch.column("place").to_numpy(),
        batch.column("key_group").to_numpy().astype(np.int64),
        batch.column(column),
        kind_of_field(batch.schema.field(column)),
    )
