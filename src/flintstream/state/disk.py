"""State on the local disk: rows of tables in LMDB, and the working store of a partition made of them.

The working store is shared by all worker processes of a node and holds **committed state only**, under a mark that says
which: `(epoch, token of the attempt that wrote it)`. A task brings it forward to the mark it needs and then reads from
one transaction, so whatever others do meanwhile cannot be seen. It is never the truth and may be lost at any time.

Bringing forward takes a file lock and as many transactions as it needs, not one: a transaction keeps every page it has
touched in memory. While it lasts the store has no mark; who finds it so, with the lock free, begins anew.
"""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import lmdb

from flintstream.errors import StateError, describe
from flintstream.state.keybytes import entry_bytes
from flintstream.state.local_folder import FOLDER_VARIABLE, boot_id, job_folder, local_root, remove_leftovers
from flintstream.state.pickles import dumps, dumps_by_name, loads
from flintstream.state.table import GONE

FIRST_MAP_BYTES = 1 << 28
"""How large an environment may become before it is mapped anew with twice the size."""
ROWS_PER_WRITE = 50_000
_DIRECTORY = b"\0\0"
_THERE_TAG, _GONE_TAG = b"+", b"-"
_TRIES = 100

Mark = tuple[int, str]
Row = tuple[Any, Any]
"""An entry and its value; GONE for one that was removed."""
T = TypeVar("T")


class TableInfo(NamedTuple):
    """A table's number in its environment, how many parts its entries have, and how many rows there are."""

    number: int
    parts: int
    rows: int = 0

    @property
    def prefix(self) -> bytes:
        """What the keys of all its rows begin with."""
        return self.number.to_bytes(2, "big")


