"""Every transcript, in this process, in every way it can be played."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spec.gaps import mark_of
from tests.spec.job import InProcess
from tests.spec.play import play
from tests.spec.transcript import Transcript, load_all
from tests.spec.variants import Variant, variants_of

CASES = [
    pytest.param(
        transcript, variant, id=f"{transcript.id}-{variant.name}", marks=mark_of(transcript, "local", variant.name)
    )
    for transcript in load_all()
    for variant in variants_of(transcript)
]


@pytest.mark.parametrize(("transcript", "variant"), CASES)
def test_transcript(transcript: Transcript, variant: Variant, tmp_path: Path):
    play(transcript, variant.rearrange(transcript), variant.parallelism, InProcess(), tmp_path)
