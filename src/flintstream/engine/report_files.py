"""Writes a job's report into a folder, for other processes: a manager, a dashboard, whoever reads JSON.

A thread of its own writes, at most a few times a second however short epochs are, and once a second while one is at
work; the epoch loop only leaves word. Documents are replaced as a whole, so readers never see half of one; lines are
appended, and files of lines are cut when they are twice as long as promised. A report that cannot be written is said
once and never harms the job.

Flink: the JobManager, which answers from memory. Differs from Flink: the driver needs no port, and what it said last
outlives it.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from flintstream.engine.options import JobOptions
from flintstream.engine.report import JobWatch, Keeper
from flintstream.engine.report_plan import Host
from flintstream.planner.plan import Plan

FOLDER_VARIABLE = "FLINTSTREAM_REPORT"
"""The environment variable by which a manager names the folder."""
ATTEMPT_VARIABLE = "FLINTSTREAM_ATTEMPT"
"""The one by which it tells how often the program was started, this time included."""
PLAN, STATUS, EPOCHS, TROUBLES = "plan.json", "status.json", "epochs.jsonl", "exceptions.jsonl"
EPOCHS_KEPT = 2_000
TROUBLES_KEPT = 200
LEAST_PAUSE = 0.2
LONGEST_PAUSE = 1.0
_LOG = logging.getLogger("flintstream")


class LineFile:
    """A file of JSON lines that keeps at least the newest `kept` of them."""

    def __init__(self, path: Path, kept: int) -> None:
        self._path = path
        self._kept = kept
        self._count: int | None = None

    def append(self, lines: list[str]) -> None:
        """Add lines at the end; in one write, so that a reader finds whole lines up to the last line break."""
        if self._count is None:
            self._count = self._mend()
        with self._path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
        self._count += len(lines)
        if self._count > 2 * self._kept:
            newest = self._path.read_text(encoding="utf-8").splitlines()[-self._kept :]
            replace_file(self._path, "".join(f"{line}\n" for line in newest))
            self._count = len(newest)

    def _mend(self) -> int:
        """Return how many lines there are; one that a killed process left unfinished is ended."""
        if not self._path.exists():
            return 0
        text = self._path.read_text(encoding="utf-8", errors="replace")
        if text and not text.endswith("\n"):
            with self._path.open("a", encoding="utf-8") as file:
                file.write("\n")
        return text.count("\n")


def replace_file(path: Path, text: str) -> None:
    """Put a file in the place of another, so that a reader sees the one or the other."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


class ReportFiles(Keeper):
    """The report of one job in one folder."""

    def __init__(self, folder: Path, status: Callable[[], Mapping[str, Any]]) -> None:
        self._folder = folder
        self._status = status
        self._waiting: deque[tuple[str, Mapping[str, Any]]] = deque()
        self._plan: Callable[[], Mapping[str, Any]] | None = None
        self._news = threading.Event()
        self._ends = threading.Event()
        self._has_complained = False
        self._files = {
            EPOCHS: LineFile(folder / EPOCHS, EPOCHS_KEPT),
            TROUBLES: LineFile(folder / TROUBLES, TROUBLES_KEPT),
        }
        self._thread = threading.Thread(target=self._run, name="flintstream-report", daemon=True)
        self._thread.start()

    def begin(self, plan: Callable[[], Mapping[str, Any]]) -> None:
        self._plan = plan
        self._news.set()

    def epoch(self, line: Mapping[str, Any]) -> None:
        self._leave(EPOCHS, line)

    def trouble(self, line: Mapping[str, Any]) -> None:
        self._leave(TROUBLES, line)

    def changed(self) -> None:
        self._news.set()

    def _leave(self, name: str, document: Mapping[str, Any]) -> None:
        self._waiting.append((name, document))
        self._news.set()

    def close(self) -> None:
        """Write what is left, here and now, and end the thread."""
        self._ends.set()
        self._news.set()
        self._thread.join()
        _IN_USE.discard(str(self._folder))

    def _run(self) -> None:
        while not self._ends.is_set():
            self._news.wait(LONGEST_PAUSE)
            self._news.clear()
            self._write()
            self._ends.wait(LEAST_PAUSE)
        self._write()

    def _write(self) -> None:
        try:
            plan, self._plan = self._plan, None
            if plan is not None:
                replace_file(self._folder / PLAN, _as_json(plan()))
            lines: dict[str, list[str]] = {}
            while self._waiting:
                name, document = self._waiting.popleft()
                lines.setdefault(name, []).append(_as_json(document))
            for name, texts in lines.items():
                self._files[name].append(texts)
            replace_file(self._folder / STATUS, _as_json(self._status()))
        except Exception as error:
            # Whatever it is, it must not end the job, whose results are worth more than a word about them.
            if not self._has_complained:
                self._has_complained = True
                _LOG.warning("the job's report in %s cannot be written (%s); the job goes on", self._folder, error)


def _as_json(document: Mapping[str, Any]) -> str:
    """Return a document as JSON that every reader takes: a number that is none becomes null."""
    try:
        return json.dumps(document, separators=(",", ":"), allow_nan=False, default=str)
    except ValueError:
        return json.dumps(_finite(document), separators=(",", ":"), default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, Mapping):
        return {str(name): _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value


_IN_USE: set[str] = set()


@cache
def asked_for() -> tuple[str | None, str | None]:
    """Return what a manager told this process; processes that it starts from now on are not told."""
    return os.environ.pop(FOLDER_VARIABLE, None), os.environ.pop(ATTEMPT_VARIABLE, None)


def watch_of(plan: Plan, options: JobOptions, host: Host) -> JobWatch:
    """Return who listens to a job, and writes its report if this process was asked for one.

    Of several jobs at once in a process the first is reported; of several in a row, each in turn.
    """
    folder, attempt = asked_for()
    watch = JobWatch(plan, options, host, int(attempt) if attempt and attempt.isdigit() else 1)
    if folder is not None and folder not in _IN_USE:
        path = Path(folder)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            _LOG.warning("the job's report in %s cannot be written (%s); the job goes on", folder, error)
            return watch
        _IN_USE.add(folder)
        watch.keeper = ReportFiles(path, watch.status)
    return watch