class View:
    """An environment as it was at one moment."""

    def __init__(self, transaction: Any) -> None:
        self._transaction = transaction
        self.mark, self.tables = _read_directory(transaction)
        self._prefixes = {name: info.prefix for name, info in self.tables.items()}

    def get(self, name: str, key: bytes) -> bytes | None:
        """Return the record of an entry's bytes."""
        prefix = self._prefixes.get(name)
        return None if prefix is None else self._transaction.get(prefix + key)

    def scan(self, name: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield all entries of a table whose bytes begin with `start`, in order: their bytes and their record."""
        prefix = self._prefixes.get(name)
        if prefix is None:
            return
        begin, skip = prefix + start, len(prefix)
        with self._transaction.cursor() as cursor:
            if cursor.set_range(begin):
                for key, record in cursor.iternext(True, True):
                    if not key.startswith(begin):
                        return
                    yield key[skip:], record

    def read(self, name: str, start: bytes = b"") -> Iterator[Row]:
        """Yield the rows of such entries."""
        return (read_record(record) for _, record in self.scan(name, start))

    @property
    def rows(self) -> int:
        """How many rows all tables have."""
        return sum(info.rows for info in self.tables.values())

    def close(self) -> None:
        """End the transaction, so that its pages can be used again."""
        self._transaction.abort()


class Records:
    """An environment; a record is a pickled `(entry, value)`, behind a byte that says whether it is there or gone."""

    def __init__(self, folder: Path, shared: bool) -> None:
        sync = shared and not boot_id()
        self._env = lmdb.open(
            str(folder), FIRST_MAP_BYTES, sync=sync, metasync=sync, lock=shared, readahead=False, mode=0o700
        )
        if shared:
            self._env.reader_check()  # a killed reader would keep its pages for ever

    def view(self) -> View:
        """Return the environment as it is now; close it before the next write."""
        return self._again(lambda: View(self._env.begin()))

    def _again(self, work: Callable[[], T]) -> T:
        """Do something that fails if the environment has outgrown its map; larger maps are tried until it does not."""
        while True:
            try:
                return work()
            except lmdb.MapFullError:
                self._env.set_mapsize(self._env.info()["map_size"] * 2)
            except lmdb.MapResizedError:
                self._env.set_mapsize(0)  # another process has made it larger
            except lmdb.Error as error:
                what = f"local state in {self._env.path()!r} failed ({error})"
                remedy = f"free space there, or set {FOLDER_VARIABLE} to a larger disk"
                raise StateError(describe(what, None, remedy)) from error

    def write(self, name: str, parts: int, rows: Iterable[Row], keep_gone: bool) -> None:
        """Set entries; what is gone is removed, or with `keep_gone` noted as such."""
        rest = iter(rows)
        while some := list(islice(rest, ROWS_PER_WRITE)):
            # In the order of their keys, so that rows of one page are written together.
            keyed = sorted((entry_bytes(entry, parts), _record(entry, value, keep_gone)) for entry, value in some)
            self._again(partial(self._write, name, parts, keyed))

    def _write(self, name: str, parts: int, keyed: list[tuple[bytes, bytes]]) -> None:
        with self._env.begin(write=True) as txn:
            mark, tables = _read_directory(txn)
            info = tables.get(name) or TableInfo(len(tables) + 1, parts)
            before = txn.stat()["entries"]
            prefix = info.prefix
            with txn.cursor() as cursor:
                cursor.putmulti([(prefix + key, record) for key, record in keyed if record])
            for key, record in keyed:
                if not record:
                    txn.delete(prefix + key)
            tables[name] = info._replace(rows=info.rows + txn.stat()["entries"] - before)
            _write_directory(txn, mark, tables)

    def reset(self, wipe: bool) -> None:
        """Take the mark away, and with `wipe` everything."""

        def work() -> None:
            with self._env.begin(write=True) as txn:
                _, tables = _read_directory(txn)
                if wipe:
                    txn.drop(self._env.open_db(txn=txn), delete=False)
                    tables.clear()
                _write_directory(txn, None, tables)

        self._again(work)

    def set_mark(self, mark: Mark) -> None:
        """Say which state this is."""

        def work() -> None:
            with self._env.begin(write=True) as txn:
                _write_directory(txn, mark, _read_directory(txn)[1])

        self._again(work)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


def _read_directory(transaction: Any) -> tuple[Mark | None, dict[str, TableInfo]]:
    data = transaction.get(_DIRECTORY)
    if data is None:
        return None, {}
    mark, tables = json.loads(data)
    return None if mark is None else (mark[0], mark[1]), {name: TableInfo(*info) for name, info in tables.items()}


def _write_directory(transaction: Any, mark: Mark | None, tables: dict[str, TableInfo]) -> None:
    transaction.put(_DIRECTORY, json.dumps([mark, tables]).encode())


def _record(entry: Any, value: Any, keep_gone: bool) -> bytes:
    if value is GONE:
        return _GONE_TAG + dump((entry, None)) if keep_gone else b""
    return _THERE_TAG + dump((entry, value))


def dump(row: tuple[Any, ...]) -> bytes:
    """Return a record's bytes, readable in every process of the job."""
    try:
        data = pickle.dumps(row, 5)
        if pickle.STACK_GLOBAL in data:
            data = dumps_by_name(row)  # there may be objects in it
    except Exception:
        return dumps(row)
    # A class of the user's script has a name that means nothing to other processes: it must travel by value.
    return dumps(row) if b"__main__" in data else data


def read_record(record: bytes) -> Row:
    """Return entry and value of a record."""
    row = loads(record[1:])
    return (row[0], GONE) if is_gone(record) else row


def is_gone(record: bytes) -> bool:
    """Whether a record says that its entry was removed."""
    return record[:1] == _GONE_TAG


_OPEN: set[tuple[int, str]] = set()
"""Stores this process has open, by process (a fork inherits none of them): LMDB must not open one twice."""


class WorkingStore:
    """The store of one partition on this node."""

    def __init__(self, incarnation: str, level: int, partition: int) -> None:
        local_root()
        folder = store_folder(incarnation, level, partition)
        if not folder.exists():
            remove_leftovers()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(OSError):
            os.utime(folder.parent)
        self._is_private = (os.getpid(), str(folder)) in _OPEN
        if self._is_private:
            folder = Path(tempfile.mkdtemp(prefix="private-", dir=local_root()))
        self.folder = folder
        self._records = _open_or_replace(folder)
        _OPEN.add((os.getpid(), str(folder)))
        self.view: View | None = None

    def bring_forward(self, target: Mark, changes: Callable[[Mark | None], Changes]) -> View:
        """Bring the store to `target` and return it as it then is.

        `changes` is asked what lies between the mark it has and the target.
        """
        for _ in range(_TRIES):
            with self._locked():
                self._forward(target, changes)
            view = self._records.view()
            if view.mark == target:
                self.view = view
                return view
            view.close()  # an old attempt that is still alive took it back in between
        what = f"local store {str(self.folder)!r} could not be brought to epoch {target[0]}"
        raise StateError(describe(what, None, "look for a second job that runs from the same checkpoint"))

    def _forward(self, target: Mark, changes: Callable[[Mark | None], Changes]) -> None:
        view = self._records.view()
        mark = view.mark
        view.close()
        if mark == target:
            return
        wipe, tables = changes(mark)
        self._records.reset(wipe)
        for name, parts, rows in tables:
            self._records.write(name, parts, rows, keep_gone=False)
        self._records.set_mark(target)

    @contextmanager
    def _locked(self) -> Generator[None]:
        with (self.folder / "forward.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def close(self) -> None:
        """Close the store."""
        if self.view is not None:
            self.view.close()
        self._records.close()
        _OPEN.discard((os.getpid(), str(self.folder)))
        if self._is_private:
            shutil.rmtree(self.folder, ignore_errors=True)


def store_folder(incarnation: str, level: int, partition: int) -> Path:
    """Return where a partition's store is, or would be."""
    return job_folder(incarnation) / f"{level}-{partition}"


def remove_store(incarnation: str, level: int, partition: int) -> None:
    """Remove a partition's store, if there is one; the job's last one takes the job's directory with it."""
    folder = store_folder(incarnation, level, partition)
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()


def _open_or_replace(folder: Path) -> Records:
    """Open a store; one that cannot be opened is thrown away."""
    try:
        return Records(folder, shared=True)
    except lmdb.Error:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
    try:
        return Records(folder, shared=True)
    except lmdb.Error as error:
        what = f"no local state can be kept in {str(folder)!r} ({error})"
        raise StateError(describe(what, None, f"set {FOLDER_VARIABLE} to a local disk")) from error


Changes = tuple[bool, Iterable[tuple[str, int, Iterable[Row]]]]
"""Whether to begin with nothing, and rows by table: its name, the number of parts of its entries, the rows."""
