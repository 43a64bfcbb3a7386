"""The fault matrix on Spark: a pairwise sample. `make faults` runs all of it.

In the test's own Spark session tasks fail and workers are killed: one run of each program with a fault in each phase,
so that between them every phase meets every program and both crashes. Drivers are killed in processes of their own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.faults.killing import kill_drivers
from tests.faults.matrix import Case, Cell, Outcome, crowded, judge, run_case, sample, undisturbed
from tests.faults.on_spark import OnSpark
from tests.faults.points import PHASES, Fault
from tests.faults.programs import PROGRAMS
from tests.faults.reader import Reader, Watch
from tests.faults.spark_files import PROGRAM

SEED = 3


def suffer(case: Case, folder: Path, session: Any) -> None:
    reader = Reader(folder, undisturbed(case.program, case.large, case.deterministic))
    with Watch(reader):
        points = run_case(OnSpark(session), case, folder, driver=os.getpid())
    for hit in points.hits():
        print(f"{case.program}: {hit}")
    judge(case, folder)
    if case.deterministic:
        reader.assert_content()


@pytest.mark.spark
@pytest.mark.row(71, 73)
@pytest.mark.parametrize(("number", "program"), list(enumerate(PROGRAMS)))
def test_lost_tasks_and_workers_change_nothing(number: int, program: str, tmp_path: Path, spark_session: Any) -> None:
    case = crowded(program, ("task", "worker"), SEED + number)
    suffer(case, tmp_path, spark_session)


def driver_cases(number: int, seed: int) -> list[Case]:
    """Return cases that differ in phase and, as far as possible, in program."""
    phases, programs = list(PHASES), [name for name in PROGRAMS if name != "stateless"]
    return [
        sample(Cell(phases[(seed + 3 * n) % len(phases)], "driver", programs[n % len(programs)]), seed)
        for n in range(number)
    ]


def check(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        print(f"{outcome.case.program}: {', '.join(map(str, outcome.hits))}")
        assert not outcome.problem, outcome.problem


@pytest.mark.spark
@pytest.mark.row(67, 71)
def test_killed_drivers_change_nothing(tmp_path: Path) -> None:
    # Between our commit and Spark's own, which then gives the same batch again.
    between = Case(PROGRAM, (Fault("driver", "told", 2),), deterministic=False)
    check(kill_drivers("spark", [*driver_cases(1, SEED), between], tmp_path))


@pytest.mark.row(67, 71)
def test_killed_drivers_change_nothing_without_spark(tmp_path: Path) -> None:
    check(kill_drivers("local", driver_cases(3, SEED + 1), tmp_path))
