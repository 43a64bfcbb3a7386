"""Parameters of windows' shapes, of watermark strategies and of built-in aggregates."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import pyarrow.compute as pc

from flintstream import (
    StreamExecutionEnvironment,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
    approx_count_distinct,
    approx_quantile,
    avg,
    bounded,
    calendar,
    collect_list,
    count,
    count_distinct,
    last_of,
    max_of,
    median,
    min_of,
    monotonous,
    quantile,
    session,
    sliding,
    stddev,
    sum_of,
    top_n,
    tumbling,
    variance,
)
from flintstream import (
    first_of as first_value,
)
from flintstream.api import no_effect
from flintstream.errors import InvalidArgumentError, JobError
from tests.capabilities.parameters import Bench, case
from tests.capabilities.parameters_windows import first_of, keyed, numbers
from tests.capabilities.support import Epochs, collect

DAY = 86_400_000


def timestamp(record: dict[str, int], _: int) -> int:
    return record["ts"]


def fold(aggregate: Any) -> Any:
    def program(bench: Bench, field: Any) -> list[Any]:
        return [first_of(row) for row in collect(keyed(bench).agg(x=aggregate(field)))]

    return program


case(
    "tumbling.size",
    lambda b, t: numbers(b, keyed(b, assigner=tumbling(t))),
    ("10ms", [(0, [1, 2]), (10, [11])]),
    ("20ms", [(0, [1, 2, 11])]),
)
case(
    "tumbling.offset",
    lambda b, t: numbers(b, keyed(b, assigner=tumbling("10ms", t))),
    (0, [(0, [1, 2]), (10, [11])]),
    ("2ms", [(-8, [1]), (2, [2, 11])]),
)
case(
    "sliding.size",
    lambda b, t: numbers(b, keyed(b, 1, assigner=sliding(t, "10ms"))),
    ("10ms", [(0, [1])]),
    ("20ms", [(-10, [1]), (0, [1])]),
)
case(
    "sliding.slide",
    lambda b, t: numbers(b, keyed(b, 1, assigner=sliding("10ms", t))),
    ("10ms", [(0, [1])]),
    ("5ms", [(-5, [1]), (0, [1])]),
)
case(
    "sliding.offset",
    lambda b, t: numbers(b, keyed(b, 1, assigner=sliding("10ms", "10ms", t))),
    (0, [(0, [1])]),
    ("1ms", [(1, [1])]),
)
case(
    "session.gap",
    lambda b, t: numbers(b, keyed(b, 1, 6, assigner=session(t))),
    ("4ms", [(1, [1]), (6, [6])]),
    ("5ms", [(1, [1, 6])]),
)
case(
    "calendar.unit",
    lambda b, unit: numbers(b, keyed(b, 1, DAY, assigner=calendar(unit))),
    ("day", [(0, [1]), (DAY, [DAY])]),
    ("month", [(0, [1, DAY])]),
)
case(
    "calendar.tz",
    lambda b, tz: numbers(b, keyed(b, 1, assigner=calendar("day", tz))),
    ("UTC", [(0, [1])]),
    ("Asia/Tokyo", [(-9 * DAY // 24, [1])]),
)
case(
    "calendar.first_weekday",
    lambda b, day: numbers(b, keyed(b, 1, assigner=calendar("week", "UTC", day))),
    ("monday", [(-3 * DAY, [1])]),
    ("thursday", [(0, [1])]),
)
case(
    "bounded.max_out_of_orderness",
    lambda b, t: numbers(b, keyed(b, 1, 15, 2, strategy=bounded(t, on="ts"))),
    (0, [(0, [1]), (10, [15])]),
    ("20ms", [(0, [1, 2]), (10, [15])]),
)
case(
    "bounded.on",
    lambda b, field: numbers(b, keyed(b, 1, 15, strategy=bounded(0, on=field))),
    ("ts", [(0, [1]), (10, [15])]),
    ("other", [(-10, [1])]),
)
case(
    "monotonous.on",
    lambda b, field: numbers(b, keyed(b, 1, 15, strategy=monotonous(on=field))),
    ("ts", [(0, [1]), (10, [15])]),
    ("other", [(-10, [1])]),
)
case(
    "WatermarkStrategy.for_bounded_out_of_orderness.max_out_of_orderness",
    lambda b, t: numbers(
        b, keyed(b, 1, 15, 2, strategy=WatermarkStrategy.for_bounded_out_of_orderness(t).with_timestamp_column("ts"))
    ),
    (0, [(0, [1]), (10, [15])]),
    ("20ms", [(0, [1, 2]), (10, [15])]),
)
case(
    "WatermarkStrategy.with_timestamp_assigner.timestamp_assigner",
    lambda b, f: numbers(
        b, keyed(b, 1, strategy=WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(f))
    ),
    (timestamp, [(0, [1])]),
    (lambda r, _: r["ts"] + 10, [(10, [1])]),
)
case(
    "WatermarkStrategy.with_timestamp_column.column",
    lambda b, c: numbers(
        b, keyed(b, 1, strategy=WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column(c))
    ),
    ("ts", [(0, [1])]),
    ("other", [(-10, [1])]),
)


class Trailing(WatermarkGenerator):
    """Stays a fixed time behind the greatest timestamp."""

    def __init__(self, lag: int) -> None:
        self._lag = lag

    def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(timestamp - self._lag)


def by_generator(supplier: Any) -> WatermarkStrategy:
    return WatermarkStrategy.for_generator(supplier).with_timestamp_column("ts")


def late_of(bench: Bench, strategy: WatermarkStrategy) -> int:
    """Return how many of 400 records, the last of them 25 ms late each, come too late for windows of 10 ms."""
    times = [n * 10 for n in range(300)] + [3000 + n * 10 - 25 * (n % 2) for n in range(100)]
    rows = [{"k": "a", "ts": ts, "n": 1} for ts in times]
    windows = bench.env(max_records=50).from_collection(rows).assign_timestamps_and_watermarks(strategy)
    return 400 - sum(row.n for row in collect(windows.key_by("k").window(tumbling("10ms")).agg(n=count())))


def learned(**settings: Any) -> WatermarkStrategy:
    return WatermarkStrategy.learned(**settings).with_timestamp_column("ts")


def furthest_lead(bench: Bench, group: str, drift: Any) -> int:
    """Return how far a source of sparse records is ahead of one of dense records in the group `g`, at most."""
    env, epochs = bench.env(max_records=4), Epochs()
    env.add_listener(epochs)
    base = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    sparse = env.from_collection([{"ts": n * 10} for n in range(10)])
    dense = env.from_collection([{"ts": n} for n in range(30)])
    left = sparse.assign_timestamps_and_watermarks(base.with_watermark_alignment("g", drift))
    collect(left.union(dense.assign_timestamps_and_watermarks(base.with_watermark_alignment(group, "1ms"))))
    leads = [[time.top for time in m.lanes.values() if time.top >= 0 and not time.finished] for m in epochs.manifests]
    return max(tops[0] - tops[1] for tops in leads if len(tops) == 2)


def warned(interval: Any) -> list[str]:
    """Return the warnings of a strategy that names an update interval, or none."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        no_effect._warned.discard("with_watermark_alignment(update_interval=...)")
        strategy = WatermarkStrategy.for_monotonous_timestamps()
        StreamExecutionEnvironment.get_execution_environment(runtime="local").from_collection(
            [1]
        ).assign_timestamps_and_watermarks(strategy.with_watermark_alignment("g", 1, interval))
    return [warning.category.__name__ for warning in caught]


