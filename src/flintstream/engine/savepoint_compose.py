"""A savepoint put together by hand: state that is new, beside what is kept of another savepoint.

Kept files are copied as they are, so that the new savepoint depends on nothing; of a checkpoint they are made first.

Flink: SavepointWriter, underneath.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from flintstream.engine.savepoint_format import (
    OperatorEntry,
    SavepointDocument,
    TableEntry,
    folder_of,
    metadata_of,
    savepoint_storage,
    write_document,
    write_part,
)
from flintstream.engine.savepoint_spec import StateSpec
from flintstream.engine.savepoint_take import (
    PART_ROWS,
    Notes,
    WrittenPart,
    document_of,
    new_id,
    release,
    remove_all,
    with_part,
    word_for,
)
from flintstream.engine.savepoint_write import Batches, batches_of_pairs, batches_of_table
from flintstream.engine.state_tables import CheckpointSource, SavepointPart, SavepointSource, StateSource
from flintstream.errors import CorruptStateError, SavepointError, describe
from flintstream.state.backend import is_shared
from flintstream.state.storage import Storage
from flintstream.state.storage_remote import StorageOptions


@dataclass(frozen=True, slots=True)
class PartWriter:
    """Writes rows of one state into a savepoint; a value that can be sent to a worker."""

    storage: Storage
    spec: StateSpec
    operator: int
    groups: int

    def write_table(self, table: pa.Table) -> list[WrittenPart]:
        """Write the rows of a table."""
        return self._write(batches_of_table(self.spec, table, self.groups))

    def write_pairs(self, pairs: Iterable[Any]) -> list[WrittenPart]:
        """Write Python values."""
        return self._write(batches_of_pairs(self.spec, pairs, self.groups))

    def _write(self, batches: Batches) -> list[WrittenPart]:
        written: list[WrittenPart] = []
        for name, batch in batches.items():
            written += write_rows_of(self.storage, self.operator, self.spec.uid, name, batch)
        return written

    def folders(self) -> list[str]:
        """Return the folders that it writes to."""
        tables = (self.spec.table, self.spec.deadlines)
        return [folder_of(self.operator, self.spec.uid, table) for table in tables]


def write_rows_of(
    storage: Storage, operator: int, uid: str, table: str, batch: pa.RecordBatch
) -> Iterable[WrittenPart]:
    """Write rows of a table, under names that no other attempt to write them has."""
    folder, attempt = folder_of(operator, uid, table), uuid.uuid4().hex[:12]
    word = word_for(table.removeprefix(f"{uid}/"), batch)
    for start in range(0, batch.num_rows, PART_ROWS):
        piece = batch.slice(start, PART_ROWS)
        entry, columns = write_part(storage, f"{folder}/part-{attempt}-{start // PART_ROWS}.parquet", piece)
        yield WrittenPart(uid, table, word, is_shared(piece), metadata_of(piece), columns, entry)


WriteState = Callable[[PartWriter, Any], Sequence[WrittenPart]]
"""Writes some data, whatever it is."""


@dataclass
class Draft:
    """What the new savepoint shall have: `added` states with their data, without what was `removed` of `base`."""

    groups: int
    base: StateSource | None = None
    removed: set[str] = field(default_factory=set[str])
    """Names of operators, and of tables."""
    added: dict[str, tuple[StateSpec, Any]] = field(default_factory=dict[str, tuple[StateSpec, Any]])

    def add(self, spec: StateSpec, data: Any) -> None:
        """Have some data be a state; whatever it was in the base is gone."""
        self.added[spec.table] = (spec, data)
        self.removed |= {spec.table, spec.deadlines}

    def remove_operator(self, uid: str) -> None:
        """Leave out an operator, the new states that it was given so far included."""
        self.removed.add(uid)
        self.added = {name: each for name, each in self.added.items() if each[0].uid != uid}

    def remove_table(self, uid: str, table: str) -> None:
        """Leave out one table."""
        self.removed |= {table, f"{uid}/#ttl:{table.removeprefix(f'{uid}/')}-timers"}
        self.added.pop(table, None)

    def write(
        self, path: str, write_state: WriteState, notes: Notes, options: StorageOptions = None
    ) -> SavepointDocument:
        """Write the savepoint into an empty directory; if that fails nothing is left there."""
        storage = savepoint_storage(path, options)
        if storage.list(""):
            raise SavepointError(describe("the directory of the new savepoint is not empty", path, "choose another"))
        try:
            document = self._document(storage, write_state, notes)
            write_document(storage, document)
        except BaseException as error:
            remove_all(storage)
            if isinstance(error, OSError):
                what = f"the savepoint could not be written ({error})"
                raise SavepointError(describe(what, path, "free space or mend the directory")) from error
            raise
        return document

    def _document(self, storage: Storage, write_state: WriteState, notes: Notes) -> SavepointDocument:
        found = self._base_document(notes)
        self._copy_extra(storage, found)
        operators = {each.uid: each for each in found.operators}
        tables = {each.uid: self._kept(storage, each, number) for number, each in enumerate(found.operators)}
        for spec, data in self.added.values():
            operators.setdefault(spec.uid, OperatorEntry(spec.uid))
            own = tables.setdefault(spec.uid, {})
            writer = PartWriter(storage, spec, list(operators).index(spec.uid), self.groups)
            written = write_state(writer, data)
            for part in written:
                own[part.table] = with_part(own.get(part.table), part)
            _forget_others(storage, writer, written)
        whole = tuple(replace(each, tables=tuple(tables[uid].values())) for uid, each in operators.items())
        return replace(found, operators=whole)

    def _base_document(self, notes: Notes) -> SavepointDocument:
        """Return all but the state of the new savepoint; removed operators are left out."""
        if self.base is None:
            # As if a job had committed once: no epoch comes before its first.
            found = SavepointDocument("", 0, "", "", 1, uuid.uuid4().hex[:16], self.groups)
        else:
            found = base_document(self.base)
        return replace(
            found,
            id=new_id(),
            created=int(time.time() * 1000),
            kind=notes.kind,
            version=release(),
            parent=found.id or None,
            tags=notes.tags,
            comment=notes.comment,
            operators=tuple(each for each in found.operators if each.uid not in self.removed),
        )

    def _copy_extra(self, storage: Storage, found: SavepointDocument) -> None:
        for each in found.extra:
            assert self.base is not None
            data = self.base.storage.read(each.file)
            if hashlib.sha256(data).hexdigest() != each.sha256:
                what = f"file {each.file!r} of the savepoint is damaged"
                raise CorruptStateError(describe(what, self.base.where, "use another savepoint"))
            storage.write(each.file, data)

    def _kept(self, storage: Storage, operator: OperatorEntry, number: int) -> dict[str, TableEntry]:
        """Copy the state of an operator that stays as it is."""
        assert self.base is not None
        kept: dict[str, TableEntry] = {table.name: table for table in operator.tables}
        found: dict[str, TableEntry] = {}
        for stored in self.base.tables():
            if stored.uid != operator.uid or stored.name in self.removed:
                continue
            for part in self.base.parts(stored.name):
                if isinstance(part, SavepointPart):
                    storage.write(part.entry.file, part.bytes())
                    found[stored.name] = kept[stored.name]
                    continue
                for batch in part.read():
                    for written in write_rows_of(storage, number, operator.uid, stored.name, batch):
                        found[stored.name] = with_part(found.get(stored.name), written)
        return found


def base_document(source: StateSource) -> SavepointDocument:
    """Return what a savepoint, or one that would be made of a checkpoint, says.

    Raises:
        SavepointError: part of it is kept by Spark, and only taking a savepoint copies that.
    """
    if isinstance(source, SavepointSource):
        return source.document
    assert isinstance(source, CheckpointSource)
    manifest = source.manifest
    if manifest.spark.get("batch") is not None:
        what = "in this checkpoint Spark keeps how far a stream was read"
        raise SavepointError(describe(what, source.where, "take a savepoint, and begin with that"))
    return document_of(manifest, Notes("checkpoint"), f"{manifest.incarnation}-{manifest.epoch}")


def _forget_others(storage: Storage, writer: PartWriter, written: Sequence[WrittenPart]) -> None:
    """Delete what attempts have left that were not the last."""
    named = {part.entry.file for part in written}
    for folder in writer.folders():
        for name in storage.list(folder):
            if f"{folder}/{name}" not in named:
                storage.delete(f"{folder}/{name}")
