"""Parameters of calls that wait, of their strategies, and of vectorised functions."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    Groups,
    NoRetryStrategy,
    RetryPredicate,
    Types,
    VectorizedAggregateFunction,
    computed_by,
    monotonous,
    tumbling,
    vectorized,
)
from flintstream.errors import InvalidArgumentError, TypeMismatchError, UserFunctionError
from tests.capabilities.parameters import ABSENT, Bench, case, named
from tests.capabilities.support import collect

TEXT, INT = Types.STRING(), Types.INT()


class Ask(AsyncFunction):
    """Tells how many calls are under way once no more can begin; the first one fails as often as it is told."""

    def __init__(self, fails: int = 0, hangs: bool = False, sign: int = 1) -> None:
        self._fails = fails
        self._hangs = hangs
        self._sign = sign
        self._under_way = self._most = 0

    async def async_invoke(self, value: int) -> list[Any]:
        self._under_way += 1
        self._most = max(self._most, self._under_way)
        for _ in range(20):
            await asyncio.sleep(0)
        self._under_way -= 1
        if self._hangs:
            await asyncio.Event().wait()
        if self._fails:
            self._fails -= 1
            raise ConnectionError
        return [(self._sign * value, self._most)]

    def timeout(self, value: int) -> list[Any]:
        return ["over"]


def again(error: Any) -> bool:
    return isinstance(error, ConnectionError)


ONCE = AsyncRetryStrategy.fixed_delay(1, 1, None, again)
NEVER = AsyncRetryStrategy.no_restart()

for name in ("ordered_wait", "unordered_wait"):
    plain = getattr(AsyncDataStream, name)
    trying = getattr(AsyncDataStream, f"{name}_with_retry")
    this = f"AsyncDataStream.{name}"

    for method, call in (
        (this, plain),
        (
            f"{this}_with_retry",
            lambda stream, function, timeout, *rest, t=trying: t(stream, function, timeout, NEVER, *rest),
        ),
    ):
        case(
            f"{method}.data_stream",
            lambda bench, numbers, c=call: collect(c(bench.of(*numbers), Ask(), 0)),
            ((1,), [(1, 1)]),
            ((1, 2), [(1, 2), (2, 2)]),
        )
        case(
            f"{method}.async_function",
            lambda bench, function, c=call: collect(c(bench.of(5), function, 0)),
            (Ask(), [(5, 1)]),
            (Ask(sign=-1), [(-5, 1)]),
            (None, TypeMismatchError),
        )
        case(
            f"{method}.timeout",
            lambda bench, timeout, c=call: collect(c(bench.of(5), Ask(hangs=True), timeout)),
            ("1ms", ["over"]),
            (-1, InvalidArgumentError),
        )
        case(
            f"{method}.capacity",
            lambda bench, capacity, c=call: max(collect(c(bench.of(*range(200)), Ask(), 0, *_given(capacity))))[1],
            (3, 3),
            (ABSENT, 100),
        )
        case(
            f"{method}.output_type",
            lambda bench, kind, c=call: collect(c(bench.of(5), Ask(), 0, 100, kind)),
            (None, [(5, 1)]),
            (TEXT, TypeMismatchError),
        )
    case(
        f"{this}_with_retry.async_retry_strategy",
        lambda bench, strategy, t=trying: collect(t(bench.of(5), Ask(fails=1), "1h", strategy)),
        (ONCE, [(5, 1)]),
        (NEVER, UserFunctionError),
        (None, TypeMismatchError),
    )


def _given(value: Any) -> tuple[Any, ...]:
    return () if value is ABSENT else (value,)


def mapped(bench: Bench, function: AsyncFunction, *numbers: int, **options: Any) -> list[Any]:
    """Run a function's calls by map_async."""

    async def call(value: int) -> Any:
        return (await function.async_invoke(value))[0]

    return collect(bench.of(*numbers).map_async(call, **options))


async def negative(value: int) -> int:
    return -value


async def positive(value: int) -> int:
    return value


