"""The fault matrix: phases x crashes x programs, the cases that fill its cells, and the judgement of a run.

A run is right if all its faults were hit, its output is that of a run without any, byte for byte (or, where order is
not promised, row for row), nothing staged is left, and the checkpoint directory holds nothing that no manifest names.
"""

from __future__ import annotations

import functools
import itertools
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from flintstream.engine.manifest import Manifest
from flintstream.engine.options import JobOptions
from flintstream.errors import FlintstreamError
from flintstream.state.storage import Storage
from tests.crash.ports import local
from tests.faults.lives import InProcess, World, live
from tests.faults.points import CRASHES, PHASES, Fault, Hit, Points
from tests.faults.programs import PROGRAMS, declare

MAX_RECORDS = 40
"""Six epochs: 240 records of two sources."""
FEW_ENTRIES = 6
RETAINED = 2


@dataclass(frozen=True)
class Cell:
    """A place in the matrix."""

    phase: str
    crash: str
    program: str

    def __str__(self) -> str:
        return f"{self.program}, {self.crash}, {self.phase}"


@dataclass(frozen=True)
class Case:
    """One run. `large` state has files of its own; `on_disk` state does not fit into a task's memory."""

    program: str
    faults: tuple[Fault, ...] = ()
    large: bool = False
    deterministic: bool = True
    on_disk: bool = False

    def __str__(self) -> str:
        how = [name for name in ("large", "deterministic", "on_disk") if getattr(self, name)]
        what = "; ".join(f"{each.crash} at {each.step!r} {each.nth}" for each in self.faults)
        return f"{self.program} ({', '.join(how)}): {what}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(document: dict[str, Any]) -> Case:
        return Case(**{**document, "faults": tuple(Fault(**each) for each in document["faults"])})


def cells() -> list[Cell]:
    """Return all cells; a program without state never writes any, which `census` proves."""
    whole = itertools.product(PHASES, CRASHES, PROGRAMS)
    return [Cell(*each) for each in whole if each[0] != "state write" or each[2] != "stateless"]


@dataclass(frozen=True)
class Undisturbed:
    """What a run without faults writes, and how often it reaches each step."""

    files: Mapping[str, bytes]
    census: Mapping[str, int]

    @property
    def rows(self) -> Counter[str]:
        return rows_of(self.files)


