"""State that was made elsewhere, as the rows that a job would have written: from tables or Python values to changelogs.

The rows are made by the very code that writes a job's own state, from Python values that fit the declared type; so a
job that starts from them finds what it would have left there itself. Only where state is replaced whose descriptor
declares no type, values keep the form that they had, column by column, and no object is made of them.

Flink: StateBootstrapTransformation. Differs from Flink: rows are state already, no function processes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from flintstream.engine.savepoint_columns import Columns
from flintstream.engine.savepoint_spec import BROADCAST, LIST, MAP, TIMERS, VALUE, StateSpec
from flintstream.engine.savepoint_values import values_of
from flintstream.errors import TypeMismatchError
from flintstream.model.time import MAX_TIMESTAMP
from flintstream.model.typeinfo import MapTypeInfo, TypeInformation
from flintstream.model.types import Types
from flintstream.ops.batch import Values
from flintstream.ops.conform import conform_to
from flintstream.state.broadcast import BroadcastTable
from flintstream.state.codec import decode, field_of
from flintstream.state.stamped import Stamped
from flintstream.state.table import Table, write_rows

Batches = dict[str, pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows on their way: keys, keys inside maps, values or a column of them as stored, and when they were touched."""

    keys: list[Any]
    inner: list[Any] | None = None
    values: list[Any] | None = None
    column: pa.Array | None = None
    stamps: list[Any] | None = None


def batches_of_table(spec: StateSpec, table: pa.Table, groups: int) -> Batches:
    """Return the rows of a table as changelog batches, by table; `groups` is the max parallelism."""
    try:
        return _written(spec, _read(spec, Columns(spec, table)), groups)
    except TypeMismatchError as error:
        raise error.at(spec.line, spec.uid) from None


def batches_of_pairs(spec: StateSpec, pairs: Iterable[Any], groups: int) -> Batches:
    """Return Python values, `(key, value)` each, as changelog batches, by table; a map's value is a dict."""
    try:
        return _written(spec, _paired(spec, pairs), groups)
    except TypeMismatchError as error:
        raise error.at(spec.line, spec.uid) from None


def _read(spec: StateSpec, columns: Columns) -> Rows:
    names = spec.names
    if spec.shape == BROADCAST:
        return Rows(columns.map_keys(), values=columns.values())
    keys = columns.keys()
    if spec.shape == TIMERS:
        return Rows(keys, values=values_of(columns.column(names.time), Types.LONG()))
    stamps = None
    if names.last_access is not None:
        stamps = values_of(columns.column(names.last_access), Types.LONG())
        if None in stamps:
            spec.refuse(f"column {names.last_access!r} has nulls", "fill them, or leave last_access= out")
    inner = columns.map_keys() if spec.shape == MAP else None
    stored = spec.kinds.stored_value
    if spec.kinds.value is not None or stored is None:
        return Rows(keys, inner, columns.values(), stamps=stamps)
    column = columns.stored_values(stored)
    if stamps is None and spec.shape != LIST:
        return Rows(keys, inner, column=column)
    return Rows(keys, inner, decode(column, stored[1]), stamps=stamps)


def _paired(spec: StateSpec, pairs: Iterable[Any]) -> Rows:
    try:
        rows = [(key, value) for key, value in pairs]
    except (TypeError, ValueError):
        spec.refuse("the data is neither a table nor pairs of key and value", "pass one of these")
    if spec.shape != MAP:
        return Rows([key for key, _ in rows], values=[value for _, value in rows])
    wrong = next((value for _, value in rows if not isinstance(value, dict)), None)
    if wrong is not None:
        spec.refuse(f"{wrong!r:.100} is not a dict", "pass pairs of key and dict for a map")
    entries = [(key, inner, value) for key, held in rows for inner, value in held.items()]
    return Rows([key for key, _, _ in entries], [inner for _, inner, _ in entries], [value for _, _, value in entries])


def _written(spec: StateSpec, rows: Rows, groups: int) -> Batches:
    rows = _conformed(spec, rows)
    if spec.shape == TIMERS:
        entries = [(key, None, _time(spec, time)) for key, time in zip(rows.keys, rows.values or (), strict=True)]
        _check_entries(spec, rows.keys, entries)
        return {spec.table: write_rows(Table(spec.table, 3, False), entries, [True] * len(entries), groups)}
    if spec.shape == BROADCAST:
        return {spec.table: _broadcast(spec, rows, groups)}
    if rows.stamps is not None:
        rows = replace(rows, values=_stamped(rows.values or [], rows.stamps, lists=spec.shape == LIST))
    entries = rows.keys if rows.inner is None else list(zip(rows.keys, rows.inner, strict=True))
    _check_entries(spec, rows.keys, entries)
    if rows.column is not None:
        return {spec.table: _with_column(spec, entries, rows.column, groups)}
    entries, values = _filled(spec, entries, rows.values or [])
    found = {spec.table: write_rows(Table(spec.table, 1 if rows.inner is None else 2), entries, values, groups)}
    if rows.stamps is not None and spec.ttl is not None:
        found[spec.deadlines] = _deadlines(spec, rows.keys, rows.stamps, groups)
    return {name: batch for name, batch in found.items() if batch.num_rows}


