"""Parameters of environments."""

from __future__ import annotations

import itertools
import os
from typing import Any

from flintstream import (
    CheckpointingMode,
    CollectSink,
    Configuration,
    MapFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    Types,
    bounded,
    count,
    sequence,
    tumbling,
    uniform,
)
from flintstream.errors import (
    EnvironmentSetupError,
    InvalidArgumentError,
    TypeMismatchError,
)
from tests.capabilities.parameters import ABSENT, REFUSALS, Bench, case, epochs_of
from tests.capabilities.support import Epochs, Lists, collect

TWO, THREE = (2, 128, "nobody"), (3, 128, "nobody")
ENV = "StreamExecutionEnvironment"


class Place(MapFunction):
    """Turns a record into what its function knows of its surroundings."""

    def open(self, runtime_context: Any) -> None:
        self._tasks = runtime_context.get_number_of_parallel_subtasks()
        self._groups = runtime_context.get_max_number_of_parallel_subtasks()
        self._hello = runtime_context.get_job_parameter("hello", "nobody")

    def map(self, value: Any) -> Any:
        return self._tasks, self._groups, self._hello


def place(env: StreamExecutionEnvironment) -> tuple[int, int, str]:
    """Return parallelism, key groups and a job parameter, as a function sees them."""
    return collect(env.from_collection([1]).rebalance().map(Place()))[0]


