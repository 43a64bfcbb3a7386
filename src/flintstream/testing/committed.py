"""The committed state of a job under test, read from its checkpoint: values of a key, and timers.

What a test sees here is what a job that starts again would find, and nothing that was only in memory. By a state's name
it is shown as it is kept; by the function's own descriptor as the function would see it, at this moment of its time.

Flink: the accessors of KeyedOneInputStreamOperatorTestHarness, `numKeyedStateEntries`, `numEventTimeTimers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from flintstream.engine.manifest import Manifest
from flintstream.engine.statefiles import read_file, uid_of
from flintstream.errors import InvalidArgumentError, UnknownUidError, describe
from flintstream.graph.location import users_line
from flintstream.model.context import TimeDomain
from flintstream.model.state import ListState, MapState, StateDescriptor
from flintstream.model.time import MIN_TIMESTAMP
from flintstream.ops.context import OperatorRuntimeContext, state_by
from flintstream.ops.operator import OperatorContext
from flintstream.planner.plan import Plan
from flintstream.state.backend import KeyedBackend, table_like
from flintstream.state.classes import adopt_classes
from flintstream.state.stamped import Stamped
from flintstream.state.storage import Storage
from flintstream.state.table import Table

_TIMERS = {"#event-timers": TimeDomain.EVENT_TIME, "#processing-timers": TimeDomain.PROCESSING_TIME}
_KEY_AND_PART = 2


@dataclass(frozen=True)
class Timer:
    """A timer that waits: of which operator and key, for when, by which clock, and of which window if it is of one."""

    uid: str
    key: Any
    time: int
    domain: TimeDomain
    window: Any = None


@dataclass(slots=True)
class _Standstill:
    """Event time as it stands between two steps."""

    watermark: int

    def now(self) -> int:
        return self.watermark

    def stamp(self) -> int:
        return self.watermark


class CommittedState:
    """All keyed state that a manifest names."""

    def __init__(self, plan: Plan, manifest: Manifest | None, storage: Storage) -> None:
        self._plan = plan
        self._manifest = manifest
        self._batches: dict[str, list[pa.RecordBatch]] = {}
        adopt_classes(plan.classes)
        for handle in () if manifest is None else manifest.state.values():
            for file in handle.files:
                for name, batch in read_file(storage, file).items():
                    self._batches.setdefault(name, []).append(batch)

    def _rows(self, name: str) -> Iterator[tuple[Any, Any]]:
        batches = self._batches[name]
        table = table_like(batches[0])
        for batch in batches:
            table.apply(batch)
        if not isinstance(table, Table):
            what = f"state {name!r} is kept in columns of the engine's own"
            raise InvalidArgumentError(describe(what, users_line(), "look at the results instead"))
        yield from table.rows()

    def _uid(self, uid: str | None, name: str) -> str:
        """Return the operator that a state belongs to."""
        known = [op.uid for op in self._plan.operators]
        if uid is not None:
            if uid not in known:
                what = f"there is no operator with uid {uid!r}"
                raise UnknownUidError(describe(what, users_line(), f"use one of {', '.join(map(repr, known))}"))
            return uid
        owners = {uid_of(each, known) for each in self._batches if each.endswith(f"/{name}")} - {None}
        if len(owners) > 1:
            what = f"several operators have a state {name!r}: {', '.join(sorted(map(repr, owners)))}"
            raise InvalidArgumentError(describe(what, users_line(), "say which one: state(..., uid=...)"))
        return next(iter(owners), None) or ""

    def value(self, state: str | StateDescriptor, key: Any, uid: str | None = None) -> Any:
        """Return what a state holds for a key; None if nothing."""
        if isinstance(state, StateDescriptor):
            return self._seen(state, key, self._uid(uid, state.name))
        name = f"{self._uid(uid, state)}/{state}"
        if name not in self._batches:
            return None
        entries = list(self._rows(name))
        if self._batches[name][0].schema.get_field_index("part1") < 0:
            return next((_plain(value) for entry, value in entries if entry == key), None)
        pairs = [(entry, value) for entry, value in entries if entry[0] == key]
        if any(len(entry) > _KEY_AND_PART for entry, _ in pairs):
            return {tuple(entry[1:]): _plain(value) for entry, value in pairs} or None
        return {entry[1]: _plain(value) for entry, value in pairs} or None

    def _seen(self, descriptor: StateDescriptor, key: Any, uid: str) -> Any:
        groups = self._plan.max_parallelism
        backend = KeyedBackend(groups, range(groups))
        for name, batches in self._batches.items():
            if uid_of(name, (uid,)) is not None:
                for batch in batches:
                    backend.apply({name: batch})
        backend.key = key
        watermark = MIN_TIMESTAMP if self._manifest is None else self._manifest.watermarks.get(uid, MIN_TIMESTAMP)
        ctx = OperatorContext(uid, uid, 0, 1, backend, watermark=watermark, moment=_Standstill(watermark))
        ctx.now = 0 if self._manifest is None else self._manifest.now
        view: Any = state_by(OperatorRuntimeContext(ctx, keyed=True), descriptor)
        if view is None:
            what = f"{descriptor!r} is not of state that a test can look at"
            raise InvalidArgumentError(describe(what, users_line(), "give the state's name instead"))
        if isinstance(view, MapState):
            return dict(cast("MapState[Any, Any]", view).items())
        if isinstance(view, ListState):
            return list(cast("ListState[Any]", view).get() or ())
        return view.value() if hasattr(view, "value") else view.get()

    def timers(self, key: Any, uid: str | None = None) -> list[Timer]:
        """Return the timers that wait, of one key or (if `key` is ANY_KEY) of all, the earliest first."""
        known = [op.uid for op in self._plan.operators] if uid is None else [self._uid(uid, "")]
        found: list[Timer] = []
        for name in self._batches:
            owner = uid_of(name, known)
            domain = _TIMERS.get(name.rpartition("/")[2])
            if owner is None or domain is None:
                continue
            for (own, window, time), _ in self._rows(name):
                if key is ANY_KEY or own == key:
                    found.append(Timer(owner, own, time, domain, window))
        return sorted(found, key=lambda timer: (timer.time, repr(timer.key), repr(timer.window)))


ANY_KEY = object()
"""Stands for all keys."""


def _plain(value: Any) -> Any:
    """Return what the function put into state that may expire, without the engine's stamps."""
    if isinstance(value, Stamped):
        return value[0]
    if isinstance(value, list):
        return [_plain(each) for each in cast("list[Any]", value)]
    return value