@functools.cache
def undisturbed(program: str, large: bool, deterministic: bool) -> Undisturbed:
    """Run a program in this process without faults."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        points = run_case(InProcess(), Case(program, (), large, deterministic), folder)
        return Undisturbed(files_in(folder / "output"), dict(points.here().seen))


def run_case(world: World, case: Case, folder: Path, driver: int = 0, storage: Storage | None = None) -> Points:
    """Run a case to its end, over as many lives as it takes; with `driver`, deaths are real.

    Checkpoints are in the folder, if not in another storage.
    """
    points = points_of(case, folder, driver)
    Path(points.folder).mkdir(parents=True, exist_ok=True)
    options = JobOptions(max_records=MAX_RECORDS, retained=RETAINED)
    if case.on_disk:
        options = replace(options, state_entries_in_memory=FEW_ENTRIES)

    def program(env: Any) -> None:
        declare(env, case.program, points, folder / "output", case.large, case.deterministic)

    live(world, program, points, storage or local(folder / "checkpoints"), options)
    return points


def points_of(case: Case, folder: Path, driver: int = 0) -> Points:
    return Points(str(folder / "points"), case.faults, driver)


def files_in(folder: Path, hidden: bool = False) -> dict[str, bytes]:
    """Return the files that a reader sees, or those that it does not."""
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if ("/." in f"/{name}") == hidden}


def rows_of(files: Mapping[str, bytes]) -> Counter[str]:
    """Return how often each row is in each of the sinks."""
    return Counter(
        f"{name.split('/')[0]}: {line}" for name, data in files.items() for line in data.decode().splitlines()
    )


def judge(case: Case, folder: Path, tidy: bool = True) -> None:
    """Check what a run has left; without `tidy` somebody else may still be writing garbage."""
    hits = points_of(case, folder).hits()
    assert len(hits) == len(case.faults), f"{case}: only these were hit: {list(map(str, hits))}"
    expected = undisturbed(case.program, case.large, case.deterministic)
    found = files_in(folder / "output")
    lost, more = difference(expected.rows, rows_of(found))
    assert not lost and not more, f"{case}: lost {lost.total()}, duplicated {more.total()}: {lost + more}"
    if case.deterministic:
        assert found == expected.files, f"{case}: same rows, but not in the same order or files"
    if tidy:
        assert not files_in(folder / "output", hidden=True), f"{case}: staged files are left"
        assert not orphans(folder / "checkpoints"), f"{case}: files that no manifest names are left"


@dataclass(frozen=True)
class Outcome:
    """What came of a case: the faults that happened, and what is wrong, if anything is."""

    case: Case
    hits: tuple[Hit, ...]
    problem: str = ""


def judged(case: Case, folder: Path, check: Callable[[Case, Path], None] | None = None) -> Outcome:
    """Return the judgement of a run, by the check that is given or else the usual one."""
    hits = tuple(points_of(case, folder).hits())
    done = folder / "done"
    if done.exists() and done.read_text():
        return Outcome(case, hits, done.read_text())
    try:
        (check or judge)(case, folder)
    except (AssertionError, OSError, FlintstreamError) as error:
        return Outcome(case, hits, f"{type(error).__name__}: {error}")
    return Outcome(case, hits)


def difference(expected: Counter[str], found: Counter[str]) -> tuple[Counter[str], Counter[str]]:
    """Return the rows that are missing, and those that should not be there."""
    return expected - found, found - expected


def orphans(checkpoints: Path) -> set[str]:
    """Return the files that neither a manifest nor the protocol knows of."""
    retained = [Manifest.from_bytes(p.read_bytes(), p.name) for p in sorted((checkpoints / "manifests").glob("*.json"))]
    named = {name for manifest in retained for name in manifest.files()}
    found = {str(path.relative_to(checkpoints)) for path in checkpoints.rglob("*") if path.is_file()}
    return {name for name in found - named if name.split("/")[0] in ("state", "epochs", "output")}


def steps_in(cell: Cell, large: bool) -> list[str]:
    """Return the steps of a cell's phase that its program reaches."""
    census = undisturbed(cell.program, large, True).census
    return [step for step in PHASES[cell.phase] if census.get(step)]


def sample(cell: Cell, seed: int) -> Case:
    """Return one case of a cell, chosen by a seed."""
    rng = random.Random(f"{seed}/{cell}")
    large = rng.random() < 0.5
    step = rng.choice(steps_in(cell, large))
    nth = rng.randint(1, undisturbed(cell.program, large, True).census[step])
    return Case(cell.program, (Fault(cell.crash, step, nth),), large, on_disk=rng.random() < 0.3)


def every_case(cell: Cell) -> Iterator[Case]:
    """Return cases for each step of a cell: the first time it is reached, the last, and in between."""
    for large in (False, True):
        census = undisturbed(cell.program, large, True).census
        for number, step in enumerate(steps_in(cell, large)):
            for nth in sorted({1, census[step] // 2 + 1, census[step]}):
                yield Case(cell.program, (Fault(cell.crash, step, nth),), large, on_disk=bool((number + nth) % 2))


def crowded(program: str, crashes: Sequence[str], seed: int) -> Case:
    """Return one case with a fault in each phase of a program, as seldom alike as possible."""
    rng = random.Random(f"{seed}/{program}")
    large = rng.random() < 0.5
    faults: list[Fault] = []
    phases = [cell.phase for cell in cells() if cell.program == program and cell.crash == crashes[0]]
    for number, phase in enumerate(phases):
        step = rng.choice(steps_in(Cell(phase, crashes[0], program), large))
        nth = rng.randint(1, undisturbed(program, large, True).census[step])
        faults.append(Fault(crashes[(number + seed) % len(crashes)], step, nth))
    return Case(program, tuple(faults), large, deterministic=bool(seed % 2))


def write_cases(path: Path, cases: Sequence[tuple[Path, Case]]) -> None:
    """Write cases for a driver that is killed."""
    path.write_text(json.dumps([(str(folder), case.to_json()) for folder, case in cases]))