def local(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(configuration, runtime="local")


def configured(bench: Bench, settings: dict[str, str]) -> tuple[int, int, str]:
    return place(local(Configuration.from_dict(settings)))


def reconfigured(bench: Bench, settings: dict[str, str]) -> tuple[int, int, str]:
    env = bench.env()
    env.configure(Configuration.from_dict(settings))
    return place(env)


def with_session(bench: Bench, session: Any) -> list[int]:
    chosen = bench.env()._settings.session if session == "running" else session
    env = StreamExecutionEnvironment.get_execution_environment(spark=chosen).set_parallelism(2)
    return collect(env.from_collection([1]).map(lambda n: n + 1))


def is_here(bench: Bench, runtime: str) -> bool:
    """Return whether a function runs in this very process."""
    session = bench.env()._settings.session if runtime == "spark" else None
    env = StreamExecutionEnvironment.get_execution_environment(runtime=runtime, spark=session)
    return collect(env.from_collection([1]).map(lambda _: os.getpid())) == [os.getpid()]


def epochs_in(bench: Bench, mode: RuntimeExecutionMode) -> int:
    env = bench.env(max_records=2).set_runtime_mode(mode)
    return len(epochs_of(env.from_collection(range(6)).map(str)))


def keeps_apart(env: StreamExecutionEnvironment) -> bool:
    """Return whether 100 ms or more lie between the starts of any two of ten epochs."""
    nows = [manifest.now for manifest in epochs_of(env.from_collection(range(10)).map(str)).manifests]
    return min(later - earlier for earlier, later in itertools.pairwise(nows)) >= 99


def epochs_of_two_runs(bench: Bench, path: Any) -> list[int]:
    """Return how many epochs each of two runs has; one that finds a finished job's checkpoint has nothing to do."""
    folder, counts = bench.folder(), []
    for _ in range(2):
        env = bench.env()
        if path is not ABSENT:
            env.set_checkpoint_dir(str(folder / path))
        counts.append(len(epochs_of(env.from_collection([1, 2]).map(str))))
    return counts


def order_of_splits(env: StreamExecutionEnvironment) -> list[int]:
    """Return the order in which two splits are read, one of which is far ahead in event time."""
    stream = env.from_source(Lists(stamped(50, 60, 70), stamped(1, 2, 3)), watermark=bounded(0, on="ts"))
    return collect(stream.rebalance().map(lambda r: r["ts"]).set_parallelism(1))


def windows(stream: Any) -> list[tuple[int, int]]:
    return [(row.window_start, row.n) for row in collect(stream.key_by("id").window(tumbling("10ms")).agg(n=count()))]


def stamped(*stamps: int) -> list[dict[str, Any]]:
    return [{"id": "a", "ts": ts} for ts in stamps]


def generated(bench: Bench, **arguments: Any) -> list[Any]:
    arguments = {"fields": {"n": sequence()}, "count": 3, "splits": 1, **arguments}
    if arguments.get("generator") is not None:
        arguments.pop("fields")
    return [row if isinstance(row, int) else row.n for row in collect(bench.env().generate(**arguments))]


def takes_several_epochs(bench: Bench, rate: float | None) -> bool:
    env = bench.env()
    return len(epochs_of(env.generate(generator=lambda i: i, count=10, rate=rate, splits=1).map(str))) > 1


def name_of_job(bench: Bench, execute: str, name: str) -> str:
    env, epochs = bench.env(), Epochs()
    env.add_listener(epochs)
    env.from_collection([1]).sink_to(CollectSink())
    client = getattr(env, execute)(name)
    if execute == "execute_async":
        client.get_job_execution_result().result()
    return epochs.manifests[-1].job


def heard(bench: Bench, listener: type[list[int]] | None) -> list[int]:
    env, epochs = bench.env(max_records=1), []
    if listener is not None:
        env.add_listener(lambda manifest, *_: epochs.append(manifest.epoch))
    collect(env.from_collection([1, 2]).map(str))
    return epochs


def progress(bench: Bench, show: bool) -> bool:
    collect(bench.env().show_progress(show).from_collection([1]).map(str))
    return "1 in" in bench.printed()[1]


def with_jars(bench: Bench, jars: Any) -> list[int]:
    env = bench.env()
    if jars is not ABSENT:
        env.add_jars(*jars)
    return collect(env.from_collection([1]).map(lambda n: n))


def name_of_plan(bench: Bench, name: str | None) -> str:
    env = bench.env()
    env.from_collection([1]).print()
    return env.compile(name).name


case(
    f"{ENV}.get_execution_environment.configuration",
    configured,
    ({"parallelism.default": "2"}, TWO),
    ({"parallelism.default": "3"}, THREE),
)
case(
    f"{ENV}.get_execution_environment.spark",
    with_session,
    ("running", [2]),
    ("no session", EnvironmentSetupError),
    on_spark=True,
)
case(
    f"{ENV}.get_execution_environment.runtime",
    is_here,
    ("local", True),
    ("spark", False),
    ("moon", InvalidArgumentError),
    on_spark=True,
)
case(f"{ENV}.configure.configuration", reconfigured, ({}, TWO), ({"parallelism.default": "3"}, THREE))
case(f"{ENV}.set_parallelism.parallelism", lambda b, n: place(b.env().set_parallelism(n)), (2, TWO), (3, THREE))
case(
    f"{ENV}.set_max_parallelism.max_parallelism",
    lambda b, n: place(b.env().set_max_parallelism(n)),
    (128, TWO),
    (7, (2, 7, "nobody")),
)
case(
    f"{ENV}.set_runtime_mode.execution_mode",
    epochs_in,
    (RuntimeExecutionMode.STREAMING, 3),
    (RuntimeExecutionMode.BATCH, 1),
    (RuntimeExecutionMode.AUTOMATIC, 1),
)
case(
    f"{ENV}.enable_checkpointing.interval",
    lambda b, t: keeps_apart(b.env(max_records=1).enable_checkpointing(t)),
    (0, False),
    ("100ms", True),
)
case(
    f"{ENV}.enable_checkpointing.mode",
    lambda b, mode: str(b.env().enable_checkpointing(0, mode).get_checkpointing_mode()),
    (CheckpointingMode.EXACTLY_ONCE, "CheckpointingMode.EXACTLY_ONCE"),
    (CheckpointingMode.AT_LEAST_ONCE, "CheckpointingMode.AT_LEAST_ONCE"),
)
case(f"{ENV}.set_checkpoint_dir.path", epochs_of_two_runs, (ABSENT, [1, 1]), ("here", [1, 0]))
case(
    f"{ENV}.deterministic_order.enabled",
    lambda b, enabled: order_of_splits(b.env(max_records=2).deterministic_order(enabled)),
    (False, [50, 1, 2, 60, 3, 70]),
    (True, [50, 1, 2, 3, 60, 70]),
)
case(
    f"{ENV}.from_collection.collection", lambda b, c: collect(b.env().from_collection(c)), ([1], [1]), ((2, 3), [2, 3])
)
case(
    f"{ENV}.from_collection.type_info",
    lambda b, t: collect(b.env().from_collection([1], t)),
    (None, [1]),
    (Types.DOUBLE(), [1.0]),
    (Types.STRING(), TypeMismatchError),
)
case(f"{ENV}.from_source.source", lambda b, s: collect(b.env().from_source(s)), (Lists([1]), [1]), (Lists([2]), [2]))
case(
    f"{ENV}.from_source.watermark_strategy",
    lambda b, s: windows(b.env().from_source(Lists(stamped(5, 15, 1)), s)),
    (bounded(0, on="ts"), [(0, 1), (10, 1)]),
    (bounded("1s", on="ts"), [(0, 2), (10, 1)]),
)
case(
    f"{ENV}.from_source.source_name",
    lambda b, name: b.env().from_source(Lists([1]), source_name=name).get_name(),
    ("one", "one"),
    ("", "Lists"),
)
case(
    f"{ENV}.from_source.type_info",
    lambda b, t: collect(b.env().from_source(Lists([1]), type_info=t)),
    (None, [1]),
    (Types.DOUBLE(), [1.0]),
)
case(
    f"{ENV}.from_source.watermark",
    lambda b, s: windows(b.env().from_source(Lists(stamped(5, 15, 1)), watermark=s)),
    (bounded(0, on="ts"), [(0, 1), (10, 1)]),
    (bounded("1s", on="ts"), [(0, 2), (10, 1)]),
)
case(
    f"{ENV}.generate.fields",
    lambda b, f: generated(b, fields={"n": f}),
    (sequence(), [0, 1, 2]),
    (sequence(5), [5, 6, 7]),
)
case(
    f"{ENV}.generate.generator",
    lambda b, g: generated(b, generator=g),
    (lambda i: i * i, [0, 1, 4]),
    (lambda i: -i, [0, -1, -2]),
)
case(f"{ENV}.generate.count", lambda b, n: generated(b, count=n), (1, [0]), (3, [0, 1, 2]))
case(f"{ENV}.generate.rate", takes_several_epochs, (None, False), (40.0, True))
case(
    f"{ENV}.generate.seed",
    lambda b, seed: generated(b, fields={"n": uniform()}, seed=seed) == generated(b, fields={"n": uniform()}, seed=1),
    (1, True),
    (2, False),
)
case(
    f"{ENV}.generate.splits",
    lambda b, n: len(
        epochs_of(b.env().generate(generator=lambda i: i, count=9, splits=n).map(str))
        .manifests[-1]
        .positions["data-generator-1"]
    ),
    (1, 1),
    (3, 3),
)
case(
    f"{ENV}.generate.watermark",
    lambda b, s: windows(b.env().generate(generator=lambda i: stamped(5, 15, 1)[i], count=3, splits=1, watermark=s)),
    (bounded(0, on="ts"), [(0, 1), (10, 1)]),
    (bounded("1s", on="ts"), [(0, 2), (10, 1)]),
)
case("Program.compile.job_name", name_of_plan, ("one", "one"), (None, "Flintstream Job"))
case(
    "Program.execute.job_name",
    lambda b, name: name_of_job(b, "execute", name),
    ("one", "one"),
    (None, "Flintstream Job"),
)
case(
    "Program.execute_async.job_name",
    lambda b, name: name_of_job(b, "execute_async", name),
    ("one", "one"),
    (None, "Flintstream Job"),
)
case("Program.add_listener.listener", heard, (None, []), (list, [1, 2]))
case(f"{ENV}.show_progress.show", progress, (True, True), (False, False))
case(f"{ENV}.add_jars.jars_path", with_jars, (ABSENT, [1]), (("a.jar",), InvalidArgumentError), on_spark=True)
REFUSALS.update(
    {
        f"{ENV}.add_source": lambda b: b.env().add_source(None),
        f"{ENV}.create_input": lambda b: b.env().create_input(None),
        f"{ENV}.add_python_file": lambda b: b.env().add_python_file("x.py"),
        f"{ENV}.add_python_archive": lambda b: b.env().add_python_archive("x.zip"),
        f"{ENV}.set_python_requirements": lambda b: b.env().set_python_requirements("requirements.txt"),
        f"{ENV}.set_python_executable": lambda b: b.env().set_python_executable("python"),
        f"{ENV}.register_cached_file": lambda b: b.env().register_cached_file("x", "x"),
    }
)
