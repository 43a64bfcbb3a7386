"""Event-time sessions with built-in aggregates, computed on columns.

A run's records and the open sessions are sorted by key and start, cut where nothing bridges the gap, and each piece
becomes one row. Which records meet in a session can depend on event time: one that would bridge two sessions comes too
late if the first has fired. So every piece is checked: joined, one by one, by elements that touch, of which the later
came while the earlier was still open. If such links hold all of a piece together, then nothing of it can have fired
before it was complete (the first part to fire would have a link to an element that came later, while that part was
still open: a contradiction). The few pieces for which this fails are played through record by record.

The state is one row for each open session, in piles by key group (not by time: a pile is replaced whole, and what one
partition replaces must not be what another has); a run rewrites the groups that it touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.model.time import MIN_TIMESTAMP
from flintstream.model.window_assigner import require_timestamp
from flintstream.ops.aggregates import Aggregate
from flintstream.ops.aggregates_column import Bools, flat
from flintstream.ops.batch import I64, Batch, Stamp
from flintstream.ops.operator import OperatorContext, Output
from flintstream.ops.run import Run
from flintstream.ops.selectors import KeySource
from flintstream.ops.window_columns import ColumnOperator
from flintstream.ops.window_fold import Folder, with_groups
from flintstream.ops.window_keys import joined_key, numbered, tidied
from flintstream.state.keygroups import hash_column
from flintstream.state.partials import concat

_START, _END, _OWNER, _GROUP = "start", "end", "owner", "key_group"


@dataclass(slots=True)
class Elements:
    """Sessions that are open and records, each in time from `starts` to `ends`.

    `keys` are numbers; `arrivals` says in which order they came, and `watermarks` how far event time was then.
    """

    keys: I64
    starts: I64
    ends: I64
    arrivals: I64
    watermarks: I64


class SessionColumnOperator(ColumnOperator):
    """Built-in aggregates per key and session."""

    def __init__(
        self, assigner: Any, key: KeySource, aggregates: Sequence[tuple[str, Aggregate]], late_tag: str | None
    ) -> None:
        super().__init__(assigner, Folder(aggregates), key, late_tag)

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._gap: int = self._assigner.session_gap_ms
        self._sessions: pa.Table | None = None
        self._generation = -1

    def _merge(self, table: pa.Table) -> pa.Table:
        return table

    def process_run(self, run: Run, out: Output) -> None:
        held = self._held()
        before = 0 if held is None else held.num_rows
        if not len(run.batch):
            if held is not None:
                self._finish(held, np.zeros(before, bool), run, out)
            return
        rows, elements, keys = self._elements(held, run)
        numbers, count, late = group_sessions(elements)
        kept = None
        if late.any():
            self._take_late(run.batch.take(np.flatnonzero(late[before:])), out)
            kept = np.flatnonzero(~late)
            if not len(kept):
                return
        touched = np.zeros(count, bool)
        touched[numbers[before:][~late[before:]]] = True
        sessions, used = self._folded(rows, numbers, kept, keys, elements)
        self._finish(sessions, touched[used], run, out)

    def _held(self) -> pa.Table | None:
        """Return the open sessions, one row each."""
        if self._generation != self._table.generation:
            parts = [part for parts in self._table.windows.values() for part in parts]
            self._sessions = concat(parts).drop_columns([_GROUP]) if parts else None
            self._generation = self._table.generation
        return self._sessions

    def _elements(self, held: pa.Table | None, run: Run) -> tuple[pa.Table, Elements, dict[str, pa.Array]]:
        """Return open sessions and records as rows, and what is known of when they came."""
        batch = run.batch
        assert batch.keys is not None and batch.watermarks is not None
        times = batch.timestamps
        require_timestamp(self._assigner, int(times.min()))
        records = self._folder.records(batch.values, batch.keys, times)
        records = records.append_column(_START, pa.array(times)).append_column(_END, pa.array(times + self._gap))
        rows = tidied(records if held is None else concat([held, records]))
        before = rows.num_rows - len(batch)
        numbers, keys = numbered(rows)
        elements = Elements(
            numbers,
            flat(rows.column(_START)).to_numpy(),
            flat(rows.column(_END)).to_numpy(),
            np.concatenate([np.full(before, -1), np.arange(len(batch))]),
            np.concatenate([np.full(before, MIN_TIMESTAMP), batch.watermarks]),
        )
        return rows, elements, keys

    def _folded(
        self, rows: pa.Table, numbers: I64, kept: I64 | None, keys: dict[str, pa.Array], elements: Elements
    ) -> tuple[pa.Table, I64]:
        """Return one row for each session, and its number."""
        owners = elements.keys
        if kept is not None:
            rows, numbers, owners = rows.take(pa.array(kept)), numbers[kept], owners[kept]
        rows = rows.append_column(_OWNER, pa.array(owners))
        extra = [(_START, "min", _START), (_END, "max", _END), (_OWNER, "min", _OWNER)]
        sessions, used = self._folder.numbered(rows, numbers, extra)
        own = {name: column.take(flat(sessions.column(_OWNER))) for name, column in keys.items()}
        plain = sessions.drop_columns([_OWNER])
        return pa.table({**own, **{name: plain.column(name) for name in plain.column_names}}), used

    def _finish(self, sessions: pa.Table, touched: Bools, run: Run, out: Output) -> None:
        """Let sessions fire that are over, and keep the others."""
        over = flat(sessions.column(_END)).to_numpy() - 1 <= run.end
        if not (over | touched).any():
            return
        rows = with_groups(sessions, self._ctx.backend.max_parallelism)
        stale = np.unique(rows.column(_GROUP).to_numpy()[over | touched])
        if over.any():
            self._emit_sessions(sessions.filter(pa.array(over)), run, out)
            rows = rows.filter(pa.array(~over))
        self._sessions = rows.drop_columns([_GROUP]) if rows.num_rows else None
        self._rewrite(rows, stale)

    def _rewrite(self, rows: pa.Table, stale: I64) -> None:
        """Replace the state of some key groups."""
        for group in stale.tolist():
            if group in self._table.windows:
                self._table.pop(group)
        groups = rows.column(_GROUP).to_numpy()
        chosen = np.isin(groups, stale)
        order = np.flatnonzero(chosen)[np.argsort(groups[chosen], kind="stable")]
        rows, at = rows.take(pa.array(order)), 0
        for group, count in zip(*np.unique(groups[order], return_counts=True), strict=True):
            self._table.add(int(group), rows.slice(at, int(count)))
            at += int(count)

    def _emit_sessions(self, sessions: pa.Table, run: Run, out: Output) -> None:
        """Emit the results of sessions, in the order in which event time reaches their ends."""
        ends = flat(sessions.column(_END)).to_numpy()
        hashes = (hash_column(*joined_key(sessions)) >> np.uint64(1)).astype(np.int64)
        steps = np.searchsorted(run.watermarks, ends - 1)
        order = np.lexsort((hashes, ends, steps))
        sessions = sessions.take(pa.array(order)).combine_chunks()
        ends, steps, hashes = ends[order], steps[order], hashes[order]
        stamp: Stamp = [column[steps] for column in run.stamp]
        stamp += [ends - 1, hashes, np.zeros(len(ends), np.int64)]
        records = self._records(sessions, flat(sessions.column(_START)).to_numpy(), ends)
        out.emit(Batch(records, ends - 1, stamp, run.watermarks[steps]))


def group_sessions(elements: Elements) -> tuple[I64, int, Bools]:
    """Return the number of each element's session, how many numbers there are, and who comes too late for any."""
    order = by_key_and_time(elements.keys, elements.starts)
    starts, ends = elements.starts[order], elements.ends[order]
    new, furthest, touch = _pieces(elements.keys[order], starts, ends)
    piece = np.cumsum(new) - 1
    numbers = np.empty(len(order), np.int64)
    numbers[order] = piece
    late = np.zeros(len(order), bool)
    is_behind = elements.starts <= elements.watermarks
    if not is_behind.any():
        # Who comes before event time reaches it finds everything open that it overlaps; only at a border it may not.
        linked = np.flatnonzero(touch)
    else:
        linked = np.flatnonzero(~new)
        single = np.flatnonzero(new & np.append(new[1:], True))
        late[order[single]] = elements.ends[order[single]] - 1 <= elements.watermarks[order[single]]
    count = int(piece[-1]) + 1
    if len(linked):
        broken = _broken(linked, furthest, order, ends, elements)
        bounds = np.append(np.flatnonzero(new), len(order))
        for each in np.unique(piece[broken]).tolist():
            count = _play_through(order[bounds[each] : bounds[each + 1]], elements, numbers, late, count)
    return numbers, count, late


