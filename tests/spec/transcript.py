"""Transcripts as values: what a YAML file says, checked word by word, before anything runs.

A transcript is a pipeline and a list of steps. Steps become three kinds of things: `Feed`, `Now` and `End` are epochs,
`Restart` is the end of a process, and the rest are questions about what was seen. Variants rearrange this list and the
player plays it, so neither knows YAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from flintstream.model.time import to_millis

FOLDER = Path(__file__).parent
MAIN = "main"
LATE = "late"
DEFAULT_COLUMNS = ("key", "t", "v")
DEFAULT_SOURCE = "in"

_KEYS = {"name", "about", "flink", "rows", "pipeline", "sources", "ordered", "steps", "leaks", "fails", "page"}
_WANTED = {"name", "about", "pipeline", "steps"}
_SOURCE_KEYS = {"splits", "idle", "watermarks"}


class TranscriptError(Exception):
    """The transcript itself is wrong."""


@dataclass(frozen=True)
class Line:
    """One line of a source's log: a record, or the mark that says how far event time is."""

    source: str
    split: int
    row: Mapping[str, Any]

    @property
    def is_mark(self) -> bool:
        return "watermark" in self.row


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
    """One page of the specification."""

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


def load_all(folder: Path = FOLDER) -> list[Transcript]:
    """Return all transcripts that must hold; those of the harness itself are elsewhere."""
    paths = [path for path in sorted(folder.rglob("*.yaml")) if path.parent.name != "harness"]
    found = [transcript for path in paths for transcript in load_file(path)]
    names = [transcript.id for transcript in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise TranscriptError(f"several transcripts are called {sorted(twice)}")
    return found


def load_file(path: Path) -> Iterator[Transcript]:
    """Yield the transcripts of a file, in order."""
    for document in yaml.safe_load_all(path.read_text()):
        if document is not None:
            for each in _spread(document):
                yield read_transcript(each, f"{path.parent.name}/{path.stem}")


def _spread(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a transcript once for each way to evaluate its windows, if it names several."""
    ways = document.get("pipeline", {}).get("apply")
    if not isinstance(ways, list):
        yield document
        return
    for way in ways:
        name = f"{document.get('name')} by {way}"
        yield {**document, "name": name, "pipeline": {**document["pipeline"], "apply": way}, "page": document["name"]}


def read_transcript(document: Mapping[str, Any], place: str) -> Transcript:
    """Turn a document into a transcript; whatever it does not understand is an error."""
    _check_keys(document, _KEYS, f"transcript {document.get('name')} in {place}")
    missing = _WANTED - set(document)
    if missing:
        raise TranscriptError(f"transcript {document.get('name')} in {place} has no {sorted(missing)}")
    sources = {name: _read_source(name, spec or {}) for name, spec in document.get("sources", {}).items()}
    sources = sources or {DEFAULT_SOURCE: SourceSpec()}
    reader = _StepReader(sources)
    steps = tuple(step for entry in document["steps"] for step in reader.read(entry))
    if not any(isinstance(step, Expect) for step in steps):
        raise TranscriptError(f"transcript {document['name']} in {place} expects nothing")
    return Transcript(
        f"{place}/{document['name']}",
        document["about"],
        document["pipeline"],
        steps,
        sources,
        tuple(document.get("rows", ())),
        bool(document.get("ordered", False)),
        document.get("leaks"),
        document.get("fails"),
        f"{place}/{document.get('page', document['name'])}",
    )


def _read_source(name: str, spec: Mapping[str, Any]) -> SourceSpec:
    _check_keys(spec, _SOURCE_KEYS, f"source {name}")
    return SourceSpec(**spec)


class _StepReader:
    """Reads steps one after the other; a table without a head has the columns of the one before."""

    def __init__(self, sources: Mapping[str, SourceSpec]) -> None:
        self._sources = sources
        self._columns = dict.fromkeys(sources, DEFAULT_COLUMNS)

    def read(self, entry: Any) -> list[Step]:
        if not isinstance(entry, dict) or len(entry) != 1:
            raise TranscriptError(f"a step is one key with its value, not {entry!r}")
        ((verb, value),) = entry.items()
        method = getattr(self, f"_{verb}", None)
        if method is None:
            raise TranscriptError(f"there is no step {verb!r}")
        return method(value)

    def _input(self, value: Any) -> list[Step]:
        tables = value if isinstance(value, dict) else {self._only_source("input"): value}
        return [Feed(tuple(line for name, text in tables.items() for line in self._table(name, text)))]

    def _table(self, name: str, text: str) -> Iterator[Line]:
        source = self._source(name)
        for row in self._rows(name, str(text)):
            split = int(row.pop("split", 0))
            if split >= source.splits:
                raise TranscriptError(f"source {name} has {source.splits} splits, and no number {split}")
            yield Line(name, split, row)

    def _rows(self, name: str, text: str) -> Iterator[dict[str, Any]]:
        for line in filter(None, map(str.strip, text.splitlines())):
            cells = [cell.strip() for cell in line.split("|")]
            if "t" in cells:
                self._columns[name] = tuple(cells)
                continue
            columns = self._columns[name]
            if len(cells) != len(columns):
                raise TranscriptError(f"{line!r} has {len(cells)} cells for the columns {' | '.join(columns)}")
            row = {column: read_cell(cell) for column, cell in zip(columns, cells, strict=True)}
            yield {**row, "t": None if row.get("t") is None else read_time(row["t"])}

    def _watermark(self, value: Any) -> list[Step]:
        marks = value if isinstance(value, dict) else dict.fromkeys(self._sources, value)
        lines: list[Line] = []
        for place, at in marks.items():
            name, _, split = str(place).partition("/")
            source = self._source(name)
            if source.watermarks is not None:
                raise TranscriptError(f"source {name} makes its watermarks by itself: {source.watermarks}")
            splits = [int(split)] if split else range(source.splits)
            lines += [Line(name, number, {"t": None, "watermark": read_time(at)}) for number in splits]
        return [Feed(tuple(lines))]

    def _now(self, value: Any) -> list[Step]:
        return [Now(read_time(value))]

    def _end(self, value: Any) -> list[Step]:
        _check_keys(value or {}, set(), "end")
        return [End()]

    def _restart(self, value: Any) -> list[Step]:
        _check_keys(value or {}, {"parallelism"}, "restart")
        return [Restart((value or {}).get("parallelism"))]

    def _expect(self, value: Any) -> list[Step]:
        return [Expect(MAIN, _results(value))]

    def _expect_late(self, value: Any) -> list[Step]:
        return [Expect(LATE, _results(value))]

    def _expect_side(self, value: Any) -> list[Step]:
        return [Expect(tag, _results(results)) for tag, results in value.items()]

    def _state(self, value: Any) -> list[Step]:
        _check_keys(value, {"entries", "timers"}, "state")
        return [State(value)]

    def _counters(self, value: Any) -> list[Step]:
        return [Counters(value)]

    def _source(self, name: str) -> SourceSpec:
        if name not in self._sources:
            raise TranscriptError(f"there is no source {name!r}, only {', '.join(self._sources)}")
        return self._sources[name]

    def _only_source(self, verb: str) -> str:
        if len(self._sources) > 1:
            raise TranscriptError(f"{verb} must name one of the sources {', '.join(self._sources)}")
        return next(iter(self._sources))


def _results(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TranscriptError(f"results are a list, not {value!r}")
    return tuple(" ".join(str(result).split()) for result in value)


def _check_keys(found: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = set(found) - known
    if unknown:
        raise TranscriptError(f"{where}: unknown {sorted(map(str, unknown))}")


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
