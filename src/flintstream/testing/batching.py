"""The batching law for a user's own pipeline: how input is cut, spread and interrupted must not show in the results.

The pipeline is run once over all records at once, and then in ways that production might choose: cut anywhere, with
other parallelism, stopped, killed before a commit and after it. A function that keeps in an attribute what belongs into
state, or counts on seeing all records of a batch together, gives another result in one of them.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from flintstream.api.environment import StreamExecutionEnvironment
from flintstream.errors import InvalidArgumentError, JobError, LawError, StateError, describe
from flintstream.graph.location import users_line
from flintstream.model.watermarks import WatermarkStrategy
from flintstream.state.storage import MemoryStorage
from flintstream.testing.harness import Pipeline, outputs_of, parameters_of
from flintstream.testing.stepped import InProcess, Line, Outputs, ScriptedSource, SteppedJob

MOST_EPOCHS = 24
"""Into how many epochs input is cut at most, however many records there are."""
GO_ON, RESTART, LOSE, REPEAT = "go on", "restart", "die before the commit", "die after the commit"
Results = dict[str, list[Any]]


@dataclass(frozen=True)
class Way:
    """One way to run a pipeline: after each stretch of input something happens, perhaps with other parallelism."""

    name: str
    stretches: tuple[tuple[Line, ...], ...]
    parallelism: tuple[int, ...]
    events: tuple[str, ...]


def check_batching(
    pipeline: Pipeline,
    records: Sequence[Any] | Mapping[str, Sequence[Any]],
    *,
    watermark: WatermarkStrategy | None = None,
    parallelism: Sequence[int] = (1, 2, 3),
    ways: int = 12,
    seed: int = 0,
) -> int:
    """Run a pipeline in many ways, and compare the results; return in how many.

    Processing time stands still meanwhile. Several inputs are merged in one order, as by `deterministic_order()`.

    Example:
        >>> from flintstream import bounded, count, tumbling
        >>> def clicks_per_user(clicks):
        ...     return clicks.key_by("user").window(tumbling("10s")).agg(n=count())
        >>> clicks = [{"user": "ann", "ts": 3000 * number} for number in range(10)]
        >>> check_batching(clicks_per_user, clicks, watermark=bounded("2s", on="ts"), ways=2)
        10

    Args:
        pipeline: A function from streams, one for each of its parameters, to a stream or a dict of streams by name.
        records: What comes in, in order; for several inputs a dict, by the names of the parameters.
        watermark: How records get their event time, if the pipeline does not see to it itself.
        parallelism: With how many instances operators run.
        ways: How many random ways to try, besides the regular ones.
        seed: Another seed gives other random ways.

    Raises:
        LawError: a way gave something else; it says which, and where the first difference is.
    """
    inputs = _inputs(pipeline, records)
    lines = [Line(name, 0, {"value": value}) for name, values in inputs.items() for value in values]
    play = _Play(pipeline, tuple(inputs), watermark)
    plain = play.run(Way("all at once", (tuple(lines),), (1,), ()))
    if not any(plain.values()):
        what = "the pipeline gives no result for these records, so there is nothing to compare"
        raise InvalidArgumentError(describe(what, users_line(), "give it more, or other, records"))
    played = 0
    for way in [*_regular(lines, parallelism), *_random(lines, parallelism, ways, random.Random(seed))]:
        try:
            found = play.run(way)
        except (JobError, StateError) as error:
            msg = f"played {way.name}, the pipeline fails, and all at once it does not: {error}"
            raise _broken(msg) from error
        difference = _first_difference(plain, found)
        if difference is not None:
            msg = f"played {way.name}, {difference}"
            raise _broken(msg)
        played += 1
    return played


def _broken(what: str) -> LawError:
    line = users_line()
    remedy = "keep what a function remembers in its state, and let nothing depend on which records come together"
    return LawError(describe(what, line, remedy), location=line)


def _inputs(pipeline: Pipeline, records: Any) -> dict[str, Sequence[Any]]:
    names = parameters_of(pipeline)
    given = cast("Mapping[str, Sequence[Any]]", records) if isinstance(records, Mapping) else {names[0]: records}
    if set(given) != set(names):
        what = f"the pipeline has the inputs {', '.join(names)}, and records are given for {', '.join(given)}"
        raise InvalidArgumentError(describe(what, users_line(), "give a dict with the records of each"))
    return {name: given[name] for name in names}


def _pieces(lines: Sequence[Line], cuts: Iterable[int]) -> tuple[tuple[Line, ...], ...]:
    places = [0, *sorted(set(cuts)), len(lines)]
    return tuple(tuple(lines[start:end]) for start, end in pairwise(places))


def _regular(lines: Sequence[Line], parallelism: Sequence[int]) -> Iterator[Way]:
    """Yield the ways that everything is tried in."""
    whole = (tuple(lines),)
    step = max(1, -(-len(lines) // MOST_EPOCHS))
    small = _pieces(lines, range(step, len(lines), step))
    size = "one record at a time" if step == 1 else f"{step} records at a time"
    for number in parallelism:
        yield Way(f"all at once, with parallelism {number}", whole, (number,), ())
    yield Way(size, small, (parallelism[0],), (GO_ON,))
    yield Way(f"{size}, with a restart after each", small, (parallelism[-1],), (RESTART,))
    yield Way(f"{size}, with other parallelism after each", small, tuple(parallelism), (RESTART,))
    yield Way(f"{size}, dying before each commit", small, (parallelism[0],), (LOSE,))
    yield Way(f"{size}, dying after each commit", small, (parallelism[-1],), (REPEAT,))


def _random(lines: Sequence[Line], parallelism: Sequence[int], ways: int, rng: random.Random) -> Iterator[Way]:
    for number in range(ways):
        order = _interleaved(lines, rng)
        inner = range(1, len(order))
        cuts = sorted(rng.sample(inner, min(len(inner), rng.randint(1, 8))))
        spread = tuple(rng.choice(parallelism) for _ in range(len(cuts) + 1))
        events = tuple(rng.choice([GO_ON, RESTART, LOSE, REPEAT]) for _ in range(len(cuts) + 1))
        said = ", ".join(
            event if event == GO_ON else f"{event}, with parallelism {spread[(place + 1) % len(spread)]} from then on"
            for place, event in enumerate(events)
        )
        yield Way(f"cut at {cuts} (random way {number}: {said})", _pieces(order, cuts), spread, events)


def _interleaved(lines: Sequence[Line], rng: random.Random) -> list[Line]:
    """Return the lines with those of different inputs mixed, each input's in order."""
    queues: dict[str, list[Line]] = {}
    for line in lines:
        queues.setdefault(line.source, []).append(line)
    names = [line.source for line in lines]
    rng.shuffle(names)
    heads = {name: iter(queue) for name, queue in queues.items()}
    return [next(heads[name]) for name in names]


