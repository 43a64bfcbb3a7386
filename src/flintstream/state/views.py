"""State primitives as the user's function sees them: thin views of one table at the backend's current key.

They are on the hot path of every stateful function, so each call is a dict operation and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flintstream.model.functions import AggregateFunction, ReduceFunction
from flintstream.model.state import AggregatingState, ListState, MapState, ReducingState, ValueState
from flintstream.state.backend import KeyedBackend
from flintstream.state.map_table import MapTable
from flintstream.state.table import Table


class KeyedValueState(ValueState[Any]):
    """A value per key."""

    __slots__ = ("_backend", "_data", "_dirty", "_table")

    def __init__(self, backend: KeyedBackend, table: Table) -> None:
        self._backend = backend
        self._table = table
        self._data = table.data
        self._dirty = table.dirty

    def value(self) -> Any:
        return self._data[self._backend.key]

    def update(self, value: Any) -> None:
        if value is None:
            self._table.delete(self._backend.key)
            return
        key = self._backend.key
        self._data[key] = value
        self._dirty.add(key)

    def clear(self) -> None:
        self._table.delete(self._backend.key)


class KeyedListState(ListState[Any]):
    """A list per key."""

    __slots__ = ("_backend", "_table")

    def __init__(self, backend: KeyedBackend, table: Table) -> None:
        self._backend = backend
        self._table = table

    def get(self) -> Any:
        return list(self._table.data[self._backend.key] or ())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def add(self, value: Any) -> None:
        self.add_all((value,))

    def add_all(self, values: Iterable[Any]) -> None:
        key = self._backend.key
        held = self._table.data[key]
        if held is None:
            held = self._table.data[key] = []
        held.extend(values)
        if held:
            self._table.dirty.add(key)
        else:
            self._table.delete(key)

    def update(self, values: Iterable[Any]) -> None:
        self._table.put(self._backend.key, list(values) or None)

    def clear(self) -> None:
        self._table.delete(self._backend.key)


class KeyedMapState(MapState[Any, Any]):
    """A map per key."""

    __slots__ = ("_backend", "_table")

    def __init__(self, backend: KeyedBackend, table: MapTable) -> None:
        self._backend = backend
        self._table = table

    def _held(self) -> dict[Any, Any]:
        return self._table.data[self._backend.key] or {}

    def get(self, key: Any) -> Any:
        return self._held().get(key)

    def put(self, key: Any, value: Any) -> None:
        self._table.put_in(self._backend.key, key, value)

    def put_all(self, dict_value: Any) -> None:
        for key, value in dict(dict_value).items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        self._table.remove_in(self._backend.key, key)

    def contains(self, key: Any) -> bool:
        return key in self._held()

    def items(self) -> Any:
        return list(self._held().items())

    def keys(self) -> Any:
        return list(self._held())

    def values(self) -> Any:
        return list(self._held().values())

    def is_empty(self) -> bool:
        return not self._held()

    def clear(self) -> None:
        self._table.remove_all(self._backend.key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self._held())


class KeyedReducingState(ReducingState[Any]):
    """One value per key, into which each added value is reduced."""

    __slots__ = ("_backend", "_reduce", "_table")

    def __init__(self, backend: KeyedBackend, table: Table, function: ReduceFunction) -> None:
        self._backend = backend
        self._table = table
        self._reduce = function.reduce

    def get(self) -> Any:
        return self._table.data[self._backend.key]

    def add(self, value: Any) -> None:
        key = self._backend.key
        held = self._table.data[key]
        self._table.put(key, value if held is None else self._reduce(held, value))

    def clear(self) -> None:
        self._table.delete(self._backend.key)


class KeyedAggregatingState(AggregatingState[Any, Any]):
    """An accumulator per key; `get` is its result."""

    __slots__ = ("_backend", "_function", "_table")

    def __init__(self, backend: KeyedBackend, table: Table, function: AggregateFunction) -> None:
        self._backend = backend
        self._table = table
        self._function = function

    def get(self) -> Any:
        held = self._table.data[self._backend.key]
        return None if held is None else self._function.get_result(held)

    def add(self, value: Any) -> None:
        key = self._backend.key
        held = self._table.data[key]
        if held is None:
            held = self._function.create_accumulator()
        self._table.put(key, self._function.add(value, held))

    def clear(self) -> None:
        self._table.delete(self._backend.key)
