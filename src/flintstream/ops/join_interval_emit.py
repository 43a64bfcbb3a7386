"""What an interval join emits: pairs, each at the record that completed it, and lonely records, each at an advance.

Without a function a pair is a tuple whose two fields are columns, and no Python object is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from flintstream.model.functions import entry_point
from flintstream.model.functions_join import JoinFunction, ProcessJoinFunction
from flintstream.ops.batch import FIRST, I64, Batch, Stamp, Values
from flintstream.ops.operator import OperatorContext, Output
from flintstream.ops.run import Run
from flintstream.ops.tagging import emit_tagged
from flintstream.state.codec import decode
from flintstream.state.pile import Column, Pile, by_number, joined_columns, taken

Rows = tuple[Pile, I64]
"""Some rows of a pile."""


@dataclass(slots=True)
class Events:
    """Pairs (or lonely records, where one end is None) with what caused them: a record, or an advance; else -1.

    Of several with one cause, `times` and `numbers` of the record that was there before decide.
    """

    left: Rows | None
    right: Rows | None
    causes: I64
    steps: I64
    times: I64
    numbers: I64
    timestamps: I64

    def __len__(self) -> int:
        return len(self.causes)

    def end(self, side: int) -> Rows | None:
        """Return the rows of one side."""
        return self.right if side else self.left


def stay(count: int) -> I64:
    """Return causes that there are none of."""
    return np.full(count, -1)


class _Order:
    """Events of a run in the order of their stamps."""

    def __init__(self, events: Sequence[Events], run: Run) -> None:
        causes, steps, times, numbers, timestamps = (
            np.concatenate([getattr(each, name) for each in events])
            for name in ("causes", "steps", "times", "numbers", "timestamps")
        )
        by_step = steps >= 0
        if by_step.any():
            # A step stands before the record whose place it has.
            moments = 2 * causes + 1
            moments[by_step] = 2 * run.insertion[steps[by_step]]
            places = np.concatenate([_places(each) for each in events])
            sides = np.concatenate([np.full(len(each), each.left is None) for each in events])
            extension = [np.where(by_step, timestamps, FIRST), np.where(by_step, places, 0)]
            order = np.lexsort([numbers, times, sides, *extension[::-1], steps, moments])
        else:
            extension = [np.full(len(times), FIRST), np.zeros(len(times), np.int64)]
            order = _by_cause(causes, times, numbers)
        self.order, self.causes, self.steps, self.by_step = order, causes[order], steps[order], by_step[order]
        self.timestamps, self.extension = timestamps[order], [column[order] for column in extension]
        begins = np.ones(len(order), bool)
        begins[1:] = self.causes[1:] != self.causes[:-1]
        if self.by_step.any():
            for column in (self.steps, *self.extension):
                begins[1:] |= column[1:] != column[:-1]
        self.groups = np.cumsum(begins) - 1
        """Events of one group differ in nothing but a number that is still to come."""

    def batch(self, run: Run, values: Values, counts: I64 | None = None) -> Batch:
        """Return values as a batch; `counts` says how many each event has, None one each."""
        at: Any = slice(None) if counts is None else np.repeat(np.arange(len(self.order)), counts)
        groups, by_step = self.groups[at], self.by_step[at]
        causes, steps = self.causes[at], self.steps[at]
        number = _counted(groups)
        stamp: Stamp = []
        some = bool(by_step.any())
        for column, advances in zip(run.batch.stamp, run.stamp, strict=True):
            merged = column[causes] if len(column) else np.full(len(causes), FIRST)
            if some:
                merged[by_step] = advances[steps[by_step]]
            stamp.append(merged)
        assert run.batch.watermarks is not None
        watermarks = run.batch.watermarks[causes] if len(run.batch) else np.full(len(causes), run.start)
        if some:
            watermarks[by_step] = run.before(steps[by_step])
        stamp += [*(column[at] for column in self.extension), number]
        return Batch(values, self.timestamps[at], stamp, watermarks)


def _by_cause(causes: I64, times: I64, numbers: I64) -> I64:
    """Return the order by cause, time and number; what one cause has found is mostly in that order already."""
    order = by_number(causes, np.arange(len(causes)))
    same = causes[order[1:]] == causes[order[:-1]]
    after, before = order[1:][same], order[:-1][same]
    falls = times[after] < times[before]
    falls |= (times[after] == times[before]) & (numbers[after] < numbers[before])
    return np.lexsort((numbers, times, causes)) if falls.any() else order


def _counted(groups: I64) -> I64:
    """Count from 0 within each group."""
    begins = np.ones(len(groups), bool)
    begins[1:] = groups[1:] != groups[:-1]
    return np.arange(len(groups)) - np.flatnonzero(begins)[np.cumsum(begins) - 1]


def _own(events: Events) -> Rows:
    """Return the left records, or the right ones where there are no others."""
    return cast("Rows", events.left or events.right)


def _places(events: Events) -> I64:
    pile, at = _own(events)
    return pile.places[at]


class PairEmitter:
    """Emits what a run of an interval join gives, through the user's function if there is one."""

    def __init__(self, ctx: OperatorContext, function: ProcessJoinFunction | JoinFunction | None) -> None:
        self._ctx = ctx
        self._function = function
        self._context = JoinContext()

    def emit(self, events: Sequence[Events], run: Run, out: Output) -> None:
        """Emit results in the order of their stamps."""
        order = _Order(events, run)
        left, right = (_side(events, order.order, side) for side in (0, 1))
        if self._function is None:
            columns = [left[0], right[0]]
            pairs = pa.StructArray.from_arrays(columns, ["f0", "f1"])
            out.emit(order.batch(run, Values(None, pairs, ["tuple", [left[1], right[1]]])))
            return
        lefts, rights = decode(*left), decode(*right)
        if isinstance(self._function, JoinFunction):
            results = list(map(entry_point(self._function, "join"), lefts, rights))
            emit_tagged(order.batch(run, Values(results)), out)
            return
        rows, counts = self._call(self._function.process_element, events, order, lefts, rights)
        if rows:
            emit_tagged(order.batch(run, Values(rows), counts), out)

    def _call(
        self,
        process: Callable[..., Iterable[Any] | None],
        events: Sequence[Events],
        order: _Order,
        lefts: list[Any],
        rights: list[Any],
    ) -> tuple[list[Any], I64]:
        backend, context = self._ctx.backend, self._context
        keys = decode(*_keys(events, order.order))
        times = [_times(events, order.order, side) for side in (0, 1)]
        rows: list[Any] = []
        counts: list[int] = []
        columns = zip(keys, lefts, rights, *times, order.timestamps.tolist(), strict=True)
        for key, left, right, left_time, right_time, timestamp in columns:
            backend.key = key
            context.at(key, left_time, right_time, timestamp)
            before = len(rows)
            result = process(left, right, context)
            if result is not None:
                rows.extend(result)
            counts.append(len(rows) - before)
        return rows, np.array(counts, np.int64)

    def emit_lonely(self, events: Sequence[Events], run: Run, out: Output, tag: str) -> None:
        """Send records that met none to a side output."""
        if events:
            order = _Order(events, run)
            column = joined_columns([pile.values_at(at) for pile, at in map(_own, events)])
            out.emit(order.batch(run, Values(None, *taken(column, order.order))), tag)


