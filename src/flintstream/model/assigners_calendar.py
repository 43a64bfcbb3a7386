"""Windows of the calendar: days, weeks, months, quarters and years as the clocks of a time zone show them.

Their lengths differ (a day may have 23 or 25 hours), so they are not arithmetic like those of `assigners`; borders are
computed once for a stretch of time and then looked up.

Flink: none; there a tumbling window with an offset stands in, which is wrong for some hours after clocks change.
Borders are those of java.time's `atStartOfDay`: a day begins at its first midnight, and where clocks skip midnight, at
the moment they skip it.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from flintstream.errors import InvalidArgumentError, JobError, describe
from flintstream.model.location import refused
from flintstream.model.triggers import EventTimeTrigger, Trigger
from flintstream.model.window_assigner import WindowAssigner, require_timestamp
from flintstream.model.windows import TimeWindow

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_STRETCH_BITS = 36
"""Borders are computed for stretches of 2**36 ms, which is a little more than two years."""


@dataclass(frozen=True)
class CalendarWindows(WindowAssigner[Any, TimeWindow]):
    """Windows of one unit of the calendar, end to end, in event time.

    Example:
        >>> clocks_change = 1_774_746_000_000  # 2026-03-29T01:00Z
        >>> day = CalendarWindows.days("Europe/Berlin").window_at(clocks_change)
        >>> (day.end - day.start) // 3_600_000
        23
    """

    unit: str
    tz: str = "UTC"
    first_weekday: str = "monday"

    def __post_init__(self) -> None:
        if self.unit not in _STEPS:
            what = f"the calendar has no unit {self.unit!r}"
            raise refused(InvalidArgumentError, what, f"use one of {', '.join(_STEPS)}")
        if self.first_weekday not in _WEEKDAYS:
            what = f"{self.first_weekday!r} is not a day of the week"
            raise refused(InvalidArgumentError, what, f"use one of {', '.join(_WEEKDAYS)}")
        if self.unit != "week" and self.first_weekday != _WEEKDAYS[0]:
            what = f"a {self.unit} does not begin with a {self.first_weekday}"
            raise refused(InvalidArgumentError, what, "leave first_weekday out, or use weeks")
        _zone(self.tz)

    @staticmethod
    def days(tz: str = "UTC") -> CalendarWindows:
        """Return windows of a day each, in a time zone such as "Europe/Berlin"."""
        return CalendarWindows("day", tz)

    @staticmethod
    def weeks(tz: str = "UTC", first_weekday: str = "monday") -> CalendarWindows:
        """Return windows of a week each, which begins with that day."""
        return CalendarWindows("week", tz, first_weekday)

    @staticmethod
    def months(tz: str = "UTC") -> CalendarWindows:
        """Return windows of a month each."""
        return CalendarWindows("month", tz)

    @staticmethod
    def quarters(tz: str = "UTC") -> CalendarWindows:
        """Return windows of a quarter each, the first of which begins in January."""
        return CalendarWindows("quarter", tz)

    @staticmethod
    def years(tz: str = "UTC") -> CalendarWindows:
        """Return windows of a year each."""
        return CalendarWindows("year", tz)

    def window_at(self, timestamp: int) -> TimeWindow:
        """Return the window that holds a timestamp."""
        borders = _borders(self.unit, self.tz, self.first_weekday, timestamp >> _STRETCH_BITS)
        after = bisect_right(borders, timestamp)
        return TimeWindow(borders[after - 1], borders[after])

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return [self.window_at(require_timestamp(self, timestamp))]

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, Any]:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True

    def __str__(self) -> str:
        begins = f", first day {self.first_weekday}" if self.unit == "week" else ""
        return f"CalendarWindows({self.unit}, {self.tz}{begins})"


def calendar(unit: str, tz: str = "UTC", first_weekday: str = "monday") -> CalendarWindows:
    """Return event-time windows of a "day", "week", "month", "quarter" or "year" of a time zone.

    As in `stream.window(calendar("day", "Europe/Berlin"))`; a day on which clocks change is one window all the same.
    """
    return CalendarWindows(unit, tz, first_weekday)


def _first_day(date: dt.date, unit: str, first_weekday: str) -> dt.date:
    """Return the first day of the unit that holds a date."""
    if unit == "week":
        return date - dt.timedelta(days=(date.weekday() - _WEEKDAYS.index(first_weekday)) % 7)
    if unit == "month":
        return date.replace(day=1)
    if unit == "quarter":
        return date.replace(month=date.month - (date.month - 1) % 3, day=1)
    return date.replace(month=1, day=1) if unit == "year" else date


def _months_later(date: dt.date, months: int) -> dt.date:
    years, month = divmod(date.month - 1 + months, 12)
    return date.replace(year=date.year + years, month=month + 1)


_STEPS: dict[str, Callable[[dt.date], dt.date]] = {
    "day": lambda date: date + dt.timedelta(days=1),
    "week": lambda date: date + dt.timedelta(days=7),
    "month": lambda date: _months_later(date, 1),
    "quarter": lambda date: _months_later(date, 3),
    "year": lambda date: _months_later(date, 12),
}


@lru_cache(maxsize=1024)
def _borders(unit: str, tz: str, first_weekday: str, stretch: int) -> list[int]:
    """Return where windows begin, from the last border not after a stretch of time to the first one after it."""
    start, end = stretch << _STRETCH_BITS, (stretch + 1) << _STRETCH_BITS
    zone, step = _zone(tz), _STEPS[unit]
    try:
        # Two days back, since a zone may have skipped one.
        local = (_EPOCH + dt.timedelta(milliseconds=start)).astimezone(zone).date() - dt.timedelta(days=2)
        first = _first_day(local, unit, first_weekday)
        borders: list[int] = []
        while not borders or borders[-1] < end:
            borders.append(_start_of_day(first, zone))
            first = step(first)
    except (OverflowError, ValueError) as error:
        what = f"a record has timestamp {start} ms or a little more, which is in no year from 1 to 9999"
        raise JobError(describe(what, remedy="give timestamps in milliseconds since 1970")) from error
    return borders


def _start_of_day(date: dt.date, zone: ZoneInfo) -> int:
    midnight = dt.datetime(date.year, date.month, date.day, tzinfo=zone)
    before, after = (midnight.replace(fold=fold).utcoffset() or dt.timedelta(0) for fold in (0, 1))
    moment = _millis(midnight)
    if before >= after:
        return moment
    # Midnight falls into a gap. With the offset before it, it is a moment after the gap, at most as long as that is.
    low, high = _millis(midnight.replace(fold=1)), moment
    while low < high:
        middle = (low + high) // 2
        if (_EPOCH + dt.timedelta(milliseconds=middle)).astimezone(zone).utcoffset() == after:
            high = middle
        else:
            low = middle + 1
    return low


def _millis(moment: dt.datetime) -> int:
    return (moment.astimezone(dt.UTC) - _EPOCH) // dt.timedelta(milliseconds=1)


@lru_cache(maxsize=64)
def _zone(tz: str) -> ZoneInfo:
    try:
        return ZoneInfo(tz)
    except (KeyError, ValueError, TypeError, OSError) as error:
        what, remedy = f"there is no time zone {tz!r}", 'give a name such as "Europe/Berlin" or "UTC"'
        raise refused(InvalidArgumentError, what, remedy) from error
