"""Lengths of time and points in time, however they are written."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.errors import InvalidArgumentError, TypeMismatchError
from flintstream.model.time import (
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    Duration,
    Instant,
    Time,
    format_millis,
    to_millis,
    to_timestamp_ms,
)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (0, 0),
        (-7, -7),
        (Duration.of_seconds(5), 5_000),
        (Duration.of_nanos(1_999_999), 1),
        (Time.minutes(2), 120_000),
        (dt.timedelta(days=1, milliseconds=3), 86_400_003),
        (dt.timedelta(microseconds=1_500), 1),
        ("5s", 5_000),
        ("200 ms", 200),
        ("1m", 60_000),
        ("1 min", 60_000),
        ("2 h", 7_200_000),
        ("1d", 86_400_000),
        ("1h30m", 5_400_000),
        ("1h 30m 15s", 5_415_000),
        ("0.5s", 500),
        ("3000us", 3),
        ("-8h", -28_800_000),
        ("  10 Seconds ", 10_000),
        ("2 days", 172_800_000),
    ],
)
def test_to_millis_reads_every_spelling(written: object, expected: int) -> None:
    assert to_millis(written) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["", "  ", "5", "s", "5 parsecs", "5s!", "1h-30m", "--5s", "5.s", "1e3s", "half a day"]
)
def test_to_millis_refuses_unreadable_text_and_names_it(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        to_millis(text)
    assert repr(text) in str(caught.value)
    assert "1h30m" in str(caught.value)


def test_to_millis_refuses_a_fraction_of_a_millisecond_in_text() -> None:
    with pytest.raises(InvalidArgumentError, match=r"'1\.5ms' is not a whole number"):
        to_millis("1.5ms")


@pytest.mark.parametrize("value", [1.5, True, None, [5], dt.datetime(2026, 1, 1)])
def test_to_millis_refuses_what_is_no_length_of_time(value: object) -> None:
    with pytest.raises(TypeMismatchError) as caught:
        to_millis(value)  # type: ignore[arg-type]
    assert repr(value) in str(caught.value)


@given(st.integers(min_value=-(10**12), max_value=10**12))
def test_format_millis_is_read_back_by_to_millis(millis: int) -> None:
    assert to_millis(format_millis(millis)) == millis


@pytest.mark.parametrize(
    ("millis", "text"),
    [(5_400_000, "1h30m"), (0, "0ms"), (200, "200ms"), (-28_800_000, "-8h"), (90_061_001, "1d1h1m1s1ms")],
)
def test_format_millis_uses_the_largest_units(millis: int, text: str) -> None:
    assert format_millis(millis) == text


def test_durations_of_all_units_agree_and_are_ordered() -> None:
    assert Duration.of_days(1) == Duration.of_hours(24) == Duration.of_minutes(1440) == Duration.of_seconds(86_400)
    assert Duration.of_millis(1) == Duration.of_nanos(1_000_000)
    assert Duration.of_millis(1) < Duration.of_seconds(1)
    assert str(Duration.of_minutes(90)) == "1h30m"
    assert str(Duration.of_nanos(5)) == "5ns"


def test_times_of_all_units_agree() -> None:
    assert Time.days(1) == Time.hours(24) == Time.minutes(1440) == Time.seconds(86_400) == Time.milliseconds(86_400_000)
    assert Time.seconds(5).to_milliseconds() == 5_000
    assert str(Time.seconds(5)) == "5000 ms"


@given(st.integers(min_value=MIN_TIMESTAMP, max_value=MAX_TIMESTAMP))
def test_instant_keeps_milliseconds_also_before_1970(millis: int) -> None:
    instant = Instant.of_epoch_milli(millis)
    assert instant.to_epoch_milli() == millis
    assert 0 <= instant.nanos < 10**9


def test_to_timestamp_ms_reads_points_in_time() -> None:
    berlin = dt.timezone(dt.timedelta(hours=1))
    assert to_timestamp_ms(-5) == -5
    assert to_timestamp_ms(Instant(1, 2_000_000)) == 1_002
    assert to_timestamp_ms(dt.datetime(1970, 1, 1, 1, tzinfo=berlin)) == 0
    assert to_timestamp_ms(dt.datetime(1970, 1, 1, 0, 0, 1, 5_999)) == 1_005
    assert to_timestamp_ms(dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)) == -1


@pytest.mark.parametrize("value", ["yesterday", 1.0, True, None, dt.date(2026, 1, 1)])
def test_to_timestamp_ms_refuses_anything_else(value: object) -> None:
    with pytest.raises(TypeMismatchError) as caught:
        to_timestamp_ms(value)  # type: ignore[arg-type]
    assert repr(value) in str(caught.value)
