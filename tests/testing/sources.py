"""A source that keeps its contract, and for each rule one that breaks it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from flintstream import LogPart, LogSource, Split, SplitSource, TimedRecords
from flintstream.testing import log_contract, ranges, source_contract

COUNT = 30
_STARTS = itertools.count()


class Numbers(SplitSource):
    """The numbers up to thirty, in as many splits as wanted."""

    @property
    def is_bounded(self) -> bool:
        return True

    def splits(self, parallelism: int) -> Sequence[Split]:
        each = COUNT // parallelism
        return [Split(n, n * each, COUNT if n == parallelism - 1 else (n + 1) * each) for n in range(parallelism)]

    def read(self, split: int, start: int, end: int) -> Any:
        return list(range(start, end))


class NoSource:
    pass


class WithALock(Numbers):
    def __init__(self) -> None:
        self.lock = threading.Lock()


class TwoOfOneNumber(Numbers):
    def splits(self, parallelism: int) -> Sequence[Split]:
        return [Split(0, 0, 10), Split(0, 10, 20)]


class EndsBeforeItBegins(Numbers):
    def splits(self, parallelism: int) -> Sequence[Split]:
        return [Split(0, 10, 5)]


class OtherSplitsEveryTime(Numbers):
    def splits(self, parallelism: int) -> Sequence[Split]:
        return [Split(0, 0, COUNT + next(_STARTS))]


class BoundedWithoutEnd(Numbers):
    def splits(self, parallelism: int) -> Sequence[Split]:
        return [Split(0)]


class NegativeRate(Numbers):
    def rate(self) -> float:
        return -1.0


class Tuples(Numbers):
    def read(self, split: int, start: int, end: int) -> Any:
        return tuple(range(start, end))


class OneTooMany(Numbers):
    def read(self, split: int, start: int, end: int) -> Any:
        return list(range(start, end + 1))


class TooFewTimes(Numbers):
    def read(self, split: int, start: int, end: int) -> Any:
        return TimedRecords(list(range(start, end)), [0])


class AnotherEveryTime(Numbers):
    def read(self, split: int, start: int, end: int) -> Any:
        return [(n, next(_STARTS)) for n in range(start, end)]


class OnlyAtHome(Numbers):
    """What it reads lies in an attribute that stays behind when it is pickled."""

    def __init__(self) -> None:
        self.shift = 7

    def __getstate__(self) -> dict[str, Any]:
        return {"shift": 0}

    def read(self, split: int, start: int, end: int) -> Any:
        return [n + self.shift for n in range(start, end)]


class OwnList(Numbers):
    """Hands out the list that it keeps for a range."""

    def __init__(self) -> None:
        self.held: dict[tuple[int, int, int], list[int]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"held": {}}

    def read(self, split: int, start: int, end: int) -> Any:
        return self.held.setdefault((split, start, end), list(range(start, end)))


class SkipsTheFirst(Numbers):
    """Loses a record at every beginning of a range but the first."""

    def read(self, split: int, start: int, end: int) -> Any:
        return list(range(start + 1, end))


class Backwards(Numbers):
    """Gives a range in reverse if the one behind it was read before."""

    def __init__(self) -> None:
        self.last: int | None = None

    def read(self, split: int, start: int, end: int) -> Any:
        found = list(range(start, end))
        if self.last == end:
            found.reverse()
        self.last = start
        return found


class LosesTheRest(Numbers):
    def splits(self, parallelism: int) -> Sequence[Split]:
        each = COUNT // 4 // parallelism * 4
        return [Split(n, n * each, (n + 1) * each) for n in range(parallelism)]


class Blocks(Numbers):
    """A list that grows, in splits of ten: what is new goes behind."""

    def __init__(self, kept: list[int]) -> None:
        self.kept = kept

    def splits(self, parallelism: int) -> Sequence[Split]:
        count = len(self.kept)
        return [Split(n, begin, min(begin + 10, count)) for n, begin in enumerate(range(0, count, 10))]

    def read(self, split: int, start: int, end: int) -> Any:
        return self.kept[start:end]


class Shares(Blocks):
    """Shares out the list anew at every start."""

    def splits(self, parallelism: int) -> Sequence[Split]:
        bounds = [len(self.kept) * n // parallelism for n in range(parallelism + 1)]
        return [Split(n, begin, end) for n, (begin, end) in enumerate(itertools.pairwise(bounds))]


class NewestOfAll(Blocks):
    """Positions count from the end of the list."""

    def read(self, split: int, start: int, end: int) -> Any:
        return self.kept[::-1][start:end]


class Fixed(Blocks):
    """Never has more than at first."""

    def splits(self, parallelism: int) -> Sequence[Split]:
        return [Split(0, 0, 30)]


class Log(LogSource):
    """A log of two parts, kept in a dict that outlives it."""

    def __init__(self, kept: dict[str, list[int]]) -> None:
        self.kept = kept

    @property
    def is_bounded(self) -> bool:
        return False

    def discover(self, known: Collection[str], is_first: bool) -> Sequence[LogPart]:
        return [LogPart(name) for name in self.kept if name not in known]

    def available(self, names: Collection[str]) -> Mapping[str, int]:
        return {name: len(self.kept[name]) for name in names}

    def read_part(self, name: str, start: int, end: int) -> Any:
        return TimedRecords(self.kept[name][start:end], [10 * number for number in range(start, end)])

    def positions_at(self, splits: Sequence[Split], timestamp: int) -> Sequence[int]:
        return [min(-(-timestamp // 10), len(self.kept[split.name])) for split in splits]


def kept() -> dict[str, list[int]]:
    return {"left": list(range(20)), "right": list(range(100, 110))}


class SameNameTwice(Log):
    def discover(self, known: Collection[str], is_first: bool) -> Sequence[LogPart]:
        return [LogPart("left"), LogPart("left")]


class FindsThemAgain(Log):
    def discover(self, known: Collection[str], is_first: bool) -> Sequence[LogPart]:
        return [LogPart(name) for name in self.kept]


class TellsNothing(Log):
    def available(self, names: Collection[str]) -> Mapping[str, int]:
        return {"left": 20}


class Shrinks(Log):
    def available(self, names: Collection[str]) -> Mapping[str, int]:
        return {"left": 40 - len(self.kept["left"]), "right": 10}


class NewestFirst(Log):
    """Positions count from the newest record, and so mean others when the log has grown."""

    def read_part(self, name: str, start: int, end: int) -> Any:
        return self.kept[name][::-1][start:end]


class FindsTheTimeBefore(Log):
    def positions_at(self, splits: Sequence[Split], timestamp: int) -> Sequence[int]:
        return [timestamp // 10 for _ in splits]


class ComplainsOfBeingTold(Log):
    def committed(self, positions: Mapping[str, int]) -> None:
        raise RuntimeError("the broker is away")


Make = Callable[[], Any]
BROKEN: list[tuple[str, Make]] = [
    (source_contract.IS_SOURCE, NoSource),
    (source_contract.NUMBERED, TwoOfOneNumber),
    (source_contract.NUMBERED, EndsBeforeItBegins),
    (source_contract.STABLE, OtherSplitsEveryTime),
    (source_contract.BOUNDED, BoundedWithoutEnd),
    (source_contract.RATE, NegativeRate),
    (log_contract.TRAVELS, WithALock),
    (ranges.KIND, Tuples),
    (ranges.NO_MORE, OneTooMany),
    (ranges.TIMED, TooFewTimes),
    (ranges.AGAIN, AnotherEveryTime),
    (ranges.AGAIN, OnlyAtHome),
    (ranges.APART, OwnList),
    (ranges.COMPOSES, SkipsTheFirst),
    (ranges.ANY_ORDER, Backwards),
    (source_contract.PARALLEL, LosesTheRest),
]
BROKEN_LOGS: list[tuple[str, Callable[[dict[str, list[int]]], Log]]] = [
    (log_contract.NAMES, SameNameTwice),
    (log_contract.KNOWN, FindsThemAgain),
    (log_contract.AVAILABLE, TellsNothing),
    (log_contract.ONWARDS, Shrinks),
    (log_contract.COMMITTED, ComplainsOfBeingTold),
    (log_contract.TIMES, FindsTheTimeBefore),
    (ranges.AGAIN, NewestFirst),
]
