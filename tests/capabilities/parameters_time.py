"""Parameters of windows' shapes, of watermark strategies and of built-in aggregates."""

from __future__ import annotations

from typing import Any

from flintstream import (
    WatermarkStrategy,
    avg,
    bounded,
    max_of,
    min_of,
    monotonous,
    session,
    sliding,
    sum_of,
    tumbling,
)
from tests.capabilities.parameters import Bench, case
from tests.capabilities.parameters_windows import first_of, keyed, numbers
from tests.capabilities.support import collect


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
case("sum_of.field", fold(sum_of), ("n", [(3,), (11,)]), ("other", [(-3,), (-11,)]))
case("min_of.field", fold(min_of), ("n", [(1,), (11,)]), ("other", [(-2,), (-11,)]))
case("max_of.field", fold(max_of), ("n", [(2,), (11,)]), ("other", [(-1,), (-11,)]))
case("avg.field", fold(avg), ("n", [(1.5,), (11.0,)]), ("other", [(-1.5,), (-11.0,)]))
