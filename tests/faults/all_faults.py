"""Runs the whole fault matrix and writes what came of it to RESULTS.md.

`make faults` runs it. It is a script and not a test because it takes long, and because its result is kept.
"""

from __future__ import annotations

import argparse
import datetime as dt
import functools
import itertools
import os
import pickle
import platform
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyspark

from flintstream.spark.session import create_session
from tests.faults.delivering import WAYS, Delivered, deliver, places_of
from tests.faults.killing import ROOT, kill_drivers
from tests.faults.lives import InProcess, World
from tests.faults.matrix import Case, Outcome, cells, every_case, judged, points_of, run_case, sample, undisturbed
from tests.faults.on_spark import OnSpark
from tests.faults.points import CRASHES, PHASE_OF, PHASES, Fault
from tests.faults.reader import Reader, Watch
from tests.faults.spark_files import PROGRAM, STEPS, TIMES

RESULTS = Path(__file__).with_name("RESULTS.md")
SEED = 2026
TITLES = {
    "process": "In one process, deaths simulated",
    "killed": "In one process, drivers killed by SIGKILL",
    "spark": "On Spark, tasks failing and Python workers killed by SIGKILL",
    "spark killed": "On Spark, drivers (Python and JVM) killed by SIGKILL; a sixth program reads a stream of Spark's",
    "delivery": "Delivery: what one crash costs, of 120 rows",
}
PARTS = tuple(TITLES)


@dataclass
class Part:
    """One way of running the matrix, and what came of it; `wanted` are all its cases, if not all were run."""

    title: str
    seconds: float = 0.0
    wanted: int = 0
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    delivered: list[tuple[str, str, str, str, Delivered]] = field(
        default_factory=list[tuple[str, str, str, str, Delivered]]
    )

    @property
    def runs(self) -> int:
        return len(self.outcomes) + len(self.delivered)

    @property
    def wrong(self) -> list[Outcome]:
        return [each for each in self.outcomes if each.problem]

    @property
    def broken(self) -> list[Any]:
        """The promises of delivery that were not kept."""
        return [each for each in self.delivered if not WAYS[each[1]].keeps(each[4])]

    def table(self) -> Iterator[str]:
        """Yield what came of it as a table."""
        return self._deliveries() if self.delivered else self._phases()

    def _phases(self) -> Iterator[str]:
        """Yield how often each phase was hit by each crash, over how many programs."""
        yield "| phase | " + " | ".join(CRASHES) + " |"
        yield "| --- |" + " ---: |" * len(CRASHES)
        hits: Counter[tuple[str, str]] = Counter()
        programs: dict[tuple[str, str], set[str]] = {}
        for outcome in self.outcomes:
            for hit in outcome.hits:
                place = PHASE_OF[hit.step], hit.crash
                hits[place] += 1
                programs.setdefault(place, set()).add(outcome.case.program)
        for phase in PHASES:
            counts = [f"{hits[phase, c]} ({len(programs.get((phase, c), ()))})" for c in CRASHES]
            yield f"| {phase} | {' | '.join(each if each != '0 (0)' else '-' for each in counts)} |"

    def _deliveries(self) -> Iterator[str]:
        yield "The driver dies; on Spark, at a step of a task, the task fails. Dirty are files that were taken back."
        yield ""
        yield "| runtime | delivery | the failure is in | at | lost | duplicated | dirty | promise |"
        yield "| --- | --- | --- | --- | ---: | ---: | ---: | --- |"
        for runtime, way, step, place, told in self.delivered:
            kept = "kept" if WAYS[way].keeps(told) else "**broken**"
            numbers = f"{told.lost} | {told.duplicated} | {told.taken_back}"
            yield f"| {runtime} | {way} | {step} | {place} | {numbers} | {kept} |"


def suffer(world: World, case: Case, folder: Path) -> Outcome:
    """Run a case in this process, under the eyes of a reader."""
    reader = Reader(folder, undisturbed(case.program, case.large, case.deterministic))
    try:
        if world.name == "spark":
            with Watch(reader):
                run_case(world, case, folder, driver=os.getpid())
        else:
            points_of(case, folder).here().watchers.append(reader.look)
            run_case(world, case, folder)
    except Exception:
        return Outcome(case, tuple(points_of(case, folder).hits()), traceback.format_exc())
    outcome = judged(case, folder)
    if not outcome.problem and reader.complaints:
        return Outcome(case, outcome.hits, f"the reader: {reader.complaints}")
    return outcome


