"""A job whose output is counted: how many rows a crash loses and how many it doubles, by how its sink delivers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flintstream import (
    Committer,
    FileSink,
    KeyedProcessFunction,
    Sink,
    SinkWriter,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    WriterContext,
)
from flintstream.engine.options import JobOptions
from tests.crash.ports import local
from tests.faults.lives import World, live
from tests.faults.matrix import MAX_RECORDS, files_in
from tests.faults.points import IN_TASKS, Fault, Points
from tests.faults.ports import FaultySink, FaultySource

RECORDS = 120
STEPS = {
    "receive": ("read", "read done"),
    "update state": ("update",),
    "emit": ("put", "prepare done", "show done", "create manifests", "create manifests done", "commit", "commit done"),
}
"""What a failure can hit, with where it hits."""
FEW_STEPS = {"receive": ("read",), "update state": ("update",), "emit": ("create manifests", "create manifests done")}
"""The same where every run is dear."""
_TIMES = {"read": 4, "read done": 4, "update": 60}
"""The how manyth time a step is hit, if not the second: in the midst of the run."""


@dataclass(frozen=True)
class Delivered:
    """What came of a run: rows that are missing, rows too many, and files that were seen and then were not."""

    lost: int
    duplicated: int
    taken_back: int
    counts: dict[int, int]


@dataclass(frozen=True)
class Way:
    """How a sink delivers, and what that allows a failure to cost. Without an isolation it is chosen for the job."""

    guarantee: str
    isolation: str | None = None
    may_lose: bool = False
    may_double: bool = False

    def keeps(self, told: Delivered) -> bool:
        """Whether what came of a run is what was promised."""
        return (self.may_lose or not told.lost) and (self.may_double or not told.duplicated)

    @property
    def is_eager(self) -> bool:
        """Whether rows are shown before the manifest."""
        return self.may_double or self.isolation == "read_uncommitted"


WAYS = {
    "exactly-once": Way("exactly-once"),
    "at-most-once": Way("at-most-once", may_lose=True),
    "at-least-once": Way("at-least-once", may_double=True),
    "read uncommitted": Way("exactly-once", "read_uncommitted"),
}


def places_of(way: Way, world: World) -> Iterator[tuple[str, Fault]]:
    """Yield what fails and the fault: the driver dies, or where it is the test itself, a task's step fails."""
    on_spark = world.name == "spark"
    for step, places in (FEW_STEPS if on_spark else STEPS).items():
        for place in places:
            if place != "show done" or way.is_eager:
                crash = "task" if on_spark and place in IN_TASKS else "driver"
                yield step, Fault(crash, place, _TIMES.get(place, 2))


class RunningCount(KeyedProcessFunction):
    """Emits a key's count with every record of it: every row is there once, and tells the state behind it."""

    def __init__(self, points: Points) -> None:
        self._points = points

    def open(self, runtime_context: Any) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[dict[str, Any]]:
        self._seen.update((self._seen.value() or 0) + 1)
        self._points.reach("update")
        yield {"key": value["key"], "count": self._seen.value()}


class Onlooker:
    """Looks at every step, and remembers files that were there and then were not."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._there: set[str] = set()
        self.gone: set[str] = set()

    def look(self, step: str = "") -> None:
        there = set(files_in(self._folder))
        self.gone |= self._there - there
        self._there = there


def deliver(world: World, folder: Path, faults: Sequence[Fault], way: Way) -> Delivered:
    """Run the job through its faults, delivering in one way."""
    points = Points(str(folder / "points"), tuple(faults))
    Path(points.folder).mkdir(parents=True)
    onlooker = Onlooker(folder / "output")
    points.here().watchers.append(onlooker.look)

    def declare(env: StreamExecutionEnvironment) -> None:
        env.set_parallelism(2)
        records = env.from_source(FaultySource(points, "numbers", RECORDS // 2)).uid("numbers")
        counts = records.key_by("key").process(RunningCount(points)).uid("counts")
        sink = FaultySink(FileSink.json(folder / "output"), points)
        if way.isolation is None:
            env.set_guarantee(way.guarantee)
            counts.sink_to(sink).uid("files")
        else:
            counts.sink_to(sink, guarantee=way.guarantee, isolation=way.isolation).uid("files")

    live(world, declare, points, local(folder / "checkpoints"), JobOptions(max_records=MAX_RECORDS))
    assert len(points.hits()) == len(faults), f"{faults}: only these were hit: {points.hits()}"
    return _counted(folder / "output", onlooker)


def _counted(output: Path, onlooker: Onlooker) -> Delivered:
    files = files_in(output)
    rows = Counter(line for data in files.values() for line in data.decode().splitlines())
    keys = Counter(record["key"] for record in all_records())
    expected = Counter(f'{{"key":{key},"count":{n}}}' for key in keys for n in range(1, keys[key] + 1))
    seen = Counter(int(line.split(":")[1].split(",")[0]) for line in rows.elements())
    onlooker.look()
    return Delivered((expected - rows).total(), (rows - expected).total(), len(onlooker.gone), dict(seen))


def all_records() -> list[dict[str, Any]]:
    source = FaultySource(Points("nowhere"), "numbers", RECORDS // 2)
    return [source.record(split, n) for split in range(2) for n in range(RECORDS // 2)]


def true_counts() -> dict[int, int]:
    return dict(Counter(record["key"] for record in all_records()))


class PlainWriter(SinkWriter):
    """Shows every record at once, as a function with a side effect does; there is nothing left to commit."""

    def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        for value in values:
            self.show(value)

    def show(self, value: Any) -> None:
        raise NotImplementedError

    def prepare_commit(self) -> None:
        return None


class NothingToCommit(Committer):
    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        pass


@dataclass
class LogSink(Sink):
    """A plain sink that appends lines to a file."""

    path: str
    delivery = "at-least-once"

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _LogWriter(self.path)

    def create_committer(self) -> Committer:
        return NothingToCommit()

    def lines(self) -> list[str]:
        return Path(self.path).read_text().splitlines()


class _LogWriter(PlainWriter):
    def __init__(self, path: str) -> None:
        self._path = path

    def show(self, value: Any) -> None:
        with Path(self._path).open("a") as file:
            file.write(f"{value}\n")


@dataclass
class DictSink(Sink):
    """A plain sink that sets `key: value`, as a database's upsert does: a dict whose entries are files."""

    folder: str
    delivery = "at-least-once"

    def create_writer(self, context: WriterContext) -> SinkWriter:
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        return _DictWriter(self.folder, context.attempt)

    def create_committer(self) -> Committer:
        return NothingToCommit()

    def entries(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in Path(self.folder).iterdir() if path.name[0] != "."}


class _DictWriter(PlainWriter):
    def __init__(self, folder: str, attempt: str) -> None:
        self._folder = folder
        self._attempt = attempt

    def show(self, value: Any) -> None:
        key, entry = value
        staged = Path(self._folder, f".{self._attempt}")
        staged.write_text(str(entry))
        staged.rename(Path(self._folder, "-".join(map(str, key))))