MAP = "AsyncOperations.map_async"
case(f"{MAP}.func", lambda bench, f: collect(bench.of(1).map_async(f)), (positive, [1]), (negative, [-1]))
case(
    f"{MAP}.capacity",
    lambda bench, capacity: max(mapped(bench, Ask(), *range(200), **named("capacity", capacity)))[1],
    (3, 3),
    (ABSENT, 100),
)
case(
    f"{MAP}.timeout",
    lambda bench, timeout: mapped(bench, Ask(hangs=timeout == "1ms"), 1, timeout=timeout),
    (None, [(1, 1)]),
    ("1ms", UserFunctionError),
    ("1h", [(1, 1)]),
)
case(
    f"{MAP}.retry",
    lambda bench, retry: mapped(bench, Ask(fails=1), 1, timeout="1h", retry=retry),
    (None, UserFunctionError),
    (ONCE, [(1, 1)]),
)
case(
    f"{MAP}.output_type",
    lambda bench, kind: collect(bench.of(1).map_async(positive, output_type=kind)),
    (INT, [1]),
    (TEXT, TypeMismatchError),
)


def first_waits_for_third(bench: Bench, ordered: Any) -> list[Any]:
    third: list[asyncio.Event] = []

    async def call(value: int) -> int:
        if not third:
            third.append(asyncio.Event())
        if value == 3:
            third[0].set()
        if value == 1:
            await third[0].wait()
        return value

    return collect(bench.of(1, 2, 3).map_async(call, capacity=2, timeout="200ms", **named("ordered", ordered)))


case(
    f"{MAP}.ordered", first_waits_for_third, (False, [1, 2, 3]), (True, UserFunctionError), (ABSENT, UserFunctionError)
)


def tried(bench: Bench, strategy: Any, fails: int = 2) -> list[Any]:
    return mapped(bench, Ask(fails=fails), 1, timeout="1h", retry=strategy)


def delays(strategy: Any) -> list[int]:
    return [strategy.get_backoff_time_millis(attempts) for attempts in (1, 2, 3)]


