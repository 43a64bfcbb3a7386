"""The transcripts of this folder, read as users read theirs; ours must say what they are about and what they run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flintstream.errors import TranscriptError
from flintstream.testing import transcript as kit
from flintstream.testing.stepped import Line
from flintstream.testing.transcript import (
    LATE,
    MAIN,
    End,
    Expect,
    Feed,
    Restart,
    SourceSpec,
    Step,
    Transcript,
    epochs,
)

__all__ = [
    "FOLDER",
    "LATE",
    "MAIN",
    "End",
    "Expect",
    "Feed",
    "Line",
    "Restart",
    "SourceSpec",
    "Step",
    "Transcript",
    "TranscriptError",
    "epochs",
    "load_all",
    "load_file",
    "read_transcript",
]

FOLDER = Path(__file__).parent
_WANTED = ("name", "about", "pipeline", "steps")


def load_all(folder: Path = FOLDER) -> list[Transcript]:
    """Return all transcripts that must hold; those of the harness itself are elsewhere."""
    paths = [path for path in sorted(folder.rglob("*.yaml")) if path.parent.name != "harness"]
    found = [transcript for path in paths for transcript in load_file(path)]
    names = [transcript.id for transcript in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise TranscriptError(f"several transcripts are called {sorted(twice)}")
    return found


def load_file(path: Path) -> Iterator[Transcript]:
    """Yield the transcripts of a file, in order."""
    return kit.load_file(path, _WANTED)


def read_transcript(document: Mapping[str, Any], place: str) -> Transcript:
    """Turn a document into a transcript; whatever it does not understand is an error."""
    return kit.read_transcript(document, place, _WANTED)
