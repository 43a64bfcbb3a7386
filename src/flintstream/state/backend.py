"""All keyed state of one partition of one level: the tables of its operators, and their way to disk and back.

Operators ask for tables by name; the backend knows nothing of what is in them. State that no operator has claimed yet
(its function asks for it later, or no longer exists) is kept as it came and carried along.

While `spill` is set, the ordinary tables may be larger than memory: they hold a part of their entries, and whoever set
it sees to their way to disk. Resident ones (timers, columnar windows) are whole in memory always.

**Shared** tables (broadcast state) are the same in all partitions of an operator. They have a way to disk of their own:
the partition with the first key group writes them and tells how many entries they have, all read what it wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeGuard, TypeVar

import pyarrow as pa

from flintstream.state.broadcast import BroadcastTable, is_broadcast
from flintstream.state.evolution import reading
from flintstream.state.held import HeldTable, is_held
from flintstream.state.journal import Journal
from flintstream.state.judge import judge
from flintstream.state.partials import PartialTable, drops_windows, is_partials
from flintstream.state.spill import Spill
from flintstream.state.table import Table, is_resident, parts_of, within
from flintstream.state.table import is_shared as is_shared_rows


class StateTable(Protocol):
    """What the backend needs of a table."""

    def delta(self, max_parallelism: int) -> pa.RecordBatch | None: ...
    def snapshot(self, max_parallelism: int) -> pa.RecordBatch | None: ...
    def mark_clean(self) -> None: ...
    def apply(self, batch: pa.RecordBatch, keep_gone: bool = False) -> None: ...
    def clear(self) -> None: ...
    def __len__(self) -> int: ...


T = TypeVar("T", bound=StateTable)


class KeyedBackend:
    """The tables of one partition; `key` and `hash_of_key` are those of the record or timer being processed."""

    def __init__(self, max_parallelism: int, groups: range) -> None:
        self.max_parallelism = max_parallelism
        self.groups = groups
        self.key: Any = None
        self.hash_of_key: Callable[[], int] = lambda: 0
        self.tables: dict[str, StateTable] = {}
        self.spill: Spill | None = None
        self.journal: Journal | None = None
        self.queryable: dict[str, dict[str, Any]] = {}
        """What others may look up, by the name they know it under."""
        self._unclaimed: dict[str, list[pa.RecordBatch]] = {}
        self._counted: dict[str, tuple[int, int]] = {}

    def table(self, name: str, build: Callable[[], T]) -> T:
        """Return the table `name`, built once, with whatever was restored for it."""
        found: Any = self.tables.get(name)
        if found is None:
            found = build()
            if self.journal is not None:
                self.journal.watch(found)
            self.tables[name] = found
            with reading(name):
                for batch in self._unclaimed.pop(name, ()):
                    found.apply(judge(batch))
            if self.spill is not None and name in self.spillable():
                self.spill.attach(name, found)
        return found

    def knows(self, name: str) -> bool:
        """Whether there is a table of that name, claimed or not; of those that may have spilled, only claimed ones."""
        return name in self.tables or name in self._unclaimed

    def spillable(self) -> dict[str, Table]:
        """Return the tables that need not be whole in memory."""
        return {name: table for name, table in self.tables.items() if _is_spillable(table)}

    @property
    def tells_shared(self) -> bool:
        """Whether this partition speaks for all of them where they have the same."""
        return len(self.groups) > 0 and self.groups.start == 0

    def begin_spilling(self, spill: Spill) -> None:
        """From now on tables find in `spill` what they do not have; so does, later, state that nobody has claimed."""
        self.spill = spill
        for name, table in self.spillable().items():
            spill.attach(name, table)
        self._unclaimed = {name: batches for name, batches in self._unclaimed.items() if is_resident(batches[0])}

    def end_spilling(self) -> None:
        """From now on all tables are whole in memory again; they are empty, to be loaded anew."""
        self.spill = None
        for table in self.spillable().values():
            table.data.fallback = table.scan = None
        self.clear()

    def apply(self, changes: Mapping[str, pa.RecordBatch]) -> None:
        """Bring all tables forward by one unpacked changelog; rows of other partitions' key groups are left out."""
        for name, batch in changes.items():
            if self.spill is not None and not is_resident(batch):
                continue
            mine = within(batch, self.groups)
            if not mine.num_rows and not drops_windows(mine) and not is_held(mine):
                continue
            table = self.tables.get(name)
            if table is None:
                self._unclaimed.setdefault(name, []).append(mine)
            else:
                with reading(name):
                    table.apply(judge(mine))

    def delta(self, shared: bool = False) -> dict[str, pa.RecordBatch]:
        """Return what changed since the last changelog, by table, and mark it clean; spilling tables are left out."""
        changes: dict[str, pa.RecordBatch] = {}
        for name, table in self._in_memory(shared):
            batch = table.delta(self.max_parallelism) if self.tells_shared or not shared else None
            if batch is not None:
                changes[name] = batch
            table.mark_clean()
        return changes

    def touched(self, shared: bool = False) -> int:
        """Return a number of rows that is quick to tell and not more than what `delta` would return."""
        if shared and not self.tells_shared:
            return 0
        return sum(len(table.dirty) for _, table in self._in_memory(shared) if isinstance(table, Table))

    def mark_clean(self, shared: bool = False) -> None:
        """What changed is in a snapshot now; tables that are elsewhere are left out."""
        for _, table in self._in_memory(shared):
            table.mark_clean()

    def snapshot(self, shared: bool = False) -> dict[str, pa.RecordBatch]:
        """Return everything, by table; spilling tables are left out."""
        rows: dict[str, pa.RecordBatch] = {}
        for name, table in self._in_memory(shared):
            batch = table.snapshot(self.max_parallelism)
            if batch is not None:
                rows[name] = batch
        for name, batches in self._unclaimed_of(shared).items():
            batch = batches[0] if len(batches) == 1 else merged(batches, self.max_parallelism)
            if batch is not None:
                rows[name] = batch
        return rows

    def clear(self, shared: bool = False) -> None:
        """Forget everything that is not shared, or with `shared` all that is, to be loaded anew."""
        self._unclaimed = self._unclaimed_of(not shared)
        self._counted.clear()
        for table in self.tables.values():
            if _is_shared_table(table) == shared:
                table.clear()

    def forget_partials(self) -> bool:
        """Forget what adds up, to be loaded anew; return whether there is any table of it."""
        tables = [table for table in self.tables.values() if isinstance(table, PartialTable | HeldTable)]
        for table in tables:
            table.clear()
        unclaimed = [name for name, batches in self._unclaimed.items() if adds_up(batches[0])]
        for name in unclaimed:
            del self._unclaimed[name]
            self._counted.pop(name, None)
        return bool(tables or unclaimed)

    def _in_memory(self, shared: bool) -> list[tuple[str, StateTable]]:
        """Return the tables that are whole in memory."""
        tables = [(name, table) for name, table in self.tables.items() if _is_shared_table(table) == shared]
        return tables if self.spill is None else [each for each in tables if not _is_spillable(each[1])]

    def _unclaimed_of(self, shared: bool) -> dict[str, list[pa.RecordBatch]]:
        return {name: batches for name, batches in self._unclaimed.items() if is_shared(batches[0]) == shared}

    def entries(self) -> dict[str, int]:
        """Return how many rows each table holds, in memory or not; of shared ones one partition tells."""
        return {**self.rows(), **(self.rows(shared=True) if self.tells_shared else {})}

    def rows(self, shared: bool = False) -> dict[str, int]:
        """Return how many rows each table that is shared, or is not, holds here."""
        spill = self.spill
        rows = {name: self._unclaimed_rows(name, batches) for name, batches in self._unclaimed_of(shared).items()}
        for name, table in self.tables.items():
            if _is_shared_table(table) == shared:
                rows[name] = spill.rows(name, table) if spill is not None and _is_spillable(table) else len(table)
        return rows

    def _unclaimed_rows(self, name: str, batches: list[pa.RecordBatch]) -> int:
        """Return how many rows there are that nobody has claimed; they rarely change, so they are counted once."""
        known = self._counted.get(name)
        if known is None or known[0] != len(batches):
            table = table_like(batches[0])
            for batch in batches:
                table.apply(judge(_without_values(batch) if type(table) is Table else batch))
            known = self._counted[name] = (len(batches), len(table))
        return known[1]


