"""Summaries as the user's function sees them: views of one table at the backend's current key.

Separate from `views.py`, whose states are dict operations; here an entry is an object with a life of its own.
"""

from __future__ import annotations

import pickle
from abc import abstractmethod
from typing import Any, Generic, TypeVar, cast

from flintstream.errors import DefinitionError, IncompatibleStateError, InvalidArgumentError, describe
from flintstream.model.state_summaries import (
    DistinctCountState,
    DistinctCountStateDescriptor,
    QuantilesState,
    QuantilesStateDescriptor,
    ReservoirState,
    ReservoirStateDescriptor,
    SummaryState,
    SummaryStateDescriptor,
    TopKState,
    TopKStateDescriptor,
)
from flintstream.state.backend import KeyedBackend
from flintstream.state.summaries import Commonest, Reservoir
from flintstream.state.summary_sketches import Digest, Distinct, datasketches
from flintstream.state.summary_table import Packed, Summary, SummaryTable

Y = TypeVar("Y", bound=Summary)


class _View(SummaryState[Any, Any], Generic[Y]):
    """What all summaries have in common; `kind` stands in what is packed."""

    kind = ""

    def __init__(self, backend: KeyedBackend, table: SummaryTable, descriptor: Any) -> None:
        self._backend = backend
        self._table = table
        self._descriptor = descriptor

    @abstractmethod
    def _new(self) -> Y:
        """Return an empty summary for the current key."""

    @abstractmethod
    def _unpacked(self, packed: Packed) -> Y:
        """Return a summary of the current key from what was packed behind its kind and settings."""

    def _held(self) -> Y | None:
        """Return the summary of the current key."""
        key = self._backend.key
        held = self._table.data[key]
        if held is None or isinstance(held, Summary):
            return cast("Y | None", held)
        what = f"state {self._descriptor.name!r} of an earlier run is not {self._descriptor!r}"
        if not self._is_of_this_kind(held):
            raise IncompatibleStateError(describe(what, None, "go back to what it was, or give the state another name"))
        held = self._table.data[key] = self._unpacked(held[2:])
        return held

    def _is_of_this_kind(self, packed: Any) -> bool:
        return isinstance(packed, tuple) and packed[:2] == (self.kind, self._descriptor.settings())

    def _for_adding(self) -> Y:
        held = self._held()
        if held is None:
            held = self._table.data[self._backend.key] = self._new()
        self._table.dirty.add(self._backend.key)
        return held

    def add(self, value: Any) -> None:
        self._for_adding().add(value)

    def count(self) -> int:
        held = self._held()
        return 0 if held is None else held.count

    def to_bytes(self) -> bytes | None:
        held = self._held()
        return None if held is None else pickle.dumps(held.pack(), 5)

    def merge(self, summary: bytes | None) -> None:
        if summary is None:
            return
        other = pickle.loads(summary)
        if not self._is_of_this_kind(other):
            what = f"a summary of another kind, or with other settings, was merged into {self._descriptor!r}"
            raise InvalidArgumentError(describe(what, None, "merge what to_bytes() of the same descriptor gave"))
        self._for_adding().merge(self._unpacked(other[2:]))

    def clear(self) -> None:
        self._table.delete(self._backend.key)


class KeyedReservoirState(_View[Reservoir], ReservoirState[Any]):
    """A sample per key."""

    kind = "reservoir"

    def _new(self) -> Reservoir:
        return Reservoir(self._backend.key, *self._descriptor.settings())

    def _unpacked(self, packed: Packed) -> Reservoir:
        return Reservoir.unpack(packed, self._backend.key, *self._descriptor.settings())

    def get(self) -> list[Any]:
        held = self._held()
        return [] if held is None else held.sample()


class KeyedDistinctCountState(_View[Distinct], DistinctCountState):
    """HyperLogLog per key."""

    kind = "distinct"

    def _new(self) -> Distinct:
        return Distinct(*self._descriptor.settings())

    def _unpacked(self, packed: Packed) -> Distinct:
        return Distinct.unpack(packed, *self._descriptor.settings())

    def get(self) -> int:
        held = self._held()
        return 0 if held is None else held.estimate()


class KeyedQuantilesState(_View[Digest], QuantilesState):
    """A t-digest per key."""

    kind = "quantiles"

    def _new(self) -> Digest:
        return Digest(*self._descriptor.settings())

    def _unpacked(self, packed: Packed) -> Digest:
        return Digest.unpack(packed, *self._descriptor.settings())

    def get(self) -> tuple[float, ...] | None:
        held = self._held()
        if held is None:
            return None
        digest = held.whole()
        return tuple(digest.get_quantile(share) for share in self._descriptor.quantiles)

    def quantile(self, share: float) -> float | None:
        held = self._held()
        return None if held is None else held.whole().get_quantile(share)

    def rank(self, value: float) -> float | None:
        held = self._held()
        return None if held is None else held.whole().get_rank(value)


class KeyedTopKState(_View[Commonest], TopKState[Any]):
    """The commonest values per key."""

    kind = "top"

    def _new(self) -> Commonest:
        return Commonest(*self._descriptor.settings())

    def _unpacked(self, packed: Packed) -> Commonest:
        return Commonest.unpack(packed, *self._descriptor.settings())

    def get(self) -> list[tuple[Any, int]]:
        held = self._held()
        return [] if held is None else held.top(self._descriptor.k)

    def error(self) -> int:
        held = self._held()
        return 0 if held is None else held.error


_VIEWS: dict[type, type[_View[Any]]] = {
    ReservoirStateDescriptor: KeyedReservoirState,
    DistinctCountStateDescriptor: KeyedDistinctCountState,
    QuantilesStateDescriptor: KeyedQuantilesState,
    TopKStateDescriptor: KeyedTopKState,
}


def summary_table(backend: KeyedBackend, name: str, parts: int) -> SummaryTable:
    """Return the table of that name; entries are the key alone (`parts` = 1), or a key and more."""
    table: Any = backend.table(name, lambda: SummaryTable(name, parts))
    if not isinstance(table, SummaryTable):
        what = f"state {name.rpartition('/')[2]!r} is asked for as a summary and as another kind of state"
        raise DefinitionError(describe(what, None, "give one of them another name"))
    return table


def summary_view(backend: KeyedBackend, table: SummaryTable, descriptor: SummaryStateDescriptor[Any]) -> Any:
    """Return the view of a table that a descriptor asks for."""
    view = _VIEWS.get(type(descriptor))
    if view is None:
        what = f"{descriptor!r} describes no summary"
        names = ", ".join(known.__name__ for known in _VIEWS)
        raise DefinitionError(describe(what, None, f"use one of {names}"))
    if view in (KeyedDistinctCountState, KeyedQuantilesState):
        datasketches()
    return view(backend, table, descriptor)
