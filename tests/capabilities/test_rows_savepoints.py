"""Rows 79 to 84, 87 and 89: savepoints, on both runtimes."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintstream import (
    CollectSink,
    JobStatus,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    evolves,
    savepoints,
)
from flintstream.errors import IncompatibleStateError
from tests.capabilities.support import Lists
from tests.savepoints.support import held_at

NewEnv = Callable[..., StreamExecutionEnvironment]
NUMBERS = list(range(1, 61))


@dataclasses.dataclass
class Seen:
    """What the first version keeps."""

    total: int
    often: int


class Totals(KeyedProcessFunction):
    """Adds up numbers by what is left of them when they are divided by 4; `bug` is added to each."""

    def __init__(self, bug: int = 0) -> None:
        self._bug = bug

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        seen = self.seen.value() or Seen(0, 0)
        seen = Seen(seen.total + value + self._bug, seen.often + 1)
        self.seen.update(seen)
        yield value % 4, seen.total, seen.often


def declare(env: StreamExecutionEnvironment, sink: CollectSink, function: Any = None) -> None:
    keyed = env.from_source(Lists(NUMBERS)).uid("numbers").key_by(lambda n: n % 4)
    keyed.process(function or Totals()).uid("totals").sink_to(sink)


def stopped_at(
    env: StreamExecutionEnvironment, position: int, directory: Path, sink: CollectSink, function: Any = None
) -> str:
    declare(env, sink, function)
    with held_at(env, "numbers", position) as (client, gate):
        stopped = client.stop_with_savepoint(False, str(directory))
        gate.go_on()
        return stopped.result(100)


def expected() -> list[Any]:
    sums: dict[int, list[int]] = {}
    rows: list[Any] = []
    for number in NUMBERS:
        total = sums.setdefault(number % 4, [0, 0])
        total[0] += number
        total[1] += 1
        rows.append((number % 4, *total))
    return sorted(rows)


@pytest.mark.row(79)
def test_a_savepoint_returns_a_path_and_the_job_keeps_running(new_env: NewEnv, tmp_path: Path):
    sink = CollectSink()
    env = new_env(max_records=10, checkpoint_dir=tmp_path / "checkpoints")
    declare(env, sink)
    with held_at(env, "numbers", 20) as (client, gate):
        taken = client.trigger_savepoint(str(tmp_path / "savepoints"))
        gate.go_on()
        path = taken.result(100)
        assert savepoints.check(path).sources[0].positions == {0: 20}
    client.get_job_execution_result().result(100)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert sorted(sink.results) == expected()


@pytest.mark.row(79)
def test_a_savepoint_by_another_process(new_env: NewEnv, tmp_path: Path):
    """As the command line asks for it: by a file in the checkpoint directory."""
    env = new_env(checkpoint_dir=tmp_path / "checkpoints", settings={"execution.checkpointing.interval": "50ms"})
    stream = env.generate(generator=lambda i: i, rate=100, splits=1).uid("numbers")
    stream.key_by(lambda n: n % 4).process(Totals()).uid("totals").sink_to(CollectSink())
    client = env.execute_async("job")
    path = savepoints.trigger(tmp_path / "checkpoints", tmp_path / "savepoints", timeout=100)
    assert client.get_job_status().result() is JobStatus.RUNNING
    assert savepoints.check(path).kind == "savepoint"
    path = savepoints.stop(tmp_path / "checkpoints", tmp_path / "savepoints", timeout=100)
    client.get_job_execution_result().result(100)
    assert savepoints.show(path).kind == "stop"


@pytest.mark.row(80)
@pytest.mark.row(87)
def test_any_savepoint_of_the_history(new_env: NewEnv, tmp_path: Path):
    """Two savepoints of one run; from the first the state is that of its moment."""
    sink, again = CollectSink(), CollectSink()
    first = stopped_at(new_env(max_records=10), 20, tmp_path, sink)
    second = stopped_at(new_env(max_records=10).start_from_savepoint(first), 40, tmp_path, CollectSink())
    env = new_env(parallelism=2).start_from_savepoint(first)
    declare(env, again)
    env.execute("job")
    assert sorted([*sink.results, *again.results]) == expected()
    listed = savepoints.history(tmp_path)
    assert [(each.path, each.parent) for each in listed] == [(first, None), (second, listed[0].id)]
    assert all(each.bytes and each.version and each.created for each in listed)
    savepoints.dispose(second)
    assert [each.path for each in savepoints.history(tmp_path)] == [first]


class OnlyOften(Totals):
    """The next version, with the bug fixed."""


@pytest.mark.row(81)
def test_new_code_goes_on_with_the_counts(new_env: NewEnv, tmp_path: Path):
    """Version 0 adds one too many, and has an operator that version 0.1 has not; 0.1 has another one."""
    env = new_env(max_records=10)
    keyed = env.from_source(Lists(NUMBERS)).uid("numbers").key_by(lambda n: n % 4)
    keyed.process(Totals(1)).uid("totals").sink_to(CollectSink())
    keyed.process(Totals()).uid("to be removed").sink_to(CollectSink())
    with held_at(env, "numbers", 20) as (client, gate):
        stopped = client.stop_with_savepoint(False, str(tmp_path))
        gate.go_on()
        path = stopped.result(100)
    sink, added = CollectSink(), CollectSink()
    env = new_env().start_from_savepoint(path, allow_non_restored_state=True)
    keyed = env.from_source(Lists(NUMBERS)).uid("numbers").key_by(lambda n: n % 4)
    keyed.process(OnlyOften()).uid("totals").sink_to(sink)
    keyed.process(Totals()).uid("added").sink_to(added)
    env.execute("job")
    assert max(row for row in sink.results if row[0] == 0) == (0, sum(n for n in NUMBERS if n % 4 == 0) + 5, 15)
    assert max(row for row in added.results if row[0] == 0) == (0, sum(n for n in NUMBERS[20:] if n % 4 == 0), 10)


def version(number: int) -> Any:
    """Return a function that keeps a class of its own, as a script has it."""
    if number == 1:

        @dataclasses.dataclass
        class Kept:
            total: int
            often: int

    elif number == 2:

        @evolves(renamed={"total": "amount"})
        @dataclasses.dataclass
        class Kept:
            amount: float
            label: str = "new"

    else:

        @dataclasses.dataclass
        class Kept:
            total: str
            often: int

    class Keeps(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.kept = runtime_context.get_state(ValueStateDescriptor("kept"))

        def process_element(self, value: Any, ctx: Any) -> Any:
            found = self.kept.value()
            if found is not None:
                yield dataclasses.astuple(found)
            else:
                self.kept.update(Kept(value, 1) if number == 1 else Kept(value))

    return Keeps()


@pytest.mark.row(82)
def test_the_type_of_state_evolves(new_env: NewEnv, tmp_path: Path):
    path = stopped_at(new_env(max_records=10), 20, tmp_path, CollectSink(), version(1))
    sink = CollectSink()
    env = new_env().start_from_savepoint(path)
    declare(env, sink, version(2))
    env.execute("job")
    assert sorted(set(sink.results)) == [(1.0, "new"), (2.0, "new"), (3.0, "new"), (4.0, "new")]
    env = new_env().start_from_savepoint(path)
    declare(env, CollectSink(), version(3))
    with pytest.raises(IncompatibleStateError, match="'total'"):
        env.execute("job")


@pytest.mark.row(84)
def test_another_place(new_env: NewEnv, tmp_path: Path):
    sink = CollectSink()
    first = stopped_at(new_env(max_records=10, checkpoint_dir=tmp_path / "one"), 20, tmp_path / "savepoints", sink)
    shutil.copytree(first, tmp_path / "another cluster" / "renamed")
    shutil.rmtree(tmp_path / "savepoints")
    shutil.rmtree(tmp_path / "one")
    env = new_env(checkpoint_dir=tmp_path / "two").start_from_savepoint(str(tmp_path / "another cluster" / "renamed"))
    declare(env, sink)
    env.execute("job")
    assert sorted(sink.results) == expected()


@pytest.mark.row(89)
def test_rescaled(new_env: NewEnv, tmp_path: Path):
    sink = CollectSink()
    first = stopped_at(new_env(2, max_records=10), 20, tmp_path, sink)
    second = stopped_at(new_env(4, max_records=10).start_from_savepoint(first), 40, tmp_path, sink)
    env = new_env(1).start_from_savepoint(second)
    declare(env, sink)
    env.execute("job")
    assert sorted(sink.results) == expected()
    tasks = [savepoints.show(path).operator("totals") for path in (first, second)]
    assert [each.parallelism for each in tasks if each is not None] == [2, 4]
