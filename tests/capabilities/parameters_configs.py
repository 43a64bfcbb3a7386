"""Parameters of the config objects, and idleness."""

from __future__ import annotations

import threading
from typing import Any
from unittest import mock

from flintstream import (
    CheckpointingMode,
    CollectSink,
    ExternalizedCheckpointRetention,
    StreamExecutionEnvironment,
    bounded,
    count,
    tumbling,
)
from flintstream.errors import CommitError
from flintstream.state.storage import LocalStorage
from tests.capabilities.parameters import ABSENT, Bench, case, warned
from tests.capabilities.parameters_env import keeps_apart, place
from tests.capabilities.support import collect

TWO, THREE = (2, 128, "nobody"), (3, 128, "nobody")
CONFIG, CHECKPOINTS = "ExecutionConfig", "CheckpointConfig"


def fails_once(bench: Bench, env: StreamExecutionEnvironment) -> list[int]:
    """Run a job whose first attempt to write a manifest fails."""
    env.set_checkpoint_dir(str(bench.folder()))
    failures, publish = iter([True]), LocalStorage.publish

    def sometimes(self: LocalStorage, *arguments: Any) -> bool:
        if next(failures, False):
            raise OSError("no space left")
        return publish(self, *arguments)

    with mock.patch.object(LocalStorage, "publish", sometimes):
        return collect(env.from_collection([1]).map(lambda n: n))


def delivery_of(env: StreamExecutionEnvironment) -> str:
    """Return how a sink works that was told nothing."""
    env.from_collection([1]).sink_to(CollectSink())
    return str(env.guarantee().sinks[0].delivery)


def survives_failures(bench: Bench, tolerable: int) -> list[int]:
    return fails_once(bench, set_on_checkpoints(bench, "set_tolerable_checkpoint_failure_number", tolerable))


def left_out_when_idle(bench: Bench, idle: Any) -> bool:
    """One of two sources is silent; return whether the other's windows fire all the same."""
    strategy = bounded(0, on="ts") if idle is ABSENT else bounded(0, on="ts").with_idleness(idle)
    env, sink, fired, read = bench.env(), CollectSink(), threading.Event(), threading.Event()

    def listen(manifest: Any, *_: Any) -> None:
        if manifest.positions["loud"][0] == 100:
            read.set()
        if sink.results:
            fired.set()

    env.add_listener(listen)
    loud = env.generate(generator=lambda i: {"id": "a", "ts": i}, count=100, splits=1).uid("loud")
    silent = env.generate(generator=lambda i: {"id": "a", "ts": i}, rate=0.0001, splits=1)
    both = loud.assign_timestamps_and_watermarks(strategy).union(silent.assign_timestamps_and_watermarks(strategy))
    both.key_by("id").window(tumbling("10ms")).agg(n=count()).sink_to(sink)
    client = env.execute_async()
    assert (read if idle is ABSENT else fired).wait(60)
    client.cancel().result(60)
    return bool(sink.results)


def set_on_config(bench: Bench, setter: str, value: Any) -> tuple[int, int, str]:
    env = bench.env()
    getattr(env.get_config(), setter)(value)
    return place(env)


def set_on_checkpoints(bench: Bench, setter: str, value: Any) -> StreamExecutionEnvironment:
    env = bench.env(max_records=1)
    getattr(env.get_checkpoint_config(), setter)(value)
    return env


def stores_manifests(bench: Bench, name: Any) -> bool:
    env, folder = bench.env(), bench.folder()
    if name is not ABSENT:
        env.get_checkpoint_config().set_checkpoint_storage_dir(str(folder / name))
    collect(env.from_collection([1]).map(str))
    return (folder / "one" / "manifests").exists()


case(f"{CONFIG}.set_parallelism.parallelism", lambda b, n: set_on_config(b, "set_parallelism", n), (2, TWO), (3, THREE))
case(
    f"{CONFIG}.set_max_parallelism.max_parallelism",
    lambda b, n: set_on_config(b, "set_max_parallelism", n),
    (128, TWO),
    (7, (2, 7, "nobody")),
)
case(
    f"{CONFIG}.set_global_job_parameters.global_job_parameters_dict",
    lambda b, p: set_on_config(b, "set_global_job_parameters", p),
    ({}, TWO),
    ({"hello": "you"}, (2, 128, "you")),
)
case(
    f"{CHECKPOINTS}.set_checkpoint_interval.checkpoint_interval",
    lambda b, t: keeps_apart(set_on_checkpoints(b, "set_checkpoint_interval", t)),
    (0, False),
    ("100ms", True),
)
case(
    f"{CHECKPOINTS}.set_min_pause_between_checkpoints.min_pause_between_checkpoints",
    lambda b, t: keeps_apart(set_on_checkpoints(b, "set_min_pause_between_checkpoints", t)),
    (0, False),
    ("100ms", True),
)
case(f"{CHECKPOINTS}.set_checkpoint_storage_dir.checkpoint_path", stores_manifests, ("one", True), (ABSENT, False))
case(
    f"{CHECKPOINTS}.set_checkpointing_mode.checkpointing_mode",
    lambda b, mode: delivery_of(set_on_checkpoints(b, "set_checkpointing_mode", mode)),
    (CheckpointingMode.EXACTLY_ONCE, "exactly-once, read_committed"),
    (CheckpointingMode.AT_LEAST_ONCE, "at-least-once, read_uncommitted"),
)
case(
    f"{CHECKPOINTS}.set_externalized_checkpoint_retention.checkpoint_retention",
    lambda b, kept: warned(lambda: set_on_checkpoints(b, "set_externalized_checkpoint_retention", kept)),
    (ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION, False),
    (ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION, True),
)
case(
    f"{CHECKPOINTS}.set_tolerable_checkpoint_failure_number.tolerable_checkpoint_failure_number",
    survives_failures,
    (0, CommitError),
    (1, [1]),
)
case("WatermarkStrategy.with_idleness.idle_timeout", left_out_when_idle, (ABSENT, False), ("1ms", True))
