"""What the capability tests and the laws build their programs from: sources with several splits, stops, restarts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from flintstream import CollectSink, DataStream, MapFunction, Split, SplitSource, StreamExecutionEnvironment

Declare = Callable[[StreamExecutionEnvironment, CollectSink], None]
"""Declares a program that ends in the sink."""


class Lists(SplitSource):
    """A source whose splits are the lists given, each with an order of its own."""

    def __init__(self, *splits: Sequence[Any]) -> None:
        self._splits = [list(split) for split in splits]

    @property
    def is_bounded(self) -> bool:
        return True

    def splits(self, parallelism: int) -> Sequence[Split]:
        return [Split(number, 0, len(split)) for number, split in enumerate(self._splits)]

    def read(self, split: int, start: int, end: int) -> list[Any]:
        return self._splits[split][start:end]


class WithSubtask(MapFunction):
    """Turns a record into (record, the number of the instance that saw it)."""

    def open(self, runtime_context: Any) -> None:
        self._index = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> tuple[Any, int]:
        return value, self._index


class StoppedOnPurpose(Exception):
    """Ends a run after some epochs, in the midst of its life."""


class StopAfter:
    """A listener that ends the job once it has committed so many epochs since it was started."""

    def __init__(self, epochs: int) -> None:
        self._left = epochs

    def __call__(self, manifest: Any, reports: Any, seconds: float) -> None:
        self._left -= 1
        if self._left <= 0 and not manifest.finished:
            raise StoppedOnPurpose


class Epochs:
    """A listener that keeps the manifest and the task reports of every committed epoch."""

    def __init__(self) -> None:
        self.manifests: list[Any] = []
        self.reports: list[Sequence[Any]] = []

    def __call__(self, manifest: Any, reports: Sequence[Any], seconds: float) -> None:
        self.manifests.append(manifest)
        self.reports.append(reports)

    def __len__(self) -> int:
        return len(self.manifests)

    def counts(self, uid: str, counter: str) -> int:
        """Return a counter of an operator, over the whole life of the job."""
        return self.manifests[-1].counters.get(uid, {}).get(counter, 0)

    def records_in(self, node: int) -> dict[int, int]:
        """Return how many records each task of an operator got."""
        got: dict[int, int] = {}
        for report in (report for reports in self.reports for report in reports):
            if node in report.counters:
                got[report.partition] = got.get(report.partition, 0) + report.counters[node].get("in", 0)
        return got


def collect(stream: DataStream) -> list[Any]:
    """Run the program and return the stream's records."""
    return list(stream.execute_and_collect())


def run(env: StreamExecutionEnvironment, sink: CollectSink, declare: Declare, stop_after: int | None = None) -> bool:
    """Run a program to its end, or until it has committed so many epochs; return whether it came to its end."""
    declare(env, sink)
    if stop_after is not None:
        env.add_listener(StopAfter(stop_after))
    try:
        env.execute("job")
    except StoppedOnPurpose:
        return False
    return True


def run_with_stops(
    new_env: Callable[[], StreamExecutionEnvironment], declare: Declare, stops: Iterable[int]
) -> list[Any]:
    """Run a program that is ended after each of these numbers of epochs and started again; return all it emitted.

    `new_env` gives an environment with the same checkpoint directory every time.
    """
    sink = CollectSink()
    for stop in stops:
        if run(new_env(), sink, declare, stop):
            return sink.results
    assert run(new_env(), sink, declare)
    return sink.results


def plan_of(env: StreamExecutionEnvironment) -> dict[str, dict[str, Any]]:
    """Return the nodes of the execution plan by name."""
    return {node["type"]: node for node in json.loads(env.get_execution_plan())["nodes"]}


def bytes_under(folder: Path) -> dict[str, int]:
    """Return the size of every file below a folder, by its path in it."""
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
