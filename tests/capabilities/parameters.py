"""The table of public parameters: for each a small program, and values under which its result differs.

`case(parameter, program, (value, result), ...)` says that `program(bench, value)` gives `result`; a program that raises
an error of ours has that error's class as its result. A parameter is named by the function that has it, as
`KeyedOperations.sum.position_to_sum`, so that one that is inherited counts once.
"""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flintstream
import flintstream.cep
from flintstream import DataStream, StreamExecutionEnvironment
from flintstream.api import no_effect
from tests.capabilities.support import Epochs, collect


class Absent:
    """Stands for an argument that is not given."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent()


def named(name: str, value: Any) -> dict[str, Any]:
    """Return keyword arguments with this one, if it is given."""
    return {} if value is ABSENT else {name: value}


class Bench:
    """What a program may use: environments on the runtime of its case, and a folder of its own."""

    def __init__(self, new_env: Callable[..., StreamExecutionEnvironment], folder: Path, capsys: Any) -> None:
        self.env = new_env
        self._folder = folder
        self._numbers = itertools.count()
        self.capsys = capsys

    def folder(self) -> Path:
        """Return a new, empty folder."""
        path = self._folder / str(next(self._numbers))
        path.mkdir()
        return path

    def of(self, *records: Any, **settings: Any) -> DataStream:
        """Return a stream of these records in a new environment."""
        return self.env(**settings).from_collection(records)

    def printed(self) -> tuple[str, str]:
        """Return what went to the standard output and to the standard error since the last call."""
        return tuple(self.capsys.readouterr())


@dataclass(frozen=True)
class Case:
    """One parameter's row."""

    parameter: str
    program: Callable[[Bench, Any], Any]
    expected: tuple[tuple[Any, Any], ...]
    on_spark: bool


CASES: list[Case] = []
REFUSALS: dict[str, Callable[[Bench], Any]] = {}
"""Methods of PyFlink's that are refused, whatever the arguments: a call of each."""


def case(
    parameter: str, program: Callable[[Bench, Any], Any], *expected: tuple[Any, Any], on_spark: bool = False
) -> None:
    """Put a parameter into the table."""
    CASES.append(Case(parameter, program, expected, on_spark))


def epochs_of(stream: DataStream) -> Epochs:
    """Run a program and return what its epochs reported."""
    epochs = Epochs()
    stream.get_execution_environment().add_listener(epochs)  # type: ignore[attr-defined]
    collect(stream)
    return epochs


def warned(action: Callable[[], Any]) -> bool:
    """Return whether an action warns that it does nothing."""
    no_effect._warned.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return bool(caught)


NOT_CALLED_BY_USERS = {
    "CollectSink.deliver": "the committer calls it",
    "CollectSink.show": "the committer calls it",
    "CollectSink.hide": "the committer calls it",
    "CollectSink.delivering": "the planner calls it",
    "FileSink.delivering": "the planner calls it",
    "PrintSink.delivering": "the planner calls it",
    "Sink.delivering": "the planner calls it",
    "DictSink.take": "the committer calls it",
    "DictSink.create_writer": "tasks call it",
    "SplitSource.positions_at": "the driver calls it",
    "CollectionSource.read": "tasks call it",
    "CollectionSource.splits": "the driver calls it",
    "DataGeneratorSource.read": "tasks call it",
    "DataGeneratorSource.splits": "the driver calls it",
    "NumberSequenceSource.read": "tasks call it",
    "NumberSequenceSource.splits": "the driver calls it",
    "FileSink.create_writer": "tasks call it",
    "CollectSink.create_writer": "tasks call it",
    "PrintSink.create_writer": "tasks call it",
    "DiscardingSink.create_writer": "tasks call it",
    "Encoder.encode": "writers call it",
    "BucketAssigner.bucket": "writers call it",
    "WatermarkStrategy.watermark_after": "operators call it",
    "Program.__init__": "get_execution_environment() makes environments",
    "DataStream.__init__": "an environment makes streams",
    "KeyedStream.__init__": "key_by makes it",
    "ConnectedStreams.__init__": "connect makes it",
    "BroadcastStream.__init__": "broadcast makes it",
    "BroadcastConnectedStream.__init__": "connect makes it",
    "Windowed.__init__": "window makes it",
    "DataStreamSink.__init__": "print and sink_to make it",
    "TwoStreams.__init__": "join and co_group make it",
    "TwoStreamWindows.__init__": "window makes it",
    "JoinedWindows.__init__": "window makes it",
    "IntervalJoin.__init__": "interval_join makes it",
    "IntervalJoined.__init__": "between makes it",
    "TemporalJoined.__init__": "temporal_join makes it",
    "RegularJoined.__init__": "regular_join makes it",
    "LookupJoined.__init__": "lookup_join makes it",
    "ExecutionConfig.__init__": "get_config() makes it",
    "CheckpointConfig.__init__": "get_checkpoint_config() makes it",
    "FileSourceBuilder.__init__": "for_record_stream_format makes it",
    "RowFormatBuilder.__init__": "for_row_format makes it",
    "FileSink.RowFormatBuilder.__init__": "for_row_format makes it",
    "WatermarkStrategy.__init__": "its factories make it",
    "AsyncRetryStrategy.can_retry": "operators call it",
    "FixedDelayRetryStrategy.can_retry": "operators call it",
    "FixedDelayRetryStrategy.get_backoff_time_millis": "operators call it",
    "ExponentialBackoffDelayRetryStrategy.can_retry": "operators call it",
    "ExponentialBackoffDelayRetryStrategy.get_backoff_time_millis": "operators call it",
    "AsyncRetryStrategy.get_backoff_time_millis": "operators call it",
    "StateDescriptor.__init__": "its subclasses are what users make",
    "HistogramStatistics.__init__": "a job's result has them",
    "Pattern.__init__": "begin makes it",
    "PatternStream.__init__": "CEP.pattern makes it",
    "AfterMatchSkipStrategy.__init__": "its factories make it",
    "AfterMatchSkipStrategy.check": "CEP.pattern calls it",
    "SavepointReader.__init__": "savepoint makes it",
    "SavepointDiff.__init__": "diff makes it",
    "SavepointWriter.__init__": "its factories make it",
    "JobGraph.__init__": "graph() makes it",
    "QueryableStateStream.__init__": "as_queryable_state makes it",
}
"""Public functions whose arguments are not a user's choice, and why."""

