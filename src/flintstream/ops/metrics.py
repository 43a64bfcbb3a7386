"""User metrics of one operator: what each epoch adds to them, to be put together by the driver.

A metric is a handle with the change since the epoch began; `drain` takes it, as a small document that JSON can hold,
and the driver folds the documents of all subtasks and epochs together (`metric_totals.py`).

Flink: pyflink.metrics.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import index
from typing import Any, TypeVar, cast

from flintstream.errors import DefinitionError, InvalidArgumentError, describe
from flintstream.model.metrics import (
    Counter,
    Distribution,
    Histogram,
    HistogramStatistics,
    Meter,
    MetricGroup,
    Number,
)
from flintstream.ops.metric_totals import Document, fold, histogram_of, spread_of, statistics_of
from flintstream.ops.operator import EpochMetric, OperatorContext

M = TypeVar("M", bound=EpochMetric)
PREFIX = "user."
MOST_WAITING = 4096


class OperatorMetrics(MetricGroup):
    """A MetricGroup whose names are joined with dots."""

    def __init__(self, ctx: OperatorContext, prefix: str = "") -> None:
        self._ctx = ctx
        self._prefix = prefix

    def add_group(self, name: str, extra: str | None = None) -> OperatorMetrics:
        inner = name if extra is None else f"{name}.{extra}"
        return OperatorMetrics(self._ctx, f"{self._prefix}{inner}.")

    def counter(self, name: str) -> Counter:
        full = f"{PREFIX}{self._prefix}{name}"
        return self._register(OperatorCounter, name, lambda: OperatorCounter(self._ctx, full))

    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        if not callable(cast("object", obj)):
            raise InvalidArgumentError(describe(f"gauge {name!r} got {obj!r}", None, "pass what is called for a value"))
        self._register(OperatorGauge, name, lambda: OperatorGauge(self._ctx)).ask = obj

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        if time_span_in_seconds < 1:
            what = f"meter {name!r} is over {time_span_in_seconds} s"
            raise InvalidArgumentError(describe(what, None, "give it a time span of a second or more"))
        meter = self._register(OperatorMeter, name, lambda: OperatorMeter(time_span_in_seconds))
        self._refuse_another(name, "time span", meter.span, time_span_in_seconds)
        return meter

    def distribution(self, name: str) -> Distribution:
        return self._register(OperatorDistribution, name, OperatorDistribution)

    def histogram(self, name: str, relative_error: float = 0.01) -> Histogram:
        if not 0.0 < relative_error < 1.0:
            what = f"histogram {name!r} has a relative error of {relative_error}"
            raise InvalidArgumentError(describe(what, None, "give one between 0 and 1, such as 0.01"))
        histogram = self._register(OperatorHistogram, name, lambda: OperatorHistogram(relative_error))
        self._refuse_another(name, "relative error", histogram.error, relative_error)
        return histogram

    def _register(self, kind: type[M], name: str, build: Callable[[], M]) -> M:
        full = f"{PREFIX}{self._prefix}{name}"
        found = self._ctx.metrics.get(full)
        if found is None:
            found = self._ctx.metrics[full] = build()
        if type(found) is not kind:
            what = f"metric {full!r} is registered as two kinds of metric"
            raise DefinitionError(describe(what, f"operator {self._ctx.name!r}", "give one of them another name"))
        return found

    def _refuse_another(self, name: str, setting: str, first: Number, second: Number) -> None:
        if first != second:
            what = f"metric {self._prefix}{name!r} is registered with a {setting} of {first} and one of {second}"
            raise DefinitionError(describe(what, f"operator {self._ctx.name!r}", "give one of them another name"))


def _number(value: Any) -> Number:
    """Return a Python number, whatever number came (numpy's have their own types, which JSON does not know)."""
    if type(value) is int:
        return value
    if type(value) is not float:
        try:
            return index(value)
        except TypeError:
            value = float(value)
    if not math.isfinite(value):
        raise InvalidArgumentError(describe(f"a metric got {value}", None, "leave out what is not a finite number"))
    return value


class OperatorCounter(Counter, EpochMetric):
    """A count; its change is among the operator's own counters."""

    def __init__(self, ctx: OperatorContext, name: str) -> None:
        self._ctx = ctx
        self._name = name
        self._so_far = 0

    def inc(self, n: int = 1) -> None:
        n = index(n)
        self._ctx.count(self._name, n)
        self._so_far += n

    def dec(self, n: int = 1) -> None:
        self.inc(-n)

    def get_count(self) -> int:
        return self._so_far

    def drain(self) -> Document | None:
        return None


class OperatorGauge(EpochMetric):
    """A callable; its answer is the change."""

    def __init__(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self.ask: Callable[[], Any] = lambda: 0

    def drain(self) -> Document | None:
        return {"kind": "gauge", "values": {str(self._ctx.subtask): _number(self.ask())}}

    def begin(self) -> None:
        """Nothing is kept between two epochs; asking would run the user's code for nothing."""


class OperatorMeter(Meter, EpochMetric):
    """A count that the driver makes a rate of; it reports also when nothing happened, as time passes all the same."""

    def __init__(self, span: int) -> None:
        self.span = span
        self._new = self._so_far = 0

    def mark_event(self, value: int = 1) -> None:
        value = index(value)
        self._new += value
        self._so_far += value

    def get_count(self) -> int:
        return self._so_far

    def drain(self) -> Document | None:
        new, self._new = self._new, 0
        return {"kind": "meter", "span": self.span, "count": new}


class OperatorDistribution(Distribution, EpochMetric):
    """Values that wait to be summed up, some thousands at most."""

    def __init__(self) -> None:
        self._waiting: list[Number] = []
        self._new: Document | None = None

    def update(self, value: Number) -> None:
        self._waiting.append(_number(value))
        if len(self._waiting) >= MOST_WAITING:
            self._sum_up()

    def _sum_up(self) -> None:
        if self._waiting:
            self._new = fold(self._new, self._document(self._waiting), 0)
            self._waiting = []

    def _document(self, values: list[Number]) -> Document:
        return spread_of(values)

    def drain(self) -> Document | None:
        self._sum_up()
        new, self._new = self._new, None
        return new


class OperatorHistogram(OperatorDistribution, Histogram):
    """A distribution with buckets, which can be read here, too."""

    def __init__(self, relative_error: float) -> None:
        super().__init__()
        self.error = relative_error
        self._so_far: Document | None = None

    def _document(self, values: list[Number]) -> Document:
        new = histogram_of(values, self.error)
        self._so_far = fold(self._so_far, new, 0)
        return new

    def get_count(self) -> int:
        return self.get_statistics().count

    def get_statistics(self) -> HistogramStatistics:
        self._sum_up()
        return statistics_of(self._so_far)
