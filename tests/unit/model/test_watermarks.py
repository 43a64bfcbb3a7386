"""Watermark strategies as values."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from flintstream.errors import InvalidArgumentError, TypeMismatchError
from flintstream.model.row import Row
from flintstream.model.time import MIN_TIMESTAMP, Duration
from flintstream.model.watermarks import TimestampAssigner, WatermarkStrategy, bounded, monotonous


class Second(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[1] + record_timestamp


def by_value(value: Any, record_timestamp: int) -> int:
    return value * 10 + record_timestamp


def test_the_watermark_stays_behind_by_the_bound_and_one() -> None:
    assert WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2)).watermark_after(10_000) == 7_999
    assert WatermarkStrategy.for_monotonous_timestamps().watermark_after(10_000) == 9_999
    assert WatermarkStrategy.no_watermarks().watermark_after(10_000) == MIN_TIMESTAMP
    assert bounded("2s").watermark_after(MIN_TIMESTAMP + 5) == MIN_TIMESTAMP


def test_kinds_and_bounds_are_kept() -> None:
    assert (bounded("2s").kind, bounded("2s").bound_ms) == ("bounded", 2_000)
    assert (monotonous().kind, monotonous().bound_ms) == ("monotonous", 0)
    assert WatermarkStrategy.no_watermarks().kind == "none"


def test_an_assigner_may_be_an_object_or_a_callable() -> None:
    plain = WatermarkStrategy.for_monotonous_timestamps()
    assert plain.timestamp_assigner() is None
    second = Second()
    assert plain.with_timestamp_assigner(second).timestamp_assigner() is second
    from_callable = plain.with_timestamp_assigner(by_value).timestamp_assigner()
    assert from_callable is not None
    assert from_callable.extract_timestamp(4, 2) == 42
    assert from_callable.wrapped is by_value  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", [5, "ts", Second, None])
def test_what_cannot_read_timestamps_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeMismatchError, match="cannot read timestamps"):
        monotonous().with_timestamp_assigner(wrong)


def test_strategies_never_change() -> None:
    plain = WatermarkStrategy.for_monotonous_timestamps()
    plain.with_timestamp_assigner(Second()).with_idleness("5s")
    assert plain == WatermarkStrategy.for_monotonous_timestamps()


def test_idleness_keeps_the_assigner_and_the_assigner_keeps_idleness() -> None:
    second = Second()
    one = monotonous().with_timestamp_assigner(second).with_idleness(Duration.of_minutes(1))
    other = monotonous().with_idleness("1m").with_timestamp_assigner(second)
    assert one == other
    assert (one.idle_timeout_ms, one.assigner) == (60_000, second)


@pytest.mark.parametrize("moment", [1_000, dt.datetime(1970, 1, 1, 0, 0, 1)])
@pytest.mark.parametrize("wrap", [lambda ts: {"ts": ts}, lambda ts: Row(ts=ts)])
def test_the_short_form_takes_timestamps_from_a_field(moment: Any, wrap: Any) -> None:
    for strategy in (bounded("2s", on="ts"), monotonous(on="ts")):
        assert strategy.column == "ts"
        assigner = strategy.timestamp_assigner()
        assert assigner is not None
        assert assigner.extract_timestamp(wrap(moment), MIN_TIMESTAMP) == 1_000


def test_the_last_named_origin_of_timestamps_wins() -> None:
    strategy = monotonous(on="ts").with_timestamp_assigner(by_value)
    assert strategy.column is None
    assert strategy.with_timestamp_column("ts").assigner is None


@pytest.mark.parametrize(
    "build",
    [lambda: bounded("-1s"), lambda: monotonous().with_idleness(0), lambda: monotonous(on=""), lambda: bounded("soon")],
)
def test_impossible_settings_are_refused(build: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        build()
