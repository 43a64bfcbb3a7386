"""Lines of JSON to rows, as the file source reads them, but line by line where one of them is bad.

A file source that is to go on after a bad line is read as text and parsed here; one that is not leaves the parsing to
whoever reads files, which is faster. Lines are parsed many at once. Where that fails they are tried in halves, so that
a bad line among thousands costs a few tries.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flintstream.connectors.files_local import parse_json_lines
from flintstream.model.dead_letters import ErrorPolicy
from flintstream.model.functions import Function
from flintstream.ops.batch import Batch, Values
from flintstream.ops.dead_letters import Undertaker, undertaker_of
from flintstream.ops.operator import Operator, OperatorContext, Output
from flintstream.state.codec import kind_of_arrow


class JsonLines(Function):
    """Says what columns the lines have."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema


class ParsingOperator(Operator):
    """Turns lines into rows, and those that are no JSON of the declared type into dead letters."""

    def __init__(self, policy: ErrorPolicy, lines: JsonLines) -> None:
        self._policy = policy
        self._schema = lines.schema

    def open(self, ctx: OperatorContext) -> None:
        self._graves: Undertaker = undertaker_of(self._policy, ctx)

    def process(self, batch: Batch, port: int, out: Output) -> None:
        lines = list(map(str.strip, batch.values.rows()))
        if not all(lines):
            # Blank lines are no records.
            batch = batch.take(np.flatnonzero(np.fromiter(map(bool, lines), np.bool_, len(lines))))
            lines = list(filter(None, lines))
        if not lines:
            return
        try:
            records = self._parsed(lines)
        except self._graves.errors as error:
            self._split(batch, port, out, error)
            return
        out.emit(batch.with_values(Values(None, records, kind_of_arrow(records.type))))

    def _parsed(self, lines: list[str]) -> pa.Array:
        # With a brace at each end no object goes over several lines, so that their number tells of several in one.
        is_whole = all(line[0] == "{" and line[-1] == "}" for line in lines)
        records = parse_json_lines("\n".join(lines).encode(), self._schema) if is_whole else None
        if records is None or len(records) != len(lines):
            what = "a line is not one JSON object"
            raise ValueError(what)
        return records

    def _split(self, batch: Batch, port: int, out: Output, error: Exception) -> None:
        if len(batch) > 1:
            half = len(batch) // 2
            self.process(batch.slice(0, half), port, out)
            self.process(batch.slice(half, len(batch)), port, out)
            return
        letter = self._graves.take(error, batch.values.rows()[0], int(batch.timestamps[0]))
        self._graves.emit(batch, [(0, letter)], out)
