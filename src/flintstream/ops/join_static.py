"""Joins records with a table that does not change, held whole in each task, on columns.

This is how the join runs where Spark itself does not run it: in the in-process runtime, and behind operators of ours.
Records become rows with the fields of both sides, whatever they were, exactly as Spark's own join would make them.

Flink: a join with a bounded table in its SQL.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flintstream.errors import JobError, describe
from flintstream.model.functions_join import PairUp
from flintstream.model.joins_reference import JoinDeclaration
from flintstream.ops.batch import I64, Batch, Values
from flintstream.ops.operator import Operator, OperatorContext, Output
from flintstream.state.codec import Kind, kind_of_arrow

FILTERING = ("left_semi", "left_anti")
"""Kinds of joins that give records as they are."""
Columns = dict[str, tuple[pa.Array, Kind]]
"""Columns by name, each with its kind."""


class StaticJoin(JoinDeclaration):
    """A join with an Arrow table as it was declared; `on` are columns of both sides."""

    def __init__(self, how: str, table: pa.Table, on: tuple[str, ...]) -> None:
        super().__init__(how, PairUp())
        self.table, self.on = table, on

    def __deepcopy__(self, memo: object) -> StaticJoin:
        # Nothing here ever changes, and the table may be large.
        return self


class StaticJoinOperator(Operator):
    """Rows of the table are grouped by key once; a batch is then a few look-ups on columns."""

    def __init__(self, join: StaticJoin) -> None:
        self._join = join

    def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        table = self._join.table.combine_chunks()
        self._keys: list[pa.Array] = []
        codes: list[I64] = []
        for name in self._join.on:
            distinct = _whole(table.column(name)).unique().drop_null()
            self._keys.append(distinct)
            codes.append(_codes(_whole(table.column(name)), distinct))
        code = self._one_code(codes)
        present = np.flatnonzero(code >= 0)
        order = present[np.argsort(code[present], kind="stable")]
        self._order = order
        self._codes, self._starts, self._counts = np.unique(code[order], return_index=True, return_counts=True)
        self._others = {name: _whole(table.column(name)) for name in table.column_names if name not in self._join.on}

    def process(self, batch: Batch, port: int, out: Output) -> None:
        columns = self._columns(batch.values)
        found = self._found(columns)
        counts = np.where(found >= 0, self._counts[found], 0) if len(self._counts) else np.zeros(len(batch), np.int64)
        match self._join.how:
            case "left_semi":
                cause, rows = np.flatnonzero(counts), None
            case "left_anti":
                cause, rows = np.flatnonzero(counts == 0), None
            case how:
                shown = np.maximum(counts, 1) if how == "left" else counts
                cause = np.repeat(np.arange(len(batch)), shown)
                number = np.arange(len(cause)) - np.repeat(np.cumsum(shown) - shown, shown)
                rows = self._rows(found, counts, cause, number)
        if len(cause):
            taken = {name: (column.take(pa.array(cause)), kind) for name, (column, kind) in columns.items()}
            if rows is not None:
                others = {name: column.take(rows) for name, column in self._others.items()}
                taken |= {name: (column, kind_of_arrow(column.type)) for name, column in others.items()}
            out.emit(_result(batch, taken, cause))

    def _rows(self, found: I64, counts: I64, cause: I64, number: I64) -> pa.Array:
        """Return which row of the table each result has; null for a record that met none."""
        met = counts[cause] > 0
        places = np.zeros(len(cause), np.int64)
        places[met] = self._order[self._starts[found[cause[met]]] + number[met]]
        return pa.array(places, mask=~met)

    def _columns(self, values: Values) -> Columns:
        """Return the fields of records as columns, as Spark would see them."""
        array, kind = values.column()
        if kind == "pickle" or array.null_count:
            what = "records without the same named fields cannot be joined with a table"
            remedy = "map them to dicts, Rows or dataclasses of one shape before"
            raise JobError(describe(what, f"operator {self._ctx.name!r}", remedy))
        if pa.types.is_struct(array.type):
            fields = [(array.type.field(index).name, array.field(index)) for index in range(array.type.num_fields)]
            columns = {name: (column, inner) for (name, column), inner in zip(fields, kind[-1], strict=True)}
        else:
            columns = {"value": (array, kind)}
        check_columns(tuple(columns), self._join.table.column_names, self._join.on, self._join.how)
        return columns

    def _found(self, columns: Columns) -> I64:
        """Return the place of each record's key among the table's keys; -1 if it is not there."""
        if not len(self._codes):
            return np.full(len(columns[self._join.on[0]][0]), -1)
        codes = [
            _codes(self._as_key(columns[name][0], keys, name), keys)
            for name, keys in zip(self._join.on, self._keys, strict=True)
        ]
        code = self._one_code(codes)
        place = np.minimum(np.searchsorted(self._codes, code), len(self._codes) - 1)
        return np.where(self._codes[place] == code, place, -1)

    def _one_code(self, codes: list[I64]) -> I64:
        """Make one number of the places of several fields; -1 if any of them is not there."""
        whole = codes[0]
        for column, keys in zip(codes[1:], self._keys[1:], strict=True):
            missing = (whole < 0) | (column < 0)
            whole = np.where(missing, -1, whole * len(keys) + column)
        return whole

    def _as_key(self, column: pa.Array, keys: pa.Array, name: str) -> pa.Array:
        try:
            return column.cast(keys.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            what = f"field {name!r} of a record is {column.type}, and the table has {keys.type}"
            remedy = "give both the same type"
            raise JobError(describe(what, f"operator {self._ctx.name!r}", remedy)) from None


def check_columns(mine: tuple[str, ...], table: list[str], on: tuple[str, ...], how: str) -> None:
    """Raise if records have not the fields to join by, or others that the table has too."""
    missing = [name for name in on if name not in mine]
    if missing:
        what = f"join_static: records have no field {missing[0]!r}, but {', '.join(map(repr, mine))}"
        raise JobError(describe(what, remedy="name fields of both sides with on="))
    twice = [name for name in table if name in mine and name not in on]
    if twice and how not in FILTERING:
        what = f"join_static: records and table both have {', '.join(map(repr, twice))}"
        raise JobError(describe(what, remedy="rename it on one side, or join by it too"))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _codes(column: pa.Array, keys: pa.Array) -> I64:
    """Return the place of each value among the keys; -1 if it is not there, and for null."""
    places = pc.index_in(column, value_set=keys, skip_nulls=True)  # pyright: ignore[reportAttributeAccessIssue]  # made at run time
    return pc.fill_null(places, -1).to_numpy(zero_copy_only=False).astype(np.int64)


def _result(batch: Batch, columns: Columns, cause: I64) -> Batch:
    """Return rows of these columns, each with the time and the place of the record that caused it."""
    array = pa.StructArray.from_arrays([column for column, _ in columns.values()], list(columns))
    number = np.arange(len(cause)) - np.searchsorted(cause, cause)
    stamp = [*(column[cause] for column in batch.stamp), number]
    watermarks = None if batch.watermarks is None else batch.watermarks[cause]
    kind = ["row", list(columns), [inner for _, inner in columns.values()]]
    return Batch(Values(None, array, kind), batch.timestamps[cause], stamp, watermarks)