class Empty(Ask):
    """Finds nothing, and counts how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def async_invoke(self, value: int) -> list[Any]:
        self.asked += 1
        return [self.asked] if self.asked > 2 else []


def found(bench: Bench, strategy: Any) -> list[Any]:
    return collect(AsyncDataStream.ordered_wait_with_retry(bench.of(1), Empty(), "1h", strategy))


def fixed_cases(this: str, fixed: Any) -> None:
    """Put a strategy with a fixed delay into the table, by the name of what makes it."""
    case(
        f"{this}.max_attempts",
        lambda bench, most: tried(bench, fixed(most, 1, None, again)),
        (2, [(1, 1)]),
        (1, UserFunctionError),
        (0, InvalidArgumentError),
    )
    case(
        f"{this}.backoff_time_millis",
        lambda bench, delay: delays(fixed(1, delay, None, None)),
        (1, [1, 1, 1]),
        (5, [5, 5, 5]),
    )
    case(
        f"{this}.result_predicate",
        lambda bench, predicate: found(bench, fixed(2, 1, predicate, None)),
        (None, []),
        (lambda result: not result, [3]),
    )
    case(
        f"{this}.exception_predicate",
        lambda bench, predicate: tried(bench, fixed(2, 1, None, predicate)),
        (None, UserFunctionError),
        (again, [(1, 1)]),
    )


def growing_cases(this: str, growing: Any) -> None:
    """Put a strategy with a growing delay into the table, by the name of what makes it."""
    case(
        f"{this}.max_attempts",
        lambda bench, most: tried(bench, growing(most, 1, 2, 2.0, None, again)),
        (2, [(1, 1)]),
        (1, UserFunctionError),
    )
    case(
        f"{this}.initial_delay",
        lambda bench, delay: delays(growing(1, delay, 100, 2.0, None, None)),
        (1, [1, 2, 4]),
        (5, [5, 10, 20]),
    )
    case(
        f"{this}.max_retry_delay",
        lambda bench, most: delays(growing(1, 5, most, 2.0, None, None)),
        (100, [5, 10, 20]),
        (12, [5, 10, 12]),
    )
    case(
        f"{this}.multiplier",
        lambda bench, factor: delays(growing(1, 5, 100, factor, None, None)),
        (2.0, [5, 10, 20]),
        (3, [5, 15, 45]),
    )
    case(
        f"{this}.result_predicate",
        lambda bench, predicate: found(bench, growing(2, 1, 1, 1.0, predicate, None)),
        (None, []),
        (lambda result: not result, [3]),
    )
    case(
        f"{this}.exception_predicate",
        lambda bench, predicate: tried(bench, growing(2, 1, 1, 1.0, None, predicate)),
        (None, UserFunctionError),
        (again, [(1, 1)]),
    )


fixed_cases("AsyncRetryStrategy.fixed_delay", AsyncRetryStrategy.fixed_delay)
fixed_cases("FixedDelayRetryStrategy.__init__", FixedDelayRetryStrategy)
growing_cases("AsyncRetryStrategy.exponential_backoff", AsyncRetryStrategy.exponential_backoff)
growing_cases("ExponentialBackoffDelayRetryStrategy.__init__", ExponentialBackoffDelayRetryStrategy)


class Own(NoRetryStrategy):
    """Tries again twice, by predicates that are given as one object."""

    def __init__(self, predicate: RetryPredicate) -> None:
        self._predicate = predicate

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= 2

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return 1

    def get_retry_predicate(self) -> RetryPredicate:
        return self._predicate


case(
    "RetryPredicate.__init__.result_predicate",
    lambda bench, predicate: found(bench, Own(RetryPredicate(predicate, None))),
    (None, []),
    (lambda result: not result, [3]),
)
case(
    "RetryPredicate.__init__.exception_predicate",
    lambda bench, predicate: tried(bench, Own(RetryPredicate(None, predicate))),
    (None, UserFunctionError),
    (again, [(1, 1)]),
)


def seen_as(column: Any) -> Any:
    return np.array([type(column).__name__] * len(column), object)


def described(array: pa.Array) -> pa.Array:
    return pa.array([str(array.type)] * len(array))


case(
    "vectorized.format",
    lambda bench, format: collect(bench.of(1).map(vectorized(format)(seen_as))),
    ("arrow", ["Int64Array"]),
    ("pandas", ["Series"]),
    ("numpy", ["ndarray"]),
    ("polars", InvalidArgumentError),
)
case(
    "vectorized.input_type",
    lambda bench, kind: collect(bench.of(1, 2).map(vectorized("arrow", kind)(described))),
    (None, ["int64", "int64"]),
    (float, ["double", "double"]),
    (str, TypeMismatchError),
)


class Spread(VectorizedAggregateFunction):
    """What is between the least and the greatest; times a factor."""

    def __init__(self, factor: int = 1) -> None:
        self._factor = factor

    def accumulate(self, values: pa.Array) -> Any:
        return {"all": self.listed(values)}

    def merge(self, columns: Any, groups: Groups) -> Any:
        return {"all": groups.joined(columns["all"])}

    def get_result(self, columns: Any) -> Any:
        return pa.array([self._factor * (max(each) - min(each)) for each in columns["all"].to_pylist()])


def spread(bench: Bench, function: Any, field: Any, type: Any = None) -> list[Any]:
    records = bench.of(*({"ts": n, "v": n * n} for n in range(4))).assign_timestamps_and_watermarks(monotonous(on="ts"))
    return collect(records.window_all(tumbling("10ms")).aggregate(computed_by(function, field, type)))


case("computed_by.function", lambda bench, f: spread(bench, f, "v"), (Spread(), [9]), (Spread(2), [18]))
case("computed_by.field", lambda bench, field: spread(bench, Spread(), field), ("v", [9]), ("ts", [3]))
case("computed_by.type", lambda bench, kind: spread(bench, Spread(), "v", kind), (None, [9]), (float, [9.0]))
