"""The keys of a `Configuration` that mean something here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flintstream import CollectSink, Configuration, StreamExecutionEnvironment
from flintstream.errors import CommitError, InvalidArgumentError, UnknownUidError
from flintstream.state.local_folder import job_folder
from tests.capabilities.parameters import Bench, case, epochs_of
from tests.capabilities.parameters_configs import fails_once
from tests.capabilities.parameters_env import keeps_apart, order_of_splits, place
from tests.capabilities.support import Lists, collect, run


def key(name: str, program: Any, *expected: tuple[str, Any]) -> None:
    """Put a key into the table: `program(bench, env)` is run with each of its values set."""

    def run(bench: Bench, value: str) -> Any:
        return program(bench, bench.env(max_records=1, settings={name: value}))

    case(f"Configuration[{name!r}]", run, *expected)


def epochs(bench: Bench, env: StreamExecutionEnvironment) -> int:
    return len(epochs_of(env.from_collection(range(6)).map(str)))


def name_of_job(bench: Bench, env: StreamExecutionEnvironment) -> str:
    return epochs_of(env.from_collection([1]).map(str)).manifests[-1].job


def manifests(folder: Path) -> int:
    return len(list((folder / "manifests").iterdir())) if folder.exists() else 0


def retained(bench: Bench, env: StreamExecutionEnvironment) -> int:
    folder = bench.folder()
    collect(env.set_checkpoint_dir(str(folder)).from_collection(range(6)).map(str))
    return manifests(folder)


def stored_in(name: str) -> Any:
    """Return a program that tells whether checkpoints go to a folder that the key names."""

    def run(bench: Bench, value: str) -> bool:
        folder = bench.folder()
        collect(bench.env(settings={name: str(folder / value)}).from_collection([1]).map(str))
        return manifests(folder / "here") > 0

    return run


def spills(bench: Bench, env: StreamExecutionEnvironment) -> bool:
    found: list[bool] = []
    env.add_listener(lambda manifest, *_: found.append(job_folder(manifest.incarnation).exists()))
    collect(env.from_collection([(n, 1) for n in range(20)]).key_by(0).sum(1))
    return any(found)


def shows_progress(bench: Bench, env: StreamExecutionEnvironment) -> bool:
    collect(env.from_collection([1]).map(str))
    return "1 in" in bench.printed()[1]


def place_of(bench: Bench, env: StreamExecutionEnvironment) -> tuple[int, int, str]:
    return place(env)


def without_its_operator(bench: Bench, env: StreamExecutionEnvironment) -> bool:
    """Start a job from a checkpoint with state of an operator that the job has no more."""
    folder = bench.folder()

    def declare(env: StreamExecutionEnvironment, sink: CollectSink) -> None:
        env.from_source(Lists([("a", 1)] * 4)).uid("numbers").key_by(0).sum(1).uid("sums").sink_to(sink).uid("out")

    assert not run(bench.env(max_records=2, checkpoint_dir=folder), CollectSink(), declare, stop_after=1)
    env.set_checkpoint_dir(str(folder))
    return run(env, CollectSink(), lambda env, sink: env.from_source(Lists([1] * 4)).uid("numbers").sink_to(sink))


key("execution.runtime-mode", epochs, ("STREAMING", 6), ("batch", 1), ("FAST", InvalidArgumentError))
key("pipeline.name", name_of_job, ("one", "one"), ("two", "two"))
key("pipeline.max-parallelism", place_of, ("128", (2, 128, "nobody")), ("7", (2, 7, "nobody")))
key("execution.checkpointing.interval", lambda b, env: keeps_apart(env), ("0", False), ("100 ms", True))
key("execution.checkpointing.min-pause", lambda b, env: keeps_apart(env), ("0", False), ("100 ms", True))
key("execution.checkpointing.num-retained", retained, ("1", 1), ("4", 4))
key("state.checkpoints.num-retained", retained, ("1", 1), ("4", 4))
key("execution.checkpointing.tolerable-failed-checkpoints", fails_once, ("0", CommitError), ("1", [1]))
key(
    "flintstream.deterministic-order",
    lambda b, env: order_of_splits(env),
    ("false", [50, 1, 60, 2, 70, 3]),
    ("true", [50, 1, 2, 3, 60, 70]),
)
key("flintstream.state.entries-in-memory", spills, ("1000", False), ("5", True))
key("execution.state-recovery.ignore-unclaimed-state", without_its_operator, ("false", UnknownUidError), ("true", True))
key("flintstream.progress", shows_progress, ("false", False), ("true", True))
case(
    "Configuration['execution.checkpointing.dir']",
    stored_in("execution.checkpointing.dir"),
    ("here", True),
    ("there", False),
)
case("Configuration['state.checkpoints.dir']", stored_in("state.checkpoints.dir"), ("here", True), ("there", False))
case(
    "Configuration['flintstream.epoch.max-records']",
    lambda b, n: epochs(b, b.env(settings={"flintstream.epoch.max-records": n})),
    ("0", 1),
    ("2", 3),
    ("3", 2),
)
case(
    "Configuration['parallelism.default']",
    lambda b, n: place(
        StreamExecutionEnvironment.get_execution_environment(
            Configuration.from_dict({"parallelism.default": n}), runtime="local"
        )
    ),
    ("2", (2, 128, "nobody")),
    ("3", (3, 128, "nobody")),
)
case(
    "Configuration['flintstream.runtime']",
    lambda b, name: b.env(settings={"flintstream.runtime": name}).get_parallelism(),
    ("local", 2),
    ("moon", InvalidArgumentError),
)
