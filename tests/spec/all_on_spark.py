"""Plays every transcript in every way on Spark and writes what came of it to SPARK_RESULTS.md.

`make spec-spark` runs it. It is a script and not a test because it takes long, and because its result is kept.
"""

from __future__ import annotations

import datetime as dt
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow
import pyspark

from flintstream.spark.session import create_session
from tests.spec.gaps import gap_of
from tests.spec.play import play
from tests.spec.spark_runtime import OnSpark
from tests.spec.transcript import FOLDER, Transcript, load_all
from tests.spec.variants import Variant, variants_of

RESULTS = FOLDER / "SPARK_RESULTS.md"
ROOT = FOLDER.parent.parent
AT_ONCE = 4
"""Jobs that run side by side: an epoch of a transcript is mostly waiting for Spark to plan it."""


def outcome(transcript: Transcript, variant: Variant, session: Any) -> str | None:
    """Play one case; return what is wrong, if anything is. A gap that has closed is wrong too."""
    gap = gap_of(transcript, "spark", variant.name)
    with tempfile.TemporaryDirectory() as folder:
        try:
            play(transcript, variant.rearrange(transcript), variant.parallelism, OnSpark(session), Path(folder))
        except Exception as error:
            return None if gap is not None else f"{type(error).__name__}: {error}"
    return None if gap is None else f"holds, but is a known gap: {gap}"


def report(pages: int, played: Counter[str], gaps: int, wrong: dict[str, str], seconds: float) -> str:
    versions = {
        "flintstream": version("flintstream"),
        "Spark": pyspark.__version__,
        "pyarrow": pyarrow.__version__,
        "Python": platform.python_version(),
    }
    lines = [
        "# Transcripts on Spark",
        "",
        "Written by `make spec-spark`: every transcript, played in every way, on Spark.",
        "",
        f"- date: {dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M} UTC, {seconds / 60:.0f} minutes on {os.cpu_count()} cores",
        f"- versions: {', '.join(f'{name} {version}' for name, version in versions.items())}",
        f"- {pages} transcripts, {played.total()} runs, {gaps} of them known gaps, **{len(wrong)} failures**",
        "",
        "| way | runs |",
        "| --- | --- |",
        *(f"| {name} | {count} |" for name, count in played.items()),
        "",
        *(f"- {case}\n\n      {' '.join(text.split())[:600]}" for case, text in wrong.items()),
    ]
    return "\n".join(lines).rstrip() + "\n"


def main(only: list[str]) -> int:
    """Play all, or those whose id contains one of the words given (then nothing is written)."""
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
    session = create_session(2, "flintstream transcripts", {})
    started = time.monotonic()
    chosen = [each for each in load_all() if not only or any(word in each.id for word in only)]
    cases = [(transcript, variant) for transcript in chosen for variant in variants_of(transcript)]
    played: Counter[str] = Counter()
    wrong: dict[str, str] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        problems = pool.map(lambda case: outcome(*case, session), cases)
        for (transcript, variant), problem in zip(cases, problems, strict=True):
            played[variant.name] += 1
            if problem is not None:
                wrong[f"{transcript.id}-{variant.name}"] = problem
                print(f"FAILED {transcript.id}-{variant.name}\n{problem}", flush=True)
            if played.total() % 50 == 0:
                seconds = time.monotonic() - started
                print(f"{played.total()} of {len(cases)} runs, {len(wrong)} failures, {seconds:.0f} s", flush=True)
    gaps = sum(gap_of(transcript, "spark", variant.name) is not None for transcript, variant in cases)
    text = report(len({each.page for each in chosen}), played, gaps, wrong, time.monotonic() - started)
    if only:
        print(text)
    else:
        RESULTS.write_text(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
