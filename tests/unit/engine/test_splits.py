"""Logs as sources, over one that is a dict: parts come up, grow and end, and a restart knows them all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import CollectSink, FileSink, StreamExecutionEnvironment, WatermarkStrategy, count, tumbling
from flintstream.engine import manifest as manifests
from flintstream.engine.coordinator import Coordinator
from flintstream.engine.loop import EpochLoop
from flintstream.engine.manifest import Manifest
from flintstream.engine.options import JobOptions
from flintstream.engine.task import forget
from flintstream.errors import SourceError, UserFunctionError
from flintstream.local.run import LocalRunner
from flintstream.model.connect import LogPart, LogSource, TimedRecords
from flintstream.state.storage import MemoryStorage, Storage
from tests.unit.values import law

Records = list[tuple[str, int]]


class DictLog(LogSource):
    """Parts are lists of (value, timestamp); every look finds what is there by then."""

    def __init__(self, parts: dict[str, Records], bounded: bool = False, first: int = 0) -> None:
        self.parts = parts
        self.discovery_interval_ms = None if bounded else 1
        self._bounded = bounded
        self._first = first
        self.told: list[Mapping[str, int]] = []

    @property
    def is_bounded(self) -> bool:
        return self._bounded

    def discover(self, known: Collection[str], is_first: bool) -> Sequence[LogPart]:
        new = [name for name in self.parts if name not in known]
        end = {name: len(self.parts[name]) if self._bounded else None for name in new}
        return [LogPart(name, self._first if is_first else 0, end[name]) for name in new]

    def available(self, names: Collection[str]) -> Mapping[str, int]:
        return {name: len(self.parts[name]) for name in names}

    def read_part(self, name: str, start: int, end: int) -> TimedRecords:
        rows = self.parts[name][start:end]
        return TimedRecords([value for value, _ in rows], [at for _, at in rows])

    def committed(self, positions: Mapping[str, int]) -> None:
        self.told.append(positions)
        raise SourceError("nobody listens")


class Job:
    """A job over a log, one epoch at a time."""

    def __init__(self, log: LogSource, storage: Storage, folder: Path | None = None, records: int = 0) -> None:
        env = StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(2)
        stream = env.from_source(log, WatermarkStrategy.for_monotonous_timestamps(), "log").uid("timed")
        self._lines: list[Any] = []
        if folder is None:
            counted = stream.key_by(lambda value: value).window(tumbling("10ms")).agg(n=count()).uid("counted")
            sink = CollectSink(lambda epoch, values: self._lines.extend(values))
            counted.sink_to(sink).uid("out")
        else:
            stream.sink_to(FileSink.json(folder)).uid("out")
        plan = env.compile("job")
        self.coordinator = Coordinator(plan, storage)
        self.coordinator.recover()
        self._loop = EpochLoop(
            self.coordinator, JobOptions(max_records=records), LocalRunner(plan, storage).run_epoch, None
        )

    def step(self) -> bool:
        return self._loop._step()

    def run(self) -> list[Any]:
        """Run until there is nothing to do."""
        while self.step():
            manifest = self.coordinator.manifest
            if manifest is not None and manifest.finished:
                break
        return self._lines

    def close(self) -> Manifest | None:
        forget(self.coordinator.incarnation)
        return self.coordinator.manifest


def rows(lines: list[Any]) -> list[tuple[str, int, int]]:
    return sorted((row.key, row.window_start, row.n) for row in lines)


def test_parts_that_come_up_are_numbered_in_turn_and_read_from_their_beginning() -> None:
    log, storage = DictLog({"a": [("x", 1), ("x", 2)]}, first=1), MemoryStorage()
    job = Job(log, storage)
    job.run()
    log.parts["b"] = [("x", 3), ("x", 30)]
    log.parts["a"].append(("x", 40))
    job._loop._coordinator.look_for_splits(1 << 60)
    assert rows(job.run()) == [("x", 0, 2)]
    manifest = job.close()
    assert manifest is not None
    assert manifest.parts == {"log-1": [(0, "a", 1, None), (1, "b", 0, None)]}
    assert manifest.positions == {"log-1": {0: 3, 1: 2}}
    found = manifests.newest(storage)
    assert found is not None and found.digest() == manifest.digest()
    again = Job(DictLog({**log.parts, "c": [("y", 50)]}), storage)
    assert [split.name for split in again.coordinator.splits()[1]] == ["a", "b", "c"]
    assert again.coordinator.positions() == {1: {0: 3, 1: 2, 2: 0}}
    assert log.told[-1] == {"a": 3, "b": 2}


def test_a_log_without_any_part_yet_is_no_log_that_has_ended() -> None:
    log = DictLog({})
    job = Job(log, MemoryStorage())
    assert not job.step()
    log.parts["a"] = [("x", 1), ("x", 11)]
    job.coordinator.look_for_splits(0)
    job.coordinator.look_for_splits(1 << 60)
    assert rows(job.run()) == [("x", 0, 1)]
    job.close()


def test_a_bounded_log_without_any_part_has_ended() -> None:
    job = Job(DictLog({}, bounded=True), MemoryStorage())
    job.run()
    manifest = job.close()
    assert manifest is not None and manifest.finished


def test_where_a_bounded_log_ends_stays_what_it_was(tmp_path: Path) -> None:
    log, storage = DictLog({"a": [(str(n), n) for n in range(6)]}, bounded=True), MemoryStorage()
    first = Job(log, storage, tmp_path, records=2)
    first.step()
    first.close()
    log.parts["a"].append(("late", 9))
    log.parts["b"] = [("late", 9)]
    second = Job(log, storage, tmp_path, records=2)
    second.run()
    manifest = second.close()
    assert manifest is not None and manifest.finished and manifest.positions == {"log-1": {0: 6}}


class Dead(DictLog):
    def discover(self, known: Collection[str], is_first: bool) -> Sequence[LogPart]:
        raise SourceError("nobody answers; look after it")


class Odd(DictLog):
    def read_part(self, name: str, start: int, end: int) -> TimedRecords:
        raise ZeroDivisionError


def test_a_log_that_cannot_be_asked_or_read_is_named_with_the_users_line() -> None:
    with pytest.raises(SourceError, match=r"nobody answers; test_splits\.py:\d+; look after it"):
        Job(Dead({}), MemoryStorage())
    job = Job(Odd({"a": [("x", 1)]}), MemoryStorage())
    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        job.step()


@law
@given(
    st.lists(st.lists(st.tuples(st.sampled_from("xy"), st.integers(0, 60)), max_size=8), min_size=1, max_size=3),
    st.integers(0, 3),
    st.booleans(),
)
def test_cuts_and_restarts_change_no_result(parts: list[Records], records: int, restart: bool) -> None:
    """In each part time only rises, so nothing is late, whatever the order in which parts are read."""
    log = {f"p{n}": sorted(each, key=lambda row: row[1]) for n, each in enumerate(parts)}
    expected: dict[tuple[str, int], int] = {}
    for each in log.values():
        for value, at in each:
            expected[value, at // 10 * 10] = expected.get((value, at // 10 * 10), 0) + 1
    storage = MemoryStorage()
    job = Job(DictLog(log, bounded=True), storage, records=records)
    lines: list[Any] = []
    while not (job.coordinator.manifest is not None and job.coordinator.manifest.finished):
        assert job.step()
        if restart:
            # What the last epoch put out is put out again to a sink that has just been made.
            lines, job._lines[:] = [*lines, *job._lines], []
            job.close()
            job = Job(DictLog(log, bounded=True), storage, records=records)
            job._lines.clear()
    lines += job._lines
    job.close()
    assert rows(lines) == sorted((value, start, n) for (value, start), n in expected.items())
