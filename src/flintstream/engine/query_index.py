"""One state file's rows of one table, to be looked up by key: buckets of hashes, and columns decoded row by row.

Files never change, so an index is made once, on columns, and is good for as long as some manifest names the file. It is
made in one go without a Python object for any row; a look-up then compares the few rows of a bucket and decodes one.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Container, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flintstream.engine.epoch import StateFile
from flintstream.engine.query_forms import Form, forms_of, hash_of, hashes_of, order_of, ordered, tells_group
from flintstream.engine.statefiles import read_file
from flintstream.ops.window_keys import joined_key, key_names, tidied
from flintstream.state.codec import Kind, kind_of_field
from flintstream.state.fold import entry_columns
from flintstream.state.keygroups import U64
from flintstream.state.partials import dropped_in, is_partials
from flintstream.state.storage import Storage

_SCALARS = frozenset({"int", "bool", "str", "float", "none"})
I64 = npt.NDArray[np.int64]


class Column:
    """A column whose values are decoded one by one."""

    def __init__(self, array: pa.Array, kind: Kind) -> None:
        self.array = array
        self.kind = kind
        self._is_scalar = type(kind) is str and kind in _SCALARS

    def form(self, row: int) -> Form:
        """Return the form of the value in a row."""
        if self._is_scalar:
            return self.array[row].as_py()
        return forms_of(self.array.slice(row, 1), self.kind)[0]

    def hashes(self) -> U64:
        """Return the hash of each value's form."""
        return hashes_of(self.array, self.kind)

    def ordered(self) -> I64:
        """Return the rows in the order of their values."""
        return ordered(self.array, self.kind)

    @property
    def tells_group(self) -> bool:
        """Whether the hash of a key's form tells its key group."""
        return tells_group(self.kind)


class MixedKeys(Column):
    """Keys of several types, each in columns of its own; a row has the key whose columns are not all null there."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__(pa.nulls(table.num_rows), "pickle")
        self._forms: list[Form] = [None] * table.num_rows
        shapes: dict[str, dict[int, list[str]]] = {}
        for name in key_names(table):
            number, _, width = name.partition(":")[0][1:].partition("/")
            shapes.setdefault(width, {}).setdefault(int(number), []).append(name)
        for width, fields in shapes.items():
            columns = [_first_present(table, fields[number]) for number in sorted(fields)]
            for row, cells in enumerate(zip(*columns, strict=True)):
                if any(cell is not None for cell in cells):
                    self._forms[row] = list(cells) if width else cells[0]

    def form(self, row: int) -> Form:
        return self._forms[row]

    def hashes(self) -> U64:
        return np.fromiter(map(hash_of, self._forms), np.uint64, len(self._forms))

    def ordered(self) -> I64:
        keys = list(map(order_of, self._forms))
        return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def _first_present(table: pa.Table, names: list[str]) -> list[Form]:
    cells: list[Form] = [None] * table.num_rows
    for name in names:
        column: Any = table.column(name).combine_chunks()
        for row, form in enumerate(forms_of(column, name.partition(":")[2])):
            cells[row] = form if cells[row] is None else cells[row]
    return cells


class FileIndex:
    """The rows of one table in one file. Those of several windows, or of a map, may have one key."""

    def __init__(self, batch: pa.RecordBatch, keys: Column) -> None:
        self.batch = batch
        self.keys = keys
        self._hashes = keys.hashes()
        self._shift, self._order, self._starts = _buckets(self._hashes)
        self._sorted: I64 | None = None
        self.values = _column(batch, "value")
        self.parts: list[Column] = []
        self._gone: Any = None
        if not is_partials(batch):
            self.parts = [_required(batch, name) for name in entry_columns(batch.schema)[1:]]
            gone = _required(batch, "gone").array.to_numpy(zero_copy_only=False)
            self._gone = gone if bool(gone.any()) else None

    def rows(self, hashed: Any, form: Form) -> list[int]:
        """Return the rows of a key, by its hash and its form."""
        bucket = int(hashed) >> self._shift
        rows = self._order[self._starts[bucket] : self._starts[bucket + 1]]
        return [row for row in rows[self._hashes[rows] == hashed].tolist() if _same(self.keys.form(row), form)]

    def is_gone(self, row: int) -> bool:
        """Whether a row says that its entry was removed."""
        return self._gone is not None and bool(self._gone[row])

    def keys_from(self, least: Any) -> Iterator[tuple[Any, Form]]:
        """Yield the keys in their order, each with what it is ordered by, from the first that is not below `least`."""
        if self._sorted is None:
            self._sorted = self.keys.ordered()
        rows, form = self._sorted, self.keys.form
        for row in rows[bisect.bisect_left(rows, least, key=lambda row: order_of(form(int(row)))) :]:
            key = form(int(row))
            yield order_of(key), key


def _buckets(hashes: U64) -> tuple[int, I64, I64]:
    """Put rows into as many buckets as there are rows, or 65,536, by the first bits of their hashes.

    Returns how many bits of a hash to drop for its bucket, the rows by bucket, and where each bucket begins. Sixteen
    bits are sorted by counting, many times as fast as whole hashes would be; what is left in a bucket is compared.
    """
    bits = min(16, max(1, len(hashes).bit_length()))
    buckets = (hashes >> np.uint64(64 - bits)).astype(np.uint16)
    starts = np.zeros((1 << bits) + 1, np.int64)
    np.cumsum(np.bincount(buckets, minlength=1 << bits), out=starts[1:])
    return 64 - bits, np.argsort(buckets, kind="stable"), starts


class PartialsIndex(FileIndex):
    """Partial results of windows on columns; `dropped` are the windows that the file removes before its own rows."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.dropped = frozenset(dropped_in(batch))
        self.windows: I64 = batch.column("window_start").to_numpy()
        self.table = pa.Table.from_batches([batch.replace_schema_metadata(None)])
        super().__init__(batch, _keys_of_partials(self.table))


