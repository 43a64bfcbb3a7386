"""When a chaos run kills what: a list made beforehand from a seed, so that a run can be repeated."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

PATIENT = 0.75
SERVERS = ("broker", "database")
JOB = ("driver", "jvm", "worker")


@dataclass(frozen=True)
class Kill:
    """At `at` seconds of the run, a process of this kind; a server comes back after `down` seconds.

    A patient kill waits until the job has come back to itself from the one before: without any, a slow machine would
    see nothing but jobs that are about to start.
    """

    at: float
    kind: str
    down: float = 0.0
    is_patient: bool = True


def plan_kills(seed: int, seconds: float, number: int, kinds: Sequence[str], longest_down: float = 8.0) -> list[Kill]:
    """Return the kills of a run: one at a random moment of each equal part of it, the kinds equally often."""
    rng = random.Random(seed)
    rounds = itertools.chain.from_iterable(rng.sample(kinds, len(kinds)) for _ in itertools.count())
    part = seconds / max(1, number)
    return [
        Kill(
            part * (place + rng.random()),
            kind,
            rng.uniform(0, longest_down) if kind in SERVERS else 0.0,
            rng.random() < PATIENT,
        )
        for place, kind in zip(range(number), rounds, strict=False)
    ]
