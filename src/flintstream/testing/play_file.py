"""Transcripts of a user's own pipelines: a YAML file, the pipelines by name, and every way in which it must hold.

The words are those of the transcripts that specify Flintstream itself. Their pipelines are written in YAML too; a
user's are Python functions from streams to streams, which the transcript names.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, cast

from flintstream.api.environment import StreamExecutionEnvironment
from flintstream.errors import MismatchError, TranscriptError, describe
from flintstream.graph.location import users_line
from flintstream.testing.harness import Pipeline, outputs_of
from flintstream.testing.inputs import read_rows
from flintstream.testing.player import Show, in_words, play_steps
from flintstream.testing.stepped import Declare, InProcess, Outputs
from flintstream.testing.transcript import SourceSpec, Transcript, load_file
from flintstream.testing.variants import AS_WRITTEN, REORDERED, variants_of

_IN_ORDER = "\n  (if the order of records between two watermarks matters, the transcript says so by `ordered: true`)"


def play(
    path: str | PathLike[str],
    programs: Pipeline | Mapping[str, Pipeline],
    *,
    record: Callable[[dict[str, Any]], Any] | None = None,
    show: Show = in_words,
    every_way: bool = True,
) -> int:
    """Play all transcripts of a YAML file against pipelines of yours; return how many runs that were.

    Args:
        path: The file.
        programs: The pipeline, or several by the names under which transcripts call them: each is called with a stream
            for each source, and with what `with` says, and returns a stream or a dict of streams by name.
        record: Makes a record of a row, which is a dict of the table's columns with `t` in ms; None takes rows as such.
        show: How a result is written in the transcript; its fields with spaces between them if nothing else is said.
        every_way: Play each transcript in every way that must not matter (with restarts, one record at a time, all at
            once, with other parallelism), and not only as it is written.

    Raises:
        TranscriptError: a transcript cannot be understood.
        MismatchError: one does not hold; it says in which way, at which step, what was expected and what was found.
    """
    runs = 0
    for transcript in load_file(Path(path)):
        declare = _declare(transcript, programs, record)
        for variant in variants_of(transcript) if every_way else [AS_WRITTEN]:
            steps = variant.rearrange(transcript)
            with tempfile.TemporaryDirectory(prefix="flintstream-test-") as folder:
                try:
                    play_steps(transcript, declare, steps, variant.parallelism, InProcess(), Path(folder), show)
                except MismatchError as error:
                    hint = _IN_ORDER if variant.name == REORDERED else ""
                    msg = f"{transcript.id}, played {variant.name}: {error}{hint}"
                    raise MismatchError(msg) from None
            runs += 1
    if not runs:
        raise TranscriptError(describe(f"there is no transcript in {path}", users_line(), "write one"))
    return runs


def _declare(
    transcript: Transcript, programs: Pipeline | Mapping[str, Pipeline], record: Callable[[dict[str, Any]], Any] | None
) -> Declare:
    pipeline, arguments = _program(transcript, programs)

    def build(env: StreamExecutionEnvironment, folder: Path) -> Outputs:
        streams = [_source(env, folder, name, spec) for name, spec in transcript.sources.items()]
        if record is not None:
            streams = [each.map(record).uid(f"input {number}") for number, each in enumerate(streams)]
        return outputs_of(pipeline(*streams, **arguments))

    return build


def _program(transcript: Transcript, programs: Pipeline | Mapping[str, Pipeline]) -> tuple[Pipeline, dict[str, Any]]:
    """Return the pipeline that a transcript names, and the arguments it gives it besides its streams."""
    said: Any = transcript.pipeline
    words = cast("dict[str, Any]", said) if isinstance(said, dict) else {"program": said}
    unknown = sorted(set(words) - {"program", "with"})
    if unknown:
        what = f"{transcript.id}: the pipeline has unknown {unknown}"
        raise TranscriptError(describe(what, remedy="write {program: name, with: {argument: value}}"))
    arguments: dict[str, Any] = words.get("with", {})
    name = words.get("program")
    if not isinstance(programs, Mapping):
        return programs, arguments
    if not isinstance(name, str) or name not in programs:
        what = f"{transcript.id}: there is no program {name!r}"
        raise TranscriptError(describe(what, users_line(), f"use one of {', '.join(programs)}"))
    return programs[name], arguments


def _source(env: StreamExecutionEnvironment, folder: Path, name: str, spec: SourceSpec) -> Any:
    if spec.watermarks is not None:
        what = f"source {name}: watermarks {spec.watermarks!r} cannot be written here"
        raise TranscriptError(describe(what, remedy="leave it out, or assign_timestamps_and_watermarks in the program"))
    return read_rows(env, folder, name, spec.splits, idle=spec.idle)
