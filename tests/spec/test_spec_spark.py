"""Every transcript once on Spark as it is written, and a few other ways to play some of them.

`make spec-spark` plays all of them in all ways.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.spec.gaps import mark_of
from tests.spec.play import play
from tests.spec.spark_runtime import OnSpark
from tests.spec.transcript import Transcript, epochs, load_all
from tests.spec.variants import AS_WRITTEN, Variant, variants_of

SEED = 4
SAMPLE = 12
LONGEST = 12
"""Epochs that a sampled case has at most: each takes a noticeable part of a second."""


def sample(transcripts: list[Transcript]) -> list[tuple[Transcript, Variant]]:
    """Return some of the other ways, always the same, of different kinds."""
    rng = random.Random(SEED)
    others = [(each, way) for each in transcripts for way in variants_of(each) if way != AS_WRITTEN]
    short = [case for case in others if epochs(case[1].rearrange(case[0])) <= LONGEST]
    rng.shuffle(short)
    kinds = sorted({way.name for _, way in short})
    chosen = [next(case for case in short if case[1].name == kind) for kind in kinds]
    return [*chosen, *(case for case in short if case not in chosen)][:SAMPLE]


def one_of_each(transcripts: list[Transcript]) -> list[Transcript]:
    """Return every transcript once, by one of its ways to evaluate windows, always the same."""
    rng = random.Random(SEED)
    pages: dict[str, list[Transcript]] = {}
    for transcript in transcripts:
        pages.setdefault(transcript.page, []).append(transcript)
    return [rng.choice(ways) for ways in pages.values()]


TRANSCRIPTS = load_all()
CASES = [
    pytest.param(
        transcript,
        variant,
        id=f"{transcript.id}-{variant.name}",
        marks=mark_of(transcript, "spark", variant.name),
    )
    for transcript, variant in [*((each, AS_WRITTEN) for each in one_of_each(TRANSCRIPTS)), *sample(TRANSCRIPTS)]
]


@pytest.mark.spark
@pytest.mark.parametrize(("transcript", "variant"), CASES)
def test_transcript_on_spark(transcript: Transcript, variant: Variant, spark_session: Any, tmp_path: Path):
    play(transcript, variant.rearrange(transcript), variant.parallelism, OnSpark(spark_session), tmp_path)
