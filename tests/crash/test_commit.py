"""The commit protocol, step by step: a crash at each of them, two drivers, a disk that fails, files that rot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flintstream import FileSink, KeyedProcessFunction, StreamExecutionEnvironment, Types, ValueStateDescriptor
from flintstream.engine import manifest as manifests
from flintstream.engine.coordinator import Coordinator
from flintstream.engine.epoch import EpochContext
from flintstream.engine.loop import EpochLoop
from flintstream.engine.manifest import Manifest
from flintstream.engine.options import JobOptions
from flintstream.engine.task import forget
from flintstream.errors import CommitError, CorruptStateError, FencedError, SinkError
from flintstream.local.run import LocalRunner
from flintstream.planner.plan import Plan
from tests.crash.ports import Crash, Fault, FaultySink, FaultyStorage, local, plan_of, run

EVENTS = 1_200
OPTIONS = JobOptions(max_records=200, retained=2, tolerable_failures=2)
STEPS = [
    "create manifests",
    "create manifests done",
    "stage",
    "commit",
    "commit half",
    "commit done",
    "delete manifests",
]
# Small state travels in the epoch's own file, large state in files of the tasks.
SMALL = [*STEPS, "write epochs", "write epochs done", "delete epochs"]
LARGE = [*STEPS, "write state", "write state done", "delete state"]


class Latest(KeyedProcessFunction):
    """Counts, and remembers something long if the state shall be large."""

    def __init__(self, ballast: int) -> None:
        self._ballast = ballast

    def open(self, runtime_context: Any) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, int]]:
        count = (self._seen.value() or (0,))[0] + 1
        # Another text each time, or it would take no room.
        self._seen.update((count, f"{value}/{count}" * self._ballast))
        yield value % 100, count


def declare(output: Path, fault: Fault, large: bool) -> Plan:
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(2)
    numbers = env.generate(generator=lambda i: i, count=EVENTS, splits=2)
    counts = numbers.key_by(lambda n: n % 100).process(Latest(300 if large else 1)).uid("count")
    for name in ("first", "second"):
        counts.sink_to(FaultySink(FileSink.json(output / name), fault)).uid(name)
    return plan_of(env)


def files(folder: Path, staged: bool = False) -> dict[str, bytes]:
    """Every output file with its bytes; those that readers skip only if asked for."""
    found = {str(p.relative_to(folder)): p for p in sorted(folder.rglob("*")) if p.is_file()}
    return {name: p.read_bytes() for name, p in found.items() if (".flintstream" in name) == staged}


def result(plan: Plan, storage: Any, options: JobOptions = OPTIONS, **named: Any) -> Any:
    return run(plan, storage, options, **named).get_job_execution_result().result(0)


@pytest.fixture(scope="module", params=["small state", "large state"])
def undisturbed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(large, files, steps) of a run without faults."""
    folder, large = tmp_path_factory.mktemp("undisturbed"), request.param == "large state"
    fault = Fault()
    result(declare(folder / "out", fault, large), FaultyStorage(local(folder / "checkpoints"), fault))
    assert set(fault.steps) >= set(LARGE if large else SMALL)
    return large, files(folder / "out"), fault.steps


