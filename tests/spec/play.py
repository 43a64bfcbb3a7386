"""Plays a transcript's steps on a job, and says where what was seen is not what was expected.

Results of one epoch are compared per key, in order; across keys there is no order, as in the batching law. The key is a
result's first word, unless it begins with a window: then it is of a stream without keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.spec.job import Runtime, SteppedJob
from tests.spec.pipelines import declare
from tests.spec.transcript import Counters, End, Expect, Feed, Now, Restart, State, Step, Transcript


class Mismatch(AssertionError):
    """A transcript does not hold."""


def play(transcript: Transcript, steps: Sequence[Step], parallelism: int, runtime: Runtime, folder: Path) -> None:
    """Play steps of a transcript; raise if anything differs, or is left over at the end."""
    job = SteppedJob(declare(transcript), folder, runtime, parallelism)
    player = _Player(transcript, job)
    try:
        for number, step in enumerate(steps):
            player.take(step, f"step {number + 1} of {len(steps)}")
        player.finish()
    finally:
        job.stop()


class _Player:
    def __init__(self, transcript: Transcript, job: SteppedJob) -> None:
        self._transcript = transcript
        self._job = job
        self._seen: dict[str, int] = {}

    def take(self, step: Step, where: str) -> None:
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
            self._state(step.wanted, where)
        else:
            assert isinstance(step, Counters)
            for name, wanted in step.wanted.items():
                self._compare(f"counter {name}", wanted, job.counter(name), where)

    def _expect(self, step: Expect, where: str) -> None:
        if step.output not in self._job.sinks:
            raise Mismatch(f"{where}: there is no output {step.output!r}, only {', '.join(self._job.sinks)}")
        found = self._new(step.output)
        self._compare(f"output {step.output}", by_key(step.results), by_key(found), where)

    def _new(self, output: str) -> list[str]:
        results = self._job.sinks[output].results
        begin, self._seen[output] = self._seen.get(output, 0), len(results)
        return [str(result) for result in results[begin:]]

    def _state(self, wanted: dict[str, int] | object, where: str) -> None:
        assert isinstance(wanted, dict)
        left = self._job.state()
        found = {name: left[name] for name in wanted}
        if found != wanted:
            raise Mismatch(f"{where}: state\n  expected {wanted}\n  found    {found}: {self._job.tables()}")

    def _compare(self, what: str, wanted: object, found: object, where: str) -> None:
        if wanted != found:
            raise Mismatch(f"{where}: {what}\n  expected {wanted}\n  found    {found}")

    def finish(self) -> None:
        """Nothing may be left: no result that nobody expected, no state."""
        for output in self._job.sinks:
            self._compare(f"output {output}", {}, by_key(self._new(output)), "at the end")
        empty = {"entries": 0, "timers": 0}
        if self._transcript.leaks is None:
            self._state(empty, "at the end")
        elif self._job.state() == empty:
            raise Mismatch(f"at the end: nothing is left, but the transcript says {self._transcript.leaks!r}")


def by_key(results: Sequence[str]) -> dict[str, list[str]]:
    """Return results by their key, in order."""
    found: dict[str, list[str]] = {}
    for result in results:
        first = result.split(" ", 1)[0]
        found.setdefault("" if first.startswith("[") else first, []).append(result)
    return dict(sorted(found.items()))
