"""The queryable state of a job at one epoch: tables over the files that its manifest names, made as they are asked for.

A value that never changes once a look-up has begun, so that an answer is of one epoch however the job goes on. With the
notes of tasks that have reported already (`query_staged`) it also tells what the next epoch is about to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from flintstream.engine.epoch import StateFile
from flintstream.engine.manifest import Manifest
from flintstream.engine.query_forms import Form, hash_of
from flintstream.engine.query_index import FileIndex, Indexes, index_of
from flintstream.engine.query_names import Prefix, State, chosen, states_of
from flintstream.engine.query_staged import Note
from flintstream.engine.query_tables import Chain, Found, StoredTable
from flintstream.engine.query_windows import ColumnWindows, Finder, merged_windows, results_of, values_of
from flintstream.errors import CorruptStateError, InvalidArgumentError, describe
from flintstream.model.time import MIN_TIMESTAMP
from flintstream.state.changelog import unpack

Answer = tuple[Found | None, bool]
"""What a key has, and whether that is committed."""


class QueriedEpoch:
    """All queryable state as of a manifest."""

    def __init__(self, manifest: Manifest, indexes: Indexes) -> None:
        self.manifest = manifest
        self.epoch = manifest.epoch
        self._indexes = indexes
        self._finders: dict[tuple[str, str], Finder] = {}
        self._chosen: dict[tuple[str, str | None], State] = {}
        self._tables: dict[str, StoredTable] = {}

    def make_ready(self, tables: Iterable[str]) -> None:
        """Index what these tables have in files that are new."""
        wanted = set(tables)
        for state in states_of(self.manifest):
            if state.mark["table"] in wanted:
                self._finder(state)

    def state(self, name: str, operator: str | None, where: str) -> State:
        """Return the state that is meant; see `query_names.chosen`."""
        known = self._chosen.get((name, operator))
        if known is None:
            known = self._chosen[name, operator] = chosen(self.manifest, name, operator, where)
        return known

    def is_ready(self, state: State) -> bool:
        """Whether a state is indexed."""
        return (state.uid, state.name) in self._finders

    def find(self, state: State, form: Form) -> Answer:
        """Return what a key has."""
        return self._finder(state)(form), True

    def _finder(self, state: State) -> Finder:
        known = self._finders.get((state.uid, state.name))
        if known is None:
            watermark = self.manifest.watermarks.get(state.uid, MIN_TIMESTAMP)
            known = finder_of(state, self._table, self.manifest.now, watermark)
            self._finders[state.uid, state.name] = known
        return known

    def _table(self, uid: str, name: str, make: Callable[..., StoredTable]) -> StoredTable:
        known = self._tables.get(name)
        if known is None:
            level, parallelism = self.manifest.layout[uid]
            chains = [self.chain(f"{level}/{partition}", name) for partition in range(parallelism)]
            known = self._tables[name] = make(chains, parallelism, self.manifest.max_parallelism)
        return known

    def chain(self, place: str, table: str, keep: int | None = None) -> list[FileIndex]:
        """Return the rows of a table in one partition's files, or in the first `keep` of them."""
        handle = self.manifest.state.get(place)
        files = () if handle is None else handle.files[:keep]
        return [index for file in files if (index := self._indexes.of(file, table)) is not None]

    def keys(self, state: State, prefix: Prefix | None, behind: Sequence[Form]) -> Iterator[Form]:
        """Yield the keys of a state in their order, also such as are gone; if `behind` names one, from there on."""
        self._finder(state)
        table = self._tables[state.mark.get("merging", state.mark["table"])]
        if prefix is None:
            yield from table.keys((), behind)
            return
        for least in (prefix.text, prefix.elements):
            if least is not None:
                for form in table.keys((least,), behind):
                    if not prefix.fits(form):
                        break
                    yield form

    def uncommitted(self, notes: Sequence[Note]) -> Uncommitted:
        """Return what the next epoch is about to be, as far as tasks have told."""
        return Uncommitted(self, notes, self._indexes)


