"""The state of a partition on its way to durable files and back.

A partition's state is a chain of files: a snapshot, then changelogs. A task brings its tables forward by the files it
has not seen, and adds files of its own every epoch. The chain stays short: a changelog that touched most of the state
becomes a snapshot, small changelogs are merged by eights, and when the changelogs outweigh the snapshot a new one is
written. So being behind costs little, and every row is rewritten a bounded number of times.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.engine.epoch import NewState, RestoredFile, StateFile, StateHandle
from flintstream.errors import CorruptStateError, describe
from flintstream.state.backend import KeyedBackend, adds_up, merged
from flintstream.state.changelog import checksum, pack, unpack
from flintstream.state.judge import foretell, marked
from flintstream.state.parquet import read_part
from flintstream.state.storage import Storage
from flintstream.state.table import Table, write_rows

INLINE_BYTES = 64 << 10
MERGE_WIDTH = 8
TOKENS_KEPT = 32
LEAST_LOGGED = 1000
"""Changelogs of fewer rows than this are never worth a snapshot."""

Tables = Mapping[str, pa.RecordBatch]


def read_file(storage: Storage, file: StateFile) -> dict[str, pa.RecordBatch]:
    """Return the tables of one file, after checking that its bytes are what was written."""
    if isinstance(file, RestoredFile):
        tables = read_restored(file)
    else:
        tables = unpack(_bytes_of(storage, file), file.path)
    return marked(tables, file.last_epoch)


def _bytes_of(storage: Storage, file: StateFile) -> bytes:
    data = storage.read(file.path, file.offset, file.length)
    if len(data) != file.length or checksum(data) != file.checksum:
        what = f"state file {file.path!r} is damaged ({len(data)} of {file.length} bytes at {file.offset})"
        raise CorruptStateError(describe(what, None, "restore another checkpoint or savepoint"))
    return data


def read_restored(file: RestoredFile) -> dict[str, pa.RecordBatch]:
    """Return the tables of a file of a savepoint or of another job's checkpoint, under the uids of today."""
    if not file.table:
        tables = unpack(_bytes_of(file.storage, file), file.path)
    else:
        data = file.storage.read(file.path)
        if len(data) != file.length or hashlib.sha256(data).hexdigest() != file.sha256:
            what = f"state file {file.path!r} of the savepoint is damaged ({len(data)} of {file.length} bytes)"
            raise CorruptStateError(describe(what, str(getattr(file.storage, "root", "")), "use another savepoint"))
        tables = {file.table: _as_changelog(read_part(data, file.path, file.rows))}
    found: dict[str, pa.RecordBatch] = {}
    for name, batch in tables.items():
        uid = uid_of(name, file.uids)
        if uid is not None:
            found.update({f"{now}{name[len(uid) :]}": batch for now in file.uids[uid]})
    return found


