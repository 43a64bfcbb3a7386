"""State that lies in a savepoint or in a checkpoint directory: which tables there are, and their rows, in parts.

Whoever looks needs no program: names, columns and types are all in the files. Only looking is done here, nothing is
ever written, so a checkpoint directory may be one of a job that runs. Such a job deletes what it no longer needs; if it
does so under a reader, that one begins again with the newest manifest.

Parts are what can be read side by side, and they travel to Spark's tasks: a savepoint's files, or the chain of
changelogs of one partition, which is folded where it is read.

Flink: the readers of the State Processor API (SavepointReader). Differs from Flink: the state's own types tell its
columns, so that nobody has to declare them again to look at it.
"""

from __future__ import annotations

import hashlib
import io
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flintstream.engine import manifest as manifests
from flintstream.engine.epoch import StateFile
from flintstream.engine.manifest import Manifest
from flintstream.engine.savepoint_format import (
    PartEntry,
    SavepointDocument,
    SourceEntry,
    has_document,
    read_document,
    savepoint_storage,
)
from flintstream.engine.savepoint_take import sources_of, word_for
from flintstream.engine.state_tables_columns import DOMAIN
from flintstream.engine.statefiles import read_file, uid_of
from flintstream.errors import CorruptStateError, SavepointError, describe
from flintstream.state.changelog import places_in, schema_at
from flintstream.state.codec import field_of
from flintstream.state.fold import fold
from flintstream.state.parquet import read_part, stored_schema
from flintstream.state.storage import Storage
from flintstream.state.storage_remote import StorageOptions


class Part(ABC):
    """Rows of one table that are read at once; `storage` is where they are."""

    storage: Storage

    @abstractmethod
    def read(self) -> list[pa.RecordBatch]:
        """Return the rows as they are stored."""

    @abstractmethod
    def schemas(self) -> list[pa.Schema]:
        """Return the shapes that the rows may have, without reading them."""


@dataclass(frozen=True)
class SavepointPart(Part):
    """A file of a savepoint."""

    storage: Storage
    entry: PartEntry

    def read(self) -> list[pa.RecordBatch]:
        return [read_part(self.bytes(), self.entry.file, self.entry.rows)]

    def bytes(self) -> bytes:
        """Return the file, after checking that it is what was written."""
        data = self.storage.read(self.entry.file)
        if hashlib.sha256(data).hexdigest() != self.entry.sha256:
            what = f"state file {self.entry.file!r} is damaged, or not the one that was written"
            raise CorruptStateError(describe(what, None, "use another savepoint"))
        return data

    def schemas(self) -> list[pa.Schema]:
        try:
            return [stored_schema(pq.read_schema(_Opened(self.storage, self.entry.file, self.entry.bytes)))]
        except (pa.ArrowException, ValueError, OSError) as error:
            what = f"state file {self.entry.file!r} is damaged ({error})"
            raise CorruptStateError(describe(what, None, "use another savepoint")) from error


class _Opened(io.RawIOBase):
    """A file of a storage to be read piece by piece: of a Parquet file the end says what is in it."""

    def __init__(self, storage: Storage, path: str, size: int) -> None:
        super().__init__()
        self._storage, self._path, self._size, self._at = storage, path, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        data = self._storage.read(self._path, self._at, self._size - self._at if size < 0 else size)
        self._at += len(data)
        return data


@dataclass(frozen=True)
class ChainPart(Part):
    """One table in the chain of changelogs of a partition."""

    storage: Storage
    table: str
    files: tuple[StateFile, ...]

    def read(self) -> list[pa.RecordBatch]:
        found = [read_file(self.storage, file).get(self.table) for file in self.files]
        return fold([batch for batch in found if batch is not None])

    def schemas(self) -> list[pa.Schema]:
        found: list[pa.Schema] = []
        for file in self.files:
            at = tables_in(self.storage, file).get(self.table)
            if at is not None:
                found.append(_looked_at(file, lambda read, at=at: schema_at(read, at[0]), self.storage))
        return found


@dataclass(frozen=True)
class TimersPart(Part):
    """Timers, with a column that tells by which clock they go."""

    storage: Storage
    timers: Part
    domain: str

    def read(self) -> list[pa.RecordBatch]:
        return [
            batch.append_column(DOMAIN, pa.array([self.domain] * batch.num_rows, pa.string()))
            for batch in self.timers.read()
        ]

    def schemas(self) -> list[pa.Schema]:
        domain = pa.field(DOMAIN, pa.string())
        return [pa.schema([*schema, domain], schema.metadata) for schema in self.timers.schemas()]


@dataclass(frozen=True)
class NoTimers(Part):
    """Stands for the timers of an operator that has none at the moment."""

    storage: Storage

    def read(self) -> list[pa.RecordBatch]:
        return []

    def schemas(self) -> list[pa.Schema]:
        nothing = [field_of(name, pa.nulls(0), "none") for name in ("key", "part1")]
        return [pa.schema([*nothing, pa.field("part2", pa.int64()), pa.field(DOMAIN, pa.string())])]


def tables_in(storage: Storage, file: StateFile) -> dict[str, tuple[int, int]]:
    """Return which tables a changelog has, and where."""
    return _looked_at(file, places_in, storage)


def _looked_at(file: StateFile, look: Callable[[Callable[[int, int], bytes]], Any], storage: Storage) -> Any:
    def read(offset: int, length: int) -> bytes:
        if not 0 <= offset <= offset + length <= file.length:
            msg = f"{length} bytes at {offset} of {file.length}"
            raise ValueError(msg)
        return storage.read(file.path, file.offset + offset, length)

    try:
        return look(read)
    except (struct.error, pa.ArrowException, ValueError, TypeError, AttributeError) as error:
        what = f"state file {file.path!r} is not a changelog, or a damaged one"
        raise CorruptStateError(describe(what, None, "look at another checkpoint or savepoint")) from error


