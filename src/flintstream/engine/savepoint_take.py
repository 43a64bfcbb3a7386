"""Taking a savepoint: from the files that a manifest names to Parquet, place by place, and the document at the end.

Separate from the running job, since it needs none: whatever a manifest names is committed and does not change, so all
that is to be seen to is that nobody deletes it meanwhile. Rows are folded and copied as columns. Nothing is decoded, so
no class of the user's is needed, and a directory that came from elsewhere can do no harm here. Each place of state is a
task of its own, which a runtime may run wherever it likes; a place that is larger than memory is gone through in
several passes, each over a part of its key groups.

Flink: SavepointFormatType.CANONICAL and its SnapshotStrategy.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pyarrow as pa

from flintstream.engine import manifest as manifests
from flintstream.engine.epoch import ENTRIES_IN_MEMORY, StateFile
from flintstream.engine.lease import holder
from flintstream.engine.manifest import SETTLED, Manifest
from flintstream.engine.savepoint_format import (
    DOCUMENT,
    Column,
    ExtraFile,
    OperatorEntry,
    PartEntry,
    SavepointDocument,
    SourceEntry,
    TableEntry,
    folder_of,
    metadata_of,
    savepoint_storage,
    write_document,
    write_part,
)
from flintstream.engine.statefiles import read_file, uid_of
from flintstream.errors import FlintstreamError, SavepointError, describe
from flintstream.state.backend import is_shared
from flintstream.state.fold import fold
from flintstream.state.held import is_held
from flintstream.state.judge import without_mark
from flintstream.state.keygroups import group_range
from flintstream.state.partials import is_partials
from flintstream.state.storage import Storage
from flintstream.state.storage_remote import StorageOptions
from flintstream.state.table import within
from flintstream.state.trust import judge_until

PART_ROWS = 500_000


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """A part that a task wrote, with all that the document says of its table."""

    uid: str
    table: str
    what: str
    shared: bool
    metadata: dict[str, str]
    columns: tuple[Column, ...]
    entry: PartEntry


@dataclass(frozen=True, slots=True)
class PlaceTask:
    """Writes the state of one place; a value that can be sent to a worker."""

    source: Storage
    target: Storage
    number: int
    files: tuple[StateFile, ...]
    uids: Mapping[str, int]
    passes: tuple[range, ...]

    def run(self) -> list[WrittenPart]:
        """Write all tables of the place."""
        judge_until(None)  # nothing is decoded here
        written: list[WrittenPart] = []
        for groups in self.passes:
            for name, batches in self._tables(groups).items():
                uid = uid_of(name, self.uids)
                if uid is not None:
                    written += self._write(uid, name, batches, len(written))
        return written

    def _tables(self, groups: range) -> dict[str, list[pa.RecordBatch]]:
        found: dict[str, list[pa.RecordBatch]] = {}
        for file in self.files:
            for name, batch in read_file(self.source, file).items():
                plain = batch.replace_schema_metadata(without_mark(batch.schema.metadata) or None)
                found.setdefault(name, []).append(within(plain, groups) if len(self.passes) > 1 else plain)
        return found

    def _write(self, uid: str, name: str, batches: Sequence[pa.RecordBatch], count: int) -> Iterator[WrittenPart]:
        folder = folder_of(self.uids[uid], uid, name)
        for batch in fold(batches):
            for start in range(0, batch.num_rows, PART_ROWS):
                piece = batch.slice(start, PART_ROWS)
                path = f"{folder}/part-{self.number}-{count}.parquet"
                entry, columns = write_part(self.target, path, piece)
                count += 1
                what = word_for(name.removeprefix(f"{uid}/"), piece)
                yield WrittenPart(uid, name, what, is_shared(piece), metadata_of(piece), columns, entry)


RunTasks = Callable[[Sequence[PlaceTask], bool], Sequence[list[WrittenPart]]]
"""Runs tasks and returns what each has written; told whether epochs run beside them."""


def run_here(tasks: Sequence[PlaceTask], beside: bool) -> Sequence[list[WrittenPart]]:
    """Run tasks one after the other in this thread."""
    return [task.run() for task in tasks]


_OURS = {
    "windows": "window",
    "#window-contents": "window",
    "#merging-windows": "window",
    "#window-marks": "window",
    "#panes": "window",
    "#partial-matches": "pattern",
    "reduced": "reducing",
}


def word_for(state: str, batch: pa.RecordBatch) -> str:
    """Return a word for what a table is, as far as its name and its columns tell."""
    if state in _OURS:
        return _OURS[state]
    if state.endswith("-timers"):
        return "timers"
    if state.startswith("#broadcast/"):
        return "broadcast"
    if is_held(batch) or is_partials(batch):
        return "waiting" if is_held(batch) else "window"
    if state.startswith("#"):
        return "other"
    if "part1" in batch.schema.names:
        return "map"
    return "list" if pa.types.is_large_list(batch.schema.field("value").type) else "value"


@dataclass(frozen=True, slots=True)
class Notes:
    """What whoever takes a savepoint says about it."""

    kind: str = "savepoint"
    tags: tuple[str, ...] = ()
    comment: str = ""


def new_id() -> str:
    """Return an id that no other savepoint has."""
    return uuid.uuid4().hex


def folder_name(job_id: str, savepoint_id: str) -> str:
    """Return the name of a savepoint's directory."""
    return f"savepoint-{job_id[:6]}-{savepoint_id[:12]}"


