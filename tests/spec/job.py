"""A job that is driven epoch by epoch, on either runtime, over a real checkpoint directory.

Sources read logs on disk that the harness appends to, so a worker in another process sees what a step has just added,
and a job that starts again finds all of it. The driver's clock is what the transcript says. A restart builds the
program, the plan and the driver anew and recovers from the newest manifest: nothing else survives.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flintstream import CollectSink, DataStream, Split, SplitSource, StreamExecutionEnvironment
from flintstream.engine.coordinator import Coordinator
from flintstream.engine.epoch import ReadRange, TaskReport
from flintstream.engine.loop import EpochLoop, RunEpoch
from flintstream.engine.manifest import Manifest
from flintstream.engine.options import JobOptions
from flintstream.engine.task import forget
from flintstream.graph.nodes import SourceNode
from flintstream.local.run import LocalRunner
from flintstream.planner.plan import Plan
from flintstream.state.storage import LocalStorage, Storage
from tests.spec.transcript import Line

Outputs = Mapping[str, DataStream]
Declare = Callable[[StreamExecutionEnvironment, Path], Outputs]
"""Declares a program over logs in a folder, and returns its outputs by name."""


class ScriptedSource(SplitSource):
    """Reads logs of JSON lines, one for each split, that grow while the job runs."""

    def __init__(self, folder: Path, name: str, splits: int) -> None:
        self.name = name
        self._folder = folder
        self._splits = splits

    @property
    def is_bounded(self) -> bool:
        return False

    def splits(self, parallelism: int) -> Sequence[Split]:
        return [Split(number) for number in range(self._splits)]

    def read(self, split: int, start: int, end: int) -> list[Any]:
        lines = self.log(split).read_text().splitlines()
        return [json.loads(line) for line in lines[start:end]]

    def log(self, split: int) -> Path:
        return self._folder / f"{self.name}-{split}.jsonl"

    def append(self, split: int, rows: Sequence[Mapping[str, Any]]) -> None:
        with self.log(split).open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


class Runtime(ABC):
    """Where the tasks of an epoch run."""

    name: str

    @abstractmethod
    def start(self, plan: Plan, storage: Storage) -> RunEpoch:
        """Return what runs the epochs of a plan."""

    @abstractmethod
    def stop(self, incarnation: str) -> None:
        """Forget what is in memory of a job."""


class InProcess(Runtime):
    name = "local"

    def start(self, plan: Plan, storage: Storage) -> RunEpoch:
        return LocalRunner(plan, storage).run_epoch

    def stop(self, incarnation: str) -> None:
        forget(incarnation)


@dataclass
class SteppedJob:
    """A program that runs one epoch whenever it is told to."""

    declare: Declare
    folder: Path
    runtime: Runtime
    parallelism: int
    sinks: dict[str, CollectSink] = field(default_factory=dict[str, CollectSink])
    now: int = 0
    _reports: Sequence[TaskReport] | None = None
    _manifest: Manifest | None = None

    def __post_init__(self) -> None:
        self._start()

    def _start(self) -> None:
        env = StreamExecutionEnvironment.get_execution_environment(runtime=self.runtime.name)
        env.set_parallelism(self.parallelism)
        for name, stream in self.declare(env, self.folder).items():
            stream.sink_to(self.sinks.setdefault(name, CollectSink())).uid(f"output {name}")
        plan = env.compile("transcript")
        storage = LocalStorage(str(self.folder / "checkpoint"), durable=False)
        self._coordinator = Coordinator(plan, storage)
        self._loop = EpochLoop(self._coordinator, JobOptions(), self.runtime.start(plan, storage), self._note)
        self._sources = {
            op.node.source.name: (op.id, op.node.source)
            for op in plan.operators
            if isinstance(op.node, SourceNode) and isinstance(op.node.source, ScriptedSource)
        }
        self._reports = None
        self._manifest = self._coordinator.recover()

    def _note(self, manifest: Manifest, reports: Sequence[TaskReport], seconds: float) -> None:
        self._manifest, self._reports = manifest, reports

    def epoch(self, lines: Sequence[Line] = (), *, end: bool = False) -> None:
        """Run one epoch over new lines of the logs; with `end` it is the last one."""
        by_split: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
        for line in lines:
            by_split.setdefault((line.source, line.split), []).append(line.row)
        positions = self._coordinator.positions()
        ranges: list[ReadRange] = []
        for (name, split), rows in by_split.items():
            node, source = self._sources[name]
            source.append(split, rows)
            start = positions[node][split]
            ranges.append(ReadRange(node, split, start, start + len(rows)))
        ending = self._coordinator.lanes.unfinished() if end else frozenset[int]()
        self._loop.run_epoch(self._coordinator.begin(self.now, ranges, ending, end), {})
        if self._coordinator.lanes.owes_tick and not end:
            # As the loop does: a generator has said that its split is idle, which counts from the next epoch on.
            self._loop.run_epoch(self._coordinator.begin(self.now, (), frozenset(), False), {})

    def restart(self, parallelism: int | None = None) -> None:
        """End the process, and start the program again from its checkpoint directory."""
        self.stop()
        self.parallelism = parallelism or self.parallelism
        self._start()

    def stop(self) -> None:
        self.runtime.stop(self._coordinator.incarnation)

    def state(self) -> dict[str, int]:
        """Return how many entries and timers the job has."""
        if self._reports is None:
            self.epoch()  # a process that has just started has not looked at its state yet
        assert self._reports is not None
        left = {"entries": 0, "timers": 0}
        for name, rows in ((name, rows) for report in self._reports for name, rows in report.entries.items()):
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
        counters = {} if self._manifest is None else self._manifest.counters
        return sum(counts.get(name, 0) for counts in counters.values())
