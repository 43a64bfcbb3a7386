"""What a chaos run has seen: commits, kills, memory, files; and the report of it."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Record:
    """Everything that is known of a run; times are seconds since the Unix epoch."""

    diary: Path
    kills: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    left_out: int = 0
    seconds: float = 0.0
    memory: list[dict[str, int]] = field(default_factory=list[dict[str, int]])
    files: list[int] = field(default_factory=list[int])
    starts: int = 0
    _read: list[dict[str, float]] = field(default_factory=list[dict[str, float]])
    _offset: int = 0

    def commits(self) -> list[dict[str, float]]:
        """Return the job's diary of epochs; its last line may be half written, and is then left for later."""
        if self.diary.exists():
            with self.diary.open("rb") as file:
                file.seek(self._offset)
                whole, end, _ = file.read().rpartition(b"\n")
            self._offset += len(whole + end)
            lines = [json.loads(line) for line in whole.splitlines()]
            self._read += [line for line in lines if "epoch" in line]
            self.starts += sum("started" in line for line in lines)
        return self._read

    def recoveries(self) -> dict[str, list[float]]:
        """Return for each kind of kill the seconds from a kill to the next committed epoch."""
        moments = [line["at"] for line in self.commits()]
        found: dict[str, list[float]] = {}
        for at, kind in self.kills:
            found.setdefault(kind, []).append(min((m - at for m in moments if m > at), default=math.inf))
        return found

    def repeated_epochs(self) -> list[int]:
        """Return epochs that were committed twice, which must not be."""
        return [epoch for epoch, n in Counter(int(line["epoch"]) for line in self.commits()).items() if n > 1]


def percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile by nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def quarters(values: Sequence[float]) -> list[float]:
    """Return the medians of the four quarters of a series."""
    size = max(1, len(values) // 4)
    parts = [values[n * size : (n + 1) * size if n < 3 else None] for n in range(4)]
    return [statistics.median(part) for part in parts if part]


def report(record: Record, rows: Mapping[str, int]) -> list[str]:
    """Return what a run has shown, as lines of Markdown."""
    commits = record.commits()
    kinds = Counter(kind for _, kind in record.kills)
    recoveries = record.recoveries()
    everything = [seconds for each in recoveries.values() for seconds in each]
    lines = [
        f"- {record.seconds / 60:.1f} minutes, {sum(kinds.values())} kills: "
        + ", ".join(f"{kind} {n}" for kind, n in sorted(kinds.items()))
        + (f"; {record.left_out} more had to wait too long" if record.left_out else ""),
        f"- {int(commits[-1]['epoch']) if commits else 0:,} epochs; the program was started {record.starts} times",
        "- " + ", ".join(f"{name}: {n:,}" for name, n in rows.items()),
    ]
    if everything:
        lines += ["", "| seconds from a kill to the next committed epoch | kills | p50 | p90 | p99 | longest |"]
        lines += ["|---|---|---|---|---|---|"]
        lines += [_row(kind, values) for kind, values in sorted(recoveries.items())]
        lines += [_row("all", everything)]
    if record.memory:
        lines += ["", "| medians of the four quarters of the run | 1 | 2 | 3 | 4 |", "|---|---|---|---|---|"]
        series = {name: [each[name] for each in record.memory if each[name]] for name in record.memory[0]}
        lines += [_series(f"MB of {name}", values) for name, values in series.items() if values]
        lines.append(_series("files in the checkpoint directory", record.files))
    return lines


def _row(kind: str, values: Sequence[float]) -> str:
    cells = [percentile(values, share) for share in (0.5, 0.9, 0.99)] + [max(values)]
    return f"| {kind} | {len(values)} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |"


def _series(name: str, values: Sequence[float]) -> str:
    return f"| {name} | " + " | ".join(f"{value:.0f}" for value in quarters(values)) + " |"