def write_savepoint(
    source: Storage,
    manifest: Manifest,
    target: Storage,
    notes: Notes,
    run: RunTasks = run_here,
    extra: Mapping[str, bytes] | None = None,
    savepoint_id: str | None = None,
    beside: bool = False,
) -> SavepointDocument:
    """Write what a manifest names as a savepoint into an empty directory; if that fails nothing is left there."""
    if target.list(""):
        where = str(getattr(target, "root", ""))
        raise SavepointError(describe("the directory of the new savepoint is not empty", where, "choose another"))
    try:
        written = [part for parts in run(_tasks(source, manifest, target), beside) for part in parts]
        others = tuple(_write_extra(target, f"spark/{name}", data) for name, data in (extra or {}).items())
        document = document_of(manifest, notes, savepoint_id or new_id(), written, others)
        write_document(target, document)
    except BaseException as error:
        remove_all(target)
        if isinstance(error, OSError):
            what = f"the savepoint could not be written ({error})"
            raise SavepointError(describe(what, None, "free space or mend the directory; the job goes on")) from error
        raise
    return document


def remove_all(storage: Storage) -> None:
    """Delete all files of a directory that is not, or no longer, a savepoint: the document first."""
    with suppress(OSError, FlintstreamError):
        storage.delete(DOCUMENT)
    for path in _walk(storage, ""):
        with suppress(OSError, FlintstreamError):
            storage.delete(path)
    with suppress(OSError):
        storage.prune()


def _walk(storage: Storage, folder: str) -> list[str]:
    found: list[str] = []
    for name in storage.list(folder):
        path = f"{folder}/{name}" if folder else name
        inner = _walk(storage, path)
        found += inner or [path]
    return found


def _tasks(source: Storage, manifest: Manifest, target: Storage) -> list[PlaceTask]:
    uids = {uid: number for number, uid in enumerate(manifest.layout)}
    tasks: list[PlaceTask] = []
    for place, handle in manifest.state.items():
        if handle.files:
            passes = _passes(manifest, place, handle.entries)
            tasks.append(PlaceTask(source, target, len(tasks), handle.files, uids, passes))
    return tasks