def _side(events: Sequence[Events], order: I64, side: int) -> Column:
    """Return the records of one side in some order, None where there is none."""
    ends = [each.end(side) for each in events]
    present = [end for end in ends if end is not None]
    if not present:
        return pa.nulls(len(order)), "none"
    columns, rows = _columns(present, len(order))
    array, kind = joined_columns(columns)
    if len(present) == len(ends):
        return array.take(pa.array(np.concatenate(rows)[order])), kind
    found = iter(rows)
    at = np.concatenate(
        [stay(len(each)) if end is None else next(found) for each, end in zip(events, ends, strict=True)]
    )[order]
    return array.take(pa.array(at, mask=at < 0)), kind


def _columns(ends: Sequence[Rows], wanted: int) -> tuple[list[Column], list[I64]]:
    """Return columns in which all these rows are, and where they are in them, one behind the other."""
    piles = {id(pile.values): pile for pile, _ in ends}
    whole = sum(len(pile.values[0]) for pile in piles.values()) <= 2 * wanted
    columns: list[Column] = []
    starts: dict[int, int] = {}
    rows: list[I64] = []
    start = 0
    for pile, at in ends:
        if not whole:
            columns.append(pile.values_at(at))
            rows.append(np.arange(start, start + len(at)))
            start += len(at)
            continue
        # Many rows of few: taking them once, out of all, is cheaper than twice.
        if id(pile.values) not in starts:
            starts[id(pile.values)] = start
            columns.append(pile.values)
            start += len(pile.values[0])
        rows.append(pile.rows[at] + starts[id(pile.values)])
    return columns, rows


def _keys(events: Sequence[Events], order: I64) -> Column:
    return taken(joined_columns([pile.keys_at(at) for pile, at in map(_own, events)]), order)


def _times(events: Sequence[Events], order: I64, side: int) -> list[int | None]:
    times: list[int | None] = []
    for each in events:
        end = each.end(side)
        times += [None] * len(each) if end is None else end[0].times[end[1]].tolist()
    return [times[index] for index in order.tolist()]


class JoinContext(ProcessJoinFunction.Context):
    """Stands at one pair."""

    __slots__ = ("_key", "_left", "_right", "_timestamp")

    def at(self, key: Any, left: int | None, right: int | None, timestamp: int) -> None:
        """Stand at a pair."""
        self._key, self._left, self._right, self._timestamp = key, left, right, timestamp

    def get_left_timestamp(self) -> int | None:
        return self._left

    def get_right_timestamp(self) -> int | None:
        return self._right

    def get_timestamp(self) -> int:
        return self._timestamp

    def get_current_key(self) -> Any:
        return self._key
