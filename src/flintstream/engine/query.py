"""Look-ups into the state of a job, running or not, over its checkpoint directory alone.

A view follows the manifests. What it answers is the state at the newest one, which the answer names; nothing is asked
of the driver or of any task, so it works however many executors there are, and whether the job runs or has ended.
A manifest that comes costs the indexing of the files that are new in it, and only of tables that someone asks for.

Flink: the queryable state of its releases 1.2 to 1.20 (KvStateServer). Differs from Flink: answers are committed state
with its epoch, unless the one who asks wants more; no task answers anything.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from flintstream.engine import manifest as manifests
from flintstream.engine.manifest import Manifest
from flintstream.engine.query_epoch import QueriedEpoch, Uncommitted
from flintstream.engine.query_forms import Form, form_of, order_of
from flintstream.engine.query_index import Indexes
from flintstream.engine.query_names import (
    KeyText,
    Prefix,
    State,
    WindowName,
    page_end,
    page_length,
    prefix_of,
    states_of,
)
from flintstream.engine.query_staged import Note, notes_of
from flintstream.engine.query_tables import Found
from flintstream.errors import CorruptStateError, InvalidArgumentError, UnknownStateError, describe
from flintstream.state.storage import LocalStorage, Storage

_TRIES = 10
_COOL_SECONDS = 60.0
"""A table that nobody has asked for this long is no longer kept ready."""
_REMOTE_SECONDS = 0.5
"""How often a file system with an address is asked for a newer manifest."""
T = TypeVar("T")


@dataclass(frozen=True)
class StateAnswer:
    """What a key has in a queryable state.

    Attributes:
        operator: The uid of the operator that has the state.
        name: The name under which the state is queryable.
        key: The key as JSON has it.
        found: Whether the key has anything.
        value: What it has, as JSON has it. Of windows, a list of `{"window": ..., "value": ...}` unless one was named.
        epoch: The epoch whose state this is.
        committed: Whether that epoch is committed; if not, it may still come to nothing.
    """

    operator: str
    name: str
    key: Form
    found: bool
    value: Form
    epoch: int
    committed: bool

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class StatePage:
    """Some entries of a state in the order of their keys.

    Attributes:
        entries: The entries.
        epoch: The epoch whose state this is.
        after: What to ask for the next page with, or None if there is no more: the last key as JSON.
    """

    entries: list[StateAnswer]
    epoch: int
    after: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return {**self.__dict__, "entries": [entry.as_dict() for entry in self.entries]}


class StateView:
    """Queryable state in a checkpoint directory; may be used by many threads."""

    def __init__(self, storage: Storage, where: str) -> None:
        self._storage = storage
        self._where = where
        self._indexes = Indexes(storage)
        self._asked: dict[str, float] = {}
        self._now: QueriedEpoch | None = None
        self._notes: dict[str, Note] = {}
        self._refreshing = threading.Lock()
        self._looked_at = float("-inf")
        self._paths: list[str] = []

    @property
    def is_current(self) -> bool:
        """Whether nothing newer is committed than what is known; quick enough to be asked before every look-up."""
        now = self._now
        if now is None:
            return False
        if not self._paths:
            return time.monotonic() - self._looked_at < _REMOTE_SECONDS
        # Manifests are deleted oldest first: while ours is there and the next is not, ours is the newest.
        own, following = self._paths
        # A Path takes ten times as long, and what tells more than whether there is a file, twice.
        return not os.access(following, os.F_OK) and os.access(own, os.F_OK)

    def refresh(self) -> None:
        """Take over the newest manifest, and make ready what is asked for."""
        with self._refreshing:
            if not self.is_current:
                self._refresh()

    def _refresh(self) -> None:
        self._looked_at = time.monotonic()
        for _ in range(_TRIES):
            newest = self._newest()
            try:
                self._take_over(Manifest.from_bytes(self._storage.read(newest), newest))
            except CorruptStateError:
                # The job went on and deleted what it needs no more; if it did not, something is damaged.
                if self._newest() == newest:
                    raise
            else:
                return
        raise self._too_fast()

    def _newest(self) -> str:
        names = self._storage.list(manifests.FOLDER)
        if not names:
            what = "the job has committed nothing yet, or its checkpoints are gone"
            raise UnknownStateError(describe(what, self._where, "ask again when an epoch is over"))
        return f"{manifests.FOLDER}/{names[-1]}"

    def _too_fast(self) -> CorruptStateError:
        what = "the job deletes its checkpoints faster than they can be read"
        remedy = "retain more of them ('execution.checkpointing.num-retained')"
        return CorruptStateError(describe(what, self._where, remedy))

    def _take_over(self, manifest: Manifest) -> None:
        limit = time.monotonic() - _COOL_SECONDS
        self._asked = {table: at for table, at in self._asked.items() if at > limit}
        new = QueriedEpoch(manifest, self._indexes)
        new.make_ready(self._asked)
        if isinstance(self._storage, LocalStorage):
            names = manifests.path_of(new.epoch), manifests.path_of(new.epoch + 1)
            self._paths = [f"{self._storage.root}/{name}" for name in names]
        self._now = new
        files = {(file.path, file.offset) for handle in manifest.state.values() for file in handle.files}
        staged = {(file.path, file.offset) for note in self._notes.values() for file in note.files}
        self._indexes.keep(files | staged, self._asked)

    def _current(self) -> QueriedEpoch:
        if not self.is_current:
            self.refresh()
        assert self._now is not None
        return self._now

    @property
    def known_epoch(self) -> int | None:
        """The epoch that was looked at last, None before the first look; another may be committed since."""
        return None if self._now is None else self._now.epoch

    @property
    def epoch(self) -> int:
        """The epoch whose state is shown now."""
        return self._current().epoch

    def states(self) -> list[State]:
        """Return which states can be looked up."""
        return states_of(self._current().manifest)

    def get(
        self,
        name: str,
        keys: Sequence[Any],
        operator: str | None = None,
        window: Any = None,
        consistency: str = "committed",
    ) -> list[StateAnswer]:
        """Return what some keys have, all as of one epoch; keys are Python values, or text as people type it."""
        asked = WindowName.of(window)
        wants_staged = Uncommitted.is_wanted(consistency)

        def look(now: QueriedEpoch) -> list[StateAnswer]:
            state = now.state(name, operator, self._where)
            if asked is not None and not state.is_windowed:
                what = f"state {name!r:.200} has no windows"
                raise InvalidArgumentError(describe(what, self._where, "leave the window out"))
            find = now.find
            if wants_staged:
                Uncommitted.check(state, self._where)
                find = now.uncommitted(self._read_notes(now.epoch + 1)).find
            return [self._answer(find, state, _forms(key), asked, now.epoch) for key in keys]

        return self._look(look)

    def get_at_once(self, name: str, key: str, operator: str | None = None) -> StateAnswer | None:
        """Return what a key has as text names it, or None if something must be read or indexed first: `get` it."""
        now = self._now
        if now is None or not self.is_current:
            return None
        state = now.state(name, operator, self._where)
        return self._answer(now.find, state, KeyText(key).forms(), None, now.epoch) if now.is_ready(state) else None

    def _read_notes(self, epoch: int) -> list[Note]:
        notes = notes_of(self._storage, epoch, self._notes)
        self._notes = {note.name: note for note in notes}
        return notes

    def _answer(
        self,
        find: Callable[[State, Form], tuple[Found | None, bool]],
        state: State,
        forms: Sequence[Form],
        window: WindowName | None,
        epoch: int,
    ) -> StateAnswer:
        """Return what the first of some keys has that has anything, else that the first one has nothing."""
        mark = state.mark
        self._asked[mark["table"]] = time.monotonic()
        if "merging" in mark:
            self._asked[mark["merging"]] = time.monotonic()
        first_committed: bool | None = None
        for form in forms:
            found, committed = find(state, form)
            if found is not None:
                at = epoch if committed else epoch + 1
                is_there, value = (True, found.value) if found.windows is None else _of_windows(found.windows, window)
                return StateAnswer(state.uid, state.name, form, is_there, value, at, committed)
            first_committed = committed if first_committed is None else first_committed
        at = epoch if first_committed else epoch + 1
        return StateAnswer(state.uid, state.name, forms[0], False, None, at, bool(first_committed))

    def scan(
        self, name: str, prefix: Any = None, limit: int = 100, after: str | None = None, operator: str | None = None
    ) -> StatePage:
        """Return entries in the order of their keys: those that begin with `prefix`, behind the page before."""
        starts, behind = prefix_of(prefix), page_end(after)
        most = page_length(limit)

        def look(now: QueriedEpoch) -> StatePage:
            state = now.state(name, operator, self._where)
            found = list(islice(self._entries(now, state, starts, behind), most + 1))
            last = json.dumps(found[most - 1].key) if len(found) > most else None
            return StatePage(found[:most], now.epoch, last)

        return self._look(look)

    def _entries(
        self, now: QueriedEpoch, state: State, starts: Prefix | None, behind: Sequence[Form]
    ) -> Iterator[StateAnswer]:
        for form in now.keys(state, starts, behind):
            answer = self._answer(now.find, state, (form,), None, now.epoch)
            if answer.found:
                yield answer

    def _look(self, at: Callable[[QueriedEpoch], T]) -> T:
        """Return what is seen; if files are gone because the job went on, look at what it has committed since."""
        for _ in range(_TRIES):
            now = self._current()
            try:
                return at(now)
            except CorruptStateError:
                if self.is_current:
                    raise
        raise self._too_fast()


def _forms(key: Any) -> Sequence[Form]:
    return key.forms() if isinstance(key, KeyText) else (form_of(key),)


def _of_windows(windows: Sequence[tuple[Form, Form]], asked: WindowName | None) -> tuple[bool, Form]:
    """Return whether there is such a window, and what it holds; if none is named, what all of them hold."""
    if asked is None:
        ordered = sorted(windows, key=lambda each: order_of(each[0]))
        return bool(ordered), [{"window": window, "value": value} for window, value in ordered]
    for window, value in windows:
        if asked.fits(window):
            return True, value
    return False, None