def _passes(manifest: Manifest, place: str, entries: int) -> tuple[range, ...]:
    """Return the key groups of a place, in as many parts as memory asks for."""
    whole = range(manifest.max_parallelism)
    level, _, partition = place.partition("/")
    count = -(-entries // ENTRIES_IN_MEMORY)
    if count <= 1 or not partition.isdigit():
        return (whole,)
    widths = {width for at, width in manifest.layout.values() if at == int(level)}
    ranges = [group_range(int(partition), width, manifest.max_parallelism) for width in widths]
    first, last = min(each.start for each in ranges), max(each.stop for each in ranges)
    step = max(1, -(-(last - first) // count))
    return tuple(range(start, min(start + step, last)) for start in range(first, last, step))


def _write_extra(target: Storage, path: str, data: bytes) -> ExtraFile:
    target.write(path, data)
    return ExtraFile(path, len(data), hashlib.sha256(data).hexdigest())


def document_of(
    manifest: Manifest,
    notes: Notes,
    savepoint_id: str,
    written: Sequence[WrittenPart] = (),
    extra: tuple[ExtraFile, ...] = (),
) -> SavepointDocument:
    """Return the document of what a manifest says, with the parts that were written."""
    by_uid: dict[str, dict[str, TableEntry]] = {}
    for part in written:
        tables = by_uid.setdefault(part.uid, {})
        tables[part.table] = with_part(tables.get(part.table), part)
    return SavepointDocument(
        id=savepoint_id,
        created=int(time.time() * 1000),
        kind=notes.kind,
        job=manifest.job,
        epoch=manifest.epoch,
        incarnation=manifest.incarnation,
        max_parallelism=manifest.max_parallelism,
        version=release(),
        now=manifest.now,
        finished=manifest.finished,
        parent=manifest.started_from.get("savepoint"),
        tags=notes.tags,
        comment=notes.comment,
        operators=tuple(_operator(manifest, uid, by_uid.get(uid, {})) for uid in _uids(manifest)),
        sources=sources_of(manifest),
        lanes=manifest.lanes,
        lane_owners=manifest.lane_owners,
        spark=manifest.spark,
        extra=extra,
    )


def _uids(manifest: Manifest) -> list[str]:
    return list(dict.fromkeys([*manifest.operators, *manifest.layout]))


def with_part(table: TableEntry | None, part: WrittenPart) -> TableEntry:
    """Return a table's entry with one more part."""
    if table is None:
        table = TableEntry(part.table, part.what, part.shared, part.metadata)
    schemas = table.schemas if part.columns in table.schemas else (*table.schemas, part.columns)
    entry = replace(part.entry, schema=schemas.index(part.columns))
    return replace(table, schemas=schemas, parts=(*table.parts, entry))


def _operator(manifest: Manifest, uid: str, tables: Mapping[str, TableEntry]) -> OperatorEntry:
    told: dict[str, Any] = manifest.operators.get(uid, {})
    return OperatorEntry(
        uid,
        told.get("name", ""),
        told.get("kind", ""),
        tuple(told.get("classes", ())),
        manifest.layout[uid][1] if uid in manifest.layout else told.get("parallelism", 1),
        manifest.watermarks.get(uid),
        tuple(tables.values()),
    )


def sources_of(manifest: Manifest) -> tuple[SourceEntry, ...]:
    """Return how far each source was read."""
    sources = {uid: told["source"] for uid, told in manifest.operators.items() if "source" in told}
    for uid in manifest.positions:
        sources.setdefault(uid, "")
    return tuple(
        SourceEntry(
            uid,
            kind,
            manifest.split_into.get(uid, 1),
            dict(manifest.positions.get(uid, {})),
            tuple((n, name, start, end) for n, name, start, end in manifest.parts[uid])
            if uid in manifest.parts
            else None,
        )
        for uid, kind in sources.items()
    )


def release() -> str:
    """Return which release this is."""
    try:
        return version("flintstream")
    except PackageNotFoundError:
        return ""


def published_manifest(storage: Storage, epoch: int | None = None) -> Manifest:
    """Return a manifest of a job that does not run, the newest or that of an epoch, whose output is all published.

    Raises:
        SavepointError: there is none; or the job died before it had published the epoch's output.
    """
    where = str(getattr(storage, "root", ""))
    names = storage.list(manifests.FOLDER)
    wanted = [name for name in names if epoch is None or manifests.epoch_of(name) == epoch]
    if not wanted:
        what = "there is no checkpoint" if epoch is None else f"there is no checkpoint of epoch {epoch}"
        raise SavepointError(describe(what, where, "name the directory of a job that has run"))
    path = f"{manifests.FOLDER}/{wanted[-1]}"
    found = Manifest.from_bytes(storage.read(path), path)
    is_newest = wanted[-1] == names[-1]
    settled = f"{found.epoch:012d}" in storage.list(SETTLED)
    if is_newest and any(found.committables.values()) and not settled:
        what = f"job {found.job!r} ended before it had told that the output of epoch {found.epoch} is published"
        remedy = "start the job again, which finishes that, and stop it; or use an older checkpoint"
        raise SavepointError(describe(what, where, remedy))
    return found


def take(
    source: Storage,
    directory: str,
    notes: Notes | None = None,
    target_name: str | None = None,
    options: StorageOptions = None,
) -> str:
    """Take a savepoint of a job that does not run out of its checkpoint directory; return its path."""
    runs = holder(source)
    if runs is not None:
        remedy = "ask it for a savepoint: with trigger_savepoint() of its client, or by a request"
        raise SavepointError(describe(f"the job runs ({runs})", str(getattr(source, "root", "")), remedy))
    manifest = published_manifest(source)
    savepoint_id = new_id()
    name = target_name or folder_name(manifest.incarnation, savepoint_id)
    path = f"{directory.rstrip('/')}/{name}"
    extra = spark_files(source, manifest)
    target = savepoint_storage(path, options)
    write_savepoint(source, manifest, target, notes or Notes("checkpoint"), extra=extra, savepoint_id=savepoint_id)
    return path


def spark_files(source: Storage, manifest: Manifest) -> dict[str, bytes]:
    """Return what Spark's own checkpoint says of the streams it reads, up to the manifest's batch."""
    batch = manifest.spark.get("batch")
    if batch is None:
        return {}
    files = {"metadata": source.read("spark/metadata")}
    # Spark looks at the batch before the last one, too.
    there = set(source.list("spark/offsets")) & {str(batch - 1), str(batch)}
    files.update({f"offsets/{name}": source.read(f"spark/offsets/{name}") for name in there})
    # Spark writes its mark when the epoch is over; a job that is restored begins behind it.
    marks = [name for name in source.list("spark/commits") if name.isdigit() and int(name) <= batch]
    mark = source.read(f"spark/commits/{max(marks, key=int)}") if marks else b'v1\n{"nextBatchWatermarkMs":0}'
    files[f"commits/{batch}"] = mark
    for number in source.list("spark/sources"):
        for name in source.list(f"spark/sources/{number}"):
            written = name.partition(".")[0]
            if written.isdigit() and int(written) <= batch:
                files[f"sources/{number}/{name}"] = source.read(f"spark/sources/{number}/{name}")
    return files
