"""A log in files, which grows while jobs read it: in this process, and in Spark's workers."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flintstream import LogPart, LogSource, Split, TimedRecords


class FileLog(LogSource):
    """Every file of a folder is a part; a line is [time, value], and times ascend."""

    def __init__(self, folder: Path, interval_ms: int | None = None) -> None:
        self.folder = folder
        self.discovery_interval_ms = interval_ms

    @property
    def is_bounded(self) -> bool:
        return False

    def _lines(self, name: str) -> list[tuple[int, Any]]:
        return [tuple(json.loads(line)) for line in (self.folder / name).read_text().splitlines()]

    def discover(self, known: Collection[str], is_first: bool) -> Sequence[LogPart]:
        names = sorted(path.name for path in self.folder.iterdir())
        return [LogPart(name) for name in names if name not in known]

    def available(self, names: Collection[str]) -> Mapping[str, int]:
        return {name: len(self._lines(name)) for name in names}

    def positions_at(self, splits: Sequence[Split], timestamp: int) -> Sequence[int]:
        return [bisect_left(self._lines(split.name), timestamp, key=lambda line: line[0]) for split in splits]

    def read_part(self, name: str, start: int, end: int) -> TimedRecords:
        lines = self._lines(name)[start:end]
        return TimedRecords([value for _, value in lines], [at for at, _ in lines])


def append(folder: Path, part: str, lines: Iterable[tuple[int, Any]]) -> None:
    """Add records to a part, which is made if it is not there."""
    folder.mkdir(exist_ok=True)
    with (folder / part).open("a") as file:
        file.write("".join(f"{json.dumps(line)}\n" for line in lines))


def filled(folder: Path, **parts: Iterable[tuple[int, Any]]) -> Path:
    """Return a folder with these parts in it."""
    for name, lines in parts.items():
        append(folder, name, lines)
    return folder
