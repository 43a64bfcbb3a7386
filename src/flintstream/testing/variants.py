"""The ways in which every transcript is played: results must not depend on them.

As written; with a restart between every two steps; with every line in an epoch of its own; with all input up to the
next question in one epoch; with the lines between two watermarks in another order; with parallelism 1, 2 and 3; with
another parallelism after each of many restarts.
"""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from flintstream.testing.stepped import Line
from flintstream.testing.transcript import End, Feed, Now, Restart, Step, Transcript

Rearrange = Callable[[Transcript], list[Step]]


@dataclass(frozen=True)
class Variant:
    """A way to play a transcript."""

    name: str
    parallelism: int
    rearrange: Rearrange


def as_written(transcript: Transcript) -> list[Step]:
    return list(transcript.steps)


def with_restarts(transcript: Transcript) -> list[Step]:
    return _between(transcript.steps, itertools.repeat(None))


def rescaled(transcript: Transcript) -> list[Step]:
    return _between(transcript.steps, itertools.cycle([3, 1, 2]))


def _between(steps: Sequence[Step], parallelism: Iterable[int | None]) -> list[Step]:
    """Put a restart between every two steps; a job that has ended does not start again."""
    ways = iter(parallelism)
    result: list[Step] = []
    ended = False
    for step in steps:
        if result and not ended:
            result.append(Restart(next(ways)))
        result.append(step)
        ended = ended or isinstance(step, End)
    return result


def one_by_one(transcript: Transcript) -> list[Step]:
    return [
        piece
        for step in transcript.steps
        for piece in ([Feed((line,)) for line in step.lines] if isinstance(step, Feed) else [step])
    ]


def joined(transcript: Transcript) -> list[Step]:
    """Join neighbouring epochs of input. With several splits their order would be lost, which is part of the input."""
    if not transcript.is_one_sequence:
        return list(transcript.steps)
    result: list[Step] = []
    for step in transcript.steps:
        if isinstance(step, Feed) and result and isinstance(result[-1], Feed):
            result[-1] = Feed(result[-1].lines + step.lines)
        else:
            result.append(step)
    return result


def reordered(transcript: Transcript) -> list[Step]:
    """Shuffle the records between two watermarks, as far as nobody asked in between."""
    rng = random.Random(zlib.crc32(transcript.id.encode()))
    steps = joined(transcript)
    return [Feed(_shuffled(step.lines, rng)) if isinstance(step, Feed) else step for step in steps]


def _shuffled(lines: Sequence[Line], rng: random.Random) -> tuple[Line, ...]:
    result: list[Line] = []
    for is_mark, group in itertools.groupby(lines, key=lambda line: line.is_mark):
        stretch = list(group)
        if not is_mark:
            rng.shuffle(stretch)
        result += stretch
    return tuple(result)


def late_ticks(transcript: Transcript) -> list[Step]:
    """Run an epoch without input after every step: a tick that finds nothing to do changes nothing."""
    result: list[Step] = []
    ended = False
    for step in transcript.steps:
        result.append(step)
        ended = ended or isinstance(step, End)
        if isinstance(step, Feed | Now) and not ended:
            result.append(Feed(()))
    return result


REORDERED = "reordered"
AS_WRITTEN = Variant("as-written", 2, as_written)
_ALL = (
    AS_WRITTEN,
    Variant("restarts", 2, with_restarts),
    Variant("one-by-one", 2, one_by_one),
    Variant("joined", 1, joined),
    Variant("joined-3", 3, joined),
    Variant(REORDERED, 2, reordered),
    Variant("parallelism-1", 1, as_written),
    Variant("parallelism-3", 3, late_ticks),
    Variant("rescaled", 2, rescaled),
)


def variants_of(transcript: Transcript) -> list[Variant]:
    """Return the ways that are different for a transcript, the plain one first."""
    variants: list[Variant] = []
    seen: set[tuple[int, tuple[str, ...]]] = set()
    for variant in _ALL:
        if variant.name == REORDERED and not transcript.may_reorder:
            continue
        way = (variant.parallelism, tuple(map(repr, variant.rearrange(transcript))))
        if way not in seen:
            seen.add(way)
            variants.append(variant)
    return variants