@pytest.mark.parametrize(
    ("undisturbed", "step"),
    [("small state", step) for step in SMALL] + [("large state", step) for step in LARGE],
    indirect=["undisturbed"],
)
@pytest.mark.parametrize("same_process", [False, True], ids=["new process", "same process"])
def test_a_crash_at_any_step_changes_nothing(undisturbed: Any, tmp_path: Path, step: str, same_process: bool) -> None:
    large, expected, steps = undisturbed
    for nth in sorted({1, steps[step] // 2 + 1, steps[step]}):
        output, checkpoints, fault = tmp_path / f"out{nth}", tmp_path / f"checkpoints{nth}", Fault(step, nth)
        plan = declare(output, fault, large)
        storage = FaultyStorage(local(checkpoints), fault)
        with pytest.raises(Crash):
            result(plan, storage, same_process=same_process)
        fault.cure()
        committed = manifests.newest(storage)
        for name in files(output):
            epoch = int(name.rsplit("-", 2)[1])
            assert committed is not None and epoch <= committed.epoch, f"{name} is visible and was never committed"
        result(plan if same_process else declare(output, Fault(), large), storage)
        assert files(output) == expected
        assert not files(output, staged=True)
        check_no_orphans(checkpoints)


def test_crash_upon_crash_changes_nothing(undisturbed: Any, tmp_path: Path) -> None:
    large, expected, _ = undisturbed
    for step in (LARGE if large else SMALL) * 2:
        fault = Fault(step)
        storage = FaultyStorage(local(tmp_path / "checkpoints"), fault)
        try:
            result(declare(tmp_path / "out", fault, large), storage)
        except Crash:
            continue
    result(declare(tmp_path / "out", Fault(), large), local(tmp_path / "checkpoints"))
    assert files(tmp_path / "out") == expected
    check_no_orphans(tmp_path / "checkpoints")


def check_no_orphans(checkpoints: Path) -> None:
    """Nothing is left but retained manifests and what they name, and the mark of a job that has ended."""
    retained = [Manifest.from_bytes(p.read_bytes(), p.name) for p in sorted((checkpoints / "manifests").glob("*.json"))]
    assert len(retained) == OPTIONS.retained
    named = {name for manifest in retained for name in manifest.files()}
    found = {str(p.relative_to(checkpoints)) for p in checkpoints.rglob("*") if p.is_file()}
    assert {name for name in found if not name.startswith("manifests/")} == {
        *named,
        f"settled/{retained[-1].epoch:012d}",
    }


class Driver:
    """One driver of several on the same checkpoint directory, moved step by step."""

    def __init__(self, plan: Plan, storage: Any, options: JobOptions = OPTIONS) -> None:
        self.coordinator = Coordinator(plan, storage, options.retained)
        self.runner = LocalRunner(plan, storage)
        self.loop = EpochLoop(self.coordinator, options, self.run, None)
        self.paused: EpochContext | None = None
        self.coordinator.recover()

    def run(self, context: EpochContext) -> Any:
        self.paused = context
        return self.runner.run_epoch(context)

    def step(self) -> None:
        assert self.loop._step()


@pytest.mark.parametrize("behind", [1, 5])
def test_the_second_driver_is_fenced_and_touches_no_sink(undisturbed: Any, tmp_path: Path, behind: int) -> None:
    """However far behind it is: the manifest it lost against may have been deleted since then."""
    large, expected, _ = undisturbed
    storage, output, fault = local(tmp_path / "checkpoints"), tmp_path / "out", Fault()
    one = Driver(declare(output, Fault(), large), storage)
    one.step()
    other = Driver(declare(output, fault, large), storage)
    # It has run its tasks, and is about to commit when the first one overtakes it.
    run_epoch = other.loop._run

    def overtaken(context: EpochContext) -> Any:
        reports = run_epoch(context)
        forget(other.coordinator.incarnation)
        for _ in range(behind):
            one.step()
        return reports

    other.loop.use(overtaken)
    commits = fault.steps.get("commit", 0)
    with pytest.raises(FencedError, match="another driver has committed epoch 2"):
        other.step()
    assert fault.steps.get("commit", 0) == commits
    assert [p.stem for p in sorted((tmp_path / "checkpoints/manifests").iterdir())][-1] == f"{behind + 1:012d}"
    forget(one.coordinator.incarnation)
    result(declare(output, Fault(), large), storage)
    assert files(output) == expected


def test_a_driver_left_behind_is_fenced_even_if_its_state_files_are_gone(undisturbed: Any, tmp_path: Path) -> None:
    large, _, _ = undisturbed
    storage, output = local(tmp_path / "checkpoints"), tmp_path / "out"
    one = Driver(declare(output, Fault(), large), storage)
    one.step()
    other = Driver(declare(output, Fault(), large), storage)
    for _ in range(4):
        one.step()
    forget(one.coordinator.incarnation)
    with pytest.raises(FencedError):
        other.step()


def test_a_manifest_that_cannot_be_written_once_is_tried_again(undisturbed: Any, tmp_path: Path) -> None:
    large, expected, _ = undisturbed
    for step in ("create manifests", "create manifests done", "write epochs", "write state"):
        fault = Fault(step, nth=2, times=2, error=lambda: OSError(28, "No space left on device"))
        output = tmp_path / step
        result(declare(output, Fault(), large), FaultyStorage(local(tmp_path / f"{step} checkpoints"), fault))
        assert files(output) == expected


def test_failing_again_and_again_ends_the_job_with_the_reason(undisturbed: Any, tmp_path: Path) -> None:
    large, expected, _ = undisturbed
    storage = local(tmp_path / "checkpoints")
    step = "write state" if large else "create manifests"
    fault = Fault(step, nth=3, times=OPTIONS.tolerable_failures + 1, error=lambda: OSError(28, "No space left"))
    with pytest.raises(CommitError, match="No space left") as caught:
        result(declare(tmp_path / "out", Fault(), large), FaultyStorage(storage, fault))
    assert "nothing is lost" in str(caught.value)
    result(declare(tmp_path / "out", Fault(), large), storage)
    assert files(tmp_path / "out") == expected


@pytest.mark.parametrize(("tolerable", "ends_well"), [(0, False), (5, False), (6, True)])
def test_the_number_of_tolerable_failures_is_what_was_set(tmp_path: Path, tolerable: int, ends_well: bool) -> None:
    fault = Fault("create manifests", nth=2, times=6, error=lambda: OSError("the disk is gone"))
    storage = FaultyStorage(local(tmp_path / "checkpoints"), fault)
    plan, options = declare(tmp_path / "out", Fault(), large=False), replace(OPTIONS, tolerable_failures=tolerable)
    if ends_well:
        result(plan, storage, options)
    else:
        with pytest.raises(CommitError, match="the disk is gone"):
            result(plan, storage, options)
    assert fault.steps["create manifests"] == (12 if ends_well else 2 + tolerable)


def test_garbage_that_cannot_be_deleted_stops_nothing(undisturbed: Any, tmp_path: Path) -> None:
    large, expected, _ = undisturbed
    fault = Fault("delete epochs", times=1_000, error=lambda: PermissionError("not yours"))
    result(declare(tmp_path / "out", Fault(), large), FaultyStorage(local(tmp_path / "checkpoints"), fault))
    assert files(tmp_path / "out") == expected


def test_a_sink_that_fails_to_publish_ends_the_job_and_is_finished_by_the_next(
    undisturbed: Any, tmp_path: Path
) -> None:
    large, expected, _ = undisturbed
    fault = Fault("commit half", nth=3, error=lambda: ConnectionError("the other side hung up"))
    storage = local(tmp_path / "checkpoints")
    with pytest.raises(SinkError, match=r"sink 'first'.*epoch 2.*the other side hung up"):
        result(declare(tmp_path / "out", fault, large), storage)
    result(declare(tmp_path / "out", Fault(), large), storage)
    assert files(tmp_path / "out") == expected


def interrupted(tmp_path: Path, large: bool) -> tuple[Manifest, Path]:
    """Run some epochs and crash; return the newest manifest and the checkpoint directory."""
    fault, checkpoints = Fault("create manifests", nth=4), tmp_path / "checkpoints"
    with pytest.raises(Crash):
        result(declare(tmp_path / "out", fault, large), FaultyStorage(local(checkpoints), fault))
    path = sorted((checkpoints / "manifests").glob("*.json"))[-1]
    return Manifest.from_bytes(path.read_bytes(), path.name), checkpoints


def state_paths(manifest: Manifest) -> list[str]:
    return sorted({file.path for handle in manifest.state.values() for file in handle.files})


@pytest.mark.parametrize("large", [False, True], ids=["small state", "large state"])
@pytest.mark.parametrize("damage", ["flipped", "cut short", "deleted"])
def test_damaged_state_is_refused_by_the_name_of_its_file(tmp_path: Path, large: bool, damage: str) -> None:
    manifest, checkpoints = interrupted(tmp_path, large)
    for name in state_paths(manifest):
        path = checkpoints / name
        before = path.read_bytes()
        if damage == "flipped":
            path.write_bytes(bytes([*before[:-9], before[-9] ^ 1, *before[-8:]]))
        elif damage == "cut short":
            path.write_bytes(before[:-1])
        else:
            path.unlink()
        visible = files(tmp_path / "out")
        with pytest.raises(CorruptStateError) as caught:
            result(declare(tmp_path / "out", Fault(), large), local(checkpoints))
        assert name in str(caught.value)
        assert files(tmp_path / "out") == visible
        path.write_bytes(before)
    result(declare(tmp_path / "out", Fault(), large), local(checkpoints))


def test_a_flipped_byte_anywhere_in_a_manifest_is_found(tmp_path: Path) -> None:
    manifest, _ = interrupted(tmp_path, large=False)
    data = manifest.to_bytes()
    for at in range(0, len(data), 3):
        with pytest.raises(CorruptStateError, match="the newest one"):
            Manifest.from_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], "the newest one")


def test_a_damaged_manifest_is_refused_by_its_name(tmp_path: Path) -> None:
    manifest, checkpoints = interrupted(tmp_path, large=False)
    name = f"manifests/{manifest.epoch:012d}.json"
    text = (checkpoints / name).read_text()
    (checkpoints / name).write_text(text.replace('"epoch":3', '"epoch":4'))
    with pytest.raises(CorruptStateError, match=name):
        result(declare(tmp_path / "out", Fault(), large=False), local(checkpoints))


def test_damaged_output_that_waits_for_its_sink_is_refused(tmp_path: Path) -> None:
    """A sink may hand its output to the driver as bytes, which wait in the epoch's file."""
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    env.generate(generator=lambda i: i, count=EVENTS, splits=1).print()
    plan, fault = plan_of(env), Fault("create manifests done", nth=2)
    with pytest.raises(Crash):
        result(plan, FaultyStorage(local(tmp_path), fault))
    newest = manifests.newest(local(tmp_path))
    assert newest is not None
    ((part,),) = newest.committables.values()
    path, at = tmp_path / part["path"], part["offset"] + part["length"] // 2
    data = path.read_bytes()
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(CorruptStateError, match=part["path"]):
        result(plan, local(tmp_path))
