"""Open windows as others see them: contents by window, and results of aggregates so far.

Windows keep what is quick to add to, not what is asked for: sessions where their first part began, columnar windows as
piles of partial results, built-in aggregates as accumulators. Here that becomes what the window would show if it fired
now. Built-in aggregates are known by their names in the manifest; accumulators of the user's own functions are shown as
they are, since their functions are not here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

from flintstream.engine.query_forms import Form, form_of, forms_of, hash_of, order_of
from flintstream.engine.query_index import Column, PartialsIndex
from flintstream.engine.query_tables import HIDDEN, Found, StoredTable, Values, shown
from flintstream.errors import FlintstreamError
from flintstream.ops.aggregates import Aggregate
from flintstream.ops.aggregates_record import RecordAggregates
from flintstream.ops.window_fold import Folder
from flintstream.state.codec import decode
from flintstream.state.partials import concat
from flintstream.state.trust import restricted

Results = Sequence[tuple[str, Aggregate]]
Finder = Callable[[Form], Found | None]
"""Looks a key up."""


def results_of(mark: dict[str, Any]) -> Results:
    """Return the aggregates that a mark names; one without a name stands alone."""
    told = cast("list[list[Any]]", mark.get("results") or [])
    return [(name, Aggregate(kind, field, tuple(options))) for name, kind, field, options in told]


def values_of(mark: dict[str, Any], now: int) -> Values:
    """Return what makes forms of the values of a marked table, of which some may have expired by `now`."""
    if mark["kind"] == "pairs":
        return lambda column, row: [pair[0] for pair in column.form(row) or ()]
    if results := results_of(mark):
        return _record_results(results)
    return _alive(mark["ttl"], now) if "ttl" in mark else shown


def _alive(ttl: int, now: int) -> Values:
    def value(column: Column, row: int) -> Form:
        one: Any = column.array.slice(row, 1)
        kind = column.kind
        if type(kind) is list and kind[0] == "list" and type(kind[1]) is list and kind[1][0] == "stamped":
            inner = one.flatten()
            ends = [stamp + ttl for stamp in inner.flatten()[1].to_pylist()]
            kept = [form for form, end in zip(forms_of(inner, kind[1]), ends, strict=True) if end > now]
            return kept or HIDDEN
        if type(kind) is list and kind[0] == "stamped" and one.flatten()[1][0].as_py() + ttl <= now:
            return HIDDEN
        return column.form(row)

    return value


def _record_results(results: Results) -> Values:
    """Return the results of accumulators that are kept record by record."""
    functions = RecordAggregates([aggregate for _, aggregate in results])

    def value(column: Column, row: int) -> Form:
        try:
            with restricted():
                held = decode(column.array.slice(row, 1), column.kind)[0]
                return _named(results, functions.get_result(held))
        except FlintstreamError:
            return column.form(row)  # accumulators of values that may not be read

    return value


def _named(results: Results, values: Sequence[Any]) -> Form:
    if len(results) == 1 and not results[0][0]:
        return form_of(values[0])
    return {name: form_of(value) for (name, _), value in zip(results, values, strict=True)}


def merged_windows(inflight: StoredTable, contents: StoredTable) -> Finder:
    """Return the look-up of windows that merge: which are in flight says where their contents are."""

    def find(form: Form) -> Found | None:
        held = {json.dumps(parts[0], sort_keys=True): value for parts, value in contents.rows(form)}
        found: list[tuple[Form, Form]] = []
        for (window,), place in inflight.rows(form):
            name = json.dumps(place, sort_keys=True)
            if name in held:
                found.append((window, held[name]))
        return Found(windows=tuple(found)) if found else None

    return find


class ColumnWindows(StoredTable):
    """Windows on columns: results of those that are open for a key, sessions or on a grid."""

    def of_columns(self, results: Results, grid: Sequence[int] | None, watermark: int) -> Finder:
        """Return the look-up; windows that event time has passed have fired."""
        folder = Folder(results)

        def find(form: Form) -> Found | None:
            with restricted():
                rows = self._rows_alive(form)
                windows = _sessions(rows) if grid is None else _on_grid(rows, grid, watermark)
                found = [(window, _result(folder, results, table)) for window, table in windows]
            return Found(windows=tuple(found)) if found else None

        return find

    def _rows_alive(self, form: Form) -> list[tuple[int, pa.Table]]:
        """Return the partial results of a key that no later file drops, each with its window or pile."""
        hashed = hash_of(form)
        number = np.uint64(hashed)
        found: list[tuple[int, pa.Table]] = []
        for chain in self.chains_of(hashed):
            dropped: set[int] = set()
            for index in reversed(chain):
                assert isinstance(index, PartialsIndex)
                for row in index.rows(number, form):
                    pile = int(index.windows[row])
                    if pile not in dropped:
                        found.append((pile, index.table.slice(row, 1)))
                dropped |= index.dropped
        return found[::-1]


def _sessions(rows: Sequence[tuple[int, pa.Table]]) -> list[tuple[Form, pa.Table]]:
    """Return open sessions, which are one row each."""
    found: list[tuple[Form, pa.Table]] = []
    for _, table in rows:
        start, end = table.column("start")[0].as_py(), table.column("end")[0].as_py()
        found.append(({"start": start, "end": end}, table))
    return sorted(found, key=lambda each: order_of(each[0]))


def _on_grid(rows: Sequence[tuple[int, pa.Table]], grid: Sequence[int], watermark: int) -> list[tuple[Form, pa.Table]]:
    """Return the open windows of slices, each with all that its slices hold."""
    size, slide, offset = grid
    by_start: dict[int, list[pa.Table]] = {}
    for piece, table in rows:
        first = piece - (piece - offset) % slide
        for start in range(first, piece - size, -slide):
            if start + size - 1 > watermark:
                by_start.setdefault(start, []).append(table)
    return [({"start": start, "end": start + size}, concat(by_start[start])) for start in sorted(by_start)]


def _result(folder: Folder, results: Results, table: pa.Table) -> Form:
    merged = folder.merge(table).combine_chunks()
    columns = [aggregate.result(merged) for _, aggregate in folder.aggregates]
    return _named(results, [forms_of(column, kind)[0] for column, kind in columns])
