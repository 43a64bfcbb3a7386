"""Our ports with a step before and after what each of them does: a source, two sinks. The storage is tests/crash's.

The two sinks differ in where output waits for the commit: the file sink stages files of its own, the parcel sink hands
its rows to the driver as bytes, which go through the checkpoint directory.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flintstream import Committer, FileSink, Sink, SinkWriter, Split, SplitSource, WriterContext
from flintstream.connectors.files_staging import FileCommitter
from tests.crash.ports import FaultyCommitter
from tests.faults.points import Points


@dataclass
class FaultySource(SplitSource):
    """Numbered records whose every field follows from their place. They are out of order by less than 300 ms."""

    points: Points
    name: str
    count: int = 60
    ballast: int = 0
    number_of_splits: int = 2

    @property
    def is_bounded(self) -> bool:
        return True

    def splits(self, parallelism: int) -> Sequence[Split]:
        return [Split(number, 0, self.count) for number in range(self.number_of_splits)]

    def read(self, split: int, start: int, end: int) -> list[Any]:
        self.points.reach("read")
        records = [self.record(split, n) for n in range(start, end)]
        self.points.reach("read done")
        return records

    def record(self, split: int, n: int) -> dict[str, Any]:
        rng = random.Random(f"{self.name}/{split}/{n}")
        return {
            "key": rng.randrange(5),
            "ts": 10_000 + n * 100 + rng.randrange(300),
            "n": n * self.number_of_splits + split,
            "ballast": rng.randbytes(self.ballast),
        }


@dataclass
class FaultySink(Sink):
    """Any sink, with steps in its writers and its committer."""

    inner: Sink
    points: Points

    @property
    def delivery(self) -> str:
        return self.inner.delivery

    @property
    def is_chosen(self) -> bool:
        return self.inner.is_chosen

    @property
    def overwrites(self) -> bool:
        return self.inner.overwrites

    def deliveries(self) -> Any:
        return self.inner.deliveries()

    def delivering(self, delivery: Any) -> Sink:
        return FaultySink(self.inner.delivering(delivery), self.points)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        self.points.reach("stage")
        return _FaultyWriter(self.inner.create_writer(context), self.points)

    def create_committer(self) -> Committer:
        inner = self.inner.create_committer()
        if isinstance(self.inner, FileSink) and type(inner) is FileCommitter:
            # It has a step between two files, too.
            fault: Any = self.points
            return FaultyCommitter(self.inner.base_path, fault)
        return _FaultyCommitter(inner, self.points)


class _FaultyWriter(SinkWriter):
    def __init__(self, inner: SinkWriter, points: Points) -> None:
        self._inner = inner
        self._points = points

    def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        self._points.reach("put")
        self._inner.write(values, timestamps)

    def write_column(self, array: Any, kind: Any, timestamps: Any) -> bool:
        self._points.reach("put")
        return self._inner.write_column(array, kind, timestamps)

    def prepare_commit(self) -> Any:
        self._points.reach("prepare")
        committable = self._inner.prepare_commit()
        self._points.reach("prepare done")
        return committable

    def abort(self) -> None:
        if not self._points.is_dead:
            self._inner.abort()


class _FaultyCommitter(Committer):
    def __init__(self, inner: Committer, points: Points) -> None:
        self._inner = inner
        self._points = points

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        self._points.reach("commit")
        self._inner.commit(job, uid, epoch, committables)
        self._points.reach("commit done")

    def show(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        self._points.reach("show")
        self._inner.show(job, uid, epoch, committables)
        self._points.reach("show done")

    def roll_back(self, job: str, uid: str, epoch: int) -> None:
        self._inner.roll_back(job, uid, epoch)


@dataclass
class ParcelSink(Sink):
    """Writes the rows of an epoch as one file of JSON lines, which its committer gets from the driver as bytes."""

    folder: str

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _ParcelWriter()

    def create_committer(self) -> Committer:
        return _ParcelCommitter(Path(self.folder))


class _ParcelWriter(SinkWriter):
    def __init__(self) -> None:
        self._lines: list[str] = []

    def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        self._lines += [json.dumps(value) + "\n" for value in values]

    def prepare_commit(self) -> bytes:
        return "".join(self._lines).encode()


class _ParcelCommitter(Committer):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        staged = self._folder / ".staged"
        staged.write_bytes(b"".join(committables))
        staged.rename(self._folder / f"part-{uid}-{epoch:06d}-000.json")
