"""The interval join: records of two streams with one key meet if the right one's time is near enough to the left one's.

A run is worked through at once. Its records become two piles; each is searched for partners in what the other side
holds, and the two in each other. Which pairs come about depends on the order of records and on event time, but can be
told of each pair alone: the later of the two must not be late, and must find the earlier one still there. So a pair
belongs to its later record wherever the run was cut, and what is emitted is put into the order of these records.

Flink: IntervalJoinOperator: a record is late if it is behind the watermark, and is kept until event time reaches the
end of its interval, or its own time if that is later. Differs from Flink: partners of a record come by time and then in
the order of arrival, which Flink leaves open; the join can be an outer one, as in Flink's SQL: a record that leaves
without having met any is a result then, or goes to a side output, with the time at which it left as its timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from flintstream.errors import JobError, describe
from flintstream.model.functions_join import JoinFunction, ProcessJoinFunction
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.ops.aggregates_column import Bools
from flintstream.ops.batch import I64, Batch
from flintstream.ops.context import OperatorRuntimeContext
from flintstream.ops.join_interval_emit import Events, PairEmitter, stay
from flintstream.ops.operator import Operator, OperatorContext, Output
from flintstream.ops.run import Run
from flintstream.state.held import HeldTable
from flintstream.state.held_side import SideTable
from flintstream.state.keygroups import hash_column, key_groups
from flintstream.state.pile import Found, Pile, same_keys, sorted_pile

LEFT, RIGHT = 0, 1
MOST_PAIRS = 1 << 21
"""How many pairs are made at once; a run that has more is worked through in pieces."""
_NOBODY = np.zeros(0, bool)


@dataclass(frozen=True, slots=True)
class IntervalJoinSpec:
    """What is joined: bounds, both inclusive, of the right time less the left; whose lonely records are results."""

    lower: int
    upper: int
    outer: tuple[bool, bool] = (False, False)
    late_tags: tuple[str | None, str | None] = (None, None)
    unmatched_tags: tuple[str | None, str | None] = (None, None)

    def relative(self, side: int) -> tuple[int, int]:
        """Return the bounds of the partner's time less that of a record of `side`."""
        return (self.lower, self.upper) if side == LEFT else (-self.upper, -self.lower)

    def tracks(self, side: int) -> bool:
        """Whether it matters if a record of `side` ever met one."""
        return self.outer[side] or self.unmatched_tags[side] is not None


@dataclass(slots=True)
class _New:
    """The records of one side of a run: as a pile, and which of the run's records each is."""

    pile: Pile
    records: I64
    watermarks: I64


@dataclass(slots=True)
class _Taken:
    """What a run brought: which records are late, and those that are not, by side."""

    late: Bools
    left: _New | None
    right: _New | None

    def side(self, side: int) -> _New | None:
        """Return the records of one side."""
        return self.left if side == LEFT else self.right


@dataclass(slots=True)
class _Meeting:
    """New records of `side` and what they found in a pile of the other; `others` if that is of this run as well."""

    side: int
    fresh: _New
    others: _New | None
    pile: Pile
    found: Found


