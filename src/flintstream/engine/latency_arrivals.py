"""When the records of an epoch were received, from which their latency counts.

A source with a rate has a moment at which each record is due. A part of a log is looked at before every epoch: what is
there and was not there before came between the two looks, evenly unless its records bring times of their own, which
are believed as far as they lie between the looks (a producer may write any time into a record). What was there when the
job began counts from the job's first look. All other records were received when their epoch began: nobody knows more.

Flink: `currentFetchEventTimeLag` and `pendingRecords` of a source; Differs from Flink: receipt is known per record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from flintstream.engine.epoch import ReadRange
from flintstream.engine.latency import Sample
from flintstream.model.time import MIN_TIMESTAMP

SplitName = tuple[int, int]
Due = Callable[[int, int, int], float | None]
"""Says when a position of a source's split is due, if it has a rate."""
CUTS = (0.01, 0.02, 0.05, 0.06, 0.1, 0.2, 0.3, 0.4, 0.5, 0.52, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Where a range is cut into strata, as shares of its records from the oldest on. The strata that percentiles fall into
are thin, so that few samples are enough to tell p95, p99 and the maximum apart."""
SAMPLES = len(CUTS) + 2
"""At most so many records stand for all of a range: one of each stratum, and both ends."""
MOST_STRETCHES = 512


@dataclass(slots=True)
class _Stretch:
    """Positions up to `end` came between two looks."""

    end: int
    earliest: float
    latest: float


@dataclass(slots=True)
class _Log:
    """What was seen of one part of a log; positions before `start` are read."""

    start: int
    looked: float
    stretches: list[_Stretch] = field(default_factory=list[_Stretch])

    def look(self, now: float, end: int) -> None:
        known = self.stretches[-1].end if self.stretches else self.start
        if end > known:
            self.stretches.append(_Stretch(end, self.looked, now))
            if len(self.stretches) > MOST_STRETCHES:
                first, second = self.stretches[:2]
                self.stretches[:2] = [_Stretch(second.end, first.earliest, second.latest)]
        self.looked = now

    def forget(self, position: int) -> None:
        """Forget what is read."""
        while self.stretches and self.stretches[0].end <= position:
            self.start = self.stretches.pop(0).end

    def between(self, position: int) -> tuple[float, float, float]:
        """Return the earliest and the latest moment at which a record may have come, and where between evenly."""
        start = self.start
        for stretch in self.stretches:
            if position < stretch.end:
                share = (position - start + 1) / (stretch.end - start)
                even = stretch.earliest + share * (stretch.latest - stretch.earliest)
                return stretch.earliest, stretch.latest, even
            start = stretch.end
        return self.looked, self.looked, self.looked


class Arrivals:
    """Watches what sources hold, and tells when records of a range were received."""

    def __init__(self) -> None:
        self._logs: dict[SplitName, _Log] = {}

    def look(self, now: float, available: Mapping[SplitName, int], positions: Mapping[int, Mapping[int, int]]) -> None:
        """Take in up to where parts of logs can be read now."""
        for name, end in available.items():
            position = positions[name[0]][name[1]]
            log = self._logs.get(name)
            if log is None or position < log.start:
                # The first look, or the job began again further back.
                log = self._logs[name] = _Log(position, now)
            log.forget(position)
            log.look(now, end)

    def of_range(self, piece: ReadRange, due: Due, now: float, times: Sequence[int] = ()) -> list[Sample]:
        """Return when some records of a range were received, each with how many it stands for.

        `times` are those that evenly spread records of the range bring themselves.
        """
        count = piece.end - piece.start
        if not count:
            return []
        log = self._logs.get((piece.source, piece.split))
        known = [time for time in times if time != MIN_TIMESTAMP]
        if log is not None and known and due(piece.source, piece.split, piece.start) is None:
            earliest, latest = log.between(piece.start)[0], log.between(piece.end - 1)[1]
            believed = sorted(min(max(time, earliest), latest) for time in known)
            if count <= SAMPLES:
                return [(moment, count / len(believed)) for moment in believed]
            return [(_evenly(believed, at / (count - 1)), weight) for at, weight in _spread(count)]
        return [(self._at(piece, piece.start + at, due, now), weight) for at, weight in _spread(count)]

    def _at(self, piece: ReadRange, position: int, due: Due, now: float) -> float:
        moment = due(piece.source, piece.split, position)
        if moment is not None:
            return min(moment, now)
        log = self._logs.get((piece.source, piece.split))
        return now if log is None else log.between(position)[2]

    def waiting_since(self, name: SplitName, position: int) -> float | None:
        """Return since when the record at a position of a log has been there, if it is; None of other sources."""
        log = self._logs.get(name)
        if log is None or not log.stretches or position >= log.stretches[-1].end:
            return None
        return log.between(position)[2]


def _spread(count: int) -> list[tuple[int, float]]:
    """Return which of so many records, from the oldest on, stand for how many: the middle one of each stratum."""
    if count <= SAMPLES:
        return [(at, 1.0) for at in range(count)]
    found, start = [(0, 1.0)], 1
    for cut in CUTS:
        end = min(int(cut * count), count - 1)
        if end > start:
            found.append(((start + end - 1) // 2, float(end - start)))
            start = end
    return [*found, (count - 1, 1.0)]


def _evenly(moments: Sequence[float], share: float) -> float:
    """Return what is at a share of the way through ascending moments, between two of them evenly."""
    at = share * (len(moments) - 1)
    low = min(int(at), len(moments) - 2)
    return moments[0] if low < 0 else moments[low] + (at - low) * (moments[low + 1] - moments[low])
