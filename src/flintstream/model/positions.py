"""Where reading a source begins and ends, as the user says it: a time, a position of each split, or "now".

Apart from the sources because the words are the same for all of them: a source only has to say which position a time
is (`SplitSource.positions_at`). The time is the source's own, by which a log can be looked up without reading it; event
time, which only the program's watermark strategy knows, is chosen there (`WatermarkStrategy.between`).

Flink: OffsetsInitializer of the Kafka source, here for any source with positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from flintstream.errors import InvalidArgumentError, SourceError, TypeMismatchError, describe
from flintstream.model.connect import LogSource, Split, SplitSource
from flintstream.model.location import refused
from flintstream.model.time import TimestampLike, to_timestamp_ms

NOW = "now"
PlaceLike: TypeAlias = TimestampLike | Mapping[Any, int]
"""A time in any spelling, "now", or positions by the names (of logs) or numbers (of others) of splits."""


@dataclass(frozen=True, slots=True)
class Place:
    """A point in a source: a time in ms, or positions by split, or what is there now.

    As an end it closes the input: event time comes to its end, and all windows fire. One that only `halts` leaves
    everything as it stands at that point.
    """

    time: int | None = None
    positions: tuple[tuple[str, int], ...] = ()
    halts: bool = False

    @property
    def is_now(self) -> bool:
        """Whether it is where the source ends when it is asked."""
        return self.time is None and not self.positions

    def __str__(self) -> str:
        if self.time is not None:
            return f"time {self.time}"
        return ", ".join(f"{name}: {position}" for name, position in self.positions) or NOW


def read_place(what: str, value: PlaceLike) -> Place:
    """Return a place as the user wrote it; `what` names the argument.

    >>> read_place("start_from", "1970-01-01T00:00:01"), read_place("start_from", {"orders-0": 7})
    (Place(time=1000, positions=(), halts=False), Place(time=None, positions=(('orders-0', 7),), halts=False))
    """
    if isinstance(value, Mapping):
        named = cast("Mapping[Any, Any]", value)
        wrong = [each for each in named.values() if isinstance(each, bool) or not isinstance(each, int) or each < 0]
        if wrong or not named:
            told = f"{what} has the position {wrong[0]!r:.100}" if wrong else f"{what} names no split"
            raise refused(InvalidArgumentError, told, "give a whole number from 0 on for each split")
        return Place(None, tuple(sorted((str(name), position) for name, position in named.items())))
    if isinstance(value, str) and value == NOW:
        return Place()
    try:
        return Place(to_timestamp_ms(cast("Any", value)))
    except TypeMismatchError:
        remedy = 'give a time (a datetime, ISO text, ms since 1970), "now", or positions as {"split": 7}'
        raise refused(TypeMismatchError, f"{what} is {value!r:.100}", remedy) from None


def knows_time(source: SplitSource) -> bool:
    """Whether a source can say which position a time is."""
    return type(source).positions_at is not SplitSource.positions_at


def positions_of(place: Place, source: SplitSource, splits: Sequence[Split]) -> dict[int, int]:
    """Return the position of each split, by its number; splits that the place does not name are left out.

    Raises:
        SourceError: it names a split that the source does not have.
    """
    if place.time is not None:
        found = source.positions_at(splits, place.time)
        return {split.number: position for split, position in zip(splits, found, strict=True)}
    if place.is_now:
        return _ends(source, splits)
    names = {split.name or str(split.number): split.number for split in splits}
    unknown = [name for name, _ in place.positions if name not in names]
    if unknown:
        known = ", ".join(map(repr, names)) or "none"
        raise SourceError(describe(f"there is no split {unknown[0]!r}", remedy=f"name those that there are: {known}"))
    return {names[name]: position for name, position in place.positions}


def _ends(source: SplitSource, splits: Sequence[Split]) -> dict[int, int]:
    if not isinstance(source, LogSource):
        return {split.number: split.end for split in splits if split.end is not None}
    there = source.available([split.name for split in splits])
    return {split.number: there[split.name] for split in splits}


def begun_at(place: Place, source: SplitSource, splits: Sequence[Split]) -> list[Split]:
    """Return splits that begin at a place. A part of a log may begin before where its source would have begun."""
    found = positions_of(place, source, splits)
    begun: list[Split] = []
    for split in splits:
        least = 0 if isinstance(source, LogSource) else split.start
        start = max(least, found.get(split.number, split.start))
        begun.append(replace(split, start=start if split.end is None else min(start, split.end)))
    return begun


def ended_at(place: Place, source: SplitSource, splits: Sequence[Split]) -> list[Split]:
    """Return splits that end at a place, unless they end before it by themselves.

    Raises:
        SourceError: a split would never end.
    """
    found = positions_of(place, source, splits)
    ended: list[Split] = []
    for split in splits:
        ends = [end for end in (found.get(split.number), split.end) if end is not None]
        if not ends:
            what = f"until says nothing of split {split.name or split.number!r}, which would never end"
            raise SourceError(describe(what, remedy="name all splits, or give a time"))
        ended.append(replace(split, end=max(split.start, min(ends))))
    return ended
