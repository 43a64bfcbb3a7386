"""The state of a partition on its way to durable files and back.

A partition's state is a chain of files: a snapshot, then changelogs. A task brings its tables forward by the files it
has not seen, and adds one file of its own per epoch. The chain stays short: a changelog that touched most of the state
becomes a snapshot, small changelogs are merged by eights, and when the changelogs outweigh the snapshot a new one is
written. So being behind costs little, and every row is rewritten a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from flintstream.engine.epoch import NewState, StateFile, StateHandle
from flintstream.errors import CorruptStateError, describe
from flintstream.state.backend import KeyedBackend, merged
from flintstream.state.changelog import checksum, pack, unpack
from flintstream.state.storage import Storage

INLINE_BYTES = 64 << 10
MERGE_WIDTH = 8
TOKENS_KEPT = 32


def read_file(storage: Storage, file: StateFile) -> dict[str, pa.RecordBatch]:
    """Return the tables of one file, after checking that its bytes are what was written."""
    data = storage.read(file.path, file.offset, file.length)
    if len(data) != file.length or checksum(data) != file.checksum:
        what = f"state file {file.path!r} is damaged ({len(data)} of {file.length} bytes at {file.offset})"
        raise CorruptStateError(describe(what, None, "restore another checkpoint or savepoint"))
    return unpack(data, file.path)


def bring_forward(
    backends: Mapping[str, KeyedBackend], handles: Sequence[StateHandle], storage: Storage, epoch: int, token: str | None
) -> bool:
    """Bring state held since `epoch` under `token` up to the handles; return False if it had to be loaded anew."""
    if len(handles) == 1 and token is not None and (epoch, token) in handles[0].tokens:
        newer = [file for file in handles[0].files if file.last_epoch > epoch]
        if not any(file.is_snapshot for file in newer):
            for file in newer:
                _apply(backends, read_file(storage, file))
            return True
    for backend in backends.values():
        backend.clear()
    for handle in handles:
        for file in handle.files:
            _apply(backends, read_file(storage, file))
    return False


def _apply(backends: Mapping[str, KeyedBackend], tables: Mapping[str, pa.RecordBatch]) -> None:
    for name, batch in tables.items():
        backend = backends.get(name.rpartition("/")[0])
        if backend is not None:
            backend.apply({name: batch})


def write_state(
    backends: Mapping[str, KeyedBackend],
    handles: Sequence[StateHandle],
    storage: Storage,
    epoch: int,
    path: str,
) -> NewState | None:
    """Write what changed in this epoch; None if nothing did."""
    changes: dict[str, pa.RecordBatch] = {}
    for backend in backends.values():
        changes.update(backend.delta())
    moved = len(handles) != 1
    files = () if moved else handles[0].files
    if not changes and not (moved and any(handle.files for handle in handles)):
        return None
    touched = sum(batch.num_rows for batch in changes.values())
    total = sum(sum(backend.entries().values()) for backend in backends.values())
    if moved or _wants_snapshot(files, touched, total):
        rows: dict[str, pa.RecordBatch] = {}
        for backend in backends.values():
            rows.update(backend.snapshot())
        return _new_file(rows, storage, epoch, epoch, path, keep=0, is_snapshot=True)
    keep = _merge_from(files, touched)
    if keep < len(files):
        folded = _merge([*(read_file(storage, file) for file in files[keep:]), changes], backends)
        return _new_file(folded, storage, files[keep].first_epoch, epoch, path, keep, is_snapshot=False)
    return _new_file(changes, storage, epoch, epoch, path, len(files), is_snapshot=False)


def _wants_snapshot(files: Sequence[StateFile], touched: int, total: int) -> bool:
    """Whether a snapshot costs no more than what it saves."""
    logged = touched + sum(file.rows for file in files if not file.is_snapshot)
    return touched * 2 >= total or logged > max(total, 1000)


def _merge_from(files: Sequence[StateFile], rows: int) -> int:
    """Return how many files to keep: once eight of the newest are no larger than a few of this one, they are merged."""
    keep = len(files)
    limit = max(rows, 1) * MERGE_WIDTH
    while keep and not files[keep - 1].is_snapshot and files[keep - 1].rows <= limit:
        keep -= 1
        limit = max(limit, files[keep].rows * MERGE_WIDTH)
    return keep if len(files) - keep >= MERGE_WIDTH else len(files)


def _merge(logs: Sequence[Mapping[str, pa.RecordBatch]], backends: Mapping[str, KeyedBackend]) -> dict[str, pa.RecordBatch]:
    """Fold changelogs, oldest first, into one."""
    max_parallelism = next(iter(backends.values())).max_parallelism
    by_name: dict[str, list[pa.RecordBatch]] = {}
    for log in logs:
        for name, batch in log.items():
            by_name.setdefault(name, []).append(batch)
    folded = {name: merged(batches, max_parallelism) for name, batches in by_name.items()}
    return {name: batch for name, batch in folded.items() if batch is not None}


def _new_file(
    tables: Mapping[str, pa.RecordBatch],
    storage: Storage,
    first: int,
    last: int,
    path: str,
    keep: int,
    is_snapshot: bool,
) -> NewState:
    data = pack(tables)
    rows = sum(batch.num_rows for batch in tables.values())
    file = StateFile(path, 0, len(data), checksum(data), rows, first, last, is_snapshot)
    if len(data) <= INLINE_BYTES:
        return NewState(keep, file, data)
    storage.write(path, data)
    return NewState(keep, file)
