from __future__ import annotations

import functools

import pytest

from flintstream.datastream.async_retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from flintstream.datastream.async_retry_strategies import (
    NO_RETRY_STRATEGY,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    NoRetryStrategy,
    RetryPredicate,
)
from flintstream.errors import InvalidArgumentError
from flintstream.model.functions_async import AsyncRetryStrategy


def test_a_fixed_delay_is_the_same_after_every_attempt():
    strategy = AsyncRetryStrategy.fixed_delay(2, 50, None, has_exception_predicate)
    assert isinstance(strategy, FixedDelayRetryStrategy)
    assert [strategy.can_retry(attempts) for attempts in (1, 2, 3)] == [True, True, False]
    assert [strategy.get_backoff_time_millis(attempts) for attempts in (1, 2)] == [50, 50]


def test_an_exponential_delay_depends_on_the_attempt_alone():
    strategy = AsyncRetryStrategy.exponential_backoff(4, 100, 500, 2.0, None, None)
    assert isinstance(strategy, ExponentialBackoffDelayRetryStrategy)
    delays = [100, 200, 400, 500]
    assert [strategy.get_backoff_time_millis(attempts) for attempts in (1, 2, 3, 4)] == delays
    # Another record's attempts were asked for in between.
    assert [strategy.get_backoff_time_millis(attempts) for attempts in (4, 1, 3, 2)] == [500, 100, 400, 200]
    assert [strategy.can_retry(attempts) for attempts in (4, 5)] == [True, False]


def test_no_retry_is_one_strategy():
    assert AsyncRetryStrategy.no_restart() is NO_RETRY_STRATEGY
    assert isinstance(NO_RETRY_STRATEGY, NoRetryStrategy)
    assert not NO_RETRY_STRATEGY.can_retry(1)
    predicate = NO_RETRY_STRATEGY.get_retry_predicate()
    assert (predicate.result_predicate(), predicate.exception_predicate()) == (None, None)


def test_a_strategy_gives_its_predicates():
    predicate = AsyncRetryStrategy.fixed_delay(1, 1, empty_result_predicate, has_exception_predicate)
    found = predicate.get_retry_predicate()
    assert isinstance(found, RetryPredicate)
    assert found.result_predicate() is empty_result_predicate
    assert found.exception_predicate() is has_exception_predicate


def test_predicates_tell_what_their_names_say():
    assert [empty_result_predicate(result) for result in (None, [], [0])] == [True, True, False]
    assert [has_exception_predicate(error) for error in (None, OSError())] == [False, True]
    is_os = functools.partial(exception_type_predicate, expected_error_type=OSError)
    assert [is_os(error) for error in (FileNotFoundError(), ValueError(), None)] == [True, False, False]


@pytest.mark.parametrize("wrong", [0, -1, True, "2"])
@pytest.mark.parametrize(
    "make",
    [
        lambda wrong: AsyncRetryStrategy.fixed_delay(wrong, 1, None, None),
        lambda wrong: AsyncRetryStrategy.fixed_delay(1, wrong, None, None),
        lambda wrong: AsyncRetryStrategy.exponential_backoff(wrong, 1, 1, 1.0, None, None),
        lambda wrong: AsyncRetryStrategy.exponential_backoff(1, wrong, 1, 1.0, None, None),
        lambda wrong: AsyncRetryStrategy.exponential_backoff(1, 1, wrong, 1.0, None, None),
        lambda wrong: AsyncRetryStrategy.exponential_backoff(1, 1, 1, wrong, None, None),
    ],
)
def test_what_is_not_above_0_is_refused(make, wrong):
    with pytest.raises(InvalidArgumentError, match="give a number above 0"):
        make(wrong)