def finder_of(state: State, table: Callable[..., StoredTable], now: int, watermark: int) -> Finder:
    """Return how the keys of a state are looked up, by processing time and event time as they were."""
    mark, uid = state.mark, state.uid
    if mark["kind"] == "columns":
        columns = table(uid, mark["table"], ColumnWindows)
        assert isinstance(columns, ColumnWindows)
        return columns.of_columns(results_of(mark), mark["grid"], watermark)
    values = values_of(mark, watermark if mark.get("clock") == "event" else now)
    stored = table(uid, mark["table"], partial(StoredTable, values=values))
    if "merging" in mark:
        return merged_windows(table(uid, mark["merging"], StoredTable), stored)
    if state.is_windowed:
        return stored.windows
    return stored.map if mark["kind"] == "map" else stored.value


class Uncommitted:
    """State as the notes of tasks tell it, and as committed where there are none."""

    def __init__(self, committed: QueriedEpoch, notes: Sequence[Note], indexes: Indexes) -> None:
        self._committed = committed
        self._notes = notes
        self._indexes = indexes

    @staticmethod
    def is_wanted(consistency: str) -> bool:
        """Read how much one who asks wants to see."""
        if consistency not in ("committed", "uncommitted"):
            what = f"{consistency!r:.100} is no consistency"
            raise InvalidArgumentError(describe(what, remedy="ask for 'committed' or 'uncommitted'"))
        return consistency == "uncommitted"

    @staticmethod
    def check(state: State, where: str) -> None:
        """Refuse a look at what is not committed, unless the program allows it."""
        if not state.mark["uncommitted"]:
            what = f"state {state.name!r} of operator {state.uid!r} can only be read as committed"
            remedy = "ask for that, or mark it with set_queryable(name, uncommitted=True)"
            raise InvalidArgumentError(describe(what, where, remedy))

    def find(self, state: State, form: Form) -> Answer:
        """Return what a key has, from the note of the task that has it, if there is one."""
        noted = [note for note in self._notes if note.has(state.uid, None)]
        try:
            if noted and self._tells_group(noted, state):
                group = hash_of(form) % self._committed.manifest.max_parallelism
                noted = [note for note in noted if note.has(state.uid, group)]
                return self._found(noted, (), state, form) if noted else self._committed.find(state, form)
            if noted:
                _, parallelism = self._committed.manifest.layout[state.uid]
                told = {note.partition for note in noted}
                others = [number for number in range(parallelism) if number not in told]
                return self._found(noted, others, state, form)
        except CorruptStateError:
            pass  # an attempt came to nothing, and its files are gone
        return self._committed.find(state, form)

    def _tells_group(self, notes: Sequence[Note], state: State) -> bool:
        """Whether the hash of a key's form tells which task has the key."""
        indexes = [index for note in notes for index in self._chain(note, state.mark["table"])]
        return all(index.keys.tells_group for index in indexes if index.batch.num_rows)

    def _found(self, notes: Sequence[Note], others: Sequence[int], state: State, form: Form) -> Answer:
        """Look a key up in what tasks have noted, and in the partitions that have not."""
        manifest = self._committed.manifest
        level = manifest.layout[state.uid][0]

        def table(uid: str, name: str, make: Callable[..., StoredTable]) -> StoredTable:
            chains = [self._chain(note, name) for note in notes]
            chains += [self._committed.chain(f"{level}/{number}", name) for number in others]
            return make(chains, 0, manifest.max_parallelism)

        note = notes[0]
        return finder_of(state, table, note.now, note.watermarks.get(state.uid, MIN_TIMESTAMP))(form), False

    def _chain(self, note: Note, name: str) -> Chain:
        """Return the rows of a table as a task has left them: files that it kept, and those that it has made."""
        chain = self._committed.chain(f"{note.level}/{note.partition}", name, note.keep)
        for number, file in enumerate(note.files):
            if note.data and number == len(note.files) - 1:
                index = self._small(note, file, name)
            else:
                index = self._indexes.of(file, name)
            chain += [] if index is None else [index]
        return chain

    @staticmethod
    def _small(note: Note, file: StateFile, name: str) -> FileIndex | None:
        if name not in note.indexes:
            batch = unpack(note.data, file.path).get(name)
            note.indexes[name] = None if batch is None else index_of(batch)
        return note.indexes[name]