def _broken(linked: I64, furthest: I64, order: I64, ends: I64, elements: Elements) -> I64:
    """Return the elements, in order, whose link to the one before that reaches furthest may not have come about."""
    further = np.append(True, furthest[1:] > furthest[:-1])
    holder = np.maximum.accumulate(np.where(further, np.arange(len(order)), 0))[linked - 1]
    arrivals, watermarks = elements.arrivals[order], elements.watermarks[order]
    # Of two elements that touch, the later must find the earlier still open.
    earlier = np.where(arrivals[holder] <= arrivals[linked], holder, linked)
    later = holder + linked - earlier
    return linked[ends[earlier] - 1 <= watermarks[later]]


def by_key_and_time(keys: I64, times: I64) -> I64:
    """Return the stable order by key and time; records mostly come in the order of time, so that keys alone remain."""
    order = np.argsort(times, kind="stable") if (times[1:] < times[:-1]).any() else np.arange(len(times))
    # Numpy sorts numbers of 16 bits by radix, several times as fast as larger ones.
    unsigned = keys.view(np.uint64)
    for shift in range(0, max(1, int(keys.max(initial=0)).bit_length()), 16):
        digit = (unsigned[order] >> np.uint64(shift)).astype(np.uint16)
        order = order[np.argsort(digit, kind="stable")]
    return order


