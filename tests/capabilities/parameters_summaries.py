"""Parameters of summaries as state, and of metrics."""

from __future__ import annotations

from typing import Any

from flintstream import (
    DistinctCountStateDescriptor,
    KeyedProcessFunction,
    MapFunction,
    QuantilesStateDescriptor,
    ReservoirStateDescriptor,
    StateTtlConfig,
    Time,
    TopKStateDescriptor,
)
from flintstream.errors import InvalidArgumentError, UnsupportedError
from tests.capabilities.parameters import ABSENT, Bench, case, named
from tests.capabilities.support import collect


class Summed(KeyedProcessFunction):
    """Adds all numbers of a list to a summary and gives what that says of them."""

    def __init__(self, descriptor: Any, second: Any = None) -> None:
        self._descriptor, self._second = descriptor, second

    def open(self, runtime_context):
        self._state = runtime_context.get_summary_state(self._descriptor)
        self._read = self._state if self._second is None else runtime_context.get_summary_state(self._second)

    def process_element(self, value, ctx):
        for number in value:
            self._state.add(number)
        yield self._read.get()


def said(bench: Bench, descriptor: Any, numbers: list[Any], second: Any = None) -> Any:
    (result,) = collect(bench.of(numbers).key_by(lambda _: 0).process(Summed(descriptor, second)))
    return result


def by_name(make: Any) -> Any:
    """Two summaries of one name are one."""
    return lambda bench, name: said(bench, make("one"), [7], make(name))


for make, empty, some in (
    (lambda name: ReservoirStateDescriptor(name, 2), [], [7]),
    (DistinctCountStateDescriptor, 0, 1),
    (lambda name: QuantilesStateDescriptor(name, (0.5,)), None, (7.0,)),
    (TopKStateDescriptor, [], [(7, 1)]),
):
    descriptor = type(make("x")).__name__
    case(f"{descriptor}.__init__.name", by_name(make), ("one", some), ("two", empty))

case(
    "ReservoirStateDescriptor.__init__.size",
    lambda bench, size: len(said(bench, ReservoirStateDescriptor("x", size), list(range(50)))),
    (3, 3),
    (20, 20),
    (0, InvalidArgumentError),
)
case(
    "ReservoirStateDescriptor.__init__.seed",
    lambda bench, seed: (
        said(bench, ReservoirStateDescriptor("x", 5, **named("seed", seed)), list(range(50)))
        == said(bench, ReservoirStateDescriptor("x", 5, seed=0), list(range(50)))
    ),
    (ABSENT, True),
    (0, True),
    (1, False),
)


def is_near(wanted: float, found: float) -> bool:
    return abs(found - wanted) < 200


def distinct(bench: Bench, error: Any) -> bool:
    descriptor = DistinctCountStateDescriptor("x", **named("relative_error", error))
    return is_near(20_000, said(bench, descriptor, list(range(20_000))))


def third(bench: Bench, compression: Any) -> bool:
    descriptor = QuantilesStateDescriptor("x", (0.3,), **named("compression", compression))
    return is_near(6000, said(bench, descriptor, list(range(20_000)))[0])


case(
    "DistinctCountStateDescriptor.__init__.relative_error",
    distinct,
    (ABSENT, True),
    (0.2, False),
    (0.5, InvalidArgumentError),
)
case(
    "QuantilesStateDescriptor.__init__.quantiles",
    lambda bench, shares: said(bench, QuantilesStateDescriptor("x", **named("quantiles", shares)), [1, 2, 3]),
    (ABSENT, (2.0, 3.0, 3.0)),
    ((0.0, 1.0), (1.0, 3.0)),
    ((2.0,), InvalidArgumentError),
)
case(
    "QuantilesStateDescriptor.__init__.compression",
    third,
    (ABSENT, True),
    (10, False),
    (5, InvalidArgumentError),
)
case(
    "TopKStateDescriptor.__init__.k",
    lambda bench, k: said(bench, TopKStateDescriptor("x", **named("k", k)), [1, 2, 2, 3, 3, 3, *range(4, 20)]),
    (2, [(3, 3), (2, 2)]),
    (1, [(3, 3)]),
    (ABSENT, [(3, 3), (2, 2), *((number, 1) for number in (1, 4, 5, 6, 7, 8, 9, 10))]),
    (0, InvalidArgumentError),
)
# Five ones, then ten others, watched with room for two: whenever there is a third, one is taken off each.
case(
    "TopKStateDescriptor.__init__.capacity",
    lambda bench, room: said(
        bench, TopKStateDescriptor("x", 1, **named("capacity", room)), [1] * 5 + list(range(10, 20))
    ),
    (ABSENT, [(1, 5)]),
    (2, []),
    (0, InvalidArgumentError),
)


