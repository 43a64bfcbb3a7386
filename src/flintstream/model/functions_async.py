"""Functions that wait for something outside (a lookup, a service) while others of their kind wait too.

Flink: pyflink.datastream.functions.AsyncFunction and its retry interfaces, pyflink.datastream.async_retry_strategies
and async_retry_predicates. A file of its own, since nothing here is called record by record.

Differs from Flink: `open`, `close` and `timeout` may be `async def` too; all of them run on the event loop, so that
clients which belong to a loop can be made in `open`. The delay of an exponential backoff depends on the attempt alone,
not on what other records did before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from flintstream.errors import InvalidArgumentError
from flintstream.model.functions import FromCallable, Function
from flintstream.model.location import refused

ResultPredicate = Callable[[Any], bool]
ErrorPredicate = Callable[[Any], bool]


class AsyncFunction(Function):
    """Turns one record into any number of records, of which it may have to wait for each."""

    @abstractmethod
    async def async_invoke(self, value: Any) -> Any:
        """Called for every record; every item of the returned list goes downstream.

        A record whose epoch was not committed is given again after a failure: the call must bear being repeated.
        """

    def timeout(self, value: Any) -> Any:
        """Called when a record's time is over; returns what goes downstream instead, or raises, as it does here."""
        msg = f"the call took too long for {value!r:.200}"
        raise TimeoutError(msg)


class CallableAsync(FromCallable, AsyncFunction):
    """An `AsyncFunction` made from `async def f(value)`, whose result is one record."""

    async def async_invoke(self, value: Any) -> list[Any]:
        return [await self.wrapped(value)]


class AsyncRetryPredicate(ABC):
    """Says which results and which exceptions are worth another attempt."""

    @abstractmethod
    def result_predicate(self) -> ResultPredicate | None:
        """Return what tells of a result (a list) whether to try again; None: never."""

    @abstractmethod
    def exception_predicate(self) -> ErrorPredicate | None:
        """Return what tells of an exception whether to try again; None: never."""


class AsyncRetryStrategy(ABC):
    """Says whether and when a call is tried again."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Return whether there may be another attempt after so many."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return how long to wait before the next attempt, after so many."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """Return which results and exceptions are tried again."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy:
        """Return the strategy that never tries again."""
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ErrorPredicate | None,
    ) -> AsyncRetryStrategy:
        """Return a strategy that tries again up to `max_attempts` times, always after the same delay."""
        return FixedDelayRetryStrategy(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None,
        exception_predicate: ErrorPredicate | None,
    ) -> AsyncRetryStrategy:
        """Return a strategy that tries again up to `max_attempts` times, each time after a longer delay."""
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class RetryPredicate(AsyncRetryPredicate):
    """Two predicates, either of which may be None."""

    def __init__(self, result_predicate: ResultPredicate | None, exception_predicate: ErrorPredicate | None) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> ResultPredicate | None:
        return self._result_predicate

    def exception_predicate(self) -> ErrorPredicate | None:
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy):
    """Never tries again."""

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return RetryPredicate(None, None)


class FixedDelayRetryStrategy(AsyncRetryStrategy):
    """Tries again up to `max_attempts` times, always after the same delay."""

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ErrorPredicate | None,
    ) -> None:
        self._max_attempts = _positive("max_attempts", max_attempts)
        self._backoff_time_millis = _positive("backoff_time_millis", backoff_time_millis)
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return int(self._backoff_time_millis)

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return self._predicate


class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy):
    """Tries again up to `max_attempts` times; each delay is `multiplier` times the one before, up to a greatest."""

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None,
        exception_predicate: ErrorPredicate | None,
    ) -> None:
        self._max_attempts = _positive("max_attempts", max_attempts)
        self._initial_delay = _positive("initial_delay", initial_delay)
        self._max_retry_delay = _positive("max_retry_delay", max_retry_delay)
        self._multiplier = _positive("multiplier", multiplier)
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        delay = self._initial_delay
        for _ in range(1, current_attempts):
            delay = int(min(delay * self._multiplier, self._max_retry_delay))
        return int(delay)

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return self._predicate


NO_RETRY_STRATEGY: AsyncRetryStrategy = NoRetryStrategy()


def empty_result_predicate(result: Any) -> bool:
    """Whether a call has found nothing."""
    return result is None or len(result) == 0


def has_exception_predicate(error: Any) -> bool:
    """Whether a call has failed."""
    return error is not None


def exception_type_predicate(error: Any, expected_error_type: Any) -> bool:
    """Whether a call has failed with an exception of a type; for use with `functools.partial` or in a lambda."""
    return isinstance(error, expected_error_type)


class AsyncCalls(Function):
    """An `AsyncFunction` with all that was said of how to call it; what the graph holds of an async operator.

    A `timeout_ms` of 0 is none.
    """

    def __init__(
        self,
        function: AsyncFunction,
        capacity: int = 100,
        timeout_ms: int = 0,
        ordered: bool = True,
        retry: AsyncRetryStrategy = NO_RETRY_STRATEGY,
    ) -> None:
        self.function = function
        self.capacity = capacity
        self.timeout_ms = timeout_ms
        self.ordered = ordered
        self.retry = retry

    def close(self) -> None:
        """Stand for the function's own, so that tasks are told of the job's end: the event loop must end too."""


def _positive(name: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise refused(InvalidArgumentError, f"{name} is {value!r}", "give a number above 0")
    return value