case(
    "WatermarkStrategy.for_generator.generator_supplier",
    lambda b, lag: numbers(b, keyed(b, 1, 15, 2, strategy=by_generator(partial(Trailing, lag)))),
    (1, [(0, [1]), (10, [15])]),
    (21, [(0, [1, 2]), (10, [15])]),
)
case(
    "WatermarkStrategy.learned.target",
    lambda b, share: late_of(b, learned(target=share, half_life=20)),
    (0.4, 50),
    (0.999, 42),
)
case(
    "WatermarkStrategy.learned.max_out_of_orderness",
    lambda b, most: late_of(b, learned(max_out_of_orderness=most, half_life=20)),
    (None, 42),
    ("1ms", 50),
)
case(
    "WatermarkStrategy.learned.half_life",
    lambda b, records: late_of(b, learned(target=0.8, half_life=records)),
    (20, 42),
    (10_000, 50),
)
case(
    "WatermarkStrategy.with_timestamp_expression.expression",
    lambda b, e: numbers(
        b, keyed(b, 1, strategy=WatermarkStrategy.for_monotonous_timestamps().with_timestamp_expression(e))
    ),
    (pc.field("ts"), [(0, [1])]),
    (pc.field("ts") * 25, [(20, [1])]),
)
case(
    "WatermarkStrategy.with_watermark_alignment.watermark_group",
    lambda b, group: furthest_lead(b, group, "1ms") <= 22,
    ("g", True),
    ("other", False),
)
case(
    "WatermarkStrategy.with_watermark_alignment.max_allowed_watermark_drift",
    lambda b, drift: furthest_lead(b, "g", drift) <= 22,
    ("1ms", True),
    ("1h", False),
    (0, InvalidArgumentError),
)
case(
    "WatermarkStrategy.with_watermark_alignment.update_interval",
    lambda b, interval: warned(interval),
    (None, []),
    ("1s", ["NoEffectWarning"]),
)
case(
    "WatermarkStrategy.between.start",
    lambda b, start: numbers(b, keyed(b, 1, 2, 11, strategy=monotonous(on="ts").between(start, 20))),
    (None, [(0, [1, 2]), (10, [11])]),
    (2, [(0, [2]), (10, [11])]),
    (20, InvalidArgumentError),
)
case(
    "WatermarkStrategy.between.end",
    lambda b, end: numbers(b, keyed(b, 1, 2, 11, strategy=monotonous(on="ts").between(0, end))),
    (None, [(0, [1, 2]), (10, [11])]),
    (2, [(0, [1])]),
)
case("sum_of.field", fold(sum_of), ("n", [(3,), (11,)]), ("other", [(-3,), (-11,)]))
case("min_of.field", fold(min_of), ("n", [(1,), (11,)]), ("other", [(-2,), (-11,)]))
case("max_of.field", fold(max_of), ("n", [(2,), (11,)]), ("other", [(-1,), (-11,)]))
case("avg.field", fold(avg), ("n", [(1.5,), (11.0,)]), ("other", [(-1.5,), (-11.0,)]))
case("first_of.field", fold(first_value), ("n", [(1,), (11,)]), ("other", [(-1,), (-11,)]))
case("last_of.field", fold(last_of), ("n", [(2,), (11,)]), ("other", [(-2,), (-11,)]))
case("count_distinct.field", fold(count_distinct), ("n", [(2,), (1,)]), ("id", [(1,), (1,)]))
case("collect_list.field", fold(collect_list), ("n", [([1, 2],), ([11],)]), ("other", [([-1, -2],), ([-11],)]))
case("median.field", fold(median), ("n", [(1.5,), (11.0,)]), ("other", [(-1.5,), (-11.0,)]))
case("variance.field", fold(partial(variance, population=True)), ("n", [(0.25,), (0.0,)]), ("id", JobError))
case("variance.population", fold(lambda p: variance("n", p)), (True, [(0.25,), (0.0,)]), (False, [(0.5,), (None,)]))
case("stddev.field", fold(partial(stddev, population=True)), ("n", [(0.5,), (0.0,)]), ("id", JobError))
case("stddev.population", fold(lambda p: stddev("n", p)), (True, [(0.5,), (0.0,)]), (False, [(0.5**0.5,), (None,)]))
case("quantile.field", fold(quantile), ("n", [(1.5,), (11.0,)]), ("other", [(-1.5,), (-11.0,)]))
case("quantile.q", fold(lambda q: quantile("n", q)), (0, [(1.0,), (11.0,)]), (1, [(2.0,), (11.0,)]))
case(
    "approx_quantile.field",
    fold(lambda field: approx_quantile(field, 0, 0.5)),
    ("n", [(1.5,), (12.0,)]),
    ("other", [(-3.0,), (-12.0,)]),
)
case("approx_quantile.q", fold(lambda q: approx_quantile("n", q, 0.5)), (0, [(1.5,), (12.0,)]), (1, [(3.0,), (12.0,)]))
case(
    "approx_quantile.relative_error",
    fold(lambda error: approx_quantile("n", 0, error)),
    (0.5, [(1.5,), (12.0,)]),
    (0.1, [(1.0625,), (11.5,)]),
)
case("approx_count_distinct.field", fold(approx_count_distinct), ("n", [(2,), (1,)]), ("id", [(1,), (1,)]))
case(
    "approx_count_distinct.relative_error",
    lambda b, error: [
        first_of(row)
        for row in collect(keyed(b, *range(200), assigner=tumbling("1s")).agg(x=approx_count_distinct("n", error)))
    ],
    (0.002, [(200,)]),
    (0.25, [(184,)]),
)
case("top_n.n", fold(lambda n: top_n(n, "n")), (1, [([2],), ([11],)]), (2, [([2, 1],), ([11],)]))
case("top_n.field", fold(lambda field: top_n(1, field)), ("n", [([2],), ([11],)]), ("other", [([-1],), ([-11],)]))
