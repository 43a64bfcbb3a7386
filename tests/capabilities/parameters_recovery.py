"""Parameters of restarts and of the lease."""

from __future__ import annotations

import random
import threading
from typing import Any

from flintstream import RestartStrategies, StreamExecutionEnvironment
from flintstream.engine.lease import FOLDER, Holder
from flintstream.errors import UserFunctionError
from flintstream.model.restart import RestartStrategyConfiguration, begin
from tests.capabilities.parameters import Bench, case
from tests.capabilities.parameters_keys import key

MOMENTS = (0, 1000, 3000, 70_000, 71_000)
PREFIX = "restart-strategy"
GROWING = "exponential-delay"
USUAL = [1000, 1500, 2250, 3375, 5062]
WAIT_SECONDS = 60


def waits(strategy: RestartStrategyConfiguration) -> list[int | None]:
    """Return what a strategy decides after failures at some moments."""
    backoff = begin(strategy, random.Random(1))
    return [backoff.failed(moment) for moment in MOMENTS]


def tries(bench: Bench, strategy: RestartStrategyConfiguration) -> int:
    """Run a job that fails every time; return how often it was tried."""
    return tries_of(bench.env().set_restart_strategy(strategy))


def tries_of(env: StreamExecutionEnvironment) -> int:
    done: list[int] = []
    COUNTS[id(env)] = done

    def fails(value: int, number: int = id(env)) -> int:
        COUNTS[number].append(value)
        raise ValueError

    env.from_collection([1]).map(fails).print()
    try:
        env.execute()
    except UserFunctionError:
        return len(done)
    return -1


COUNTS: dict[int, list[int]] = {}


def decided(name: str, value: Any, **others: Any) -> list[int | None]:
    return waits(RestartStrategies.exponential_delay_restart(**{"jitter_factor": 0.0, **others, name: value}))


def growing(name: str, *values: tuple[Any, Any], **others: Any) -> None:
    parameter = f"RestartStrategies.exponential_delay_restart.{name}"
    case(parameter, lambda bench, value: decided(name, value, **others), *values)


def option(name: str, kind: str, *values: tuple[str, Any], **others: str) -> None:
    """Put a key into the table: the strategy of that kind decides otherwise with each of its values."""

    def program(bench: Bench, value: str) -> Any:
        chosen = {"type": kind} | ({f"{GROWING}.jitter-factor": "0"} if kind == GROWING else {})
        settings = {f"{PREFIX}.{k}": v for k, v in {**chosen, **others, f"{kind}.{name}": value}.items()}
        return waits(bench.env(settings=settings).get_restart_strategy())

    case(f"Configuration['{PREFIX}.{kind}.{name}']", program, *values)


FIXED = "RestartStrategies.fixed_delay_restart"
case(
    "StreamExecutionEnvironment.set_restart_strategy.restart_strategy_configuration",
    tries,
    (RestartStrategies.no_restart(), 1),
    (RestartStrategies.fixed_delay_restart(2, 0), 3),
)
case(f"{FIXED}.restart_attempts", lambda b, n: tries(b, RestartStrategies.fixed_delay_restart(n, 0)), (1, 2), (3, 4))
case(
    f"{FIXED}.delay_between_attempts",
    lambda b, t: waits(RestartStrategies.fixed_delay_restart(2, t)),
    (7, [7, 7, None, None, None]),
    ("1s", [1000, 1000, None, None, None]),
)
RATE = "RestartStrategies.failure_rate_restart"
case(
    f"{RATE}.failure_rate",
    lambda b, n: waits(RestartStrategies.failure_rate_restart(n, "1min", 5)),
    (1, [5, None, None, 5, None]),
    (2, [5, 5, None, 5, 5]),
)
case(
    f"{RATE}.failure_interval",
    lambda b, t: waits(RestartStrategies.failure_rate_restart(2, t, 5)),
    ("1s", [5, 5, 5, 5, 5]),
    ("10s", [5, 5, None, 5, 5]),
)
case(
    f"{RATE}.delay_interval",
    lambda b, t: waits(RestartStrategies.failure_rate_restart(9, "1min", t))[:1],
    (5, [5]),
    ("6ms", [6]),
)
growing("initial_backoff", ("1s", USUAL), (100, [100, 150, 225, 337, 506]))
growing("max_backoff", ("2s", [1000, 1500, 2000, 2000, 2000]), ("1s", [1000, 1000, 1000, 1000, 1000]))
growing("backoff_multiplier", (2, [1000, 2000, 4000, 8000, 16000]), (3.0, [1000, 3000, 9000, 27000, 60000]))
growing("reset_backoff_threshold", ("1min", [1000, 1500, 2250, 1000, 1500]), ("2min", USUAL))
growing("jitter_factor", (0.0, USUAL), (0.5, [634, 2021, 2843, 2548, 5039]))
growing("attempts_before_reset_backoff", (2, [1000, 1500, None, None, None]), (None, USUAL))

key(f"{PREFIX}.type", lambda bench, env: tries_of(env), ("none", 1), ("fixed-delay", 2))
option("attempts", "fixed-delay", ("1", [1000, None, None, None, None]), ("2", [1000, 1000, None, None, None]))
option("delay", "fixed-delay", ("5 s", [5000, None, None, None, None]), ("9", [9, None, None, None, None]))
option("max-failures-per-interval", "failure-rate", ("1", [1000, None, None, 1000, None]), ("9", [1000] * 5))
option("failure-rate-interval", "failure-rate", ("10", [1000] * 5), ("1 min", [1000, None, None, 1000, None]))
option("delay", "failure-rate", ("1", [1, None, None, 1, None]), ("2", [2, None, None, 2, None]))
option("initial-backoff", GROWING, ("1 s", USUAL), ("100", [100, 150, 225, 337, 506]))
option("max-backoff", GROWING, ("2 s", [1000, 1500, 2000, 2000, 2000]), ("1 s", [1000] * 5))
option("backoff-multiplier", GROWING, ("2", [1000, 2000, 4000, 8000, 16000]), ("3", [1000, 3000, 9000, 27000, 60000]))
option(
    "reset-backoff-threshold",
    GROWING,
    ("1 min", [1000, 1500, 2250, 1000, 1500]),
    ("2 min", USUAL),
)
option("jitter-factor", GROWING, ("0", USUAL), ("0.5", [634, 2021, 2843, 2548, 5039]))
option(
    "attempts-before-reset-backoff",
    GROWING,
    ("1", [1000, None, None, None, None]),
    ("9", USUAL),
)


def beats_within(bench: Bench, env: StreamExecutionEnvironment) -> bool:
    """Return whether an endless job has renewed its lease by the time it has committed a hundred short epochs."""
    folder, reached = bench.folder(), threading.Event()
    env.set_checkpoint_dir(str(folder))
    beats: list[int] = []

    def listen(manifest: Any, *_: Any) -> None:
        known = [Holder.from_bytes(path.read_bytes()) for path in (folder / FOLDER).glob("0*")]
        beats.extend(each.beats for each in known if each is not None)
        if manifest.epoch >= 100:
            reached.set()

    env.add_listener(listen)
    env.enable_checkpointing(5)
    env.generate(generator=lambda i: i, rate=1000, splits=1).print()
    client = env.execute_async()
    assert reached.wait(WAIT_SECONDS)
    client.cancel().result(WAIT_SECONDS)
    return max(beats) > 0


key("flintstream.lease.timeout", beats_within, ("100 ms", True), ("1 h", False))
