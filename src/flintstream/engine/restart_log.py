"""What a supervised program and its supervisor tell each other: a file of lines that both only append to.

A program that restarts its job by itself and the supervisor that restarts the program must count together, or three
attempts would become nine. So every failure is a line here, whoever saw it, and whoever decides has read them all. A
file and not a pipe, because a program that is killed cannot say goodbye, and its successor must know what it had said.
Without a supervisor there is no file, and everything here does nothing.

Flink: the JobManager's memory of a job's restarts, which outlives its tasks.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from flintstream.model.restart import RestartStrategyConfiguration, keys_of, strategy_of

VARIABLE = "FLINTSTREAM_RESTART_LOG"
"""The environment variable by which a supervisor hands the file to its program."""
MOST_TEXT = 2_000


@dataclass(frozen=True)
class Ending:
    """How a program ended by an exception: its class and message, and whether another start might help."""

    line: str
    may_restart: bool


class RestartLog:
    """The lines so far, and more of them."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._given_up: list[BaseException] = []

    @property
    def is_supervised(self) -> bool:
        """Whether someone will start this program again."""
        return self._path is not None

    def impose(self, strategy: RestartStrategyConfiguration, is_default: bool) -> None:
        """Say which strategy holds: in any case, or where the program names none."""
        self._append({"default" if is_default else "imposed": keys_of(strategy)})

    def declare(self, strategy: RestartStrategyConfiguration) -> None:
        """Say which strategy the program names."""
        self._append({"declared": keys_of(strategy)})

    def strategy(self) -> RestartStrategyConfiguration | None:
        """Return the strategy that holds: the supervisor's own, else the program's, else what is usual."""
        found: dict[str, Any] = {}
        for line in self._lines():
            found |= line
        named = (found.get(name) for name in ("imposed", "declared", "default"))
        return next((strategy_of(keys) for keys in named if keys), None)

    def began(self) -> None:
        """Say that the program has got as far as to run a job."""
        if not self.has_begun:
            self._append({"began": True})

    @property
    def has_begun(self) -> bool:
        """Whether the program, in this process or in one before, has got as far as to run a job."""
        return any("began" in line for line in self._lines())

    def failed(self, moment_ms: int) -> None:
        """Count a failure."""
        self._append({"failed": moment_ms})

    def failures(self) -> list[int]:
        """Return the moments of all failures, in order."""
        return [line["failed"] for line in self._lines() if "failed" in line]

    def gave_up(self, error: BaseException) -> None:
        """Remember that this failure was one too many, so that nobody counts it again."""
        self._given_up.append(error)

    def ended(self, error: BaseException, may_restart: bool) -> None:
        """Tell the supervisor how the program ends."""
        line = f"{type(error).__name__}: {error}"[:MOST_TEXT]
        given_up = any(error is each for each in self._given_up)
        self._append({"ended": line, "may_restart": may_restart and not given_up, "pid": os.getpid()})

    def ending(self, pid: int) -> Ending | None:
        """Return how the program in this process said it ended; None if it did not get to that."""
        for line in reversed(self._lines()):
            if "ended" in line and line["pid"] == pid:
                return Ending(line["ended"], line["may_restart"])
        return None

    def _append(self, line: dict[str, Any]) -> None:
        if self._path is not None:
            with self._path.open("a") as file:
                # One write: what two processes append does not mix.
                file.write(f"\n{json.dumps(line)}\n")

    def _lines(self) -> list[dict[str, Any]]:
        if self._path is None or not self._path.exists():
            return []
        lines: list[dict[str, Any]] = []
        for text in self._path.read_text().splitlines():
            try:
                lines.append(json.loads(text))
            except ValueError:
                continue  # empty, or cut short by the death of its writer
        return lines


@cache
def of_this_process() -> RestartLog:
    """Return the log that a supervisor gave to this process; processes that it starts itself do not get it."""
    path = os.environ.pop(VARIABLE, None)
    return RestartLog(None if path is None else Path(path))
