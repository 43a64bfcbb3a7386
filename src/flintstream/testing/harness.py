"""Drives a pipeline by hand: one record, one watermark, one tick of the clock after the other, and looks inside.

Every call is one epoch of a real job in this process, from the plan to the commit, so that what holds here holds in
production. The clock moves only when the test moves it.

Flink: the test harnesses of flink-streaming-java, for whole pipelines.
"""

from __future__ import annotations

import inspect
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from flintstream.api.datastream import DataStream
from flintstream.api.environment import StreamExecutionEnvironment
from flintstream.errors import DefinitionError, InvalidArgumentError, describe
from flintstream.graph.location import users_line
from flintstream.model.state import StateDescriptor
from flintstream.model.tags import OutputTag
from flintstream.model.time import DurationLike, to_millis
from flintstream.testing.committed import ANY_KEY, CommittedState, Timer
from flintstream.testing.inputs import read_rows
from flintstream.testing.stepped import InProcess, Line, Outputs, SteppedJob

MAIN = "main"
Pipeline = Callable[..., DataStream | Mapping[str, DataStream]]
"""A function from input streams to a stream, or to several by name."""


class PipelineHarness:
    """Runs a pipeline step by step, in this process.

    Example:
        >>> from flintstream import count, tumbling
        >>> def clicks_per_user(clicks):
        ...     return clicks.key_by("user").window(tumbling("10s")).agg(n=count())
        >>> with PipelineHarness(clicks_per_user) as harness:
        ...     _ = harness.process({"user": "ann"}, timestamp=1000)
        ...     _ = harness.process({"user": "ann"}, timestamp=4000)
        ...     harness.restart()
        ...     [row.n for row in harness.watermark(10_000)]
        [2]

    Args:
        pipeline: Called with one stream for each of its parameters, whose names are those of the inputs; called again
            at every restart. Returns a stream, or several by name, of which the first is the main output.
        inputs: The names of the inputs, if the parameters do not tell them.
        parallelism: With how many instances operators run.
        deterministic: Whether inputs are merged in one order, as by `env.deterministic_order()`.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        inputs: Sequence[str] | None = None,
        parallelism: int = 1,
        deterministic: bool = False,
    ) -> None:
        self._pipeline = pipeline
        self._inputs = tuple(inputs) if inputs is not None else parameters_of(pipeline)
        if not self._inputs:
            what = "the pipeline has no input"
            raise InvalidArgumentError(describe(what, users_line(), "give it a parameter for each stream it reads"))
        self._folder = Path(tempfile.mkdtemp(prefix="flintstream-test-"))
        self._seen = 0
        try:
            self._job = SteppedJob(
                self._declare, self._folder, InProcess(), parallelism, deterministic=deterministic, ships=True
            )
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def _declare(self, env: StreamExecutionEnvironment, folder: Path) -> Outputs:
        streams = [read_rows(env, folder, name).map(_value_of).uid(f"input {name}") for name in self._inputs]
        return outputs_of(self._pipeline(*streams))

    def process(
        self, value: Any, timestamp: DurationLike | None = None, *, input: str | int | None = None
    ) -> list[Any]:
        """Feed one record; return what the main output gives for it.

        Args:
            value: The record.
            timestamp: Its event time, in ms or as "10s" since 1970; None if it has none.
            input: Which input it comes by, by name or counted from 1; needed if there are several.
        """
        return self.process_all([value], [timestamp], input=input)

    def process_all(
        self,
        values: Iterable[Any],
        timestamps: Iterable[DurationLike | None] | None = None,
        *,
        input: str | int | None = None,
    ) -> list[Any]:
        """Feed records in one epoch; return what the main output gives for them."""
        records = list(values)
        times = [None] * len(records) if timestamps is None else [_at(each) for each in timestamps]
        if len(times) != len(records):
            what = f"there are {len(records)} values and {len(times)} timestamps"
            raise InvalidArgumentError(describe(what, users_line(), "give one for each"))
        name = self._input(input)
        return self._step(Line(name, 0, {"t": time, "value": v}) for v, time in zip(records, times, strict=True))

    def watermark(self, timestamp: DurationLike, *, input: str | int | None = None) -> list[Any]:
        """Say that event time has come to `timestamp`, on one input or on all; return what the main output gives."""
        names = self._inputs if input is None else (self._input(input),)
        at = to_millis(timestamp)
        return self._step([Line(name, 0, {"t": None, "watermark": at}) for name in names])

    def clock(self, timestamp: DurationLike) -> list[Any]:
        """Move processing time, which begins at 0, to `timestamp`; return what the main output gives."""
        at = to_millis(timestamp)
        if at < self._job.now:
            what = f"the clock stands at {self._job.now} ms and cannot go back to {at}"
            raise InvalidArgumentError(describe(what, users_line(), "move it on"))
        self._job.now = at
        return self._step(())

    def end(self) -> list[Any]:
        """End all inputs: the watermark rises to its end, and the job finishes; return what the main output gives."""
        return self._step((), end=True)

    def _step(self, lines: Iterable[Line], end: bool = False) -> list[Any]:
        if self._job.has_ended:
            raise DefinitionError(describe("the input has ended", users_line(), "begin a new harness"))
        self._job.epoch(lines, end=end)
        before, self._seen = self._seen, len(self.output)
        return self.output[before:]

    def restart(self, parallelism: int | None = None) -> None:
        """Throw everything away but the checkpoint, and start the pipeline again, perhaps with other parallelism."""
        self._job.restart(parallelism)

    @property
    def output(self) -> list[Any]:
        """All that the main output has given so far."""
        return next(iter(self._job.sinks.values())).results

    @property
    def records(self) -> list[tuple[Any, int | None]]:
        """All that the main output has given so far, each with its timestamp."""
        return next(iter(self._job.sinks.values())).records

    def side_output(self, tag: OutputTag | str) -> list[Any]:
        """Return all that another output has given so far, by its tag or its name."""
        name = tag.tag_id if isinstance(tag, OutputTag) else tag
        if name not in self._job.sinks:
            what = f"there is no output {name!r}, only {', '.join(map(repr, self._job.sinks))}"
            raise InvalidArgumentError(describe(what, users_line(), self._how_to_name_outputs()))
        return self._job.sinks[name].results

    def _how_to_name_outputs(self) -> str:
        return "let the pipeline return a dict of streams by name, with get_side_output(tag) among them"

    def state(self, state: str | StateDescriptor, key: Any, *, uid: str | None = None) -> Any:
        """Return what is committed in a state for a key; None, or an empty list or dict, if there is nothing.

        Args:
            state: The state's name, which shows it as it is kept (an accumulator, say), or the descriptor, which shows
                it as the function sees it (the result).
            key: The key.
            uid: The operator's, needed if several have a state of that name.
        """
        return self._committed().value(state, key, uid)

    def timers(self, key: Any = ANY_KEY, *, uid: str | None = None) -> list[Timer]:
        """Return the timers that wait, the earliest first: of one key or all, of one operator or all."""
        return self._committed().timers(key, uid)

    def _committed(self) -> CommittedState:
        return CommittedState(self._job.plan, self._job.manifest, self._job.files)

    def counter(self, name: str) -> int:
        """Return a counter over all operators, since the beginning: `late`, say."""
        return self._job.counter(name)

    def entries(self) -> dict[str, int]:
        """Return how many "entries" of state and how many "timers" there are, to see that nothing leaks."""
        return self._job.state()

    def _input(self, given: str | int | None) -> str:
        if given is None and len(self._inputs) == 1:
            return self._inputs[0]
        names = ", ".join(map(repr, self._inputs))
        if isinstance(given, int) and 1 <= given <= len(self._inputs):
            return self._inputs[given - 1]
        if given not in self._inputs:
            what = "the pipeline has several inputs" if given is None else f"there is no input {given!r}"
            raise InvalidArgumentError(describe(what, users_line(), f"give input=, one of {names}"))
        return given

    def close(self) -> None:
        """Let go of everything."""
        self._job.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _value_of(row: Any) -> Any:
    return row["value"]


def _at(timestamp: DurationLike | None) -> int | None:
    return None if timestamp is None else to_millis(timestamp)


def parameters_of(pipeline: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the parameters that a pipeline must be given."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(pipeline).parameters.values()
    return tuple(each.name for each in parameters if each.kind in kinds and each.default is inspect.Parameter.empty)


def outputs_of(declared: Any) -> Outputs:
    """Return what a pipeline returned as outputs by name."""
    if isinstance(declared, DataStream):
        return {MAIN: declared}
    found: dict[Any, Any] = dict(declared) if isinstance(declared, Mapping) else {}
    if not found or not all(isinstance(stream, DataStream) for stream in found.values()):
        what = f"the pipeline returned {declared!r:.100}"
        raise DefinitionError(describe(what, users_line(), "return a stream, or a dict of streams by name"))
    return found
