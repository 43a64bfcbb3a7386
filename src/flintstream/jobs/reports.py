"""What is known of a job beyond its record: its driver's report, its logs, its failures, its savepoints.

All of it is read from the job's folder, so it is there whoever leads, whether the job runs or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from flintstream.engine.savepoint_format import read_document, savepoint_storage
from flintstream.engine.savepoint_history import SavepointSummary, history, summary_of
from flintstream.errors import FlintstreamError, InvalidArgumentError, describe
from flintstream.jobs.files import read_json, read_lines
from flintstream.jobs.keeper import DEATHS
from flintstream.jobs.logs import PIECE, LogPiece, read_log
from flintstream.jobs.orders import ERR, OUT, REPORT

STREAMS = {"out": OUT, "err": ERR}
_SAME_MS = 10_000
"""Within so long, what a driver said of its failure and what its keeper saw of it are the same failure."""
_SAME_TEXT = 500


class JobFiles:
    """The folder of one job."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def savepoints_folder(self) -> Path:
        """Where the job's savepoints go if nobody says otherwise."""
        return self.folder / "savepoints"

    def status(self, shown: str) -> dict[str, Any]:
        """Return the driver's newest report with the status that is shown; nothing flows in a job that does not run."""
        found = read_json(self.folder / REPORT / "status.json")
        if not found:
            return {}
        found["status"] = shown
        return found if shown == "RUNNING" else cast("dict[str, Any]", at_rest(found))

    def report(self) -> dict[str, Any]:
        """Return the driver's newest report as it is."""
        return read_json(self.folder / REPORT / "status.json")

    def plan(self) -> dict[str, Any]:
        """Return the plan of the job's newest start."""
        return read_json(self.folder / REPORT / "plan.json")

    def epochs(self, since_epoch: int) -> list[dict[str, Any]]:
        """Return a line for every epoch after `since_epoch`, oldest first."""
        return [
            line
            for line in read_lines(self.folder / REPORT / "epochs.jsonl")
            if isinstance(line.get("epoch"), int) and line["epoch"] > since_epoch
        ]

    def exceptions(self) -> list[dict[str, Any]]:
        """Return the job's failures, newest first: what drivers reported, and how they died."""
        told = list(read_lines(self.folder / REPORT / "exceptions.jsonl"))
        died = [
            {"location": None, "traceback": None, "epoch": None, **line} for line in read_lines(self.folder / DEATHS)
        ]
        unsaid = [each for each in died if not any(_is_same(each, other) for other in told)]
        return sorted([*told, *unsaid], key=lambda line: int(line.get("at_ms") or 0), reverse=True)

    def log(self, stream: str, offset: int, limit: int) -> LogPiece:
        """Return a piece of what the job printed to "out" or "err"."""
        if stream not in STREAMS:
            raise InvalidArgumentError(describe(f"there is no log {stream!r}", None, "ask for out or err"))
        return read_log(self.folder / STREAMS[stream], offset, max(1, limit or PIECE))

    def savepoints(self, known: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
        """Return the savepoints in the job's own folder and those that are known besides, newest first."""
        found: dict[str, SavepointSummary] = {}
        with suppress(OSError, FlintstreamError):
            found |= {each.path: each for each in history(str(self.savepoints_folder))}
        for path, _ in known:
            if path not in found:
                try:
                    found[path] = summary_of(path, read_document(savepoint_storage(path), path))
                except (OSError, FlintstreamError):
                    continue  # someone has disposed of it
        newest_first = sorted(found.values(), key=lambda each: (each.created, each.epoch), reverse=True)
        return [{**asdict(each), "tags": list(each.tags), "taken_ms": each.created} for each in newest_first]


def at_rest(value: Any, name: str = "") -> Any:
    """Return a report in which every rate is zero.

    >>> at_rest({"records_in": 7, "records_in_per_second": 2.5, "operators": {"a": {"busy": 0.4}}})
    {'records_in': 7, 'records_in_per_second': 0.0, 'operators': {'a': {'busy': 0.0}}}
    """
    if isinstance(value, Mapping):
        return {key: at_rest(each, str(key)) for key, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [at_rest(each) for each in cast("list[Any]", value)]
    if (name.endswith("_per_second") or name in ("busy", "waiting")) and isinstance(value, int | float):
        return False if isinstance(value, bool) else 0.0
    return False if name == "slowest" else value


def _is_same(death: Mapping[str, Any], told: Mapping[str, Any]) -> bool:
    """Whether a driver had told of the failure that ended it."""
    near = abs(int(death.get("at_ms") or 0) - int(told.get("at_ms") or 0)) < _SAME_MS
    return near and str(told.get("message")).startswith(str(death.get("message"))[:_SAME_TEXT])