def expiring(bench: Bench, ttl: Any) -> Any:
    descriptor = ReservoirStateDescriptor("x", 5)
    if ttl is not ABSENT:
        descriptor.enable_time_to_live(ttl)
    return said(bench, descriptor, [1])


case(
    "SummaryStateDescriptor.enable_time_to_live.ttl_config",
    expiring,
    (ABSENT, [1]),
    (StateTtlConfig.new_builder(Time.seconds(1)).build(), UnsupportedError),
)


class Measured(MapFunction):
    """Registers metrics by a function of the group and lets another one use them."""

    def __init__(self, register: Any, use: Any) -> None:
        self._register, self._use = register, use

    def open(self, runtime_context):
        self._metric = self._register(runtime_context.get_metrics_group())

    def map(self, value):
        self._use(self._metric, value)
        return value


def metrics(bench: Bench, register: Any, use: Any = lambda metric, value: None) -> dict[str, Any]:
    """Return the user's metrics of a job that maps 1, 2 and 3."""
    stream = bench.of(1, 2, 3, max_records=1).map(Measured(register, use)).uid("measured")
    stream.print()
    result = stream.get_execution_environment().execute()
    found = result.get_accumulator_result("measured")
    return {name: value for name, value in found.items() if name.startswith("user.")}


def registered(method: str, use: Any, *rest: Any) -> Any:
    def program(bench: Bench, name: str) -> list[str]:
        return list(metrics(bench, lambda group: getattr(group, method)(name, *rest), use))

    return program


for method, use, rest in (
    ("counter", lambda metric, value: metric.inc(), ()),
    ("gauge", lambda metric, value: None, (lambda: 1,)),
    ("meter", lambda metric, value: metric.mark_event(), ()),
    ("distribution", lambda metric, value: metric.update(value), ()),
    ("histogram", lambda metric, value: metric.update(value), ()),
):
    case(f"MetricGroup.{method}.name", registered(method, use, *rest), ("a", ["user.a"]), ("b", ["user.b"]))
case(
    "MetricGroup.add_group.name",
    lambda bench, name: metrics(bench, lambda group: group.add_group(name).counter("n"), lambda n, _: n.inc()),
    ("a", {"user.a.n": 3}),
    ("b", {"user.b.n": 3}),
)
case(
    "MetricGroup.add_group.extra",
    lambda bench, extra: metrics(
        bench, lambda group: group.add_group("a", **named("extra", extra)).counter("n"), lambda n, _: n.inc()
    ),
    (ABSENT, {"user.a.n": 3}),
    ("b", {"user.a.b.n": 3}),
)
case(
    "MetricGroup.gauge.obj",
    lambda bench, ask: metrics(bench, lambda group: group.gauge("g", (lambda: ask) if ask else None)),
    (5, {"user.g": {0: 5}}),
    (6, {"user.g": {0: 6}}),
    (None, InvalidArgumentError),
)


def rate(bench: Bench, span: Any) -> Any:
    settings = named("time_span_in_seconds", span)
    found = metrics(bench, lambda group: group.meter("m", **settings), lambda meter, _: meter.mark_event())
    return found["user.m"].count, found["user.m"].rate


case(
    "MetricGroup.meter.time_span_in_seconds",
    rate,
    (ABSENT, (3, 0.05)),
    (600, (3, 0.005)),
    (0, InvalidArgumentError),
)


def median(bench: Bench, error: Any, quantile: float = 0.5) -> Any:
    found = metrics(
        bench,
        lambda group: group.histogram("h", **named("relative_error", error)),
        lambda histogram, value: histogram.update(value),
    )
    return abs(found["user.h"].get_quantile(quantile) - 2) < 0.03


case(
    "MetricGroup.histogram.relative_error",
    median,
    (ABSENT, True),
    (0.9, False),
    (0, InvalidArgumentError),
)
case(
    "HistogramStatistics.get_quantile.quantile",
    lambda bench, share: median(bench, 0.01, share),
    (0.5, True),
    (1, False),
)