@dataclass(frozen=True)
class Stored:
    """One table: its full name, a word for what it is, and how many rows it has, if that is known without reading."""

    uid: str
    name: str
    what: str
    rows: int | None

    @property
    def own_name(self) -> str:
        """The name without the operator's."""
        return self.name[len(self.uid) + 1 :]


class StateSource(ABC):
    """A savepoint or a checkpoint; `where` names it to people."""

    where: str
    storage: Storage
    max_parallelism: int

    @abstractmethod
    def operators(self) -> dict[str, str]:
        """Return the operators: uid and name."""

    @abstractmethod
    def tables(self) -> list[Stored]:
        """Return all tables."""

    @abstractmethod
    def parts(self, table: str) -> list[Part]:
        """Return the parts of a table."""

    @abstractmethod
    def sources(self) -> list[SourceEntry]:
        """Return how far each source was read."""

    @abstractmethod
    def title(self) -> str:
        """Return one line that says which state of which job this is."""

    def newer(self) -> StateSource | None:
        """Return what has taken the place of this, if its files may be gone for that reason."""
        return None


class SavepointSource(StateSource):
    """A savepoint."""

    def __init__(self, storage: Storage, where: str) -> None:
        self.storage = storage
        self.where = where
        self.document: SavepointDocument = read_document(storage, where)
        self.max_parallelism = self.document.max_parallelism

    def operators(self) -> dict[str, str]:
        return {each.uid: each.name for each in self.document.operators}

    def tables(self) -> list[Stored]:
        return [
            Stored(each.uid, table.name, table.what, table.rows)
            for each in self.document.operators
            for table in each.tables
        ]

    def parts(self, table: str) -> list[Part]:
        found = [each for operator in self.document.operators for each in operator.tables if each.name == table]
        return [SavepointPart(self.storage, part) for each in found for part in each.parts]

    def sources(self) -> list[SourceEntry]:
        return list(self.document.sources)

    def title(self) -> str:
        found = self.document
        return f"savepoint {found.id} of job {found.job!r}, epoch {found.epoch}"


class CheckpointSource(StateSource):
    """A manifest in the checkpoint directory of a job, which may run."""

    def __init__(self, storage: Storage, where: str, manifest: Manifest, is_newest: bool = True) -> None:
        self.storage = storage
        self.where = where
        self.manifest = manifest
        self.max_parallelism = manifest.max_parallelism
        self._is_newest = is_newest
        self._known: dict[str, tuple[Stored, list[Part]]] | None = None

    def operators(self) -> dict[str, str]:
        return dict.fromkeys(self.manifest.layout, "")

    def _found(self) -> Mapping[str, tuple[Stored, list[Part]]]:
        """Return all tables; which there are is found out by looking into every file of the manifest, once."""
        if self._known is None:
            self._known = {}
            for handle in self.manifest.state.values():
                schemas = self._first_schemas(handle.files)
                for name, schema in schemas.items():
                    uid = uid_of(name, self.manifest.layout) or name.partition("/")[0]
                    stored = Stored(uid, name, word_for(name[len(uid) + 1 :], no_rows(schema)), None)
                    _, parts = self._known.setdefault(name, (stored, []))
                    parts.append(ChainPart(self.storage, name, handle.files))
        return self._known

    def _first_schemas(self, files: Iterable[StateFile]) -> dict[str, pa.Schema]:
        found: dict[str, pa.Schema] = {}
        for file in files:
            for name, (offset, _) in tables_in(self.storage, file).items():
                if name not in found:
                    found[name] = _looked_at(file, partial(_schema, offset), self.storage)
        return found

    def tables(self) -> list[Stored]:
        return [stored for stored, _ in self._found().values()]

    def parts(self, table: str) -> list[Part]:
        found = self._found().get(table)
        return [] if found is None else found[1]

    def sources(self) -> list[SourceEntry]:
        return list(sources_of(self.manifest))

    def title(self) -> str:
        return f"checkpoint of job {self.manifest.job!r}, epoch {self.manifest.epoch}"

    def newer(self) -> StateSource | None:
        found = manifests.newest(self.storage) if self._is_newest else None
        if found is None or found.epoch == self.manifest.epoch:
            return None
        return CheckpointSource(self.storage, self.where, found)


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch that has a schema and nothing else."""
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _schema(offset: int, read: Callable[[int, int], bytes]) -> pa.Schema:
    return schema_at(read, offset)


def open_state(path: str, options: StorageOptions = None) -> StateSource:
    """Return what is at a path: a savepoint, a checkpoint directory (its newest manifest) or one of its manifests.

    Raises:
        SavepointError: it is none of these.
    """
    folder, _, name = path.rstrip("/").rpartition("/")
    if name.endswith(".json") and folder.rpartition("/")[2] == manifests.FOLDER:
        storage = savepoint_storage(folder.rpartition("/")[0] or ".", options)
        inside = f"{manifests.FOLDER}/{name}"
        return CheckpointSource(storage, path, Manifest.from_bytes(storage.read(inside), inside), is_newest=False)
    storage = savepoint_storage(path, options)
    if has_document(storage):
        return SavepointSource(storage, path)
    found = manifests.newest(storage)
    if found is None:
        remedy = "name a savepoint, or the checkpoint directory of a job that has committed"
        raise SavepointError(describe("there is neither a savepoint nor a checkpoint", path, remedy))
    return CheckpointSource(storage, path, found)
