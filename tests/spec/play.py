"""Plays a transcript of this folder: as users play theirs, but over pipelines that are written in YAML too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flintstream.errors import MismatchError as Mismatch
from flintstream.testing.player import by_key, play_steps
from tests.spec.job import Runtime
from tests.spec.pipelines import declare
from tests.spec.transcript import Step, Transcript

__all__ = ["Mismatch", "by_key", "play"]


def play(transcript: Transcript, steps: Sequence[Step], parallelism: int, runtime: Runtime, folder: Path) -> None:
    """Play steps of a transcript; raise if anything differs, or is left over at the end."""
    play_steps(transcript, declare(transcript), steps, parallelism, runtime, folder)
