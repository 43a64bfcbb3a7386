"""Known gaps: transcripts that do not hold yet. They run all the same, and one that holds fails until its line goes.

`gaps.toml` has a table for each: `["windows/session/name"]` (or a pattern with `*`) with `reason`, and optionally
`runtime` (local or spark) and `variants` (a list of names; all by default).
"""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests.spec.transcript import FOLDER, Transcript

GAPS: dict[str, dict[str, Any]] = tomllib.loads((FOLDER / "gaps.toml").read_text())
_KEYS = {"reason", "runtime", "variants"}


def gap_of(transcript: Transcript, runtime: str, variant: str) -> str | None:
    """Return why a transcript does not hold when played in this way, or None if it must."""
    for pattern, gap in GAPS.items():
        played = gap.get("runtime", runtime) == runtime and variant in gap.get("variants", [variant])
        if played and any(fnmatchcase(name, pattern) for name in (transcript.id, transcript.page)):
            return gap["reason"]
    return None


def mark_of(transcript: Transcript, runtime: str, variant: str) -> list[Any]:
    """Return the mark of a known gap, strictly: if it has closed, the test fails."""
    reason = gap_of(transcript, runtime, variant)
    return [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]


def wrong_gaps(known: set[str]) -> list[str]:
    """Return what is wrong with the list itself."""
    wrong = [f"{name} is no transcript" for name in GAPS if not any(fnmatchcase(each, name) for each in known)]
    wrong += [f"{name} has unknown {sorted(set(gap) - _KEYS)}" for name, gap in GAPS.items() if set(gap) - _KEYS]
    return wrong + [f"{name} has no reason" for name, gap in GAPS.items() if not gap.get("reason")]
