"""Watermark strategies as values."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import Any

import pyarrow.compute as pc
import pytest

from flintstream.errors import InvalidArgumentError, TypeMismatchError
from flintstream.model.row import Row
from flintstream.model.time import MIN_TIMESTAMP, Duration
from flintstream.model.watermark_generators import WatermarkGenerator, WatermarkOutput
from flintstream.model.watermark_options import TimeRange
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
    [
        lambda: bounded("-1s"),
        lambda: monotonous().with_idleness(0),
        lambda: monotonous(on=""),
        lambda: bounded("soon"),
        lambda: monotonous().between(),
        lambda: monotonous().between(5, 5),
        lambda: monotonous().with_watermark_alignment("", "1s"),
        lambda: monotonous().with_watermark_alignment("g", 0),
        lambda: WatermarkStrategy.learned(1.0),
        lambda: WatermarkStrategy.learned(0.9, half_life=0),
        lambda: WatermarkStrategy.learned(0.9, max_out_of_orderness="-1s"),
    ],
)
def test_impossible_settings_are_refused(build: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        build()


class Silent(WatermarkGenerator):
    def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
        pass


def test_a_generator_is_given_as_what_makes_it() -> None:
    assert WatermarkStrategy.for_generator(Silent).generator is Silent
    for wrong in (Silent(), 7):
        given: Any = wrong
        with pytest.raises(TypeMismatchError, match="does not make watermark generators"):
            WatermarkStrategy.for_generator(given)


def test_strategies_that_need_all_records_in_order_say_so() -> None:
    in_order = [WatermarkStrategy.for_generator(Silent), WatermarkStrategy.learned(), monotonous().between(end=5)]
    assert all(strategy.is_sequential for strategy in in_order)
    assert not any(strategy.is_sequential for strategy in (monotonous(), WatermarkStrategy.for_ingestion_time()))


def test_an_expression_is_an_origin_of_timestamps_too() -> None:
    strategy = monotonous(on="ts").with_timestamp_expression(pc.field("s") * 1000)
    assert (strategy.column, strategy.assigner) == (None, None)
    assert strategy.with_timestamp_column("ts").expression is None
    # Comparing expressions makes a third one; comparing strategies must not.
    assert (WatermarkStrategy.no_watermarks().with_timestamp_expression(pc.field("s")) == strategy) is False
    wrong: Any = "s * 1000"
    with pytest.raises(TypeMismatchError, match="not an Arrow expression"):
        monotonous().with_timestamp_expression(wrong)
    copy = pickle.loads(pickle.dumps(strategy))
    assert str(copy.expression.arrow) == str(pc.field("s") * 1000)


def test_a_range_may_be_given_in_any_kind_of_time() -> None:
    assert monotonous().between("1970-01-01T00:00:01", 2000).range == TimeRange(1000, 2000)