def run_here(title: str, world: World, cases: Iterable[Case], root: Path) -> Part:
    """Run cases one after the other in this process."""
    part, started = Part(title), time.monotonic()
    for number, case in enumerate(cases):
        folder = root / str(number)
        outcome = suffer(world, case, folder)
        part.outcomes.append(outcome)
        for hit in outcome.hits:
            print(f"{case.program}: {hit}", flush=True)
        if outcome.problem:
            print(f"FAILED {case}\n{outcome.problem}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
    part.seconds = time.monotonic() - started
    return part


def run_killed(title: str, runtime: str, cases: Sequence[Case], root: Path) -> Part:
    """Run cases in drivers that they kill."""
    part, started = Part(title), time.monotonic()
    part.outcomes = kill_drivers(runtime, cases, root)
    for outcome in part.outcomes:
        print(f"{outcome.case.program}: {', '.join(map(str, outcome.hits))} {outcome.problem}", flush=True)
    part.seconds = time.monotonic() - started
    return part


def run_deliveries(worlds: Sequence[World], root: Path) -> Part:
    """Find out what a failure at each place costs, by runtime and way of delivering."""
    part, started = Part(TITLES["delivery"]), time.monotonic()
    for world, (name, way) in itertools.product(worlds, WAYS.items()):
        for step, fault in places_of(way, world):
            run = root / str(len(part.delivered))
            run.mkdir()
            part.delivered.append((world.name, name, step, fault.step, deliver(world, run, [fault], way)))
            print(*part.delivered[-1], flush=True)
    part.seconds = time.monotonic() - started
    return part


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="some parts; then nothing is written")
    parser.add_argument("--share", default="0/1", help="with --only: the cases k, k+n, k+2n ... of all, as k/n")
    parser.add_argument("--kept", type=Path, help="a folder that remembers parts which are done, to go on after a stop")
    args = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
    first, step = map(int, args.share.split("/"))
    with tempfile.TemporaryDirectory() as name:
        run = functools.partial(run_part, Path(name), slice(first, None, step), Sessions())
        parts = [remembered(args.kept, part, run) for part in args.only or PARTS]
    text = report(parts)
    if args.only:
        print(text)
    else:
        RESULTS.write_text(text)
    return 1 if any(part.wrong or part.broken for part in parts) else 0


def remembered(folder: Path | None, name: str, run: Callable[[str], Part]) -> Part:
    """Run a part, or take what a folder remembers of it."""
    if folder is None:
        return run(name)
    path = folder / f"{name}.pickle"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(run(name)))
    return pickle.loads(path.read_bytes())


class Sessions:
    """One Spark session, made when the first part asks for it."""

    @functools.cached_property
    def spark(self) -> World:
        return OnSpark(create_session(2, "flintstream faults", {}))


def run_part(root: Path, share: slice, sessions: Sessions, name: str) -> Part:
    """Run a part by its name, with a share of its cases."""
    folder = root / name.replace(" ", "-")
    folder.mkdir()
    if name == "delivery":
        return run_deliveries([InProcess(), sessions.spark], folder)
    cases = cases_of(name)
    title = TITLES[name]
    if name.endswith("killed"):
        part = run_killed(title, "spark" if name.startswith("spark") else "local", cases[share], folder)
    else:
        part = run_here(title, sessions.spark if name == "spark" else InProcess(), cases[share], folder)
    part.wanted = len(cases)
    return part


def cases_of(name: str) -> list[Case]:
    """Return all cases of a part: where runs are cheap each step of each cell, else one for each cell."""
    if name == "process":
        return [case for cell in cells() for case in every_case(cell)]
    chosen = [sample(cell, SEED) for cell in cells() if (cell.crash == "driver") == name.endswith("killed")]
    return [*chosen, *file_cases()] if name == "spark killed" else chosen


def file_cases() -> list[Case]:
    """Return a case for each step of a job that reads a stream of Spark's."""
    return [Case(PROGRAM, (Fault("driver", step, TIMES.get(step, 2)),), deterministic=False) for step in STEPS]


def report(parts: Sequence[Part]) -> str:
    runs = sum(len(part.outcomes) + len(part.delivered) for part in parts)
    hits = sum(len(each.hits) for part in parts for each in part.outcomes) + sum(len(p.delivered) for p in parts)
    wrong = [(part.title, each) for part in parts for each in part.wrong]
    broken = sum(len(part.broken) for part in parts)
    seconds = sum(part.seconds for part in parts)
    versions = f"flintstream {version('flintstream')}, Spark {pyspark.__version__}, Python {platform.python_version()}"
    load = os.getloadavg()[2]
    lines = [
        "# The fault matrix",
        "",
        "Written by `make faults`: a crash at every step of a run, and its output compared byte for byte with that of",
        "a run without one. A number is how many crashes hit that phase, and in brackets of how many programs; there",
        "are five, one of which has no state to write.",
        "",
        f"- date: {dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M} UTC, {seconds / 60:.0f} minutes on {os.cpu_count()} cores "
        f"with a load of {load:.0f}",
        f"- versions: {versions}",
        f"- {runs} runs, {hits} crashes, **{len(wrong) + broken} failures**",
    ]
    for part in parts:
        share = f" of {part.wanted}" if part.wanted > part.runs else ""
        lines += ["", f"## {part.title}", "", f"{part.runs}{share} runs in {part.seconds:.0f} s.", "", *part.table()]
    lines += [f"\n- FAILED: {title}: {each.case}\n\n      {each.problem[-1500:]}" for title, each in wrong]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(main())
