"""Restart strategies as decisions: failures at given moments in, waits out. No clock, no process."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import Configuration, NoEffectWarning, RestartStrategies, StreamExecutionEnvironment
from flintstream.errors import InvalidArgumentError, TypeMismatchError
from flintstream.model import no_effect
from flintstream.model.restart import (
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
    NoRestart,
    RestartStrategyConfiguration,
    begin,
    keys_of,
    known_keys,
    resumed,
    strategy_of,
)

SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000
FIXED, RATE, GROWING = (f"restart-strategy.{name}" for name in ("fixed-delay", "failure-rate", "exponential-delay"))


def waits(strategy: RestartStrategyConfiguration, *moments: int) -> list[int | None]:
    backoff = begin(strategy, random.Random(1))
    return [backoff.failed(moment) for moment in moments]


def of_type(name: str) -> Any:
    return strategy_of({"restart-strategy.type": name})


def test_without_restarts_the_first_failure_is_the_end():
    assert waits(NoRestart(), 0, 10) == [None, None]


def test_a_fixed_delay_has_so_many_attempts_in_all():
    strategy = RestartStrategies.fixed_delay_restart(3, "10s")
    assert waits(strategy, 0, 10, 20 * HOUR, 21 * HOUR) == [10_000, 10_000, 10_000, None]


def test_a_failure_rate_looks_back_one_interval():
    strategy = RestartStrategies.failure_rate_restart(2, "1 min", 500)
    # The third failure within a minute is one too many; exactly a minute later still counts.
    assert waits(strategy, 0, 30 * SECOND, 60 * SECOND) == [500, 500, None]
    assert waits(strategy, 0, 30 * SECOND, 60 * SECOND + 1, 95 * SECOND, 97 * SECOND) == [500, 500, 500, 500, None]


def test_waits_grow_up_to_the_largest_and_begin_again_after_a_quiet_time():
    strategy = RestartStrategies.exponential_delay_restart("1s", "10s", 3.0, "1 min", 0.0)
    assert waits(strategy, 0, 2000, 6000, 20_000) == [1000, 3000, 9000, 10_000]
    # The quiet time counts from the restart, not from the failure before it.
    assert waits(strategy, 0, MINUTE + 999, 2 * MINUTE + 3998) == [1000, 3000, 9000]
    assert waits(strategy, 0, MINUTE + 1000) == [1000, 1000]


def test_the_attempts_of_growing_waits_are_counted_until_the_quiet_time():
    strategy = RestartStrategies.exponential_delay_restart(10, 10, 2.0, 1000, 0.0, attempts_before_reset_backoff=2)
    assert waits(strategy, 0, 100, 200) == [10, 10, None]
    assert waits(strategy, 0, 100, 2000, 2100, 2200) == [10, 10, 10, 10, None]


@given(st.integers(0, 2**32), st.floats(0, 1))
def test_chance_moves_a_wait_by_its_share_and_never_above_the_largest(seed: int, jitter: float):
    strategy = ExponentialDelayRestart(1000, 4000, 2.0, HOUR, jitter)
    backoff = begin(strategy, random.Random(seed))
    for base in (1000, 2000, 4000, 4000):
        wait = backoff.failed(0)
        assert wait is not None
        assert base * (1 - jitter) - 1 <= wait <= min(base * (1 + jitter), 4000)


def test_chance_is_not_the_same_for_two_jobs():
    strategy = ExponentialDelayRestart(10_000, MINUTE)
    assert len({begin(strategy).failed(0) for _ in range(20)}) > 1


def test_failures_before_a_new_process_count():
    strategy = FixedDelayRestart(3, 0)
    assert resumed(strategy, [0, 5]).failed(10) == 0
    assert resumed(strategy, [0, 5, 7]).failed(10) is None


def test_growing_waits_do_not_overflow():
    backoff = begin(ExponentialDelayRestart(jitter=0.0))
    assert [backoff.failed(0) for _ in range(5000)][-1] == MINUTE


@pytest.mark.parametrize(
    "strategy",
    [
        NoRestart(),
        FixedDelayRestart(7, 3),
        FailureRateRestart(4, 5000, 6),
        ExponentialDelayRestart(2, 9, 1.25, 7, 0.5, 3),
    ],
    ids=lambda strategy: strategy.name,
)
def test_a_strategy_and_its_keys_say_the_same(strategy: RestartStrategyConfiguration):
    assert strategy_of(keys_of(strategy)) == strategy
    assert set(keys_of(strategy)) <= set(known_keys())


def test_the_defaults_are_flinks():
    assert of_type("fixed-delay") == FixedDelayRestart(1, SECOND)
    assert of_type("failure-rate") == FailureRateRestart(1, MINUTE, SECOND)
    assert of_type("exponential-delay") == ExponentialDelayRestart(SECOND, MINUTE, 1.5, HOUR, 0.1, None)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("none", "none"),
        ("off", "none"),
        ("disable", "none"),
        ("fixeddelay", "fixed-delay"),
        ("failurerate", "failure-rate"),
        ("exponentialdelay", "exponential-delay"),
        ("Fixed-Delay", "fixed-delay"),
    ],
)
def test_flinks_spellings_are_read(spelling: str, name: str):
    assert of_type(spelling).name == name


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("restart-strategy.type", "sometimes"),
        (f"{FIXED}.attempts", "0"),
        (f"{FIXED}.attempts", "many"),
        (f"{FIXED}.delay", "soon"),
        (f"{RATE}.failure-rate-interval", "0"),
        (f"{RATE}.max-failures-per-interval", "1.5"),
        (f"{GROWING}.backoff-multiplier", "1"),
        (f"{GROWING}.backoff-multiplier", "nan"),
        (f"{GROWING}.jitter-factor", "1.1"),
        (f"{GROWING}.initial-backoff", "0"),
        (f"{GROWING}.attempts-before-reset-backoff", "-1"),
    ],
)
def test_a_wrong_value_is_refused_with_the_users_line(key: str, value: str):
    with pytest.raises(InvalidArgumentError, match=r"test_strategies\.py:\d+") as caught:
        StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({key: value}), runtime="local")
    assert value in str(caught.value)


def test_a_first_wait_above_the_largest_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"1m.*above the largest.*1s.*test_strategies\.py"):
        RestartStrategies.exponential_delay_restart("1 min", "1s")


@pytest.mark.parametrize("wrong", ["fixed-delay", RestartStrategies, None, 3])
def test_what_is_no_strategy_is_refused(wrong: Any):
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    with pytest.raises(TypeMismatchError, match=r"test_strategies\.py"):
        env.set_restart_strategy(wrong)


def test_an_option_of_a_strategy_that_was_not_chosen_warns():
    no_effect.warned.clear()
    settings = {"restart-strategy.type": "fixed-delay", f"{RATE}.delay": "1 s"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings), runtime="local")
    with pytest.warns(NoEffectWarning, match=rf"{RATE}\.delay.*restart-strategy\.type is fixed-delay"):
        assert env.get_restart_strategy() == FixedDelayRestart(1, SECOND)


def test_what_was_set_last_holds():
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    assert env.get_restart_strategy() == NoRestart()
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 1))
    env.set_restart_strategy(RestartStrategies.failure_rate_restart(1, 2, 3))
    assert env.get_restart_strategy() == FailureRateRestart(1, 2, 3)
    env.configure(Configuration.from_dict({"restart-strategy.failure-rate.delay": "4"}))
    assert env.get_restart_strategy() == FailureRateRestart(1, 2, 4)