CLASSES = [
    "StreamExecutionEnvironment",
    "JobGraph",
    "ExecutionConfig",
    "CheckpointConfig",
    "RestartStrategies",
    "DataStream",
    "JoinedStreams",
    "JoinedWindows",
    "CoGroupedStreams",
    "CoGroupedWindows",
    "IntervalJoin",
    "IntervalJoined",
    "KeyedStream",
    "ConnectedStreams",
    "BroadcastStream",
    "BroadcastConnectedStream",
    "WindowedStream",
    "AllWindowedStream",
    "DataStreamSink",
    "TemporalJoined",
    "RegularJoined",
    "LookupJoined",
    "LookupCache",
    "WatermarkStrategy",
    "CollectionSource",
    "DataGeneratorSource",
    "NumberSequenceSource",
    "FileSource",
    "FileSourceBuilder",
    "StreamFormat",
    "FileSink",
    "CollectSink",
    "DictSink",
    "PrintSink",
    "DiscardingSink",
    "OutputFileConfig",
    "RollingPolicy",
    "BucketAssigner",
    "Encoder",
    "StateDescriptor",
    "ValueStateDescriptor",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "ReducingStateDescriptor",
    "AggregatingStateDescriptor",
    "AsyncDataStream",
    "AsyncRetryStrategy",
    "FixedDelayRetryStrategy",
    "ExponentialBackoffDelayRetryStrategy",
    "RetryPredicate",
    "ReservoirStateDescriptor",
    "DistinctCountStateDescriptor",
    "QuantilesStateDescriptor",
    "TopKStateDescriptor",
    "MetricGroup",
    "HistogramStatistics",
    "SavepointReader",
    "SavepointDiff",
    "SavepointWriter",
    "QueryableStateClient",
    "QueryableStateStream",
]
PATTERN_CLASSES = ["CEP", "Pattern", "PatternStream", "AfterMatchSkipStrategy"]


def public_functions() -> Iterator[tuple[str, Any]]:
    """Yield every public function and method that takes a user's arguments, by its qualified name."""
    for name in flintstream.__all__:
        if inspect.isfunction(getattr(flintstream, name)):
            yield name, getattr(flintstream, name)
    for name in CLASSES:
        yield from methods_of(getattr(flintstream, name))
    for name in PATTERN_CLASSES:
        yield from methods_of(getattr(flintstream.cep, name))


def methods_of(cls: type) -> Iterator[tuple[str, Any]]:
    for name in dir(cls):
        if name.startswith("_") and name != "__init__":
            continue
        found = inspect.getattr_static(cls, name)
        if inspect.isclass(found):
            yield from methods_of(found)
        function = getattr(found, "__func__", found)
        # What does nothing, or works per key only, is a function made elsewhere: its name has no class in it.
        if inspect.isfunction(function) and "." in function.__qualname__ and "<locals>" not in function.__qualname__:
            yield function.__qualname__, function


def public_parameters() -> set[str]:
    """Return every parameter that must have a case."""
    return {
        f"{name}.{parameter}"
        for name, function in public_functions()
        if name not in NOT_CALLED_BY_USERS
        for parameter in inspect.signature(function).parameters
        if parameter != "self"
    }
