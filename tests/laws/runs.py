"""How the batching law cuts, spreads and interrupts a run, and runs a program in one way or another."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flintstream import CollectSink, DataStream, MapFunction, StreamExecutionEnvironment, WatermarkStrategy, bounded
from flintstream.errors import UserFunctionError
from tests.capabilities.support import Lists, StopAfter, StoppedOnPurpose
from tests.laws.programs import Program

Record = dict[str, Any]
NewEnv = Callable[..., StreamExecutionEnvironment]


@dataclass(frozen=True)
class Input:
    """The splits of the two sources; without a second one, both streams come from the first.

    Without a strategy of their own they are out of order by at most `bound`.
    """

    left: Sequence[Sequence[Record]]
    right: Sequence[Sequence[Record]] | None = None
    bound: int = 0
    strategy: WatermarkStrategy | None = None


@dataclass(frozen=True)
class Life:
    """One start of a job: how it is cut and spread, and after how many epochs it dies, if it does.

    With `fuse` it dies in the midst of an epoch instead, at the first record with that number.
    """

    max_records: int = 0
    parallelism: int = 1
    stop_after: int | None = None
    fuse: int | None = None


@dataclass(frozen=True)
class Way:
    """A way to run a program: a number of lives, of which the last goes to the end."""

    lives: Sequence[Life] = field(default_factory=lambda: (Life(),))
    deterministic: bool = False


class Fuse(MapFunction):
    """Blows once at a given number; a file remembers that it did, whatever process it was in."""

    def __init__(self, at: int | None, burnt: Path) -> None:
        self._at = at
        self._burnt = burnt

    def map(self, value: Record) -> Record:
        if value["n"] == self._at and not self._burnt.exists():
            self._burnt.touch()
            raise StoppedOnPurpose
        return value


def run(program: Program | Sequence[Program], records: Input, way: Way, new_env: NewEnv) -> dict[str, list[Any]]:
    """Return what a program emits, by output; several programs run as one job."""
    programs = [program] if callable(program) else program
    sinks: dict[str, CollectSink] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, life in enumerate(way.lives):
            env = new_env(life.parallelism, max_records=life.max_records, checkpoint_dir=Path(folder, "checkpoint"))
            env.deterministic_order(way.deterministic)
            left, right = sources(env, records, Fuse(life.fuse, Path(folder, f"fuse-{number}")))
            for each in programs:
                for name, stream in each(left, right).items():
                    stream.sink_to(sinks.setdefault(f"{each.__name__} {name}", CollectSink()))
            if life.stop_after is not None:
                env.add_listener(StopAfter(life.stop_after))
            try:
                env.execute("law")
                break
            except StoppedOnPurpose:
                continue
            except UserFunctionError as error:
                assert error.error_type == "StoppedOnPurpose", error
    return {name: sink.results for name, sink in sinks.items()}


def sources(env: StreamExecutionEnvironment, records: Input, fuse: Fuse) -> tuple[DataStream, DataStream]:
    strategy = records.strategy or bounded(records.bound, on="ts")
    left = env.from_source(Lists(*records.left)).uid("left").map(fuse).uid("fuse")
    left = left.assign_timestamps_and_watermarks(strategy).uid("left time")
    if records.right is None:
        return left, left.filter(lambda r: r["n"] % 2 == 1).uid("odd")
    right = env.from_source(Lists(*records.right)).uid("right")
    return left, right.assign_timestamps_and_watermarks(strategy).uid("right time")


def lateness(splits: Sequence[Sequence[Record]]) -> int:
    """Return by how much a record at most comes behind a later one of its split."""
    most = 0
    for split in splits:
        newest = -(10**9)
        for record in split:
            newest = max(newest, record["ts"])
            most = max(most, newest - record["ts"])
    return most