class IntervalJoinOperator(Operator):
    """Joins two keyed streams; `function` makes results of pairs, which without one are tuples."""

    def __init__(self, join: IntervalJoinSpec, function: ProcessJoinFunction | JoinFunction | None = None) -> None:
        self._join = join
        self._function = function

    def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._sides = (self._side("left"), self._side("right"))
        self._emitter = PairEmitter(ctx, self._function)
        if self._function is not None:
            self._function.open(OperatorRuntimeContext(ctx, keyed=True))

    def _side(self, name: str) -> SideTable:
        backend, uid = self._ctx.backend, self._ctx.uid
        marks = backend.table(f"{uid}/{name}-matched", HeldTable)
        return backend.table(f"{uid}/{name}", lambda: SideTable(marks))

    def close(self) -> None:
        if self._function is not None:
            self._function.close()

    def process(self, batch: Batch, port: int, out: Output) -> None:
        msg = "an interval join is always behind an exchange"
        raise AssertionError(msg)

    def process_run(self, run: Run, out: Output) -> None:
        new = self._take(run) if len(run.batch) else _Taken(_NOBODY, None, None)
        meetings = list(self._meetings(new))
        if len(run.batch) > 1 and sum(each.found.total for each in meetings) > MOST_PAIRS:
            # So many pairs would not fit into memory at once.
            for piece in run.pieces((len(run.batch) + 1) // 2):
                self.process_run(piece, out)
            return
        if new.late.any():
            self._take_late(run, new.late, out)
        events = [event for each in meetings for event in self._met(each)]
        lonely = [list(self._leaving(side, new.side(side), run)) for side in (LEFT, RIGHT)]
        for tag in sorted({tag for tag in self._join.unmatched_tags if tag is not None}):
            sides = [side for side in (LEFT, RIGHT) if self._join.unmatched_tags[side] == tag]
            self._emitter.emit_lonely([each for side in sides for each in lonely[side]], run, out, tag)
        for side in (LEFT, RIGHT):
            if self._join.outer[side]:
                events += lonely[side]
            self._keep(side, new.side(side), run.end)
        if events:
            self._emitter.emit(events, run, out)

    def _keep(self, side: int, fresh: _New | None, time: int) -> None:
        """Let go what leaves until `time`, and keep what is new and stays."""
        table = self._sides[side]
        table.advance(time)
        if fresh is not None:
            table.next_number += len(fresh.pile)
            rest = fresh.pile.after(time)
            if len(rest):
                table.put(rest)

    def _take(self, run: Run) -> _Taken:
        """Return the records of each side that are not late, and which are."""
        batch = run.batch
        assert batch.watermarks is not None
        if int(batch.timestamps.min()) == MIN_TIMESTAMP:
            what = "a record has no timestamp, but an interval join needs one"
            raise JobError(describe(what, remedy="call assign_timestamps_and_watermarks(...) before it"))
        ports = _ports(run)
        late = batch.timestamps < batch.watermarks
        left, right = (np.flatnonzero((ports == side) & ~late) for side in (LEFT, RIGHT))
        return _Taken(
            late,
            self._pile(LEFT, batch.take(left), left) if len(left) else None,
            self._pile(RIGHT, batch.take(right), right) if len(right) else None,
        )

    def _take_late(self, run: Run, late: Bools, out: Output) -> None:
        """Count records that come too late, and send them to the side outputs of their sides."""
        batch, ports = run.batch, _ports(run)
        self._ctx.count_late_batch(batch.take(np.flatnonzero(late)))
        tags = self._join.late_tags
        for tag in sorted({tag for tag in tags if tag is not None}):
            sides = [side for side in (LEFT, RIGHT) if tags[side] == tag]
            lost = np.flatnonzero(late & np.isin(ports, sides))
            if len(lost):
                out.emit(batch.take(lost), tag)

    def _pile(self, side: int, batch: Batch, records: I64) -> _New:
        assert batch.keys is not None and batch.watermarks is not None
        keys, table = batch.keys.column(), self._sides[side]
        hashes = hash_column(*keys)
        # A record as late as can be leaves with the next advance, not at once.
        end = shifted(batch.timestamps, max(self._join.relative(side)[1], 0))
        expiries = np.maximum(end, shifted(batch.watermarks, 1))
        numbers = np.arange(table.next_number, table.next_number + len(batch))
        pile = sorted_pile(
            (hashes >> np.uint64(1)).astype(np.int64),
            batch.timestamps,
            expiries,
            numbers,
            key_groups(hashes, self._ctx.backend.max_parallelism),
            keys,
            batch.values.column(),
        )
        return _New(pile, records[pile.rows], batch.watermarks[pile.rows])

    def _meetings(self, new: _Taken) -> Iterator[_Meeting]:
        """Yield where records of this run may have met others, of earlier ones and of this one."""
        for side in (LEFT, RIGHT):
            fresh = new.side(side)
            if fresh is not None:
                for pile in self._sides[1 - side].piles():
                    yield _Meeting(side, fresh, None, pile, self._search(side, fresh.pile, pile))
        left, right = new.left, new.right
        if left is not None and right is not None:
            yield _Meeting(LEFT, left, right, right.pile, self._search(LEFT, left.pile, right.pile))

    def _search(self, side: int, pile: Pile, others: Pile) -> Found:
        """Find, for rows of `side`, those of the other side that have one hash and are near enough."""
        lower, upper = self._join.relative(side)
        return others.index().find(pile.index(), shifted(pile.times, lower), shifted(pile.times, upper))

    def _met(self, each: _Meeting) -> Iterator[Events]:
        """Yield the pairs that came about."""
        mine, theirs = each.found.pairs()
        # Different keys can have one hash.
        same = same_keys(each.fresh.pile, mine, each.pile, theirs)
        if not same.all():
            mine, theirs = mine[same], theirs[same]
        fresh, pile, others = each.fresh, each.pile, each.others
        if others is None:
            there = pile.expiries[theirs] > fresh.watermarks[mine]
            yield from self._found(each.side, fresh, mine[there], pile, theirs[there])
            return
        is_first = fresh.records[mine] < others.records[theirs]
        expiry = np.where(is_first, fresh.pile.expiries[mine], pile.expiries[theirs])
        watermark = np.where(is_first, others.watermarks[theirs], fresh.watermarks[mine])
        there = expiry > watermark
        by_left, by_right = there & ~is_first, there & is_first
        yield from self._found(LEFT, fresh, mine[by_left], pile, theirs[by_left])
        yield from self._found(RIGHT, others, theirs[by_right], fresh.pile, mine[by_right])

    def _found(self, side: int, fresh: _New, mine: I64, pile: Pile, theirs: I64) -> Iterator[Events]:
        """Yield pairs that a record of `side`, new in this run, makes with one that was there before."""
        if not len(mine):
            return
        for which, rows, at in ((side, fresh.pile, mine), (1 - side, pile, theirs)):
            if self._join.tracks(which):
                self._sides[which].mark(rows, at)
        ends = (fresh.pile, mine), (pile, theirs)
        left, right = ends if side == LEFT else ends[::-1]
        times, causes = pile.times[theirs], fresh.records[mine]
        later = np.maximum(fresh.pile.times[mine], times)
        yield Events(left, right, causes, stay(len(mine)), times, pile.numbers[theirs], later)

    def _leaving(self, side: int, fresh: _New | None, run: Run) -> Iterator[Events]:
        """Yield the records of a side that leave in this run without having met any, if that matters."""
        if not self._join.tracks(side):
            return
        found = self._sides[side].expired(run.end)
        if fresh is not None:
            due = np.flatnonzero((fresh.pile.expiries <= run.end) & ~fresh.pile.matched)
            found = [*found, (fresh.pile, due)] if len(due) else found
        for pile, at in found:
            steps = np.searchsorted(run.watermarks, pile.expiries[at])
            own = (pile, at)
            ends = (own, None) if side == LEFT else (None, own)
            yield Events(*ends, stay(len(at)), steps, pile.times[at], pile.numbers[at], pile.expiries[at])


def _ports(run: Run) -> I64:
    return np.zeros(len(run.batch), np.int64) if run.inputs is None else run.inputs


def shifted(times: I64, by: int) -> I64:
    """Return times plus a distance; beyond the ends of time lie the ends of time."""
    if by >= 0:
        return np.minimum(times, MAX_TIMESTAMP - by) + by
    return np.maximum(times, MIN_TIMESTAMP - by) + by
