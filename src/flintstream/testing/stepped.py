"""A job that is driven epoch by epoch, on either runtime, over a real checkpoint directory.

Sources read logs on disk that the driver of the test appends to, so a worker in another process sees what a step has
just added, and a job that starts again finds all of it. The clock is what the test says. A restart builds the program,
the plan and the driver anew and recovers from the newest manifest: nothing else survives.

Flink: AbstractStreamOperatorTestHarness, MiniCluster.
Differs from Flink: it is the engine itself that runs, from the plan to the commit, and not an operator alone.
"""

from __future__ import annotations

import base64
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cloudpickle

from flintstream.api.datastream import DataStream
from flintstream.api.environment import StreamExecutionEnvironment
from flintstream.engine.coordinator import Coordinator
from flintstream.engine.epoch import EpochContext, ReadRange, TaskReport
from flintstream.engine.loop import EpochLoop, RunEpoch
from flintstream.engine.manifest import Manifest
from flintstream.engine.options import JobOptions, StartFrom
from flintstream.engine.task import forget
from flintstream.errors import UnsupportedError, describe
from flintstream.graph.nodes import SourceNode
from flintstream.local.run import LocalRunner, check_sources, with_local_files
from flintstream.model.connect import Split, SplitSource
from flintstream.planner.plan import Plan
from flintstream.planner.ship import check_functions
from flintstream.state.storage import LocalStorage, Storage
from flintstream.testing.sinks import RecordingSink, SimulatedCrash

Outputs = Mapping[str, DataStream]
Declare = Callable[[StreamExecutionEnvironment, Path], Outputs]
"""Declares a program over logs in a folder, and returns its outputs by name."""


@dataclass(frozen=True)
class Line:
    """One line of a source's log: a record, or the mark that says how far event time is."""

    source: str
    split: int
    row: Mapping[str, Any]

    @property
    def is_mark(self) -> bool:
        """Whether it is no record."""
        return "watermark" in self.row


class ScriptedSource(SplitSource):
    """Reads logs of pickled lines, one for each split, that grow while the job runs."""

    def __init__(self, folder: Path, name: str, splits: int = 1) -> None:
        self.name = name
        self._folder = folder
        self._splits = splits

    @property
    def is_bounded(self) -> bool:
        return False

    def splits(self, parallelism: int) -> Sequence[Split]:
        return [Split(number) for number in range(self._splits)]

    def read(self, split: int, start: int, end: int) -> list[Any]:
        lines = self._log(split).read_bytes().splitlines()
        # Whoever reads a record has one of its own: what a function does to it is gone when it is read again.
        return [pickle.loads(base64.b64decode(line)) for line in lines[start:end]]

    def append(self, split: int, rows: Iterable[Any]) -> None:
        """Add rows to the log of a split."""
        with self._log(split).open("ab") as file:
            file.writelines(base64.b64encode(cloudpickle.dumps(row)) + b"\n" for row in rows)

    def _log(self, split: int) -> Path:
        return self._folder / f"{self.name}-{split}.log"


class Runtime(ABC):
    """Where the tasks of an epoch run."""

    name: str

    def prepare(self, plan: Plan) -> Plan:
        """Return the plan as this runtime runs it, or raise if it cannot."""
        return plan

    @abstractmethod
    def start(self, plan: Plan, storage: Storage) -> RunEpoch:
        """Return what runs the epochs of a plan."""

    @abstractmethod
    def stop(self, incarnation: str) -> None:
        """Forget what is in memory of a job."""


class InProcess(Runtime):
    """Tasks run here, one after the other."""

    name = "local"

    def prepare(self, plan: Plan) -> Plan:
        plan = with_local_files(plan)
        check_sources(plan)
        return plan

    def start(self, plan: Plan, storage: Storage) -> RunEpoch:
        return LocalRunner(plan, storage).run_epoch

    def stop(self, incarnation: str) -> None:
        forget(incarnation)


