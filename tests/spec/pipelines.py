"""From the words of a transcript's `pipeline` to a program over the public API.

Windows, triggers, evictors and strategies are written as calls, `tumbling(10s)` or `purging(count(3))`: durations need
no quotes, the short words below stand for Flink's classes, and every public name of the package can be used as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import flintstream
from flintstream import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    DataStream,
    DeltaEvictor,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    OutputTag,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SlidingProcessingTimeWindows,
    StreamExecutionEnvironment,
    TimeEvictor,
    TumblingProcessingTimeWindows,
    bounded,
    monotonous,
)
from flintstream.testing.inputs import read_rows
from tests.spec import (
    programs,
    programs_async,  # noqa: F401  # fills the table of programs
    programs_broadcast,  # noqa: F401  # fills the table of programs
    programs_dead_letters,  # noqa: F401  # fills the table of programs
    programs_functions,  # noqa: F401  # fills the table of programs
    programs_joins,  # noqa: F401  # fills the table of programs
    programs_patterns,  # noqa: F401  # fills the table of programs
    programs_reference,  # noqa: F401  # fills the table of programs
    programs_ttl,  # noqa: F401  # fills the table of programs
    programs_vectorised,  # noqa: F401  # fills the table of programs
)
from tests.spec.functions import evaluate, show_late
from tests.spec.job import Declare, Outputs
from tests.spec.transcript import LATE, MAIN, SourceSpec, Transcript, TranscriptError

_WINDOW_KEYS = {
    "window", "window_all", "key_by", "trigger", "evictor", "allowed_lateness", "late_tag", "apply", "panes",
}  # fmt: skip
_PROGRAM_KEYS = {"program", "with"}

_PUBLIC = {name: getattr(flintstream, name) for name in flintstream.__all__}
WINDOWS = {
    **_PUBLIC,
    "processing_tumbling": TumblingProcessingTimeWindows.of,
    "processing_sliding": SlidingProcessingTimeWindows.of,
    "processing_session": ProcessingTimeSessionWindows.with_gap,
    "session_by": lambda column: EventTimeSessionWindows.with_dynamic_gap(lambda row: row[column] * 1000),
    "count": lambda size, slide=0: ("count", size, slide),
    "everything": GlobalWindows.create(),
    **programs.ASSIGNERS,
}
TRIGGERS = {
    **_PUBLIC,
    "event_time": EventTimeTrigger(),
    "processing_time": ProcessingTimeTrigger(),
    "count": CountTrigger.of,
    "continuous": ContinuousEventTimeTrigger.of,
    "continuous_processing": ContinuousProcessingTimeTrigger.of,
    "purging": PurgingTrigger.of,
    "never_fire": NeverTrigger(),
    **programs.TRIGGERS,
}
EVICTORS = {
    **_PUBLIC,
    "count": CountEvictor.of,
    "time": TimeEvictor.of,
    "delta": lambda threshold, after=False: DeltaEvictor.of(
        threshold, lambda old, new: abs(new["v"] - old["v"]), after
    ),
    **programs.EVICTORS,
}
STRATEGIES = {**_PUBLIC, "bounded": bounded, "monotonous": monotonous(), **programs.GENERATORS}


def read_expression(text: Any, names: Mapping[str, Any]) -> Any:
    """Evaluate a call over some names; `10s` is a duration."""
    quoted = re.sub(r"(?<![\w\"'.])(-?\d+(?:\.\d+)?(?:ms|s|m|h|d))(?![\w\"'])", r"'\1'", str(text))
    try:
        return eval(quoted, {"__builtins__": {}}, dict(names))  # transcripts are our own code, in another language
    except (NameError, SyntaxError, TypeError, AttributeError) as error:
        raise TranscriptError(f"cannot read {text!r}: {error}") from error


def declare(transcript: Transcript) -> Declare:
    """Return what declares a transcript's program."""
    pipeline = transcript.pipeline
    known = _PROGRAM_KEYS if "program" in pipeline else _WINDOW_KEYS
    if set(pipeline) - known:
        raise TranscriptError(f"the pipeline has unknown {sorted(set(pipeline) - known)}")

    def build(env: StreamExecutionEnvironment, folder: Path) -> Outputs:
        streams = {name: read_source(env, folder, name, spec) for name, spec in transcript.sources.items()}
        if "program" in pipeline:
            return run_program(pipeline, streams)
        return build_window(union(streams), pipeline)

    return build


def read_source(env: StreamExecutionEnvironment, folder: Path, name: str, spec: SourceSpec) -> DataStream:
    """Return the records of a source, with their event time."""
    strategy = None if spec.watermarks is None else read_expression(spec.watermarks, STRATEGIES)
    return read_rows(env, folder, name, spec.splits, strategy, spec.idle)


def union(streams: Mapping[str, DataStream]) -> DataStream:
    first, *others = streams.values()
    return first.union(*others) if others else first


def run_program(pipeline: Mapping[str, Any], streams: Mapping[str, DataStream]) -> Outputs:
    found = programs.PROGRAMS.get(pipeline["program"])
    if found is None:
        raise TranscriptError(f"there is no program {pipeline['program']!r}")
    outputs = found(*streams.values(), **pipeline.get("with", {}))
    return outputs if isinstance(outputs, dict) else {MAIN: outputs}


def build_window(stream: DataStream, pipeline: Mapping[str, Any]) -> Outputs:
    """Declare a window as the pipeline says."""
    is_all = bool(pipeline.get("window_all", False))
    windowed = open_window(stream, read_expression(pipeline["window"], WINDOWS), pipeline.get("key_by", "key"), is_all)
    if "trigger" in pipeline:
        windowed = windowed.trigger(read_expression(pipeline["trigger"], TRIGGERS))
    if "evictor" in pipeline:
        windowed = windowed.evictor(read_expression(pipeline["evictor"], EVICTORS))
    if "allowed_lateness" in pipeline:
        windowed = windowed.allowed_lateness(pipeline["allowed_lateness"])
    if "panes" in pipeline:
        windowed = getattr(windowed, pipeline["panes"])()
    tag = OutputTag(pipeline["late_tag"]) if "late_tag" in pipeline else None
    if tag is not None:
        windowed = windowed.side_output_late_data(tag)
    results, shown = evaluate(windowed, str(pipeline.get("apply", "list")), is_all, pipeline.get("panes"))
    outputs = {MAIN: shown}
    if tag is not None:
        outputs[LATE] = results.get_side_output(tag).map(show_late).uid("late as text")
    return outputs


def open_window(stream: DataStream, assigner: Any, key: str, is_all: bool) -> Any:
    counted = isinstance(assigner, tuple)
    if is_all:
        return stream.count_window_all(*assigner[1:]) if counted else stream.window_all(assigner)
    keyed = stream.key_by(key)
    return keyed.count_window(*assigner[1:]) if counted else keyed.window(assigner)
