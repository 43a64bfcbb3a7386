"""Operators around functions of many records at once: map, filter and flat_map on columns.

Each result inherits timestamp, watermark and stamp of the record it comes from, so a function never sees them, and
where a batch was cut is as invisible as for a function of one record, as long as it treats rows independently. A batch
without records never reaches it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flintstream.errors import JobError, describe
from flintstream.model.functions_vectorised import Vectorized
from flintstream.model.typeinfo import TypeInformation
from flintstream.ops.batch import I64, Batch, Values
from flintstream.ops.operator import OperatorContext, Output
from flintstream.ops.stateless import FunctionOperator
from flintstream.ops.vectorised_columns import InputType, from_format, to_arrow, to_format, to_values


class VectorisedOperator(FunctionOperator):
    """What the three share: records to columns, and the call. `declared` is the output's type, None if not declared."""

    def __init__(self, function: Vectorized, method: str, declared: TypeInformation | None) -> None:
        super().__init__(function)
        self._call: Callable[[Any], Any] = function.entry(method)
        self._format = function.format
        self._input_type = function.input_type
        self._known = function.input_type or function.known
        self._declared = declared
        self._conform: InputType | None = None

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        if self._input_type is not None:
            self._conform = InputType(self._input_type, ctx.name)

    def process(self, batch: Batch, port: int, out: Output) -> None:
        if not len(batch):
            return
        values = batch.values
        if self._conform is not None:
            values = self._conform(values)
        columns, kind = to_arrow(values, self._known)
        self._finish(self._call(to_format(columns, self._format)), batch, kind, out)

    def _finish(self, result: Any, batch: Batch, kind: Any, out: Output) -> None:
        raise NotImplementedError


class VectorisedMap(VectorisedOperator):
    """One record out for each record in."""

    def _finish(self, result: Any, batch: Batch, kind: Any, out: Output) -> None:
        _check_index(result, len(batch))
        data = from_format(result)
        _check_length(_length(data), len(batch), "map")
        out.emit(batch.with_values(to_values(data, kind, self._declared)))


class VectorisedFilter(VectorisedOperator):
    """Keeps the records for which the function is true; null is not true."""

    def _finish(self, result: Any, batch: Batch, kind: Any, out: Output) -> None:
        _check_index(result, len(batch))
        verdicts = from_format(result)
        if isinstance(verdicts, pa.RecordBatch) or not pa.types.is_boolean(verdicts.type):
            found = "several columns" if isinstance(verdicts, pa.RecordBatch) else str(verdicts.type)
            what = f"the function of a filter returned {found}"
            raise JobError(describe(what, None, "return True or False for each row"))
        _check_length(len(verdicts), len(batch), "filter")
        kept = np.flatnonzero(verdicts.fill_null(False).to_numpy(zero_copy_only=False))
        if len(kept) == len(batch):
            out.emit(batch)
        elif len(kept):
            out.emit(batch.take(kept))


class VectorisedFlatMap(VectorisedOperator):
    """Any number of records out for each record in.

    The function says which row each result comes from: by a second value, by the index of what pandas returns, or by
    returning a column of lists, one for each row.
    """

    def _finish(self, result: Any, batch: Batch, kind: Any, out: Output) -> None:
        data, rows = _sources(result, len(batch))
        order = None
        if len(rows) and (rows[1:] < rows[:-1]).any():
            order = np.argsort(rows, kind="stable")
            rows = rows[order]
        values = to_values(data, kind, self._declared)
        out.emit(_expanded(batch, values if order is None else values.take(order), rows))


def _expanded(batch: Batch, values: Values, rows: I64) -> Batch:
    """Return values as what the records at `rows`, which ascend, emitted; stamps grow by an emission number."""
    number = np.arange(len(rows)) - np.searchsorted(rows, rows)
    return Batch(
        values,
        batch.timestamps[rows],
        [*(column[rows] for column in batch.stamp), number],
        None if batch.watermarks is None else batch.watermarks[rows],
    )


def _sources(result: Any, count: int) -> tuple[pa.Array | pa.RecordBatch, I64]:
    """Return the results of a flat_map and the row that each comes from."""
    given: Any = None
    if isinstance(result, tuple):
        if len(cast("tuple[Any, ...]", result)) != 2:
            raise JobError(describe("the function of a flat_map returned a tuple", None, _HOW))
        result, given = cast("tuple[Any, Any]", result)
    elif _is_pandas(result):
        given = result.index.to_numpy()
    data = from_format(result)
    if given is None:
        if isinstance(data, pa.RecordBatch) or not _is_list(data.type):
            raise JobError(describe("the function of a flat_map did not say which rows its results are of", None, _HOW))
        _check_length(len(data), count, "flat_map")
        lists = data if pa.types.is_large_list(data.type) else data.cast(pa.large_list(data.type.value_type))
        parents: I64 = pc.call_function("list_parent_indices", [lists]).to_numpy()
        return _opened(lists.flatten()), parents
    rows = _row_numbers(given)
    if len(rows) != _length(data):
        what = f"the function of a flat_map returned {_length(data)} results and {len(rows)} row numbers"
        raise JobError(describe(what, None, _HOW))
    if len(rows) and (int(rows.min()) < 0 or int(rows.max()) >= count):
        what = f"the function of a flat_map named row {int(rows.max())} of {count}"
        raise JobError(describe(what, None, "number rows from 0"))
    return data, rows


_HOW = "return (results, numbers of their rows), a column of lists, or of pandas something with the rows' index"


def _opened(items: pa.Array) -> pa.Array | pa.RecordBatch:
    """Return the items of lists: structs are records."""
    return pa.RecordBatch.from_struct_array(items) if pa.types.is_struct(items.type) else items


def _row_numbers(given: Any) -> I64:
    numbers = given.to_numpy(zero_copy_only=False) if isinstance(given, pa.Array) else np.asarray(given)
    if numbers.ndim != 1 or (len(numbers) and numbers.dtype.kind not in "iu"):
        raise JobError(describe(f"{given!r:.200} are no numbers of rows", None, _HOW))
    return numbers.astype(np.int64)


def _is_pandas(result: Any) -> bool:
    return type(result).__module__.split(".")[0] == "pandas" and hasattr(result, "index")


def _is_list(dtype: pa.DataType) -> bool:
    return pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_fixed_size_list(dtype)


def _length(data: pa.Array | pa.RecordBatch) -> int:
    return data.num_rows if isinstance(data, pa.RecordBatch) else len(data)


def _check_index(result: Any, count: int) -> None:
    """Refuse what pandas has put into another order: results are taken to be in the order of the rows."""
    if _is_pandas(result) and len(result) == count and not np.array_equal(result.index.to_numpy(), np.arange(count)):
        what = "the function returned its rows in another order, or with another index"
        raise JobError(describe(what, None, "keep the index, or use reset_index(drop=True) if the order is right"))


def _check_length(found: int, wanted: int, call: str) -> None:
    if found != wanted:
        what = f"the function of a {call} got {wanted} rows and returned {found}"
        remedy = "return one value for each row" if call != "map" else "return one value for each row, or use flat_map"
        raise JobError(describe(what, None, remedy))