def _without_values(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the same rows without their values, whose classes may be gone with whoever owned them."""
    return batch.select([name for name in batch.schema.names if name != "value"])


def _is_spillable(table: StateTable) -> TypeGuard[Table]:
    return isinstance(table, Table) and not table.resident


def _is_shared_table(table: StateTable) -> bool:
    return isinstance(table, BroadcastTable) or (isinstance(table, Table) and table.shared)


def adds_up(batch: pa.RecordBatch) -> bool:
    """Whether applying a changelog batch twice would do harm."""
    return is_partials(batch) or is_held(batch)


def table_like(batch: pa.RecordBatch) -> StateTable:
    """Return an empty table into which batches such as this one can be folded, whoever they belong to."""
    if is_partials(batch):
        return PartialTable()
    if is_held(batch):
        return HeldTable()
    if is_broadcast(batch):
        return BroadcastTable()
    has_value = "value" in batch.schema.names
    return Table("", parts_of(batch), has_value, resident=is_resident(batch), shared=is_shared_rows(batch))


def is_shared(batch: pa.RecordBatch) -> bool:
    """Whether a changelog batch is of a table that is the same in all partitions."""
    return is_broadcast(batch) or is_shared_rows(batch)


def merged(batches: Iterable[pa.RecordBatch], max_parallelism: int) -> pa.RecordBatch | None:
    """Fold changelog batches of one table into one; the newest row of an entry wins, and removals stay removals."""
    table: StateTable | None = None
    for batch in batches:
        if table is None:
            table = table_like(batch)
        table.apply(judge(batch), keep_gone=True)
    return None if table is None else table.snapshot(max_parallelism)
