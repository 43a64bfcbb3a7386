"""Which open sessions and records belong together: sorted by key and start, cut where nothing bridges the gap.

Which records meet in a session can depend on event time: one that would bridge two sessions comes too late if the first
has fired. So every piece is checked: joined, one by one, by elements that touch, of which the later came while the
earlier was still open. If such links hold all of a piece together, then nothing of it can have fired before it was
complete (the first part to fire would have a link to an element that came later, while that part was still open: a
contradiction). The few pieces for which this fails are played through record by record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flintstream.ops.aggregates_column import Bools
from flintstream.ops.batch import I64
from flintstream.state.pile import by_key_and_time


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


def group_sessions(elements: Elements) -> tuple[I64, int, Bools]:
    """Return the number of each element's session, how many numbers there are, and who comes too late for any."""
    order = by_key_and_time(elements.keys, elements.starts)
    starts, ends = elements.starts[order], elements.ends[order]
    new, furthest, touch = pieces(elements.keys[order], starts, ends)
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


def pieces(keys: I64, starts: I64, ends: I64) -> tuple[Bools, I64, Bools]:
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
