"""Transcripts as values: what a YAML file says, checked word by word, before anything runs.

A transcript is a pipeline and a list of steps. Steps become three kinds of things: `Feed`, `Now` and `End` are epochs,
`Restart` is the end of a process, and the rest are questions about what was seen. Variants rearrange this list and the
player plays it, so neither knows YAML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from flintstream.errors import TranscriptError, describe
from flintstream.model.extras import extra
from flintstream.model.time import to_millis
from flintstream.testing.stepped import Line

MAIN = "main"
LATE = "late"
DEFAULT_COLUMNS = ("key", "t", "v")
DEFAULT_SOURCE = "in"

_KEYS = {"name", "about", "flink", "rows", "pipeline", "sources", "ordered", "steps", "leaks", "fails", "page"}
_WANTED = ("name", "steps")
_SOURCE_KEYS = {"splits", "idle", "watermarks"}


@dataclass(frozen=True)
class Feed:
    """An epoch that reads these lines."""

    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Now:
    """An epoch without input, at which processing time is this many ms after the start."""

    at: int


@dataclass(frozen=True)
class End:
    """The last epoch: all input ends."""


@dataclass(frozen=True)
class Restart:
    """Throws everything away but the checkpoint directory."""

    parallelism: int | None = None


@dataclass(frozen=True)
class Expect:
    """Since the last time it was asked, this output has given exactly this."""

    output: str
    results: tuple[str, ...]


@dataclass(frozen=True)
class State:
    """So much state is left."""

    wanted: Mapping[str, int]


@dataclass(frozen=True)
class Counters:
    """So much was counted since the beginning, over all operators."""

    wanted: Mapping[str, int]


Step = Feed | Now | End | Restart | Expect | State | Counters


@dataclass(frozen=True)
class SourceSpec:
    """A source: how many splits it has, and how it makes watermarks (None: by the transcript's own marks)."""

    splits: int = 1
    idle: str | None = None
    watermarks: str | None = None


@dataclass(frozen=True)
class Transcript:
    """One page of a specification."""

    id: str
    about: str
    pipeline: Mapping[str, Any]
    steps: tuple[Step, ...]
    sources: Mapping[str, SourceSpec] = field(default_factory=lambda: {DEFAULT_SOURCE: SourceSpec()})
    rows: tuple[int, ...] = ()
    ordered: bool = False
    leaks: str | None = None
    fails: str | None = None
    page: str = ""
    """What it is called in its file, where it may stand for several ways to evaluate its windows."""

    @property
    def may_reorder(self) -> bool:
        """Whether records between two watermarks may come in any order."""
        by_marks = all(source.watermarks is None for source in self.sources.values())
        return by_marks and self.is_one_sequence and not self.ordered

    @property
    def is_one_sequence(self) -> bool:
        """Whether all input comes by one split, so that its order is the whole truth."""
        return len(self.sources) == 1 and all(source.splits == 1 for source in self.sources.values())


def load_file(path: Path, wanted: Sequence[str] = _WANTED) -> Iterator[Transcript]:
    """Yield the transcripts of a file, in order; `wanted` are the keys that each must have."""
    yaml = extra("yaml", "transcripts need the package pyyaml", "testing")
    try:
        documents: list[Any] = list(yaml.safe_load_all(path.read_text()))
    except yaml.YAMLError as error:
        raise TranscriptError(describe(f"{path.name} is no YAML ({error})", remedy="mend it")) from error
    for document in documents:
        if document is not None:
            for each in _spread(document):
                yield read_transcript(each, f"{path.parent.name}/{path.stem}", wanted)


def _spread(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a transcript once for each way to evaluate its windows, if it names several."""
    pipeline = document.get("pipeline", {})
    ways = pipeline.get("apply") if isinstance(pipeline, dict) else None
    if not isinstance(ways, list):
        yield document
        return
    for way in cast("list[Any]", ways):
        name = f"{document.get('name')} by {way}"
        yield {**document, "name": name, "pipeline": {**document["pipeline"], "apply": way}, "page": document["name"]}


def read_transcript(document: Mapping[str, Any], place: str, wanted: Sequence[str] = _WANTED) -> Transcript:
    """Turn a document into a transcript; whatever it does not understand is an error."""
    where = f"transcript {document.get('name')} in {place}"
    _check_keys(document, _KEYS, where)
    missing = sorted(set(wanted) - set(document))
    if missing:
        msg = f"{where} has no {missing}"
        raise _wrong(msg)
    sources = {name: _read_source(name, spec or {}) for name, spec in document.get("sources", {}).items()}
    sources = sources or {DEFAULT_SOURCE: SourceSpec()}
    reader = _StepReader(sources)
    steps = tuple(step for entry in document["steps"] for step in reader.read(entry))
    if not any(isinstance(step, Expect) for step in steps):
        msg = f"{where} expects nothing"
        raise _wrong(msg)
    return Transcript(
        f"{place}/{document['name']}",
        document.get("about", ""),
        document.get("pipeline", {}),
        steps,
        sources,
        tuple(document.get("rows", ())),
        bool(document.get("ordered", False)),
        document.get("leaks"),
        document.get("fails"),
        f"{place}/{document.get('page', document['name'])}",
    )


def _wrong(what: str) -> TranscriptError:
    return TranscriptError(what)


def _read_source(name: str, spec: Mapping[str, Any]) -> SourceSpec:
    _check_keys(spec, _SOURCE_KEYS, f"source {name}")
    return SourceSpec(**spec)


class _StepReader:
    """Reads steps one after the other; a table without a head has the columns of the one before."""

    def __init__(self, sources: Mapping[str, SourceSpec]) -> None:
        self._sources = sources
        self._columns: dict[str, tuple[str, ...]] = dict.fromkeys(sources, DEFAULT_COLUMNS)
        self._verbs: dict[str, Callable[[Any], Iterable[Step]]] = {
            "input": self._input,
            "watermark": self._watermark,
            "now": lambda value: [Now(read_time(value))],
            "end": self._end,
            "restart": self._restart,
            "expect": lambda value: [Expect(MAIN, _results(value))],
            "expect_late": lambda value: [Expect(LATE, _results(value))],
            "expect_side": lambda value: [Expect(tag, _results(results)) for tag, results in value.items()],
            "state": self._state,
            "counters": lambda value: [Counters(value)],
        }

    def read(self, entry: Any) -> Iterable[Step]:
        """Return the steps of one entry."""
        if not isinstance(entry, dict) or len(cast("dict[str, Any]", entry)) != 1:
            msg = f"a step is one key with its value, not {entry!r}"
            raise _wrong(msg)
        ((verb, value),) = cast("dict[str, Any]", entry).items()
        read = self._verbs.get(verb)
        if read is None:
            msg = f"there is no step {verb!r}, only {', '.join(self._verbs)}"
            raise _wrong(msg)
        return read(value)

    def _input(self, value: Any) -> list[Step]:
        tables: dict[str, Any] = value if isinstance(value, dict) else {self._only_source("input"): value}
        return [Feed(tuple(line for name, text in tables.items() for line in self._table(name, text)))]

    def _table(self, name: str, text: str) -> Iterator[Line]:
        source = self._source(name)
        for row in self._rows(name, str(text)):
            split = int(row.pop("split", 0))
            if split >= source.splits:
                msg = f"source {name} has {source.splits} splits, and no number {split}"
                raise _wrong(msg)
            yield Line(name, split, row)

    def _rows(self, name: str, text: str) -> Iterator[dict[str, Any]]:
        for line in filter(None, map(str.strip, text.splitlines())):
            cells = [cell.strip() for cell in line.split("|")]
            if "t" in cells:
                self._columns[name] = tuple(cells)
                continue
            columns = self._columns[name]
            if len(cells) != len(columns):
                msg = f"{line!r} has {len(cells)} cells for the columns {' | '.join(columns)}"
                raise _wrong(msg)
            row = {column: read_cell(cell) for column, cell in zip(columns, cells, strict=True)}
            yield {**row, "t": None if row.get("t") is None else read_time(row["t"])}

    def _watermark(self, value: Any) -> list[Step]:
        marks: dict[str, Any] = value if isinstance(value, dict) else dict.fromkeys(self._sources, value)
        lines: list[Line] = []
        for place, at in marks.items():
            name, _, split = str(place).partition("/")
            source = self._source(name)
            if source.watermarks is not None:
                msg = f"source {name} makes its watermarks by itself: {source.watermarks}"
                raise _wrong(msg)
            splits = [int(split)] if split else range(source.splits)
            lines += [Line(name, number, {"t": None, "watermark": read_time(at)}) for number in splits]
        return [Feed(tuple(lines))]

    def _end(self, value: Any) -> list[Step]:
        _check_keys(value or {}, set(), "end")
        return [End()]

    def _restart(self, value: Any) -> list[Step]:
        _check_keys(value or {}, {"parallelism"}, "restart")
        return [Restart((value or {}).get("parallelism"))]

    def _state(self, value: Any) -> list[Step]:
        _check_keys(value, {"entries", "timers"}, "state")
        return [State(value)]

    def _source(self, name: str) -> SourceSpec:
        if name not in self._sources:
            msg = f"there is no source {name!r}, only {', '.join(self._sources)}"
            raise _wrong(msg)
        return self._sources[name]

    def _only_source(self, verb: str) -> str:
        if len(self._sources) > 1:
            msg = f"{verb} must name one of the sources {', '.join(self._sources)}"
            raise _wrong(msg)
        return next(iter(self._sources))


def _results(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        msg = f"results are a list, not {value!r}"
        raise _wrong(msg)
    return tuple(" ".join(str(result).split()) for result in cast("list[Any]", value))


def _check_keys(found: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = set(found) - known
    if unknown:
        msg = f"{where}: unknown {sorted(map(str, unknown))}"
        raise _wrong(msg)


def read_cell(text: str) -> Any:
    """Return a cell's value: a whole number, a number, nothing (`-`), or the text itself."""
    if text == "-":
        return None
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    if re.fullmatch(r"[+-]?\d+\.\d+", text):
        return float(text)
    return text


def read_time(value: Any) -> int:
    """Return a time in ms: a number is in seconds, otherwise it says its unit."""
    if isinstance(value, int | float):
        return round(value * 1000)
    negative = str(value).startswith("-")
    millis = to_millis(str(value).lstrip("-"))
    return -millis if negative else millis


def epochs(steps: Sequence[Step]) -> int:
    """Return how many epochs the steps take."""
    return sum(isinstance(step, Feed | Now | End) for step in steps)
