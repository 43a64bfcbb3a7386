"""Functions that look rows up in a system outside, and the cache of what they found.

Separate from `functions.py` because a lookup is asked for keys, not for records, and for many at a time where the
system outside can answer so.

Flink: LookupFunction, AsyncLookupFunction, DefaultLookupCache and their options (`lookup.partial-cache.*`) of its SQL
connectors; its DataStreams and PyFlink have none.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from flintstream.errors import InvalidArgumentError, TypeMismatchError
from flintstream.model.functions import FromCallable, Function
from flintstream.model.location import refused
from flintstream.model.time import DurationLike, to_millis


class LookupFunction(Function):
    """Finds the rows of a key in a system outside. Override `lookup`, or `lookup_many` where one call can do it all.

    An answer is a list of rows (or a generator), one row, or None if there is none.
    """

    @abstractmethod
    def lookup(self, key: Any) -> Any:
        """Called for a key that is not in the cache; a tuple, if several fields make the key."""

    def lookup_many(self, keys: Sequence[Any]) -> Sequence[Any]:
        """Called with the keys of a batch that are not in the cache; returns an answer for each, in their order.

        There may be tens of thousands of them: a function whose system does not take so many asks in several goes.
        """
        return [self.lookup(key) for key in keys]


class AsyncLookupFunction(Function):
    """Finds the rows of a key while other lookups wait too; `open` and `close` are called outside the event loop."""

    @abstractmethod
    async def lookup(self, key: Any) -> Any:
        """Called for a key that is not in the cache; the answer is as that of a `LookupFunction`."""


class CallableLookup(FromCallable, LookupFunction):
    """A `LookupFunction` made from `f(key)`."""

    def lookup(self, key: Any) -> Any:
        return self.wrapped(key)


class CallableAsyncLookup(FromCallable, AsyncLookupFunction):
    """An `AsyncLookupFunction` made from `async def f(key)`."""

    async def lookup(self, key: Any) -> Any:
        return await self.wrapped(key)


Lookup = LookupFunction | AsyncLookupFunction


def as_lookup(function: Any) -> Lookup:
    """Return the argument as a function that looks keys up."""
    if isinstance(function, LookupFunction | AsyncLookupFunction):
        return function
    if isinstance(function, type) and issubclass(function, Function):
        name = function.__name__
        raise refused(TypeMismatchError, f"{name} is a class, not a function object", f"pass {name}(...)")
    if isinstance(function, Function) or not callable(function):
        remedy = "pass a LookupFunction, an AsyncLookupFunction, or f(key) -> rows"
        raise refused(TypeMismatchError, f"{function!r:.100} looks nothing up", remedy)
    return CallableAsyncLookup(function) if inspect.iscoroutinefunction(function) else CallableLookup(function)


def answers_many(function: Lookup) -> bool:
    """Whether a function answers for many keys in one call of its own."""
    return isinstance(function, LookupFunction) and type(function).lookup_many is not LookupFunction.lookup_many


def rows_of(answer: Any) -> tuple[Any, ...]:
    """Return the rows of an answer."""
    if answer is None:
        return ()
    if isinstance(answer, list) or inspect.isgenerator(answer):
        return tuple(answer)
    return (answer,)


class LookupCache:
    """Keeps what was found, in each worker, so that a key is asked for once and not for every record.

    Args:
        max_rows: How many rows are kept at most, those used last; a key that is known to have none counts as one.
        expire_after_write: For how long a row is kept after it was looked up; None is as long as there is room.
        expire_after_access: For how long a row is kept after it was used last.
        cache_missing_key: Whether it is also kept that a key has no rows.

    Time is the clock of the epochs. The cache is no state: after a restart it is empty.
    """

    def __init__(
        self,
        max_rows: int = 10_000,
        expire_after_write: DurationLike | None = None,
        expire_after_access: DurationLike | None = None,
        cache_missing_key: bool = True,
    ) -> None:
        if isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 1:  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass anything
            raise refused(InvalidArgumentError, f"max_rows is {max_rows!r:.100}", "give a number from 1 on")
        self.max_rows = max_rows
        self.expire_after_write_ms = _millis("expire_after_write", expire_after_write)
        self.expire_after_access_ms = _millis("expire_after_access", expire_after_access)
        self.cache_missing_key = cache_missing_key


def _millis(name: str, duration: DurationLike | None) -> int | None:
    if duration is None:
        return None
    millis = to_millis(duration)
    if millis <= 0:
        raise refused(InvalidArgumentError, f"{name} is {duration!r}", "give a length of time above 0")
    return millis
