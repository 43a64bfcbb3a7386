"""Conditions of a pattern that are computed on whole columns, before any record is looked at.

A pyarrow expression is such a condition, and so is most of what a pattern's text says. Each is also a test of one
record, since not all records are columns: those of several shapes, say, or numbers beyond 64 bits. Apart from
`cep_conditions.py`, which joins conditions of all kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import pyarrow as pa
import pyarrow.acero as acero
import pyarrow.compute as pc

from flintstream.errors import TypeMismatchError, describe
from flintstream.model.row import Row

Columns = Callable[[pa.StructArray], pa.BooleanArray | None]
"""Computes a condition for records with named fields, null being as good as false; None if it cannot."""


@dataclass(frozen=True, eq=False)
class ExpressionCondition:
    """A pyarrow expression over the fields of a record, such as `pc.field("celsius") > 60`."""

    expression: pc.Expression

    def columns(self, records: pa.StructArray) -> pa.BooleanArray | None:
        """Compute it for records; not if some have no such fields, or fields of other types."""
        try:
            return self._computed(records)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None

    def __call__(self, value: Any) -> bool:
        names, row = _fields_of(value)
        try:
            records = pa.StructArray.from_arrays([pa.array([each]) for each in row], names)
            return bool(self._computed(records)[0].as_py())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OverflowError) as error:
            what = f"the condition {self.expression} cannot be computed for {value!r:.100} ({error})"
            raise TypeMismatchError(describe(what, remedy="use fields that every record has")) from None

    def _computed(self, records: pa.StructArray) -> pa.BooleanArray:
        steps = [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_struct_array(records))),
            acero.Declaration("project", acero.ProjectNodeOptions([self.expression], ["holds"])),
        ]
        found: Any = acero.Declaration.from_sequence(steps).to_table(use_threads=False).column(0).combine_chunks()
        holds = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        if not pa.types.is_boolean(holds.type):
            what = f"the condition {self.expression} is of type {holds.type}"
            raise TypeMismatchError(describe(what, remedy="compare something, so that it is true or false"))
        return holds


def _fields_of(value: Any) -> tuple[list[str], list[Any]]:
    if isinstance(value, dict):
        return list(map(str, value)), list(value.values())
    if isinstance(value, Row) and (names := value.get_field_names()) is not None:
        return names, list(value)
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
        return names, [getattr(value, name) for name in names]
    what = f"a condition on fields got a record without named ones: {value!r:.100}"
    raise TypeMismatchError(describe(what, remedy="pass a function of the record instead"))


def joined_columns(first: Columns, second: Columns, wants_both: bool) -> Columns:
    """Return both conditions, or either, on columns."""
    return _JoinedColumns(first, second, "and_kleene" if wants_both else "or_kleene")


class _JoinedColumns:
    def __init__(self, first: Columns, second: Columns, how: str) -> None:
        self._first, self._second, self._how = first, second, how

    def __call__(self, records: pa.StructArray) -> pa.BooleanArray | None:
        first = self._first(records)
        second = None if first is None else self._second(records)
        return None if second is None else pc.call_function(self._how, [first, second])
