"""The state of one partition during one task: in memory while it fits, on local disk when it does not.

The task brings it forward, lets it breathe after every run, and has it written at the end. While all entries fit into
memory nothing here is in the way: tables are dicts, and files are as `statefiles` writes them. Once there are more, the
partition **spills**: tables keep a part of their entries, and committed ones come from the working store.

Files of a spilling partition never need the state as a whole. A snapshot is the working store, streamed: it shows the
state as it was *before* the epoch, and the epoch's changes follow as an ordinary changelog. So a working store that is
up to date takes in the changes alone, and is not loaded anew after every snapshot.

Memory is bounded by the limit and by what a single run touches, besides the resident tables (timers, columnar windows).

What all partitions of a level **share** (broadcast state) is a chain of files besides theirs: partition 0 writes it and
all read it. Each computes it on its own, so one that holds its own state of an epoch holds the shared one of it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from flintstream.engine.epoch import EVERY_PARTITION, EpochContext, NewState, StateFile, StateHandle
from flintstream.engine.statefiles import (
    append,
    bring_forward,
    chunks_of,
    files_since,
    max_parallelism_of,
    outweighs,
    owner_of,
    read_file,
    rows_of,
    uid_of,
    write_chunks,
    write_state,
)
from flintstream.state.backend import KeyedBackend
from flintstream.state.disk import ROWS_PER_WRITE, Changes, Mark, View, WorkingStore, remove_store
from flintstream.state.evolution import reading
from flintstream.state.judge import judge
from flintstream.state.spill import Spill
from flintstream.state.storage import Storage
from flintstream.state.table import GONE, Table, is_resident, parts_of, read_rows, within

LEAST_CHUNK = 1000
"""Files of fewer rows than this are too many files."""


class PartitionState:
    """The backends of one level in one partition, for one attempt of one epoch."""

    def __init__(
        self,
        backends: Mapping[str, KeyedBackend],
        epoch: EpochContext,
        place: tuple[int, int],
        token: str,
        storage: Storage,
    ) -> None:
        self._backends = backends
        self._epoch = epoch
        self._place = place
        self._token = token
        self._storage = storage
        self._handles: tuple[StateHandle, ...] = epoch.handles[place]
        self._shared = epoch.handles.get((place[0], EVERY_PARTITION), (StateHandle(),))
        self._limit = epoch.entries_in_memory
        self._path = f"state/{place[0]}-{place[1]}-{token}.bin"
        self._store: WorkingStore | None = None
        self._view: View | None = None
        self._spill: Spill | None = None
        self._base: tuple[StateFile, ...] = ()

    def bring_forward(self, epoch: int, token: str | None) -> None:
        """Bring what the backends hold since `epoch` under `token` up to the epoch's start."""
        self._bring_shared_forward(epoch, token)
        spilled = any(backend.spill is not None for backend in self._backends.values())
        # A partition that spills does not stop at once when it shrinks a little.
        if spilled and self._entries() <= self._limit * 3 // 4:
            for backend in self._backends.values():
                backend.end_spilling()
            spilled, epoch, token = False, 0, None
        is_held, _ = files_since(self._handles, epoch, token)
        if not spilled and (is_held or self._entries() <= self._limit):
            bring_forward(self._backends, self._handles, self._storage, epoch, token)
            self.relieve()
            return
        self._begin_spilling()
        if not spilled or (epoch, token) != self._target():
            for _, table in self._tables():
                table.clear()
        bring_forward(self._backends, self._handles, self._storage, epoch, token)
        self._compact()

    def _bring_shared_forward(self, epoch: int, token: str | None) -> None:
        shared = self._shared
        if len(shared) == 1 and not self._moved():
            shared = (replace(shared[0], tokens=self._handles[0].tokens),)
        bring_forward(self._backends, shared, self._storage, epoch, token, shared=True)

    def _entries(self) -> int:
        """Return how many entries there are at the epoch's start; of a new layout, about how many there will be."""
        entries = sum(handle.entries for handle in self._handles)
        if not self._moved():
            return entries
        share = max(len(backend.groups) for backend in self._backends.values())
        return entries * share // max_parallelism_of(self._backends)

    def _moved(self) -> bool:
        """Whether the state comes out of other partitions' files."""
        return len(self._handles) != 1

    def _target(self) -> Mark:
        """Return the name of the state that the epoch starts from."""
        tokens = () if self._moved() else self._handles[0].tokens
        return tokens[-1] if tokens else (self._epoch.epoch - 1, self._token)

    def _tables(self) -> Iterator[tuple[str, Table]]:
        for backend in self._backends.values():
            yield from backend.spillable().items()

    def relieve(self) -> None:
        """Called between runs: if there are too many entries in memory, put them on disk."""
        if self._in_memory() <= self._limit:
            return
        if self._spill is None:
            self._begin_spilling()
        assert self._spill is not None
        for name, table in self._tables():
            self._spill.take(name, table)
            table.clear()

    def _in_memory(self) -> int:
        """Return how many entries are in memory; their exact number only if there may be too many."""
        tables = [table for _, table in self._tables()]
        held = sum(table.at_most() for table in tables)
        if held > self._limit:
            held = sum(map(len, tables))
        # What was removed takes room too, but it is no state: that alone is no reason to begin.
        return held if self._spill is None else max(held, sum(len(table.dirty) for table in tables))

    def _begin_spilling(self) -> None:
        self._store = WorkingStore(self._epoch.incarnation, *self._place)
        self._view = self._store.bring_forward(self._target(), self._changes_since)
        self._spill = Spill(self._view)
        for backend in self._backends.values():
            backend.begin_spilling(self._spill)

    def _changes_since(self, mark: Mark | None) -> Changes:
        is_held, files = files_since(self._handles, *(mark or (0, None)))
        return not is_held, self._rows_in(files)

    def _rows_in(self, files: Iterable[StateFile]) -> Iterator[tuple[str, int, Iterable[tuple[Any, Any]]]]:
        """Yield what files say of this partition's tables that can spill."""
        for file in files:
            for name, batch in read_file(self._storage, file).items():
                backend = owner_of(name, self._backends)
                if backend is not None and not is_resident(batch):
                    mine = within(batch, backend.groups)
                    yield name, parts_of(mine), self._decoded(name, mine)

    def _decoded(self, name: str, batch: pa.RecordBatch) -> Iterator[tuple[Any, Any]]:
        """Yield the rows of a changelog batch, a stretch at a time."""
        for start in range(0, batch.num_rows, ROWS_PER_WRITE):
            with reading(name, uid_of(name, self._backends)):
                entries, values, gone = read_rows(judge(batch.slice(start, ROWS_PER_WRITE)), parts_of(batch))
            for entry, value, removed in zip(entries, values, gone, strict=True):
                yield entry, GONE if removed else value

    def _compact(self) -> None:
        """Write a snapshot of the state that the epoch starts from, if its changelogs have grown too long."""
        assert self._view is not None
        if self._moved():
            return  # see `_write_spilled`
        resident = sum(len(table) for _, table in self._resident())
        if outweighs(self._handles[0].files, 0, self._view.rows + resident):
            rows: dict[str, pa.RecordBatch] = {}
            for backend in self._backends.values():
                rows.update(backend.snapshot())
            self._base = self._write_base(rows)

    def _resident(self) -> Iterator[tuple[str, Any]]:
        for backend in self._backends.values():
            spillable = backend.spillable()
            shared = backend.rows(shared=True)
            others = ((name, table) for name, table in backend.tables.items() if name not in spillable)
            yield from ((name, table) for name, table in others if name not in shared)

    def _write_base(self, resident: Mapping[str, pa.RecordBatch]) -> tuple[StateFile, ...]:
        view = self._view
        assert view is not None
        tables = ((name, info.parts, view.read(name)) for name, info in view.tables.items())
        chunks = self._chunks(resident, tables)
        return write_chunks(chunks, self._storage, self._epoch.epoch - 1, f"{self._path}-base", is_snapshot=True)

    def _chunks(self, resident: Mapping[str, pa.RecordBatch], tables: Any) -> Iterator[Mapping[str, pa.RecordBatch]]:
        if resident:
            yield resident
        yield from chunks_of(tables, self._chunk_size(), max_parallelism_of(self._backends))

    def _chunk_size(self) -> int:
        return max(self._limit, LEAST_CHUNK)

    def write(self, entries: Mapping[str, int]) -> NewState | None:
        """Write what the epoch changed; None if it changed nothing. `entries` is how many each table has."""
        if self._spill is None:
            new = write_state(self._backends, self._handles, self._storage, self._epoch.epoch, self._path)
        else:
            new = self._write_spilled(self._spill)
        if new is not None:
            new.entries = sum(entries[name] for name, _ in self._tables())
        return new

    def write_shared(self) -> NewState | None:
        """Write what the epoch changed in what all partitions share; None if nothing, or if another partition does."""
        if self._place[1] == 0:
            path = self._path.removesuffix(".bin") + "-all.bin"
            return write_state(self._backends, self._shared, self._storage, self._epoch.epoch, path, shared=True)
        for backend in self._backends.values():
            backend.delta(shared=True)
        return None

    def _write_spilled(self, spill: Spill) -> NewState | None:
        resident: dict[str, pa.RecordBatch] = {}
        for backend in self._backends.values():
            resident.update(backend.delta())
        base, files = self._base, self._handles[0].files if self._handles else ()
        if self._moved():
            # Nobody but this attempt holds the state under this layout: resident tables may be given as they are now.
            for backend in self._backends.values():
                resident.update(backend.snapshot())
            base = self._write_base({})
        if base or self._moved():
            files = ()
        new = self._write_changes(spill, resident, files)
        if new is None:
            return NewState(0, base) if base else None
        return NewState(new.keep, (*base, *new.files), new.data)

    def _write_changes(
        self, spill: Spill, resident: Mapping[str, pa.RecordBatch], files: tuple[StateFile, ...]
    ) -> NewState | None:
        tables = list(self._tables())
        touched = sum(spill.changed(name, table) for name, table in tables) + rows_of(resident)
        if not touched and not resident:
            return None
        epoch, size = self._epoch.epoch, self._chunk_size()
        rows = ((name, table.parts, spill.changes(name, table)) for name, table in tables)
        chunks = self._chunks(resident, rows)
        if touched > size:
            return NewState(len(files), write_chunks(chunks, self._storage, epoch, self._path, is_snapshot=False))
        changes: dict[str, pa.RecordBatch] = {}
        for chunk in chunks:
            changes.update(chunk)
        key_groups = max_parallelism_of(self._backends)
        return append(changes, files, self._storage, epoch, self._path, key_groups, most_rows=size)

    def close(self, remove: bool = False) -> None:
        """Let go of the disk; with `remove` the job has ended, and its working store goes."""
        if self._spill is not None:
            self._spill.close()
            self._spill = None
        if self._store is not None:
            self._store.close()
            self._store = self._view = None
        if remove:
            remove_store(self._epoch.incarnation, *self._place)
