"""Runs a program under rates that change, and measures each of them by the driver's own report.

The program is one process for the whole search: the rate is in a file that its sources read before each epoch, so no
step pays for a start of Spark. It keeps its state in a directory of the benchmark's own, so that a search never moves
the positions of a real job; its sinks are real.

Flink: nothing like it.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from flintstream.api.environment import IMPOSED_VARIABLE, SETTINGS_VARIABLE
from flintstream.engine.report_files import EPOCHS, FOLDER_VARIABLE, PLAN
from flintstream.engine.source_rate import FILE, KEY
from flintstream.errors import JobError, describe
from flintstream.jobs.launch import Given
from flintstream.jobs.peak import Step
from flintstream.jobs.supervise import ProgramProcess, check_script, child_command

POLL_SECONDS = 0.2
START_SECONDS = 180.0
END_SECONDS = 20.0
LEAST_EPOCHS = 4
WARM_UP = 0.7
"""The share of the first rate at which a program starts. A source counts anew when its rate changes, so what became due
while Spark was starting is not read as a backlog when the first rate is measured."""
TAIL = 2000
Epoch = Mapping[str, Any]


class PacedProgram:
    """A running program whose sources follow a file."""

    def __init__(self, process: ProgramProcess, folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._report = folder / "report"
        self._status: int | None = None
        self._sources = 1

    def wait_until_it_reads(self) -> None:
        """Wait for the first epoch with records.

        Raises:
            JobError: the program ended, or does not get there.
        """
        deadline = time.monotonic() + START_SECONDS
        while not any(epoch.get("records_in") for epoch in self._epochs_since(0)):
            if self.has_ended:
                self._fail("ended before it read anything")
            if time.monotonic() > deadline:
                self._fail(f"read nothing in {START_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)
        plan = _document(self._report / PLAN)
        inputs = {each["to"] for each in plan.get("edges", ())}
        self._sources = max(1, sum(each["uid"] not in inputs for each in plan.get("operators", ())))

    @property
    def has_ended(self) -> bool:
        """Whether the program has left, which an endless one does not."""
        if self._status is None:
            self._status = self._process.poll()
        return self._status is not None

    def measure(self, rate: float, seconds: float) -> Step | None:
        """Let sources give so many records a second for a while; return what came of it, None if the input ended."""
        since_ms = time.time() * 1000
        set_rate(self._folder / "rate", rate / self._sources)
        until, latest = time.monotonic() + seconds, time.monotonic() + 2 * seconds + 5
        while not self.has_ended:
            time.sleep(POLL_SECONDS)
            epochs = self._epochs_since(since_ms)
            now = time.monotonic()
            if now >= until and (len(epochs) >= LEAST_EPOCHS or now >= latest):
                return step_of(rate, epochs, now_ms=time.time() * 1000, since_ms=since_ms)
        if self._status:
            self._fail("failed")
        return None

    def _epochs_since(self, moment_ms: float) -> list[Epoch]:
        try:
            lines = (self._report / EPOCHS).read_text().splitlines()
        except OSError:
            return []
        return epochs_since(lines, moment_ms)

    def _fail(self, what: str) -> NoReturn:
        said = (self._folder / "program.err").read_text(errors="replace")[-TAIL:].strip()
        remedy = "its own words are below" if said else "it said nothing"
        error = JobError(describe(f"the program {what}", None, remedy))
        if said:
            error.add_note(said)
        raise error

    def end(self) -> None:
        """End the program and all that it started."""
        if not self.has_ended:
            self._process.signal(signal.SIGTERM)
        deadline = time.monotonic() + END_SECONDS
        while not self.has_ended and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        self._process.clear()


@contextmanager
def paced_program(given: Given, first_rate: float) -> Generator[PacedProgram]:
    """Start a program with sources that follow a file; it has ended when this is left.

    Raises:
        InvalidArgumentError: there is no such script.
    """
    check_script(given.program, is_module=given.is_module, entry=given.entry)
    with tempfile.TemporaryDirectory(prefix="flintstream-bench-") as name:
        folder = Path(name)
        (folder / "report").mkdir()
        set_rate(folder / "rate", WARM_UP * first_rate)
        imposed = {KEY: f"{FILE}{folder / 'rate'}", "execution.checkpointing.dir": str(folder / "checkpoints")}
        if given.parallelism is not None:
            imposed["parallelism.default"] = str(given.parallelism)
        settings = given.pairs()
        if given.master is not None:
            settings["spark.master"] = given.master
        environment = {
            **given.environment(),
            SETTINGS_VARIABLE: json.dumps(settings),
            IMPOSED_VARIABLE: json.dumps(imposed),
            FOLDER_VARIABLE: str(folder / "report"),
        }
        command = child_command(given.program, given.arguments, is_module=given.is_module, entry=given.entry)
        near, far = os.pipe()
        with (folder / "program.out").open("wb") as out, (folder / "program.err").open("wb") as err:
            process = ProgramProcess(command, folder / "restarts.jsonl", near, environment, stdout=out, stderr=err)
            program = PacedProgram(process, folder)
            try:
                yield program
            finally:
                program.end()
                os.close(near)
                os.close(far)


def set_rate(path: Path, rate: float) -> None:
    """Write a rate where sources look for it; they never see half of it."""
    written = path.with_suffix(".new")
    written.write_text(f"{rate:.6g}\n")
    written.replace(path)


def epochs_since(lines: Sequence[str], since_ms: float) -> list[Epoch]:
    """Return the epochs that began after a moment, of a report's lines; the last one may be half written."""
    found: list[Epoch] = []
    for line in reversed(lines):
        epoch = _line(line)
        if epoch is None:
            continue
        if _started(epoch) < since_ms:
            break
        found.append(epoch)
    return found[::-1]


def step_of(rate: float, epochs: Sequence[Epoch], *, now_ms: float, since_ms: float) -> Step:
    """Return what epochs say of a rate.

    Counted is what was visible between the ends of the first and the last epoch. (Between their beginnings it would be
    what became due, since epochs of a job that falls behind grow, and read it all.)
    """
    busy = [each for each in epochs if each.get("records_in")]
    if len(busy) < 2:
        # Not two epochs in all that time: whatever was due has mostly not been read.
        read = sum(each["records_in"] for each in busy)
        return Step(rate, read / max(1.0, (now_ms - since_ms) / 1000), len(busy), *_latency(busy))
    between = (busy[-1]["committed_ms"] - busy[0]["committed_ms"]) / 1000
    read = sum(each["records_in"] for each in busy[1:])
    return Step(rate, read / between if between > 0 else 0.0, len(busy), *_latency(busy[1:]))


def _latency(epochs: Sequence[Epoch]) -> tuple[float | None, float | None, float | None, float | None]:
    """Return p50, p95, p99 and the maximum of the slowest sink: medians over the epochs, and the greatest of all."""
    found: dict[str, list[float]] = {"p50": [], "p95": [], "p99": [], "max": []}
    for epoch in epochs:
        sinks = [each for each in (epoch.get("latency_ms") or {}).values() if each]
        for name, values in found.items():
            of_sinks = [each[name] for each in sinks if each.get(name) is not None]
            values += [max(of_sinks)] if of_sinks else []
    p50, p95, p99 = (statistics.median(found[name]) if found[name] else None for name in ("p50", "p95", "p99"))
    return p50, p95, p99, max(found["max"], default=None)


def _started(epoch: Epoch) -> float:
    return float(epoch["committed_ms"]) - 1000 * float(epoch["seconds"])


def _document(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def _line(text: str) -> Epoch | None:
    try:
        return json.loads(text)
    except ValueError:
        return None
