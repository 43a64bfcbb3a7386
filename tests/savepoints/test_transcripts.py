"""Every kind of state passes through a savepoint: transcripts are played by jobs that move house all the time.

Wherever a transcript has a restart, the job is stopped with a savepoint and started from it in another directory, with
another parallelism. What a transcript expects must be seen all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from flintstream.engine.manifest import Manifest
from flintstream.engine.options import StartFrom
from flintstream.engine.savepoint_format import savepoint_storage
from flintstream.engine.savepoint_take import Notes, write_savepoint
from flintstream.state.storage import LocalStorage
from flintstream.testing import player
from flintstream.testing.stepped import SteppedJob
from tests.spec.gaps import mark_of
from tests.spec.job import InProcess
from tests.spec.play import play
from tests.spec.transcript import Step, Transcript, load_all
from tests.spec.variants import rescaled

MOST_MOVES = 4


class MovingJob(SteppedJob):
    """A job that takes a savepoint where others are only started again."""

    moves = 0
    past: tuple[Manifest, ...] = ()

    def restart(self, parallelism: int | None = None) -> None:
        manifest = self._coordinator.committed
        if manifest is None or self.has_ended or self.moves == MOST_MOVES:
            super().restart(parallelism)
            return
        self.moves += 1
        path = str(self.folder / f"savepoint-{self.moves}")
        write_savepoint(self.files, manifest, savepoint_storage(path), Notes())
        self.past = (*self.past, manifest)
        self.stop()
        self.parallelism = parallelism or self.parallelism
        self.start_from = StartFrom(path)
        self.files = LocalStorage(str(self.folder / f"checkpoint-{self.moves}"), durable=False)
        self._start()

    def counter(self, name: str) -> int:
        """Return a counter over all lives: a job that starts from a savepoint counts from the beginning."""
        before = [counts.get(name, 0) for manifest in self.past for counts in manifest.counters.values()]
        return super().counter(name) + sum(before)


def chosen() -> Iterable[Transcript]:
    """Return a part of the transcripts of each folder: those whose programs differ most."""
    seen: set[str] = set()
    for transcript in load_all():
        pipeline = repr(sorted(map(str, transcript.pipeline)))
        kind = f"{transcript.id.partition('/')[0]} {pipeline} {transcript.pipeline.get('program')}"
        if kind not in seen:
            seen.add(kind)
            yield transcript


CASES = [
    pytest.param(transcript, id=transcript.id, marks=mark_of(transcript, "local", "rescaled"))
    for transcript in chosen()
]


@pytest.mark.parametrize("transcript", CASES)
def test_a_transcript_of_a_job_that_moves(transcript: Transcript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(player, "SteppedJob", MovingJob)
    steps: list[Step] = rescaled(transcript)
    play(transcript, steps, 2, InProcess(), tmp_path)
