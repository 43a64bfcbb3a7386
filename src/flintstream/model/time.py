"""Time as values: event-time bounds, lengths of time, and the one place where user spellings become milliseconds.

Inside the engine a time is always an `int` in milliseconds (UTC for points in time). Everything a user may write
instead (`Duration`, `Time`, `timedelta`, `"1h30m"`, `datetime`) is converted here, so that no other module parses time.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from flintstream.errors import InvalidArgumentError, TypeMismatchError, describe
from flintstream.model.location import refused

MIN_TIMESTAMP = -(2**63)
MAX_TIMESTAMP = 2**63 - 1

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_ONE_MS = dt.timedelta(milliseconds=1)
_HOW_TO_WRITE = 'write an int in ms, a timedelta, a Duration, or a string such as "200 ms", "5s", "1h30m", "1d"'


@dataclass(frozen=True, order=True)
class Duration:
    """A length of time, to the nanosecond; `Duration.of_seconds(5)`."""

    nanos: int

    @staticmethod
    def of_days(days: int) -> Duration:
        """Return a duration of `days` times 24 hours."""
        return Duration.of_hours(days * 24)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Return a duration of `hours` hours."""
        return Duration.of_minutes(hours * 60)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Return a duration of `minutes` minutes."""
        return Duration.of_seconds(minutes * 60)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Return a duration of `seconds` seconds."""
        return Duration.of_millis(seconds * 1000)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Return a duration of `millis` milliseconds."""
        return Duration.of_nanos(millis * 1_000_000)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Return a duration of `nanos` nanoseconds."""
        return Duration(nanos)

    def to_millis(self) -> int:
        """Return the whole milliseconds in this duration; a smaller rest is cut off."""
        return self.nanos // 1_000_000

    def __str__(self) -> str:
        if self.nanos % 1_000_000:
            return f"{self.nanos}ns"
        return format_millis(self.to_millis())


@dataclass(frozen=True, order=True)
class Time:
    """A length of time in milliseconds, PyFlink's older spelling of `Duration`; `Time.seconds(5)`."""

    value_ms: int

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """Return a time of `milliseconds` milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """Return a time of `seconds` seconds."""
        return Time(seconds * 1000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """Return a time of `minutes` minutes."""
        return Time.seconds(minutes * 60)

    @staticmethod
    def hours(hours: int) -> Time:
        """Return a time of `hours` hours."""
        return Time.minutes(hours * 60)

    @staticmethod
    def days(days: int) -> Time:
        """Return a time of `days` times 24 hours."""
        return Time.hours(days * 24)

    def to_milliseconds(self) -> int:
        """Return the length in milliseconds."""
        return self.value_ms

    def __str__(self) -> str:
        return f"{self.value_ms} ms"


@dataclass(frozen=True, order=True)
class Instant:
    """A point in time: seconds since 1970-01-01T00:00Z and nanoseconds (0 to 999,999,999) after that second."""

    seconds: int
    nanos: int

    def to_epoch_milli(self) -> int:
        """Return milliseconds since the epoch, rounded down."""
        return self.seconds * 1000 + self.nanos // 1_000_000

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Return the instant `epoch_milli` milliseconds after the epoch (before it, if negative)."""
        seconds, millis = divmod(epoch_milli, 1000)
        return Instant(seconds, millis * 1_000_000)

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


DurationLike: TypeAlias = Duration | Time | dt.timedelta | int | str
TimestampLike: TypeAlias = int | dt.datetime | Instant | str

_NANOS_BY_UNIT = {
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1),
    **dict.fromkeys(("us", "µs", "micro", "micros", "microsecond", "microseconds"), 1_000),
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000_000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60 * 1_000_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600 * 1_000_000_000),
    **dict.fromkeys(("d", "day", "days"), 86_400 * 1_000_000_000),
}
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zµ]+)\s*")


def to_millis(value: DurationLike) -> int:
    """Return a length of time in milliseconds, however it was written.

    Example:
        >>> to_millis("1h30m"), to_millis("200 ms"), to_millis(Time.seconds(5)), to_millis(7)
        (5400000, 200, 5000, 7)

    Raises:
        TypeMismatchError: the value is of no type that means a length of time (a `float`, say).
        InvalidArgumentError: a string cannot be read, or is not a whole number of milliseconds.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _parse_millis(value)
    if isinstance(value, Duration):
        return value.to_millis()
    if isinstance(value, Time):
        return value.value_ms
    if isinstance(value, dt.timedelta):
        return value // _ONE_MS
    raise refused(TypeMismatchError, f"{value!r} is not a length of time", _HOW_TO_WRITE)


def _parse_millis(text: str) -> int:
    body = text.strip().lower()
    sign = -1 if body.startswith("-") else 1
    body = body.removeprefix("-")
    nanos = Fraction(0)
    position = 0
    while part := _PART.match(body, position):
        number, unit = part.groups()
        if unit not in _NANOS_BY_UNIT:
            raise refused(InvalidArgumentError, f"{text!r} has an unknown unit of time {unit!r}", _HOW_TO_WRITE)
        nanos += Fraction(number) * _NANOS_BY_UNIT[unit]
        position = part.end()
    if position == 0 or position != len(body):
        raise refused(InvalidArgumentError, f"{text!r} cannot be read as a length of time", _HOW_TO_WRITE)
    millis = nanos / 1_000_000
    if millis.denominator != 1:
        raise InvalidArgumentError(
            describe(f"{text!r} is not a whole number of milliseconds", remedy="round it to 1 ms")
        )
    return sign * millis.numerator


def format_millis(millis: int) -> str:
    """Return a length of time as `to_millis` reads it, in its largest units: `5400000` is `"1h30m"`."""
    if millis == 0:
        return "0ms"
    parts: list[str] = []
    rest = abs(millis)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return ("-" if millis < 0 else "") + "".join(parts)


def to_timestamp_ms(value: TimestampLike) -> int:
    """Return a point in time as milliseconds since the epoch; without a time zone it counts as UTC.

    Raises:
        TypeMismatchError: the value is neither an `int`, nor a `datetime` or its ISO text, nor an `Instant`.
    """
    if isinstance(value, str):
        # Text that is no timestamp is refused below, like everything else that is none.
        with contextlib.suppress(ValueError):
            value = dt.datetime.fromisoformat(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
        return (moment - _EPOCH) // _ONE_MS
    if isinstance(value, Instant):
        return value.to_epoch_milli()
    raise TypeMismatchError(
        describe(
            f"{value!r} is not a timestamp",
            remedy="give an int in ms since 1970, a datetime or ISO text, or an Instant",
        )
    )
