"""Puts calls of an `async def` function behind a stream: what `map_async` and `AsyncDataStream` share.

Written against `Streamlike`, like all builders, so that `datastream.py` can use it too.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from flintstream.api.arguments import TypeLike, located, read, require
from flintstream.api.settings import check_count, check_duration
from flintstream.api.stream import Streamlike
from flintstream.errors import InvalidArgumentError, TypeMismatchError, describe
from flintstream.model.functions_async import (
    NO_RETRY_STRATEGY,
    AsyncCalls,
    AsyncFunction,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    CallableAsync,
    NoRetryStrategy,
)
from flintstream.model.infer import infer_return_type, infer_yield_type
from flintstream.model.time import DurationLike
from flintstream.model.typeinfo import TypeInformation

S = TypeVar("S")


def add_async_function(
    stream: Streamlike[S],
    function: Any,
    timeout: DurationLike | None,
    retry: Any,
    capacity: int,
    output_type: TypeLike,
    ordered: bool,
) -> S:
    """Put an AsyncFunction behind a stream."""
    remedy = "pass an AsyncFunction, or use map_async(...)"
    checked = require(function, AsyncFunction, "an AsyncFunction", remedy)
    if not inspect.iscoroutinefunction(checked.async_invoke):
        what = f"async_invoke of {type(checked).__name__} is no `async def`"
        raise located(TypeMismatchError(describe(what, remedy="declare it as `async def async_invoke(self, value)`")))
    inferred = infer_yield_type(checked.async_invoke)
    return _add(stream, "Async Wait", checked, timeout, retry, capacity, output_type, ordered, inferred)


class AsyncOperations(Generic[S]):
    """What every stream can do with an `async def` function; `S` is the stream that it makes."""

    _stream: Streamlike[S]

    def map_async(
        self,
        func: Callable[[Any], Awaitable[Any]],
        capacity: int = 100,
        timeout: DurationLike | None = None,
        ordered: bool = True,
        retry: AsyncRetryStrategy | None = None,
        output_type: TypeLike = None,
    ) -> S:
        """Turn each record into one by an `async def` function, of which up to `capacity` calls wait at a time.

        >>> import asyncio
        >>> from flintstream import StreamExecutionEnvironment
        >>> async def look_up(key):
        ...     await asyncio.sleep(0.001)
        ...     return key, len(key)
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> list(env.from_collection(["a", "bcd"]).map_async(look_up, timeout="10s").execute_and_collect())
        [('a', 1), ('bcd', 3)]

        Args:
            func: what to call; a record of an epoch that failed is given again, so a call must bear being repeated.
            capacity: how many calls may be under way at a time, in each parallel instance.
            timeout: how long a record may take, all attempts together, before the job fails; None: for ever.
            ordered: True: results that wait for those before them take room; False: a call that hangs stops nothing.
            retry: when to try again, such as `AsyncRetryStrategy.fixed_delay(...)`; needs a timeout.
            output_type: the type of the results, if it is to be enforced.
        """
        if isinstance(func, AsyncFunction) or not _is_async(func):
            what = f"{func!r:.200} is no `async def` function"
            remedy = "pass one, use map(...), or AsyncDataStream for an AsyncFunction"
            raise located(TypeMismatchError(describe(what, remedy=remedy)))
        strategy = NO_RETRY_STRATEGY if retry is None else retry
        inferred = infer_return_type(func)
        function = CallableAsync(func)
        return _add(self._stream, "Async Map", function, timeout, strategy, capacity, output_type, ordered, inferred)


def _is_async(func: Any) -> bool:
    """Whether calling it gives something to wait for: functions, partials of them, objects with such a `__call__`."""
    return inspect.iscoroutinefunction(func) or inspect.iscoroutinefunction(getattr(func, "__call__", None))  # noqa: B004  # the method itself is looked at


def _add(
    stream: Streamlike[S],
    name: str,
    function: AsyncFunction,
    timeout: DurationLike | None,
    retry: Any,
    capacity: int,
    output_type: TypeLike,
    ordered: bool,
    inferred: TypeInformation | None,
) -> S:
    remedy = "pass one such as AsyncRetryStrategy.fixed_delay(...)"
    strategy = require(retry, AsyncRetryStrategy, "an async retry strategy", remedy)
    require(strategy.get_retry_predicate(), AsyncRetryPredicate, "a retry predicate", "return a RetryPredicate")
    check_count("capacity", capacity)
    timeout_ms = 0 if timeout is None else read(lambda value: check_duration("timeout", value), timeout)
    if not timeout_ms and type(strategy) is not NoRetryStrategy:
        what = "calls that are tried again need a time limit for all attempts together"
        raise located(InvalidArgumentError(describe(what, remedy="give a timeout above 0")))
    if not isinstance(ordered, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass anything
        raise located(InvalidArgumentError(describe(f"ordered is {ordered!r:.100}", remedy="give True or False")))
    calls = AsyncCalls(function, capacity, timeout_ms, ordered, strategy)
    return stream.add_function(name, "async", calls, ("async_invoke",), output_type, inferred)
