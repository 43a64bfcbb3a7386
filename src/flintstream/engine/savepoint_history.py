"""The savepoints of a directory as a history: which there are, who descends from whom, and what changed in between.

Separate from taking and restoring them: all this needs is their documents, and for a comparison their rows as columns.
Nothing is decoded. Results are plain values, for a program to use and a command line to print.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from flintstream.engine.savepoint_format import (
    DOCUMENT,
    OperatorEntry,
    SavepointDocument,
    TableEntry,
    has_document,
    read_document,
    savepoint_storage,
    to_bytes,
)
from flintstream.errors import CorruptStateError, FlintstreamError, describe
from flintstream.state.fold import chunks_of, entry_columns
from flintstream.state.parquet import read_part
from flintstream.state.row_codes import row_codes
from flintstream.state.storage import Storage
from flintstream.state.storage_remote import StorageOptions, storage_at


@dataclass(frozen=True, slots=True)
class SavepointSummary:
    """A savepoint in a line of its history. `created` is in ms; `bytes` and `rows` are those of its state."""

    path: str
    id: str
    created: int
    kind: str
    job: str
    epoch: int
    version: str
    parent: str | None
    tags: tuple[str, ...]
    comment: str
    rows: int
    bytes: int


def summary_of(path: str, document: SavepointDocument) -> SavepointSummary:
    """Return what a history says of a savepoint."""
    return SavepointSummary(
        path,
        document.id,
        document.created,
        document.kind,
        document.job,
        document.epoch,
        document.version,
        document.parent,
        document.tags,
        document.comment,
        document.rows,
        document.bytes,
    )


def history(directory: str, tag: str | None = None, options: StorageOptions = None) -> list[SavepointSummary]:
    """Return the savepoints in a directory, oldest first; what is there and cannot be read is left out."""
    found: list[SavepointSummary] = []
    for name in storage_at(directory, options).list(""):
        path = f"{directory.rstrip('/')}/{name}"
        storage = savepoint_storage(path, options)
        try:
            if has_document(storage):
                found.append(summary_of(path, read_document(storage, path)))
        except (FlintstreamError, OSError):
            continue
    wanted = [each for each in found if tag is None or tag in each.tags]
    return sorted(wanted, key=lambda each: (each.created, each.epoch, each.id))


def ancestors(savepoint: SavepointSummary, known: Iterable[SavepointSummary]) -> list[SavepointSummary]:
    """Return a savepoint's parent, the parent of that and so on, as far as they are known."""
    by_id = {each.id: each for each in known}
    found: list[SavepointSummary] = []
    at = savepoint
    while at.parent is not None and at.parent in by_id and by_id[at.parent] not in found:
        at = by_id[at.parent]
        found.append(at)
    return found


@dataclass(frozen=True, slots=True)
class TableDiff:
    """How one state of an operator differs: rows that only the second has, only the first, and with another value."""

    uid: str
    state: str
    what: str
    added: int
    removed: int
    changed: int
    same: int


def diff(first: str, second: str, options: StorageOptions = None) -> list[TableDiff]:
    """Compare the state of two savepoints, table by table; only tables that differ in something are told."""
    one, other = savepoint_storage(first, options), savepoint_storage(second, options)
    old, new = read_document(one, first), read_document(other, second)
    tables_of_old, tables_of_new = _tables(old.operators), _tables(new.operators)
    found: list[TableDiff] = []
    for name in dict.fromkeys([*tables_of_old, *tables_of_new]):
        uid, table = tables_of_old.get(name) or tables_of_new[name]
        before = _rows(one, tables_of_old[name][1]) if name in tables_of_old else []
        after = _rows(other, tables_of_new[name][1]) if name in tables_of_new else []
        compared = _compare(before, after)
        if any(compared[:3]):
            found.append(TableDiff(uid, name.removeprefix(f"{uid}/"), table.what, *compared))
    return found


def _tables(operators: Iterable[OperatorEntry]) -> dict[str, tuple[str, TableEntry]]:
    return {table.name: (each.uid, table) for each in operators for table in each.tables}


def _rows(storage: Storage, table: TableEntry) -> list[pa.RecordBatch]:
    return [read_part(_whole(storage, part.file, part.bytes), part.file, part.rows) for part in table.parts]


def _whole(storage: Storage, path: str, size: int) -> bytes:
    data = storage.read(path)
    if len(data) != size:
        what = f"state file {path!r} of the savepoint is damaged ({len(data)} of {size} bytes)"
        raise CorruptStateError(describe(what, None, "use another savepoint"))
    return data


def _compare(before: Sequence[pa.RecordBatch], after: Sequence[pa.RecordBatch]) -> tuple[int, int, int, int]:
    """Return how many rows were added, removed, changed, and are the same."""
    batches = [*before, *after]
    if not batches:
        return 0, 0, 0, 0
    total = sum(batch.num_rows for batch in batches)
    split = sum(batch.num_rows for batch in before)
    names = [name for name in batches[0].schema.names if name != "key_group"]
    keys = entry_columns(batches[0].schema) if "key" in names else names
    keys = [name for name in keys if all(name in batch.schema.names for batch in batches)]
    columns = [name for name in names if all(name in batch.schema.names for batch in batches)]
    entries = row_codes([chunks_of(batches, name) for name in keys], total).tolist()
    whole = row_codes([chunks_of(batches, name) for name in columns], total).tolist()
    old, new = (
        dict(zip(entries[:split], whole[:split], strict=True)),
        dict(zip(entries[split:], whole[split:], strict=True)),
    )
    common = [entry for entry in old if entry in new]
    same = sum(old[entry] == new[entry] for entry in common)
    return len(new) - len(common), len(old) - len(common), len(common) - same, same


def dispose(path: str, options: StorageOptions = None) -> None:
    """Delete a savepoint; a directory that is none is left alone."""
    storage = savepoint_storage(path, options)
    document = read_document(storage, path)
    for file in (DOCUMENT, *document.files()):
        storage.delete(file)
    storage.prune()


def tag(path: str, tags: Sequence[str], comment: str | None = None, options: StorageOptions = None) -> SavepointSummary:
    """Give a savepoint other tags, and another comment if there is one; its state stays as it is."""
    storage = savepoint_storage(path, options)
    document = read_document(storage, path)
    changed = replace(document, tags=tuple(tags), comment=document.comment if comment is None else comment)
    storage.write(DOCUMENT, to_bytes(changed))
    return summary_of(path, changed)


def check(path: str, options: StorageOptions = None) -> SavepointDocument:
    """Read every file of a savepoint and compare it with what the document says; return the document.

    Raises:
        CorruptStateError: a file is damaged or missing, by name.
    """
    storage = savepoint_storage(path, options)
    document = read_document(storage, path)
    for each in document.operators:
        for table in each.tables:
            for part in table.parts:
                data = _whole(storage, part.file, part.bytes)
                if hashlib.sha256(data).hexdigest() != part.sha256:
                    what = f"state file {part.file!r} of the savepoint is damaged"
                    raise CorruptStateError(describe(what, path, "use another savepoint"))
                read_part(data, part.file, part.rows)
    return document
