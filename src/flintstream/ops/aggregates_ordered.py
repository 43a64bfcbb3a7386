"""Aggregates that depend on event time: the first value, the last, and all of them in their order.

Records of one time stand in the order in which they came. Rows are folded in that order everywhere behind the exchange,
so that a stable sort by time is enough; before the exchange it is not known yet, and such records travel as they are.
Values may be anything; the name of a column tells the kind of its values.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.ops.aggregates_column import ColumnAggregate, Field, Grouping, flat, single_lists, to_lists
from flintstream.ops.batch import I64, Values
from flintstream.state.codec import Kind, decode, encode, encode_pickled


class Edge(ColumnAggregate):
    """The value with the least time or with the greatest; None is no value."""

    is_ordered = True

    def __init__(self, prefix: str, field: Field, *, last: bool) -> None:
        super().__init__(prefix, field)
        self._last = last

    def inputs(self, values: Values, timestamps: I64) -> dict[str, pa.Array]:
        array, kind = self.picked(values).column()
        absent = array.is_null().to_numpy(zero_copy_only=False)
        time = pa.array(timestamps, mask=absent)
        return {f"{self.prefix}t": time, f"{self.prefix}v{json.dumps(kind)}": array}

    def fold(self, table: pa.Table, groups: Grouping) -> dict[str, pa.Array]:
        time = flat(table.column(f"{self.prefix}t"))
        rows = np.flatnonzero(time.is_valid().to_numpy(zero_copy_only=False))
        owners, times = groups.ids[rows], time.fill_null(0).to_numpy()[rows]
        order = np.lexsort((times, owners))
        owners = owners[order]
        border = owners[1:] != owners[:-1]
        chosen = np.append(border, True) if self._last else np.append(True, border)
        chosen = np.flatnonzero(chosen[: len(owners)])
        found = np.zeros(groups.count, np.int64)
        found[owners[chosen]] = rows[order[chosen]]
        empty = np.ones(groups.count, bool)
        empty[owners[chosen]] = False
        indices = pa.array(found, mask=empty)
        return {name: flat(table.column(name)).take(indices) for name in self.own(table)}

    def result(self, merged: pa.Table) -> tuple[pa.Array, Kind]:
        count = merged.num_rows
        names = [name for name in self.own(merged) if name != f"{self.prefix}t"]
        columns = [(flat(merged.column(name)), json.loads(name[len(self.prefix) + 1 :])) for name in names]
        held = [(array, kind) for array, kind in columns if array.null_count < count]
        if not held:
            return pa.nulls(count), "none"
        if len(held) == 1:
            return held[0]
        rows = zip(*(decode(*column) for column in held), strict=True)
        return encode([next((value for value in row if value is not None), None) for row in rows])


class Collected(ColumnAggregate):
    """All values by time, as a list; None is no value."""

    is_ordered = True

    def inputs(self, values: Values, timestamps: I64) -> dict[str, pa.Array]:
        array, kind = self.picked(values).column()
        present = array.is_valid().to_numpy(zero_copy_only=False)
        return {
            f"{self.prefix}t": single_lists(pa.array(timestamps), present),
            f"{self.prefix}v{json.dumps(kind)}": single_lists(array, present),
        }

    def fold(self, table: pa.Table, groups: Grouping) -> dict[str, pa.Array]:
        times, owners, _ = groups.items(table.column(f"{self.prefix}t"))
        name, items = self._items(table, groups)
        order = np.lexsort((times.to_numpy(), owners))
        indices = pa.array(order)
        return {
            f"{self.prefix}t": to_lists(times.take(indices), owners[order], groups.count),
            name: to_lists(items.take(indices), owners[order], groups.count),
        }

    def _items(self, table: pa.Table, groups: Grouping) -> tuple[str, pa.Array]:
        """Return all items, row by row, in one column; where there are several kinds of them, pickled."""
        held: list[tuple[str, pa.Array, I64]] = []
        names = [name for name in self.own(table) if name != f"{self.prefix}t"]
        for name in names:
            items, _, rows = groups.items(table.column(name))
            if len(items):
                held.append((name, items, rows))
        if len(held) < 2:
            return (held[0][0], held[0][1]) if held else (names[0], flat(table.column(names[0])).flatten())
        order = np.argsort(np.concatenate([rows for _, _, rows in held]), kind="stable")
        values: list[Any] = []
        for name, items, _ in held:
            values += decode(items, json.loads(name[len(self.prefix) + 1 :]))
        return f'{self.prefix}v"pickle"', encode_pickled([values[index] for index in order.tolist()])

    def result(self, merged: pa.Table) -> tuple[pa.Array, Kind]:
        every = Grouping(np.arange(merged.num_rows), merged.num_rows)
        name, items = self._items(merged, every)
        _, owners, _ = every.items(merged.column(f"{self.prefix}t"))
        lists, kind = to_lists(items, owners, merged.num_rows), json.loads(name[len(self.prefix) + 1 :])
        if kind != "pickle":
            return lists, ["list", kind]
        # Other keys of the window may be why it is pickled.
        return encode(decode(lists, ["list", kind]))