def _keys_of_partials(table: pa.Table) -> Column:
    if not table.num_rows:
        return Column(pa.array([], pa.string()), "str")
    tidy = tidied(table)
    places = [name.partition(":")[0] for name in key_names(tidy)]
    widths = {place.partition("/")[2] for place in places}
    if len(widths) == 1 and len(set(places)) == len(places):
        return Column(*joined_key(tidy))
    return MixedKeys(tidy)


def _same(one: Form, other: Form) -> bool:
    # A float that is no number is equal to nothing, but it is a key like others.
    return one == other or (one != one and other != other)


def _column(batch: pa.RecordBatch, name: str) -> Column | None:
    index = batch.schema.get_field_index(name)
    return None if index < 0 else Column(batch.column(index), kind_of_field(batch.schema.field(index)))


def _required(batch: pa.RecordBatch, name: str) -> Column:
    found = _column(batch, name)
    assert found is not None
    return found


def index_of(batch: pa.RecordBatch) -> FileIndex:
    """Return the index of some rows of a table."""
    return PartialsIndex(batch) if is_partials(batch) else FileIndex(batch, _required(batch, "key"))


Known = tuple[str, int, str]
"""A file's path, where in it a changelog begins, and the name of a table."""


class Indexes:
    """The indexes that were made so far; what no manifest in use names any more is forgotten."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._held: dict[Known, FileIndex | None] = {}
        self._making = threading.Lock()

    def of(self, file: StateFile, table: str) -> FileIndex | None:
        """Return the index of a table's rows in a file, None if it has none; it is made when first asked for."""
        known = (file.path, file.offset, table)
        if known in self._held:
            return self._held[known]
        with self._making:
            if known not in self._held:
                batch = read_file(self._storage, file).get(table)
                self._held[known] = None if batch is None else index_of(batch)
            return self._held[known]

    def keep(self, files: Container[tuple[str, int]], tables: Container[str]) -> None:
        """Forget all but these files and tables."""
        with self._making:
            self._held = {
                known: held for known, held in self._held.items() if known[:2] in files and known[2] in tables
            }

    def __len__(self) -> int:
        return len(self._held)
