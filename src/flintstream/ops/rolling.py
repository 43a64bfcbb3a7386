"""Rolling aggregates of a keyed stream as functions: sum, min, max, min_by, max_by on a field, and map with a state.

Flink: KeyedStream.sum and its kin. They are ordinary functions that the reduce and map operators run; a file of their
own because they know how to take a field out of any kind of record and put another in, without changing the record,
which is kept in state and has been sent on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, cast

from flintstream.errors import TypeMismatchError, describe
from flintstream.model.functions import MapFunction, ReduceFunction
from flintstream.model.row import Row
from flintstream.model.state import ValueState, ValueStateDescriptor
from flintstream.ops.selectors import field_of_row

Rolling = Literal["sum", "min", "max", "min_by", "max_by"]


@dataclasses.dataclass(frozen=True)
class FieldReduce(ReduceFunction):
    """Folds one field: `sum`, `min` and `max` keep the other fields of the first record, `..._by` the whole record.

    >>> FieldReduce("sum", 1).reduce(("a", 1), ("b", 2))
    ('a', 3)
    >>> FieldReduce("max_by", 1).reduce(("a", 1), ("b", 2))
    ('b', 2)
    """

    kind: Rolling
    position: int | str = 0

    def reduce(self, value1: Any, value2: Any) -> Any:
        position, kind = self.position, self.kind
        held, new = get_part(value1, position), get_part(value2, position)
        if kind == "sum":
            return with_part(value1, position, held + new)
        # Equal values: the first one stays, as in Flink.
        better = new < held if kind in ("min", "min_by") else new > held
        if kind in ("min_by", "max_by"):
            return value2 if better else value1
        return with_part(value1, position, new) if better else value1


def get_part(record: Any, position: int | str) -> Any:
    """Return a field of a record; position 0 of a plain value is the value itself."""
    if _has_fields(record):
        return field_of_row(record, position)
    if position != 0:
        what = f"a record has no fields, so no field {position!r}: {record!r:.200}"
        raise TypeMismatchError(describe(what, None, "use position 0 for plain values"))
    return record


def with_part(record: Any, position: int | str, part: Any) -> Any:
    """Return the record with another value in a field; the record itself stays as it is."""
    if not _has_fields(record):
        return part
    if isinstance(record, tuple):
        return _tuple_with(cast("tuple[Any, ...]", record), position, part)
    if isinstance(record, list | dict):
        fields: Any = cast("Any", record).copy()
        fields[position] = part
        return fields
    if isinstance(record, Row):
        row = Row.builder(record.get_field_names())(list(record))
        row.set_row_kind(record.get_row_kind())
        row[position] = part
        return row
    return dataclasses.replace(record, **{str(position): part})


def _tuple_with(record: tuple[Any, ...], position: int | str, part: Any) -> tuple[Any, ...]:
    named: Any = record
    if isinstance(position, str):
        return named._replace(**{position: part})
    fields = list(record)
    fields[position] = part
    return tuple(fields) if type(record) is tuple else named._make(fields)


def _has_fields(record: Any) -> bool:
    return isinstance(record, tuple | list | dict | Row) or dataclasses.is_dataclass(record)


class StatefulMap(MapFunction):
    """Runs `f(value, state) -> (output, new state)` with one state per key; None is no state."""

    def __init__(self, function: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        self._function = function
        self._state: ValueState[Any] | None = None

    def open(self, runtime_context: Any) -> None:
        self._state = runtime_context.get_state(ValueStateDescriptor("mapped"))

    def map(self, value: Any) -> Any:
        state = self._state
        assert state is not None
        pair: Any = self._function(value, state.value())
        if type(pair) is not tuple or len(cast("tuple[Any, ...]", pair)) != 2:
            what = f"a function of map_with_state returned {pair!r:.200}"
            raise TypeMismatchError(describe(what, None, "return the pair (output, new state)"))
        output, new = cast("tuple[Any, Any]", pair)
        state.update(new)
        return output
