"""What a savepoint is on disk: a JSON document that is written last, and Parquet files of state that it names.

    savepoint.json
    state/<nnn>-<operator>/<table>-<digest>/part-<task>-<chunk>.parquet
    spark/...                                                           offsets of Spark's own streams, if there are any

Separate from taking and restoring one, because other tools read and write the same format. It is a value: all names in
it are relative, so a directory can be moved, copied and renamed. Nothing in it is executed when it is read, and nothing
is believed: sizes, names and checksums are checked before a file is opened.

Flink: SavepointMetadata and the canonical savepoint format. Differs from Flink: state is stored as typed columns that
any tool reads, and the document tells what each of them is.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, cast

import pyarrow as pa

from flintstream.engine.manifest import lane_from
from flintstream.errors import SavepointError, describe
from flintstream.ops.clock import LaneTime
from flintstream.state.codec import Kind, kind_of_field
from flintstream.state.parquet import MOST_ROWS, part_bytes
from flintstream.state.storage import LocalStorage, Storage, is_inside
from flintstream.state.storage_remote import StorageOptions, storage_at

DOCUMENT = "savepoint.json"
FORMAT = 1
MOST_DOCUMENT_BYTES = 1 << 28
_REMEDY = "take it again, or use another savepoint"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a part: its name, its Arrow type as text, and the kind of Python values it stands for."""

    name: str
    type: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class PartEntry:
    """A Parquet file of a table. `groups` are its least and its greatest key group; `schema` counts the table's."""

    file: str
    rows: int
    bytes: int
    sha256: str
    groups: tuple[int, int]
    schema: int = 0


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One named state of an operator. `name` is as in changelogs, `uid/...`; `metadata` is that of its batches.

    `what` is a word for it: value, list, map, reducing, aggregating, summary, timers, window, broadcast, waiting and so
    on. Tables that are `shared` are the same for all partitions and have no key groups.
    """

    name: str
    what: str
    shared: bool = False
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    schemas: tuple[tuple[Column, ...], ...] = ()
    parts: tuple[PartEntry, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows all parts have together."""
        return sum(part.rows for part in self.parts)

    @property
    def bytes(self) -> int:
        """How many bytes all parts have together."""
        return sum(part.bytes for part in self.parts)