def _time(spec: StateSpec, time: Any) -> int:
    if type(time) is not int:
        spec.refuse(f"{time!r:.100} is not a time in ms", "give every timer one")
    return time


def _conformed(spec: StateSpec, rows: Rows) -> Rows:
    """Hold keys and values to their declared types, as the job would."""
    inner, values = rows.inner, rows.values
    keys = _held_to(spec.kinds.key, rows.keys, spec, "key")
    if spec.shape in (MAP, BROADCAST) and isinstance(spec.kinds.value, MapTypeInfo):
        declared = spec.kinds.value.key_type
        if spec.shape == MAP and inner is not None:
            inner = _held_to(declared, inner, spec, "map key")
        elif spec.shape == BROADCAST:
            keys = _held_to(declared, keys, spec, "map key")
    if spec.shape != TIMERS and values is not None:
        values = _held_to(spec.value_type, values, spec, "value")
    return replace(rows, keys=keys, inner=inner, values=values)


def _held_to(info: TypeInformation | None, values: list[Any], spec: StateSpec, what: str) -> list[Any]:
    if info is None:
        return values
    return conform_to(info, f"{what} of state {spec.name}", spec.line)(Values(values)).rows()


def _check_entries(spec: StateSpec, keys: Sequence[Any], entries: Sequence[Any]) -> None:
    """Refuse rows without a key, and two rows for one entry: nobody could say which of them is meant."""
    if None in keys:
        spec.refuse("a row has no key", "leave such rows out")
    try:
        distinct = set(entries)
    except TypeError as error:
        spec.refuse(f"a key cannot be one ({error})", "use keys that key_by(...) may return")
    if len(distinct) < len(entries):
        seen: set[Any] = set()
        twice = next(entry for entry in entries if entry in seen or seen.add(entry))
        spec.refuse(f"two rows are about {twice!r:.200}", "leave one row for each")


def _filled(spec: StateSpec, entries: Sequence[Any], values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Refuse values that are none; an empty list is no state, as for the job."""
    if spec.shape == MAP:
        return list(entries), list(values)
    if None in map(_none, values):
        remedy = "leave such rows out: state of which nothing is known is not there"
        spec.refuse("a row has no value", remedy)
    if spec.shape == VALUE:
        return list(entries), list(values)
    wrong = next((value for value in values if type(value) is not list), None)
    if wrong is not None:
        spec.refuse(f"{wrong!r:.100} is not a list", "give each key one row with a list")
    kept = [(entry, value) for entry, value in zip(entries, values, strict=True) if value]
    return [entry for entry, _ in kept], [value for _, value in kept]


def _none(value: Any) -> Any:
    """Return None for a value that is none, by identity: objects may have an `__eq__` of their own."""
    return None if value is None or (type(value) is Stamped and value[0] is None) else True


def _stamped(values: Sequence[Any], stamps: Sequence[int], *, lists: bool) -> list[Any]:
    pairs = zip(values, stamps, strict=True)
    if lists:
        return [value and [Stamped((each, stamp)) for each in value] for value, stamp in pairs]
    return [Stamped((value, stamp)) for value, stamp in pairs]


def _deadlines(spec: StateSpec, keys: Sequence[Any], stamps: Sequence[int], groups: int) -> pa.RecordBatch:
    """Return when to look at each key: when the first of its entries expires."""
    first: dict[Any, int] = {}
    for key, stamp in zip(keys, stamps, strict=True):
        first[key] = min(first.get(key, stamp), stamp)
    times = [min(stamp + (spec.ttl or 0), MAX_TIMESTAMP) for stamp in first.values()]
    return write_rows(Table(spec.deadlines, resident=True), list(first), times, groups)


def _with_column(spec: StateSpec, entries: Sequence[Any], column: pa.Array, groups: int) -> pa.RecordBatch:
    assert spec.kinds.stored_value is not None
    if column.null_count and spec.shape == VALUE:
        spec.refuse("a row has no value", "leave such rows out: state of which nothing is known is not there")
    parts = 1 if spec.shape == VALUE else 2
    batch = write_rows(Table(spec.table, parts, has_value=False), list(entries), [True] * len(entries), groups)
    return batch.append_column(field_of("value", column, spec.kinds.stored_value[1]), column)


def _broadcast(spec: StateSpec, rows: Rows, groups: int) -> pa.RecordBatch:
    _check_entries(spec, rows.keys, rows.keys)
    table = BroadcastTable()
    for key, value in zip(rows.keys, rows.values or (), strict=True):
        table.put(key, value)
    batch = table.snapshot(groups)
    if batch is None:
        spec.refuse("there are no rows", "leave the state out")
    return batch