def _as_changelog(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows of a savepoint as a changelog has them: it tells of each whether it was removed."""
    if adds_up(batch):
        return batch
    return batch.append_column(pa.field("gone", pa.bool_()), pa.array(np.zeros(batch.num_rows, bool)))


def files_since(handles: Sequence[StateHandle], epoch: int, token: str | None) -> tuple[bool, list[StateFile]]:
    """Return whether state held since `epoch` under `token` can be brought forward, and by which files; else all."""
    if len(handles) == 1 and token is not None and (epoch, token) in handles[0].tokens:
        newer = [file for file in handles[0].files if file.last_epoch > epoch]
        if not any(file.is_snapshot for file in newer):
            return True, newer
    return False, [file for handle in handles for file in handle.files]


def bring_forward(
    backends: Mapping[str, KeyedBackend],
    handles: Sequence[StateHandle],
    storage: Storage,
    epoch: int,
    token: str | None,
    shared: bool = False,
) -> bool:
    """Bring state held since `epoch` under `token` up to the handles; return False if it had to be loaded anew.

    With `shared` it is that which all partitions have in common, else the rest.
    """
    is_held, files = files_since(handles, epoch, token)
    if not is_held:
        for backend in backends.values():
            backend.clear(shared)
    elif not shared and any(file.first_epoch <= epoch for file in files) and _forget_partials(backends):
        # A merged changelog tells what is known already. That does no harm to entries, but partial results add up.
        for file in handles[0].files[: -len(files)]:
            _apply(backends, read_file(storage, file), partials_only=True)
    for file in files:
        _apply(backends, read_file(storage, file))
    return is_held


def _forget_partials(backends: Mapping[str, KeyedBackend]) -> bool:
    found = [backend.forget_partials() for backend in backends.values()]
    return any(found)


def _apply(backends: Mapping[str, KeyedBackend], tables: Tables, partials_only: bool = False) -> None:
    for name, batch in tables.items():
        backend = owner_of(name, backends)
        if backend is not None and (adds_up(batch) or not partials_only):
            backend.apply({name: batch})


def next_handle(handles: Sequence[StateHandle], new: NewState | None, epoch: int, token: str) -> StateHandle:
    """Return a partition's state after an epoch that started from `handles`, written by the attempt `token`."""
    old = handles[0] if len(handles) == 1 else StateHandle()
    files = old.files if new is None else (*old.files[: new.keep], *new.files)
    # State that was taken out of other partitions' files, or was not there at all, has no name yet: the attempt's own.
    known = old.tokens or ((epoch - 1, token),)
    entries = old.entries if new is None else new.entries
    return StateHandle(files, (*known, (epoch, token))[-TOKENS_KEPT:], entries=entries)


def uid_of(name: str, uids: Container[str]) -> str | None:
    """Return which of some operators a table belongs to; its name is `uid/...`, and both parts may have slashes."""
    at = name.find("/")
    while at >= 0:
        if name[:at] in uids:
            return name[:at]
        at = name.find("/", at + 1)
    return None


def owner_of(name: str, backends: Mapping[str, KeyedBackend]) -> KeyedBackend | None:
    """Return the backend of the operator that a table belongs to."""
    uid = uid_of(name, backends)
    return None if uid is None else backends[uid]


def write_state(
    backends: Mapping[str, KeyedBackend],
    handles: Sequence[StateHandle],
    storage: Storage,
    epoch: int,
    path: str,
    shared: bool = False,
) -> NewState | None:
    """Write what changed in this epoch, of the shared tables or of the others; None if nothing did."""
    moved = len(handles) != 1
    files = () if moved else handles[0].files
    total = sum(sum(backend.rows(shared).values()) for backend in backends.values())
    # Mostly it can be told before what changed is put into columns, and then it need not be.
    touched = sum(backend.touched(shared) for backend in backends.values())
    if touched and _is_worth_a_snapshot(touched, total, files):
        for backend in backends.values():
            backend.mark_clean(shared)
        return _write_snapshot(backends, storage, epoch, path, shared)
    changes: dict[str, pa.RecordBatch] = {}
    for backend in backends.values():
        changes.update(backend.delta(shared))
    if not changes and not (moved and any(handle.files for handle in handles)):
        return None
    if moved or _is_worth_a_snapshot(rows_of(changes), total, files):
        return _write_snapshot(backends, storage, epoch, path, shared)
    return append(changes, files, storage, epoch, path, max_parallelism_of(backends))


def _is_worth_a_snapshot(touched: int, total: int, files: Sequence[StateFile]) -> bool:
    """Whether so many rows of so many were touched that all may as well be written."""
    return touched * 2 >= total or outweighs(files, touched, total)


def _write_snapshot(
    backends: Mapping[str, KeyedBackend], storage: Storage, epoch: int, path: str, shared: bool
) -> NewState:
    rows: dict[str, pa.RecordBatch] = {}
    for backend in backends.values():
        rows.update(backend.snapshot(shared))
    file, data = new_file(rows, storage, (epoch, epoch), path, is_snapshot=True)
    return NewState(0, (file,), data)


def append(
    changes: Tables,
    files: Sequence[StateFile],
    storage: Storage,
    epoch: int,
    path: str,
    max_parallelism: int,
    most_rows: int | None = None,
) -> NewState:
    """Write a changelog behind others, merged with the newest of them if there are many small ones.

    A merged one is made in memory, so it has no more than `most_rows`.
    """
    keep = _merge_from(files, rows_of(changes), most_rows)
    first = epoch
    if keep < len(files):
        first = files[keep].first_epoch
        changes = _merge([*(read_file(storage, file) for file in files[keep:]), changes], max_parallelism)
    file, data = new_file(changes, storage, (first, epoch), path, is_snapshot=False)
    return NewState(keep, (file,), data)


def outweighs(files: Sequence[StateFile], touched: int, total: int) -> bool:
    """Whether changelogs have come to hold more than the state itself, so that a snapshot saves more than it costs."""
    logged = touched + sum(file.rows for file in files if not file.is_snapshot)
    return logged > max(total, LEAST_LOGGED)


def _merge_from(files: Sequence[StateFile], rows: int, most_rows: int | None) -> int:
    """Return how many files to keep: once eight of the newest are no larger than a few of this one, they are merged."""
    keep = len(files)
    limit = max(rows, 1) * MERGE_WIDTH
    merged_rows = rows
    while keep and not files[keep - 1].is_snapshot and files[keep - 1].rows <= limit:
        merged_rows += files[keep - 1].rows
        if most_rows is not None and merged_rows > most_rows:
            break
        keep -= 1
        limit = max(limit, files[keep].rows * MERGE_WIDTH)
    return keep if len(files) - keep >= MERGE_WIDTH else len(files)


def _merge(logs: Sequence[Tables], max_parallelism: int) -> dict[str, pa.RecordBatch]:
    """Fold changelogs, oldest first, into one."""
    by_name: dict[str, list[pa.RecordBatch]] = {}
    for log in logs:
        for name, batch in log.items():
            by_name.setdefault(name, []).append(batch)
    folded = {name: merged(batches, max_parallelism) for name, batches in by_name.items()}
    return {name: batch for name, batch in folded.items() if batch is not None}


def new_file(
    tables: Tables, storage: Storage, epochs: tuple[int, int], path: str, is_snapshot: bool
) -> tuple[StateFile, bytes | None]:
    """Return the file of some tables; a small one is not written, but its bytes are returned with it."""
    foretell(tables)
    data = pack(tables)
    file = StateFile(path, 0, len(data), checksum(data), rows_of(tables), *epochs, is_snapshot)
    if len(data) <= INLINE_BYTES:
        return file, data
    storage.write(path, data)
    return file, None


TableRows = tuple[str, int, Iterable[tuple[Any, Any]]]
"""A table's name, the number of parts of its entries, and its rows."""


def chunks_of(tables: Iterable[TableRows], size: int, max_parallelism: int) -> Iterator[dict[str, pa.RecordBatch]]:
    """Cut tables that are larger than memory into pieces of `size` rows, each of which is not."""
    chunk: dict[str, pa.RecordBatch] = {}
    filled = 0
    for name, parts, rows in tables:
        table = Table(name, parts)
        entries: list[Any] = []
        values: list[Any] = []
        for entry, value in rows:
            entries.append(entry)
            values.append(value)
            if filled + len(entries) >= size:
                chunk[name] = write_rows(table, entries, values, max_parallelism)
                yield chunk
                chunk, entries, values, filled = {}, [], [], 0
        if entries:
            chunk[name] = write_rows(table, entries, values, max_parallelism)
            filled += len(entries)
    if chunk:
        yield chunk


def write_chunks(
    chunks: Iterable[Tables], storage: Storage, epoch: int, path: str, is_snapshot: bool
) -> tuple[StateFile, ...]:
    """Write chunks as files of their own and return them."""
    files: list[StateFile] = []
    for number, tables in enumerate(chunks):
        name = f"{path}-{number}"
        file, data = new_file(tables, storage, (epoch, epoch), name, is_snapshot)
        if data is not None:
            storage.write(name, data)
        files.append(file)
    return tuple(files)


def rows_of(tables: Tables) -> int:
    """Return how many rows some tables have together."""
    return sum(batch.num_rows for batch in tables.values())


def max_parallelism_of(backends: Mapping[str, KeyedBackend]) -> int:
    """Return the number of key groups."""
    return next(iter(backends.values())).max_parallelism
