"""The whole fault matrix in this process, one case for each cell, chosen by a seed; and all faults upon each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintstream.state.storage_remote import storage_at
from tests.faults.lives import InProcess
from tests.faults.matrix import Case, Cell, cells, crowded, judge, points_of, run_case, sample, undisturbed
from tests.faults.points import CRASHES, PHASES, Fault
from tests.faults.programs import PROGRAMS
from tests.faults.reader import Reader

SEED = 5


def suffer(case: Case, folder: Path) -> None:
    """Run a case under the eyes of a reader, and judge it."""
    reader = Reader(folder, undisturbed(case.program, case.large, case.deterministic))
    points_of(case, folder).here().watchers.append(reader.look)
    points = run_case(InProcess(), case, folder)
    for hit in points.hits():
        print(f"{case.program}: {hit}")
    judge(case, folder)
    reader.assert_content()


@pytest.mark.row(71, 73)
@pytest.mark.parametrize("cell", cells(), ids=str)
def test_a_crash_anywhere_changes_nothing(cell: Cell, tmp_path: Path) -> None:
    suffer(sample(cell, SEED), tmp_path)


@pytest.mark.row(71, 73)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("seed", [1, 2])
def test_crashes_in_all_phases_of_one_run_change_nothing(program: str, seed: int, tmp_path: Path) -> None:
    suffer(crowded(program, CRASHES, seed), tmp_path)


@pytest.mark.parametrize("program", PROGRAMS)
def test_crashes_change_nothing_where_checkpoints_are_in_an_object_store(program: str, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    case, store = crowded(program, CRASHES, 3), storage_at(f"memory://faults/{tmp_path.name}")
    run_case(InProcess(), case, tmp_path, storage=store)
    judge(case, tmp_path, tidy=False)
    assert not (tmp_path / "checkpoints").exists() and store.list("manifests")


def test_a_program_without_state_writes_none() -> None:
    for large in (False, True):
        census = undisturbed("stateless", large, True).census
        assert not [step for step in census if step in PHASES["state write"] or step.startswith("write state")]


@pytest.mark.parametrize("program", [name for name in PROGRAMS if name != "stateless"])
def test_large_state_is_written_by_tasks_and_small_state_is_not(program: str) -> None:
    assert undisturbed(program, True, True).census.get("write state", 0) > 2
    assert not undisturbed(program, False, True).census.get("write state")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_run_has_enough_epochs_and_rows_to_be_crashed_between(program: str) -> None:
    whole = undisturbed(program, False, True)
    assert whole.census["create manifests"] >= 6
    assert whole.rows.total() >= 20
    assert whole.rows == undisturbed(program, False, False).rows


def test_files_that_nobody_finished_to_write_go_when_their_epoch_is_over(tmp_path: Path) -> None:
    """A process that is killed in the midst of a write leaves them; those of later epochs may still be wanted."""
    case = Case("timers", (Fault("driver", "create manifests", 4),), large=True)
    names = ["state/.1-0-2-7-ab.bin.cd", "epochs/.000000000002-ab.bin.cd", "manifests/.000000000002.json.cd"]
    later, foreign = "manifests/.000000000099.json.cd", "manifests/.nobody-knows"

    def litter(step: str) -> None:
        if step == "create manifests":
            for name in (*names, later, foreign):
                (tmp_path / "checkpoints" / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / "checkpoints" / name).write_bytes(b"half")

    watchers = points_of(case, tmp_path).here().watchers
    watchers.append(litter)
    watchers.append(lambda step: watchers.clear() if step == "create manifests done" else None)
    run_case(InProcess(), case, tmp_path)
    judge(case, tmp_path)
    found = {name for name in (*names, later, foreign) if (tmp_path / "checkpoints" / name).exists()}
    assert found == {later, foreign}


def test_a_fault_that_is_never_reached_fails_its_case(tmp_path: Path) -> None:
    case = Case("stateless", (Fault("task", "update", 1),))
    run_case(InProcess(), case, tmp_path)
    with pytest.raises(AssertionError, match="only these were hit"):
        judge(case, tmp_path)


def test_a_row_that_is_lost_or_doubled_fails_its_case(tmp_path: Path) -> None:
    case = Case("stateless")
    run_case(InProcess(), case, tmp_path)
    judge(case, tmp_path)
    name = min(undisturbed("stateless", False, True).files)
    path = tmp_path / "output" / name
    whole = path.read_bytes()
    first, rest = whole.split(b"\n", 1)
    for wrong, complaint in (
        (rest, "lost 1, duplicated 0"),
        (first + b"\n" + whole, "lost 0, duplicated 1"),
        (rest + first + b"\n", "not in the same order"),
    ):
        path.write_bytes(wrong)
        with pytest.raises(AssertionError, match=complaint):
            judge(case, tmp_path)


def test_a_reader_notices_what_was_never_committed(tmp_path: Path) -> None:
    expected = undisturbed("stateless", False, True)
    reader = Reader(tmp_path, expected)
    name = min(expected.files)
    path = tmp_path / "output" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(expected.files[name])
    reader.look("a step")
    path.unlink()
    reader.look("the next")
    assert reader.complaints == [
        f"{name} is visible at 'a step', and epoch 0 is the newest",
        f"{name} went away at 'the next'",
    ]