@dataclass(frozen=True, slots=True)
class OperatorEntry:
    """An operator: what the program called it, the users' classes in it, its watermark, and its state."""

    uid: str
    name: str = ""
    kind: str = ""
    classes: tuple[str, ...] = ()
    parallelism: int = 1
    watermark: int | None = None
    tables: tuple[TableEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """How far a source was read: the next position of each split, and a log's parts `(number, name, start, end)`."""

    uid: str
    kind: str
    split_into: int = 1
    positions: dict[int, int] = field(default_factory=dict[int, int])
    parts: tuple[tuple[int, str, int, int | None], ...] | None = None


@dataclass(frozen=True, slots=True)
class ExtraFile:
    """A file that is neither the document nor state."""

    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SavepointDocument:
    """Everything a job is at the end of one epoch, but for the rows of its state.

    `created` is in ms. `kind` says how it came about: savepoint, stop, drain, checkpoint (from the directory of a job
    that does not run) or written. `finished` says that event time has come to its end. `parent` is the id of the
    savepoint that the job was started from, `incarnation` names the life of the job in which it was taken.
    """

    id: str
    created: int
    kind: str
    job: str
    epoch: int
    incarnation: str
    max_parallelism: int
    version: str = ""
    now: int = 0
    finished: bool = False
    parent: str | None = None
    tags: tuple[str, ...] = ()
    comment: str = ""
    operators: tuple[OperatorEntry, ...] = ()
    sources: tuple[SourceEntry, ...] = ()
    lanes: dict[int, LaneTime] = field(default_factory=dict[int, LaneTime])
    lane_owners: dict[int, str] = field(default_factory=dict[int, str])
    spark: dict[str, Any] = field(default_factory=dict[str, Any])
    extra: tuple[ExtraFile, ...] = ()

    def operator(self, uid: str) -> OperatorEntry | None:
        """Return the operator of a uid, if there is one."""
        return next((each for each in self.operators if each.uid == uid), None)

    @property
    def rows(self) -> int:
        """How many rows of state there are."""
        return sum(table.rows for each in self.operators for table in each.tables)

    @property
    def bytes(self) -> int:
        """How many bytes of state there are."""
        return sum(table.bytes for each in self.operators for table in each.tables)

    def files(self) -> list[str]:
        """Return the paths of all files that it names."""
        parts = [part.file for each in self.operators for table in each.tables for part in table.parts]
        return parts + [each.file for each in self.extra]


def positions_of(document: SavepointDocument, uid: str) -> dict[int | str, int]:
    """Return the next position of every split of a source, by its number, or by its name if it is a log's part."""
    found = next((each for each in document.sources if each.uid == uid), None)
    if found is None:
        return {}
    names = {number: name for number, name, _, _ in found.parts or ()}
    return {names.get(split) or split: position for split, position in found.positions.items()}


def savepoint_storage(path: str, options: StorageOptions = None) -> Storage:
    """Return the directory of a savepoint; what is in it cannot lead out of it."""
    found = storage_at(str(path), options)
    return LocalStorage(found.root, strict=True) if isinstance(found, LocalStorage) else found


def folder_of(number: int, uid: str, table: str) -> str:
    """Return the folder of one table of the operator of that number."""
    return f"state/{number:03d}-{_slug(uid)}/{_slug(table.removeprefix(f'{uid}/'))}-{_digest(table)}"


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", text).strip("._-")[:40] or "x"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def write_part(storage: Storage, path: str, batch: pa.RecordBatch) -> tuple[PartEntry, tuple[Column, ...]]:
    """Write rows of a table, without removed ones, as one file; return its entry, and what its columns are."""
    if "gone" in batch.schema.names:
        batch = batch.drop_columns(["gone"])
    data = part_bytes(batch)
    storage.write(path, data)
    groups = batch.column("key_group").to_numpy()
    span = (int(groups.min()), int(groups.max())) if len(groups) else (0, -1)
    entry = PartEntry(path, batch.num_rows, len(data), hashlib.sha256(data).hexdigest(), span)
    return entry, columns_of(batch.schema)


def columns_of(schema: pa.Schema) -> tuple[Column, ...]:
    """Return what the columns of a batch are."""
    return tuple(Column(each.name, str(each.type), kind_of_field(each)) for each in schema)


def metadata_of(batch: pa.RecordBatch) -> dict[str, str]:
    """Return the metadata of a batch as text."""
    return {key.decode(): value.decode() for key, value in (batch.schema.metadata or {}).items()}


def write_document(storage: Storage, document: SavepointDocument) -> None:
    """Write the document, which makes a savepoint of the files that are there; it must be the first one."""
    storage.sync(sorted({file.rpartition("/")[0] for file in document.files()}))
    if not storage.create(DOCUMENT, to_bytes(document)):
        raise SavepointError(describe("there is a savepoint in that directory already", None, "choose another"))


def to_bytes(document: SavepointDocument) -> bytes:
    """Return the document as JSON; its last entry is the digest of what stands before it."""
    body = json.dumps({"format": FORMAT, **_attributes(document)}, indent=1, default=_attributes)
    return f'{body[:-2]},\n "sha256": "{hashlib.sha256(body.encode()).hexdigest()}"\n}}\n'.encode()


def _attributes(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}


def has_document(storage: Storage) -> bool:
    """Whether a directory is a savepoint."""
    return DOCUMENT in storage.list("")


def read_document(storage: Storage, where: str | None = None) -> SavepointDocument:
    """Return the document of a savepoint, after checking all that can be checked without its files.

    Raises:
        SavepointError: there is none, it is damaged, says impossible things, or was made by a later release.
    """
    place = where or str(getattr(storage, "root", "")) or None
    if not has_document(storage):
        raise SavepointError(describe("there is no savepoint", place, f"name a directory with a {DOCUMENT} in it"))
    data = storage.read(DOCUMENT, 0, MOST_DOCUMENT_BYTES + 1)
    try:
        _must(len(data) <= MOST_DOCUMENT_BYTES, "it is too large")
        found = _checked(json.loads(data), place)
        return _document(found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"the savepoint's document cannot be read ({error})"
        raise SavepointError(describe(what, place, _REMEDY)) from error


def read_extra(storage: Storage, entry: ExtraFile) -> bytes:
    """Return the bytes of a file that is not state, if they are what was written."""
    data = storage.read(entry.file, 0, entry.bytes)
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise SavepointError(describe(f"file {entry.file!r} of the savepoint is damaged", None, _REMEDY))
    return data


def _checked(found: Any, place: str | None) -> dict[str, Any]:
    _must(isinstance(found, dict), "it is not an object")
    document = cast("dict[str, Any]", found)
    release = document.pop("format")
    if isinstance(release, int) and release > FORMAT:
        what = f"the savepoint has format {release}, and this release reads up to {FORMAT}"
        remedy = f"use the release that made it ({document.get('version')}) or a later one"
        raise SavepointError(describe(what, place, remedy))
    expected = document.pop("sha256")
    body = json.dumps({"format": release, **document}, indent=1)
    _must(hashlib.sha256(body.encode()).hexdigest() == expected, "it is not what was written")
    return document


def _document(found: Mapping[str, Any]) -> SavepointDocument:
    """Return a document of the right types, or raise one of the errors of wrong ones."""
    known = {each.name for each in fields(SavepointDocument)}
    _must(set(found) <= known, f"unknown entries {sorted(set(found) - known)}")
    values = dict(found)
    for name in ("id", "kind", "job", "incarnation"):
        _check(values[name], str, name)
    for name in ("created", "epoch", "max_parallelism"):
        _check(values[name], int, name)
    _must(
        1 <= values["max_parallelism"] <= 1 << 15 and values["epoch"] >= 0, "max_parallelism or epoch is out of range"
    )
    values["tags"] = tuple(str(tag) for tag in values["tags"])
    values["operators"] = tuple(_operator(each, values["max_parallelism"]) for each in values["operators"])
    values["sources"] = tuple(_source(each) for each in values["sources"])
    values["lanes"] = {int(lane): lane_from(time) for lane, time in values["lanes"].items()}
    values["lane_owners"] = {int(number): _check(uid, str, "owner") for number, uid in values["lane_owners"].items()}
    values["extra"] = tuple(ExtraFile(**_with(each, file=_path(each["file"], "spark/"))) for each in values["extra"])
    return SavepointDocument(**values)


def _must(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(what)


def _with(found: Mapping[str, Any], **changed: Any) -> dict[str, Any]:
    return {**found, **changed}


def _check(value: Any, wanted: type, name: str) -> Any:
    _must(isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)), f"{name} is {value!r:.50}")
    return value


def _path(path: Any, folder: str) -> str:
    inside = isinstance(path, str) and is_inside(path) and path.startswith(folder)
    _must(inside, f"path {path!r:.200} leaves the savepoint")
    return path


def _operator(found: Mapping[str, Any], groups: int) -> OperatorEntry:
    uid = _check(found["uid"], str, "uid")
    tables = tuple(_table(each, uid, groups) for each in found["tables"])
    return OperatorEntry(**_with(found, classes=tuple(found["classes"]), tables=tables))


def _table(found: Mapping[str, Any], uid: str, groups: int) -> TableEntry:
    is_its_own = _check(found["name"], str, "table").startswith(f"{uid}/")
    _must(is_its_own, f"table {found['name']!r} is not of operator {uid!r}")
    schemas = tuple(tuple(Column(**column) for column in schema) for schema in found["schemas"])
    parts = tuple(_part(each, len(schemas), groups) for each in found["parts"])
    return TableEntry(**_with(found, schemas=schemas, parts=parts))


def _part(found: Mapping[str, Any], schemas: int, groups: int) -> PartEntry:
    first, last = found["groups"]
    part = PartEntry(**_with(found, file=_path(found["file"], "state/"), groups=(first, last)))
    is_possible = 0 <= part.rows <= MOST_ROWS and part.bytes >= 0 and 0 <= part.schema < schemas and last < groups
    _must(is_possible, f"part {part.file!r} has impossible numbers")
    return part


def _source(found: Mapping[str, Any]) -> SourceEntry:
    positions = {int(split): _check(at, int, "position") for split, at in found["positions"].items()}
    given = found["parts"]
    parts = None if given is None else tuple((number, name, start, end) for number, name, start, end in given)
    return SourceEntry(**_with(found, positions=positions, parts=parts))
