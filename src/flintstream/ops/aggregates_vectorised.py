"""A user's aggregate on columns, in both forms that windows need: by columns, and record by record.

The first hands whole columns to the user's three steps. The second, for windows that are computed record by record
(triggers, evictors, lateness), keeps the records and hands them over when a result is wanted: the result is the same,
since `merge` is associative.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pyarrow as pa

from flintstream.errors import JobError, describe
from flintstream.model.functions_vectorised import Groups, VectorizedAggregateFunction
from flintstream.model.typeinfo import TypeInformation
from flintstream.ops.aggregates_column import ColumnAggregate, Field, Grouping, flat
from flintstream.ops.aggregates_record_base import RecordAggregate
from flintstream.ops.batch import I64, Values
from flintstream.ops.vectorised_columns import InputType, from_format, plain, to_arrow
from flintstream.state.codec import Kind, decode


class UserAggregate(ColumnAggregate):
    """Calls a VectorizedAggregateFunction; with a declared type every batch comes in that type."""

    def __init__(
        self,
        prefix: str,
        field: Field,
        function: VectorizedAggregateFunction,
        declared: TypeInformation | None = None,
    ) -> None:
        super().__init__(prefix, field)
        self._function = function
        self._declared = declared
        self._conform = None if declared is None else InputType(declared, repr(function))

    def inputs(self, values: Values, timestamps: I64) -> dict[str, pa.Array]:
        picked = self.picked(values)
        if self._conform is not None:
            picked = self._conform(picked)
        return self._checked("accumulate", self._function.accumulate(to_arrow(picked, self._declared)[0]), len(values))

    def fold(self, table: pa.Table, groups: Grouping) -> dict[str, pa.Array]:
        merged = self._function.merge(self._columns(table), Groups(groups.ids, groups.count))
        return self._checked("merge", merged, groups.count)

    def result(self, merged: pa.Table) -> tuple[pa.Array, Kind]:
        found = from_format(self._function.get_result(self._columns(merged)))
        if isinstance(found, pa.RecordBatch):
            found = found.to_struct_array()
        self._check_length("get_result", len(found), merged.num_rows)
        return plain(found)

    def _columns(self, table: pa.Table) -> dict[str, pa.Array]:
        return {name[len(self.prefix) :]: flat(table.column(name)) for name in self.own(table)}

    def _checked(self, method: str, result: Any, count: int) -> dict[str, pa.Array]:
        """Return accumulators under the names that they have in state."""
        if not isinstance(result, Mapping) or not result:
            what = f"{method} of {self._function!r} returned {result!r:.200}"
            raise JobError(describe(what, None, "return a dict of columns"))
        columns: dict[str, pa.Array] = {}
        for name, column in cast("Mapping[str, Any]", result).items():
            array = from_format(column)
            if isinstance(array, pa.RecordBatch):
                array = array.to_struct_array()
            self._check_length(method, len(array), count)
            columns[f"{self.prefix}{name}"] = array
        return columns

    def _check_length(self, method: str, found: int, wanted: int) -> None:
        if found != wanted:
            each = {"accumulate": "value", "merge": "group", "get_result": "row"}[method]
            what = f"{method} of {self._function!r} returned {found} rows for {wanted} {each}s"
            raise JobError(describe(what, None, f"return one for each {each}"))

    def of_records(self, records: list[Any]) -> Any:
        """Return the result of some records, which are of one group."""
        table = pa.table(self.inputs(Values(records), np.zeros(len(records), np.int64)))
        merged = pa.table(self.fold(table, Grouping(np.zeros(len(records), np.int64), 1)))
        return decode(*self.result(merged))[0]


class Computed(RecordAggregate):
    """The same over records one by one: they are kept until a result is wanted."""

    takes_none = True

    def __init__(
        self, field: Field, function: VectorizedAggregateFunction, declared: TypeInformation | None = None
    ) -> None:
        super().__init__(field)
        self._aggregate = UserAggregate("", None, function, declared)

    def create(self) -> list[Any]:
        return []

    def add(self, held: list[Any], value: Any, timestamp: int) -> list[Any]:
        held.append(value)
        return held

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        return [*one, *other]

    def result(self, held: list[Any]) -> Any:
        return self._aggregate.of_records(held) if held else None