def _pieces(keys: I64, starts: I64, ends: I64) -> tuple[Bools, I64, Bools]:
    """Return where pieces begin, how far all up to an element reach, and who merely touches what is before it."""
    low = int(starts.min())
    span = int(ends.max()) - low + 2
    if (int(keys.max()) + 1) * span >= 1 << 62:
        # Only the order of times counts.
        times, ranks = np.unique(np.concatenate([starts, ends]), return_inverse=True)
        starts, ends, low, span = ranks[: len(starts)], ranks[len(starts) :], 0, len(times) + 1
    base = keys * span - low
    furthest = np.maximum.accumulate(ends + base)
    gaps = (starts + base)[1:] - furthest[:-1]
    return np.append(True, gaps > 0), furthest, np.append(False, gaps == 0)


def _play_through(rows: I64, elements: Elements, numbers: I64, late: Bools, fresh: int) -> int:
    """Number the sessions of one piece as they come about, record by record; return the next number that is free."""
    sessions: list[tuple[int, int, list[int]]] = []
    done: list[list[int]] = []
    for row in rows[np.argsort(elements.arrivals[rows], kind="stable")].tolist():
        start, end, watermark = int(elements.starts[row]), int(elements.ends[row]), int(elements.watermarks[row])
        done += [members for _, until, members in sessions if until - 1 <= watermark]
        sessions = [session for session in sessions if session[1] - 1 > watermark]
        touching = [session for session in sessions if session[0] <= end and session[1] >= start]
        late[row] = not touching and end - 1 <= watermark
        if late[row]:
            continue
        sessions = [session for session in sessions if session not in touching]
        members = [row, *(member for _, _, each in touching for member in each)]
        bounds = [(start, end), *((since, until) for since, until, _ in touching)]
        sessions.append((min(since for since, _ in bounds), max(until for _, until in bounds), members))
    for number, members in enumerate([*done, *(members for _, _, members in sessions)], fresh):
        numbers[members] = number
    return fresh + len(done) + len(sessions)
