"""Plays a transcript's steps on a job, and says where what was seen is not what was expected.

Results of one epoch are compared per key, in order; across keys there is no order, as in the batching law. The key is a
result's first word, unless it begins with a window: then it is of a stream without keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, cast

from flintstream.errors import MismatchError
from flintstream.model.row import Row
from flintstream.testing.stepped import Declare, Runtime, SteppedJob
from flintstream.testing.transcript import End, Expect, Feed, Now, Restart, State, Step, Transcript

Show = Callable[[Any], str]
"""How a result is written in a transcript."""


def in_words(result: Any) -> str:
    """Return a result as its fields, in order, with spaces between them; nothing is `-`."""
    if isinstance(result, str):
        return " ".join(result.split())
    if result is None:
        return "-"
    parts: list[Any] | None = None
    if isinstance(result, Row | tuple | list):
        parts = list(cast("Sequence[Any]", result))
    elif isinstance(result, dict):
        parts = list(cast("dict[Any, Any]", result).values())
    elif is_dataclass(result) and not isinstance(result, type):
        parts = [getattr(result, each.name) for each in fields(result)]
    return str(result) if parts is None else " ".join(map(in_words, parts))


def play_steps(
    transcript: Transcript,
    declare: Declare,
    steps: Sequence[Step],
    parallelism: int,
    runtime: Runtime,
    folder: Path,
    show: Show = str,
) -> None:
    """Play steps of a transcript; raise if anything differs, or is left over at the end."""
    job = SteppedJob(declare, folder, runtime, parallelism)
    player = _Player(transcript, job, show)
    try:
        for number, step in enumerate(steps):
            player.take(step, f"step {number + 1} of {len(steps)}")
        player.finish()
    finally:
        job.stop()


class _Player:
    def __init__(self, transcript: Transcript, job: SteppedJob, show: Show) -> None:
        self._transcript = transcript
        self._job = job
        self._show = show
        self._seen: dict[str, int] = {}

    def take(self, step: Step, where: str) -> None:
        """Do what a step says."""
        job = self._job
        if isinstance(step, Feed):
            job.epoch(step.lines)
        elif isinstance(step, Now):
            job.now = step.at
            job.epoch()
        elif isinstance(step, End):
            job.epoch(end=True)
        elif isinstance(step, Restart):
            job.restart(step.parallelism)
        elif isinstance(step, Expect):
            self._expect(step, where)
        elif isinstance(step, State):
            self._state(dict(step.wanted), where)
        else:
            for name, wanted in step.wanted.items():
                self._compare(f"counter {name}", wanted, job.counter(name), where)

    def _expect(self, step: Expect, where: str) -> None:
        if step.output not in self._job.sinks:
            msg = f"{where}: there is no output {step.output!r}, only {', '.join(self._job.sinks)}"
            raise MismatchError(msg)
        found = self._new(step.output)
        self._compare(f"output {step.output}", by_key(step.results), by_key(found), where)

    def _new(self, output: str) -> list[str]:
        results = self._job.sinks[output].results
        begin, self._seen[output] = self._seen.get(output, 0), len(results)
        return [self._show(result) for result in results[begin:]]

    def _state(self, wanted: dict[str, int], where: str) -> None:
        left = self._job.state()
        found = {name: left[name] for name in wanted}
        if found != wanted:
            msg = f"{where}: state\n  expected {wanted}\n  found    {found}: {self._job.tables()}"
            raise MismatchError(msg)

    def _compare(self, what: str, wanted: object, found: object, where: str) -> None:
        if wanted != found:
            msg = f"{where}: {what}\n  expected {wanted}\n  found    {found}"
            raise MismatchError(msg)

    def finish(self) -> None:
        """Nothing may be left: no result that nobody expected, no state."""
        for output in self._job.sinks:
            self._compare(f"output {output}", {}, by_key(self._new(output)), "at the end")
        empty = {"entries": 0, "timers": 0}
        if self._transcript.leaks is None:
            self._state(empty, "at the end")
        elif self._job.state() == empty:
            what = f"at the end: nothing is left, but the transcript says {self._transcript.leaks!r}"
            raise MismatchError(what)


def by_key(results: Sequence[str]) -> dict[str, list[str]]:
    """Return results by their key, in order."""
    found: dict[str, list[str]] = {}
    for result in results:
        first = result.split(" ", 1)[0]
        found.setdefault("" if first.startswith("[") else first, []).append(result)
    return dict(sorted(found.items()))