class _Play:
    """Runs the pipeline in one way after the other."""

    def __init__(self, pipeline: Pipeline, inputs: tuple[str, ...], watermark: WatermarkStrategy | None) -> None:
        self._pipeline = pipeline
        self._inputs = inputs
        self._watermark = watermark

    def _declare(self, env: StreamExecutionEnvironment, folder: Path) -> Outputs:
        streams = [
            env.from_source(ScriptedSource(folder, name)).uid(f"source {name}").map(_value_of).uid(f"input {name}")
            for name in self._inputs
        ]
        if self._watermark is not None:
            strategy = self._watermark
            streams = [each.assign_timestamps_and_watermarks(strategy) for each in streams]
        return outputs_of(self._pipeline(*streams))

    def run(self, way: Way) -> Results:
        """Return the results by output."""
        folder = tempfile.mkdtemp(prefix="flintstream-test-")
        several = len(self._inputs) > 1
        try:
            job = SteppedJob(
                self._declare,
                Path(folder),
                InProcess(),
                way.parallelism[0],
                deterministic=several,
                storage=MemoryStorage(),
                ships=True,
            )
            try:
                for number, stretch in enumerate(way.stretches):
                    event = way.events[number % len(way.events)] if way.events else GO_ON
                    self._take(job, stretch, event, way.parallelism[(number + 1) % len(way.parallelism)])
                job.epoch(end=True)
            finally:
                job.stop()
            return {name: sink.results for name, sink in job.sinks.items()}
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _take(self, job: SteppedJob, stretch: Sequence[Line], event: str, parallelism: int) -> None:
        if event in (LOSE, REPEAT):
            job.crash(stretch, committed=event == REPEAT, parallelism=parallelism)
        # What was lost is read again.
        job.epoch(() if event in (LOSE, REPEAT) else stretch)
        if event == RESTART:
            job.restart(parallelism)


def _value_of(row: Any) -> Any:
    return row["value"]


def _first_difference(plain: Results, found: Results) -> str | None:
    for name, wanted in plain.items():
        given = found[name]
        for number, (one, other) in enumerate(zip(wanted, given, strict=False)):
            if one != other and repr(one) != repr(other):
                return f"output {name!r} gives {other!r} as result {number}, where all at once it gives {one!r}"
        if len(given) < len(wanted):
            return f"output {name!r} ends after {len(given)} results, where all at once {wanted[len(given)]!r} follows"
        if len(given) > len(wanted):
            return f"output {name!r} goes on with {given[len(wanted)]!r}, where all at once it has ended"
    return None
