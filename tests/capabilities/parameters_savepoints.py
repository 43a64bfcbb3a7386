"""Parameters of savepoints: a job is run to its end, and others begin with the savepoint of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flintstream import CollectSink, KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor, savepoints
from flintstream.errors import IncompatibleStateError, InvalidArgumentError, SavepointError, UnknownUidError
from tests.capabilities.parameters import ABSENT, Bench, case, named
from tests.capabilities.support import Lists

ENV = "StreamExecutionEnvironment"
START = f"{ENV}.start_from_savepoint"
RAN: list[str] = []


class Sum(KeyedProcessFunction):
    """Adds up numbers, of one key."""

    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.sum.update((self.sum.value() or 0) + value)
        yield self.sum.value()


class Odd:
    """A number that is made by calling a function when it is read."""

    def __reduce__(self) -> Any:
        return made, (30,)


def made(number: int) -> int:
    RAN.append("made")
    return number


class Keeps(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.kept = runtime_context.get_state(ValueStateDescriptor("sum"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.kept.update(Odd())
        yield value


def numbers(env: StreamExecutionEnvironment, function: Any, uid: str, *values: int) -> list[Any]:
    sink = CollectSink()
    source = env.from_source(Lists(list(values))).uid("numbers")
    source.key_by(lambda n: 0).process(function).uid(uid).sink_to(sink)
    env.execute("job")
    return sink.results


def savepoint(bench: Bench, function: Any = None) -> str:
    """Return a savepoint of a job that has added up 1 and 2."""
    folder = bench.folder()
    numbers(bench.env(checkpoint_dir=folder), function or Sum(), "sum", 1, 2)
    return savepoints.take(folder, bench.folder())


def started(bench: Bench, uid: str = "sum", path: str | None = None, **arguments: Any) -> list[Any]:
    env = bench.env().start_from_savepoint(path or savepoint(bench), **arguments)
    return numbers(env, Sum(), uid, 1, 2, 10)


def from_path(bench: Bench, value: Any) -> list[Any]:
    of_3, of_50 = savepoint(bench), bench.folder()
    numbers(bench.env(checkpoint_dir=of_50), Sum(), "sum", 50)
    return started(bench, path={"of 3": of_3, "of 50": str(of_50), "nowhere": str(bench.folder())}.get(value, value))


case(
    f"{START}.path",
    from_path,
    ("of 3", [13]),
    ("of 50", [52, 62]),
    ("nowhere", SavepointError),
    (5, InvalidArgumentError),
)
case(
    f"{START}.allow_non_restored_state",
    lambda bench, value: started(bench, "another", **named("allow_non_restored_state", value)),
    (ABSENT, UnknownUidError),
    (False, UnknownUidError),
    (True, [10]),
)
case(
    f"{START}.rename",
    lambda bench, value: started(bench, "another", **named("rename", value)),
    (ABSENT, UnknownUidError),
    ({"sum": "another"}, [13]),
    ({"sum": ["another"]}, [13]),
    ({"nobody": "another"}, UnknownUidError),
    ({"sum": ""}, InvalidArgumentError),
)
case(
    f"{START}.trust",
    lambda bench, value: started(bench, path=savepoint(bench, Keeps()), **named("trust", value)),
    (ABSENT, IncompatibleStateError),
    (False, IncompatibleStateError),
    (True, [40]),
)


def asked(env: StreamExecutionEnvironment) -> str:
    """Take a savepoint without naming a directory; return the name of the one it went to."""
    env.generate(generator=lambda i: i, rate=100, splits=1).key_by(lambda n: 0).process(Sum()).sink_to(CollectSink())
    client = env.execute_async("job")
    try:
        return Path(client.trigger_savepoint().result(60)).parent.name
    finally:
        client.cancel().result(60)


def default_directory(bench: Bench, value: Any) -> str:
    env = bench.env()
    return asked(env if value is ABSENT else env.set_default_savepoint_directory(value and f"{bench.folder()}/{value}"))


case(
    f"{ENV}.set_default_savepoint_directory.directory",
    default_directory,
    ("here", "here"),
    ("there", "there"),
    (ABSENT, InvalidArgumentError),
    (None, InvalidArgumentError),
)
for name in ("execution.checkpointing.savepoint-dir", "state.savepoints.dir"):
    case(
        f"Configuration[{name!r}]",
        lambda bench, value, name=name: asked(bench.env(settings={name: f"{bench.folder()}/{value}"})),
        ("here", "here"),
        ("there", "there"),
    )


def configured(bench: Bench, settings: dict[str, str]) -> list[Any]:
    return numbers(bench.env(settings=settings), Sum(), "sum", 1, 2, 10)


case(
    "Configuration['execution.state-recovery.path']",
    lambda bench, value: configured(bench, {"execution.state-recovery.path": savepoint(bench)} if value else {}),
    (True, [13]),
    (False, [1, 3, 13]),
)
case(
    "Configuration['execution.state-recovery.claim-mode']",
    lambda bench, value: configured(bench, {"execution.state-recovery.claim-mode": value}),
    ("NO_CLAIM", [1, 3, 13]),
    ("CLAIM", InvalidArgumentError),
    ("LEGACY", InvalidArgumentError),
)
case(
    "Configuration['flintstream.state-recovery.trust']",
    lambda bench, value: configured(
        bench,
        {
            "execution.state-recovery.path": savepoint(bench, Keeps()),
            "flintstream.state-recovery.trust": value,
        },
    ),
    ("true", [40]),
    ("false", IncompatibleStateError),
)