class SteppedJob:
    """A program that runs one epoch whenever it is told to.

    `ships` says that functions shall be looked at as if they were to be sent to workers.
    """

    # No dataclass: the constructor of one is in no file, and would be taken for the user's line.
    def __init__(
        self,
        declare: Declare,
        folder: Path,
        runtime: Runtime,
        parallelism: int,
        *,
        deterministic: bool = False,
        storage: Storage | None = None,
        ships: bool = False,
        start_from: StartFrom | None = None,
    ) -> None:
        self.declare = declare
        self.folder = folder
        self.runtime = runtime
        self.parallelism = parallelism
        self.deterministic = deterministic
        self.ships = ships
        self.start_from = start_from
        self.files = storage or LocalStorage(str(folder / "checkpoint"), durable=False)
        self.sinks: dict[str, RecordingSink] = {}
        self.now = 0
        self._reports: Sequence[TaskReport] | None = None
        self._lengths: dict[tuple[str, int], int] = {}
        self._dies = False
        self._start()

    def _start(self) -> None:
        env = StreamExecutionEnvironment.get_execution_environment(runtime=self.runtime.name)
        env.set_parallelism(self.parallelism).deterministic_order(self.deterministic)
        for name, stream in self.declare(env, self.folder).items():
            stream.sink_to(self.sinks.setdefault(name, RecordingSink())).uid(f"output {name}")
        plan = self.runtime.prepare(env.compile("transcript"))
        if self.ships:
            plan = replace(plan, classes=check_functions(plan))
        self.plan = plan
        # The test itself has made what is there.
        self._coordinator = Coordinator(plan, self.files, start=self.start_from, trust=True)
        self._tasks = self.runtime.start(plan, self.files)
        self._loop = EpochLoop(self._coordinator, JobOptions(), self._run, self._note)
        self._sources = {
            op.node.source.name: (op.id, op.node.source)
            for op in plan.operators
            if isinstance(op.node, SourceNode) and isinstance(op.node.source, ScriptedSource)
        }
        self._check_sources()
        self._reports = None
        self._coordinator.recover()

    def _check_sources(self) -> None:
        """Refuse sources of the program's own that nobody would ever have read to their end."""
        scripted = {node for node, _ in self._sources.values()}
        for node, splits in self._coordinator.splits().items():
            if node not in scripted and any(split.end is None for split in splits):
                op = self.plan.operator(node)
                what = f"source {op.node.name!r} never ends, and a test cannot wait for it"
                remedy = "let the test feed the stream instead, or bound the source"
                raise UnsupportedError(describe(what, op.node.location, remedy), location=op.node.location)

    def _run(self, context: EpochContext) -> Sequence[TaskReport]:
        reports = self._tasks(context)
        if self._dies:
            raise SimulatedCrash
        return reports

    def _note(self, manifest: Manifest, reports: Sequence[TaskReport], seconds: float) -> None:
        self._reports = reports

    @property
    def manifest(self) -> Manifest | None:
        """The newest committed manifest."""
        return self._coordinator.manifest

    @property
    def has_ended(self) -> bool:
        """Whether the last epoch was the last one."""
        return self.manifest is not None and self.manifest.finished

    def epoch(self, lines: Iterable[Line] = (), *, end: bool = False) -> None:
        """Run one epoch over all that is unread, with new lines of the logs; with `end` it is the last one."""
        by_split: dict[tuple[str, int], list[Any]] = {}
        for line in lines:
            by_split.setdefault((line.source, line.split), []).append(line.row)
        for (name, split), rows in by_split.items():
            self._sources[name][1].append(split, rows)
            self._lengths[name, split] = self._lengths.get((name, split), 0) + len(rows)
        ranges = [*self._unread(), *self._unread_elsewhere()]
        lanes = self._coordinator.lanes
        ending = frozenset(lane for piece in ranges if piece.last for lane in lanes.lanes_of(piece.source, piece.split))
        if end:
            ending = lanes.unfinished()
        self._loop.run_epoch(self._coordinator.begin(self.now, ranges, ending, end), {})
        if lanes.owes_tick and not end:
            # As the loop does: a generator has said that its split is idle, which counts from the next epoch on.
            self._loop.run_epoch(self._coordinator.begin(self.now, (), frozenset(), False), {})

    def _unread(self) -> Iterable[ReadRange]:
        positions = self._coordinator.positions()
        for (name, split), length in self._lengths.items():
            node = self._sources[name][0]
            start = positions[node][split]
            if start < length:
                yield ReadRange(node, split, start, length)

    def _unread_elsewhere(self) -> Iterable[ReadRange]:
        """Yield the rest of all sources that the program has besides those of the test."""
        scripted = {node for node, _ in self._sources.values()}
        positions = self._coordinator.positions()
        for node, splits in self._coordinator.splits().items():
            for split in splits if node not in scripted else ():
                start = positions[node][split.number]
                if split.end is not None and start < split.end:
                    yield ReadRange(node, split.number, start, split.end, True, split.name)

    def crash(self, lines: Iterable[Line] = (), *, committed: bool, parallelism: int | None = None) -> None:
        """Die in the midst of an epoch over these lines, and start again.

        Either all tasks have run and nothing is committed, or the epoch is `committed` and nothing is published.
        """
        self._dies = not committed
        for sink in self.sinks.values():
            sink.dies = committed
        try:
            self.epoch(lines)
        except SimulatedCrash:
            pass
        finally:
            self._dies = False
            for sink in self.sinks.values():
                sink.dies = False
        self.restart(parallelism)

    def restart(self, parallelism: int | None = None) -> None:
        """End the process, and start the program again from its checkpoint directory."""
        self.stop()
        self.parallelism = parallelism or self.parallelism
        self._start()

    def stop(self) -> None:
        """Let go of everything in memory."""
        self.runtime.stop(self._coordinator.incarnation)

    def state(self) -> dict[str, int]:
        """Return how many entries and timers the job has."""
        if self._reports is None:
            self.epoch()  # a process that has just started has not looked at its state yet
        left = {"entries": 0, "timers": 0}
        for report in self._reports or ():
            for name, rows in report.entries.items():
                left["timers" if name.endswith("-timers") else "entries"] += rows
        return left

    def tables(self) -> dict[str, int]:
        """Return the tables that are not empty, with their rows; for messages."""
        found: dict[str, int] = {}
        for report in self._reports or ():
            for name, rows in report.entries.items():
                if rows:
                    found[name] = found.get(name, 0) + rows
        return found

    def counter(self, name: str) -> int:
        """Return a counter over all operators, since the job first began."""
        counters = {} if self.manifest is None else self.manifest.counters
        return sum(counts.get(name, 0) for counts in counters.values())
