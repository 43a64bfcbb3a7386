"""When a job that failed is started again: restart strategies as values, and the decision that each of them makes.

In this room because three who never meet decide by them: the job inside its process, the supervisor outside it, and the
user who declares one. A strategy is read from the keys of a configuration and written back as such keys, which is how
it travels between the two processes. A decision needs only the moments of the failures, so tests bring the clock.

Flink: RestartStrategyOptions, the RestartBackoffTimeStrategy of flink-runtime, and pyflink.common.RestartStrategies.
Differs from Flink: a program that names no strategy fails at its first failure, unless a supervisor runs it.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from flintstream.errors import InvalidArgumentError
from flintstream.model.location import refused
from flintstream.model.time import DurationLike, format_millis, to_millis

PREFIX = "restart-strategy."
TYPE = f"{PREFIX}type"


class Backoff(ABC):
    """Decides after each failure; one per job, asked in the order of time."""

    @abstractmethod
    def failed(self, now_ms: int) -> int | None:
        """Take in a failure; return how many ms to wait before the restart, or None for an end."""


class RestartStrategyConfiguration:
    """A restart strategy; `RestartStrategies` makes them."""

    name = ""

    def get_description(self) -> str:
        """Return the strategy in words."""
        told = (f"{each.metadata['key']} {_shown(each.metadata, getattr(self, each.name))}" for each in _options(self))
        return f"{self.name} ({', '.join(told)})" if _options(self) else self.name


def _count(key: str, default: int | None, least: int = 1) -> Any:
    return field(default=default, metadata={"key": key, "read": lambda name, text: _whole(name, text, least)})


def _duration(key: str, default_ms: int, least: int = 0) -> Any:
    read: Callable[[str, str], int] = lambda name, text: _millis(name, text, least)  # noqa: E731  # a default of a field
    return field(default=default_ms, metadata={"key": key, "read": read, "is_duration": True})


def _number(key: str, default: float, least: float, most: float | None, above: bool = False) -> Any:
    read: Callable[[str, str], float] = lambda name, text: _float(name, text, least, most, above)  # noqa: E731  # same
    return field(default=default, metadata={"key": key, "read": read})


@dataclass(frozen=True)
class NoRestart(RestartStrategyConfiguration):
    """The first failure is the end."""

    name = "none"


@dataclass(frozen=True)
class FixedDelayRestart(RestartStrategyConfiguration):
    """So many restarts in all, each after the same wait."""

    name = "fixed-delay"
    attempts: int = _count("attempts", 1)
    delay_ms: int = _duration("delay", 1000)


@dataclass(frozen=True)
class FailureRateRestart(RestartStrategyConfiguration):
    """Restarts as long as there are no more than so many failures in an interval."""

    name = "failure-rate"
    failures: int = _count("max-failures-per-interval", 1)
    interval_ms: int = _duration("failure-rate-interval", 60_000, least=1)
    delay_ms: int = _duration("delay", 1000)


@dataclass(frozen=True)
class ExponentialDelayRestart(RestartStrategyConfiguration):
    """Restarts after waits that grow, from the first one again after a time without failures."""

    name = "exponential-delay"
    initial_ms: int = _duration("initial-backoff", 1000, least=1)
    max_ms: int = _duration("max-backoff", 60_000, least=1)
    multiplier: float = _number("backoff-multiplier", 1.5, 1.0, None, above=True)
    reset_ms: int = _duration("reset-backoff-threshold", 3_600_000, least=1)
    jitter: float = _number("jitter-factor", 0.1, 0.0, 1.0)
    attempts: int | None = _count("attempts-before-reset-backoff", None)


class _FixedBackoff(Backoff):
    def __init__(self, attempts: int, delay_ms: int) -> None:
        self._left = attempts
        self._delay_ms = delay_ms

    def failed(self, now_ms: int) -> int | None:
        self._left -= 1
        return self._delay_ms if self._left >= 0 else None


class _RateBackoff(Backoff):
    def __init__(self, strategy: FailureRateRestart) -> None:
        self._strategy = strategy
        self._moments: deque[int] = deque(maxlen=strategy.failures + 1)

    def failed(self, now_ms: int) -> int | None:
        self._moments.append(now_ms)
        is_full = len(self._moments) == self._moments.maxlen
        if is_full and now_ms - self._moments[0] <= self._strategy.interval_ms:
            return None
        return self._strategy.delay_ms


class _GrowingBackoff(Backoff):
    def __init__(self, strategy: ExponentialDelayRestart, chance: random.Random) -> None:
        self._strategy = strategy
        self._chance = chance
        self._wait_ms = 0.0
        self._attempts = 0
        self._restarted_ms: int | None = None

    def failed(self, now_ms: int) -> int | None:
        strategy = self._strategy
        if self._restarted_ms is not None and now_ms - self._restarted_ms >= strategy.reset_ms:
            self._wait_ms, self._attempts = 0.0, 0
        self._attempts += 1
        if strategy.attempts is not None and self._attempts > strategy.attempts:
            return None
        grown = self._wait_ms * strategy.multiplier if self._wait_ms else float(strategy.initial_ms)
        self._wait_ms = min(grown, float(strategy.max_ms))
        # Many jobs that one outage stopped must not all come back in the same moment.
        spread = self._wait_ms * strategy.jitter
        wait = min(int(self._wait_ms + self._chance.uniform(-spread, spread)), strategy.max_ms)
        self._restarted_ms = now_ms + wait
        return wait


STRATEGIES: dict[str, type[RestartStrategyConfiguration]] = {
    kind.name: kind for kind in (NoRestart, FixedDelayRestart, FailureRateRestart, ExponentialDelayRestart)
}
_SPELLINGS = {
    "off": "none",
    "disable": "none",
    "fixeddelay": "fixed-delay",
    "failurerate": "failure-rate",
    "exponentialdelay": "exponential-delay",
}


class RestartStrategies:
    """Makes restart strategies, for `env.set_restart_strategy(...)`.

    >>> RestartStrategies.fixed_delay_restart(3, "10s").get_description()
    'fixed-delay (attempts 3, delay 10s)'
    """

    @staticmethod
    def no_restart() -> RestartStrategyConfiguration:
        """Let the first failure be the end."""
        return NoRestart()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: DurationLike
    ) -> RestartStrategyConfiguration:
        """Restart so many times in all, each time after the same wait."""
        return FixedDelayRestart(
            _whole("restart_attempts", restart_attempts), _millis("delay_between_attempts", delay_between_attempts)
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: DurationLike, delay_interval: DurationLike
    ) -> RestartStrategyConfiguration:
        """Restart as long as no interval has more than `failure_rate` failures."""
        return FailureRateRestart(
            _whole("failure_rate", failure_rate),
            _millis("failure_interval", failure_interval, least=1),
            _millis("delay_interval", delay_interval),
        )

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: DurationLike = "1s",
        max_backoff: DurationLike = "1min",
        backoff_multiplier: float = 1.5,
        reset_backoff_threshold: DurationLike = "1h",
        jitter_factor: float = 0.1,
        attempts_before_reset_backoff: int | None = None,
    ) -> RestartStrategyConfiguration:
        """Restart after waits that grow, and begin with the first one again after a time without failures.

        Args:
            initial_backoff: The first wait.
            max_backoff: The longest wait.
            backoff_multiplier: By how much a wait is longer than the one before.
            reset_backoff_threshold: How long a job must have run without failure for waits to begin again.
            jitter_factor: Which share of a wait is left to chance, up or down.
            attempts_before_reset_backoff: How many restarts there may be until then; None for any number.
        """
        attempts = attempts_before_reset_backoff
        strategy = ExponentialDelayRestart(
            _millis("initial_backoff", initial_backoff, least=1),
            _millis("max_backoff", max_backoff, least=1),
            _float("backoff_multiplier", backoff_multiplier, 1.0, None, above=True),
            _millis("reset_backoff_threshold", reset_backoff_threshold, least=1),
            _float("jitter_factor", jitter_factor, 0.0, 1.0),
            None if attempts is None else _whole("attempts_before_reset_backoff", attempts),
        )
        return _consistent(strategy)


def known_keys() -> list[str]:
    """Return all keys of a configuration that say something of restarts."""
    options = [f"{PREFIX}{kind.name}.{each.metadata['key']}" for kind in STRATEGIES.values() for each in _options(kind)]
    return [TYPE, *options]


def check_key(key: str, text: str) -> None:
    """Refuse a value that can never be right for its key."""
    if key == TYPE:
        _kind(text)
        return
    for kind in STRATEGIES.values():
        for each in _options(kind):
            if key == f"{PREFIX}{kind.name}.{each.metadata['key']}":
                each.metadata["read"](key, text)


def strategy_of(keys: Mapping[str, str]) -> RestartStrategyConfiguration | None:
    """Return the strategy that a configuration names; None if it names none."""
    if TYPE not in keys:
        return None
    kind = _kind(keys[TYPE])
    given = {
        each.name: (f"{PREFIX}{kind.name}.{each.metadata['key']}", each.metadata["read"]) for each in _options(kind)
    }
    return _consistent(kind(**{name: read(key, keys[key]) for name, (key, read) in given.items() if key in keys}))


def unused_keys(keys: Mapping[str, str]) -> list[str]:
    """Return the options of strategies other than the one that was chosen."""
    chosen = _kind(keys[TYPE]).name if TYPE in keys else ""
    return [key for key in keys if key != TYPE and not (chosen and key.startswith(f"{PREFIX}{chosen}."))]


def keys_of(strategy: RestartStrategyConfiguration) -> dict[str, str]:
    """Return a strategy as the keys of a configuration."""
    given = {each.metadata["key"]: _as_text(each.metadata, getattr(strategy, each.name)) for each in _options(strategy)}
    return {TYPE: strategy.name} | {f"{PREFIX}{strategy.name}.{key}": text for key, text in given.items() if text}


def begin(strategy: RestartStrategyConfiguration, chance: random.Random | None = None) -> Backoff:
    """Return the decisions for a job that begins now."""
    if isinstance(strategy, ExponentialDelayRestart):
        return _GrowingBackoff(strategy, chance or random.Random())
    if isinstance(strategy, FailureRateRestart):
        return _RateBackoff(strategy)
    return (
        _FixedBackoff(strategy.attempts, strategy.delay_ms)
        if isinstance(strategy, FixedDelayRestart)
        else _FixedBackoff(0, 0)
    )


def resumed(strategy: RestartStrategyConfiguration, failures: Iterable[int]) -> Backoff:
    """Return the decisions for a job that has had failures before, at these moments."""
    backoff = begin(strategy)
    for moment in failures:
        backoff.failed(moment)
    return backoff


def _consistent(strategy: RestartStrategyConfiguration) -> RestartStrategyConfiguration:
    """Refuse options that contradict each other."""
    if isinstance(strategy, ExponentialDelayRestart) and strategy.initial_ms > strategy.max_ms:
        what = f"the initial backoff of {format_millis(strategy.initial_ms)} is above the largest of"
        raise refused(InvalidArgumentError, f"{what} {format_millis(strategy.max_ms)}", "raise the largest one")
    return strategy


def _kind(text: str) -> type[RestartStrategyConfiguration]:
    name = text.strip().lower()
    found = STRATEGIES.get(_SPELLINGS.get(name, name))
    if found is None:
        raise refused(InvalidArgumentError, f"{TYPE} is {text!r}", f"set it to {' or '.join(STRATEGIES)}")
    return found


def _options(strategy: Any) -> list[Any]:
    return [each for each in fields(strategy) if "key" in each.metadata]


def _as_text(metadata: Mapping[str, Any], value: Any) -> str:
    if value is None:
        return ""
    return f"{value} ms" if metadata.get("is_duration") else str(value)


def _shown(metadata: Mapping[str, Any], value: Any) -> str:
    if value is None:
        return "unlimited"
    return format_millis(value) if metadata.get("is_duration") else str(value)


def _whole(name: str, value: Any, least: int = 1) -> int:
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = value
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise refused(InvalidArgumentError, f"{name} is {value!r}", f"give a whole number, {least} or more")
    return number


def _millis(name: str, value: DurationLike, least: int = 0) -> int:
    millis = to_millis(int(value) if isinstance(value, str) and value.strip().isdigit() else value)
    if millis < least:
        raise refused(InvalidArgumentError, f"{name} is {value!r}", f"give {least} ms or more")
    return millis


def _float(name: str, value: Any, least: float, most: float | None, above: bool = False) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    # Written so that what is not a number is refused, too.
    if not (number > least if above else number >= least) or (most is not None and number > most):
        limit = f"more than {least}" if above else f"{least} to {most}"
        raise refused(InvalidArgumentError, f"{name} is {value!r}", f"give a number, {limit}")
    return number
