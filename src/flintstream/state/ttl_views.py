"""State primitives whose entries expire: the views of `views`, with a look at the clock.

A value, a reduced or an aggregated one expires as a whole, a list by its elements, a map by its entries. Separate from
the plain views, which must not pay for what they do not have.

Flink: runtime.state.ttl.TtlValueState and its kin. Differs from Flink: with clean-up disabled, expired elements of a
list leave it when it is next read, not when all of them have expired.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from flintstream.model.functions import AggregateFunction, ReduceFunction
from flintstream.model.state import AggregatingState, ListState, MapState, ReducingState, ValueState
from flintstream.state.backend import KeyedBackend
from flintstream.state.map_table import MapTable
from flintstream.state.stamped import Stamped
from flintstream.state.table import Table
from flintstream.state.ttl import Lifetime


class _Expiring:
    """What all of them share: the clean-up at the end of an epoch."""

    __slots__ = ()
    _life: Lifetime

    def sweep(self, now: int) -> None:
        """Remove what has expired by `now`, as far as anybody looks."""
        deadlines = self._life.deadlines
        if deadlines is not None:
            for key in deadlines.take_until(now):
                self._sweep_key(key, now)

    @abstractmethod
    def _sweep_key(self, key: Any, now: int) -> None:
        """Remove what of a key has expired, and say when to look again."""


class _Cell(_Expiring):
    """One entry per key."""

    __slots__ = ("_backend", "_data", "_dirty", "_life", "_now", "_on_read", "_stamp", "_table", "_ttl")

    def __init__(self, backend: KeyedBackend, table: Table, life: Lifetime) -> None:
        self._backend = backend
        self._table = table
        self._data = table.data
        self._dirty = table.dirty
        self._life = life
        # On the hot path everything is looked up once.
        self._ttl, self._on_read = life.ttl, life.on_read
        self._now, self._stamp = life.clock.now, life.clock.stamp

    def read(self) -> Any:
        """Return what the current key has; it may be touched by that."""
        key = self._backend.key
        held = self._data[key]
        if held is None:
            return None
        value, stamp = held
        if stamp + self._ttl <= self._now():
            return self._read_expired(key, held)
        if self._on_read:
            touched = self._life.touched(held)
            if touched is not held:
                self._data[key] = touched
                self._dirty.add(key)
        return value

    def _read_expired(self, key: Any, held: Stamped) -> Any:
        if self._life.deadlines is not None:
            return None  # it is gone, and the end of the epoch will see to it
        self._table.delete(key)
        return held[0] if self._life.shows_expired else None

    def write(self, value: Any) -> None:
        """Set what the current key has; None removes it."""
        if value is None:
            self.clear()
            return
        key = self._backend.key
        held, stamp = self._data[key], self._stamp()
        if held is None:
            self._life.look_at(key, stamp)
        elif held[1] > stamp:
            stamp = self._life.renewed(value, held)[1]
        self._data[key] = Stamped((value, stamp))
        self._dirty.add(key)

    def _base(self) -> Any:
        """Return what a value is to be added to; a write follows, so it is not touched."""
        held, life = self._data[self._backend.key], self._life
        if held is None or (life.has_ended(held, life.clock.now()) and not life.shows_expired):
            return None
        return held[0]

    def clear(self) -> None:
        key = self._backend.key
        self._table.delete(key)
        self._life.forget(key)

    def _sweep_key(self, key: Any, now: int) -> None:
        held, life = self._data[key], self._life
        if held is None:
            return
        if life.leaves(held, now):
            self._table.delete(key)
        else:
            life.look_at(key, held[1])


class TtlValueState(_Cell, ValueState[Any]):
    """A value per key, until it expires."""

    __slots__ = ()

    # The hot path has no call to spare.
    value: Any = _Cell.read
    update: Any = _Cell.write


class TtlReducingState(_Cell, ReducingState[Any]):
    """One value per key, into which each added value is reduced; what has expired is not reduced any more."""

    __slots__ = ("_reduce",)

    def __init__(self, backend: KeyedBackend, table: Table, life: Lifetime, function: ReduceFunction) -> None:
        super().__init__(backend, table, life)
        self._reduce = function.reduce

    def get(self) -> Any:
        return self.read()

    def add(self, value: Any) -> None:
        base = self._base()
        self.write(value if base is None else self._reduce(base, value))


class TtlAggregatingState(_Cell, AggregatingState[Any, Any]):
    """An accumulator per key, begun anew when it has expired."""

    __slots__ = ("_function",)

    def __init__(self, backend: KeyedBackend, table: Table, life: Lifetime, function: AggregateFunction) -> None:
        super().__init__(backend, table, life)
        self._function = function

    def get(self) -> Any:
        held = self.read()
        return None if held is None else self._function.get_result(held)

    def add(self, value: Any) -> None:
        base = self._base()
        self.write(self._function.add(value, self._function.create_accumulator() if base is None else base))


class TtlListState(_Expiring, ListState[Any]):
    """A list per key, whose elements expire one by one."""

    __slots__ = ("_backend", "_life", "_table")

    def __init__(self, backend: KeyedBackend, table: Table, life: Lifetime) -> None:
        self._backend = backend
        self._table = table
        self._life = life

    def get(self) -> list[Any]:
        key, life = self._backend.key, self._life
        held: list[Stamped] = self._table.data[key] or []
        now = life.clock.now()
        live = [each for each in held if not life.has_ended(each, now)]
        touched = [life.touched(each) for each in live] if life.on_read else live
        leaves = len(live) < len(held) and life.deadlines is None
        if leaves or any(new is not old for new, old in zip(touched, live, strict=True)):
            # Those that have expired stay for the end of the epoch, which knows of them.
            kept = touched if life.deadlines is None else touched + [e for e in held if life.has_ended(e, now)]
            self._table.put(key, kept or None)
        return [each[0] for each in (held if leaves and life.shows_expired else live)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def add(self, value: Any) -> None:
        self.add_all((value,))

    def add_all(self, values: Iterable[Any]) -> None:
        key, stamp = self._backend.key, self._life.clock.stamp()
        new = [Stamped((value, stamp)) for value in values]
        if not new:
            return
        held = self._table.data[key]
        if held is None:
            held = self._table.data[key] = []
        held.extend(new)
        self._table.dirty.add(key)
        self._life.look_at(key, stamp)

    def update(self, values: Iterable[Any]) -> None:
        new = list(values)
        self.clear()
        self.add_all(new)

    def clear(self) -> None:
        key = self._backend.key
        self._table.delete(key)
        self._life.forget(key)

    def _sweep_key(self, key: Any, now: int) -> None:
        held, life = self._table.data[key], self._life
        if held is None:
            return
        live = [each for each in held if not life.leaves(each, now)]
        if len(live) < len(held):
            self._table.put(key, live or None)
        if live:
            life.look_at(key, min(each[1] for each in live))


class TtlMapState(_Expiring, MapState[Any, Any]):
    """A map per key, whose entries expire one by one."""

    __slots__ = ("_backend", "_life", "_table")

    def __init__(self, backend: KeyedBackend, table: MapTable, life: Lifetime) -> None:
        self._backend = backend
        self._table = table
        self._life = life

    def _held(self) -> dict[Any, Stamped]:
        return self._table.data[self._backend.key] or {}

    def _read(self, inner: Any, held: Stamped) -> Stamped | None:
        """Return an entry if it may be seen, touched by that."""
        key, life = self._backend.key, self._life
        now = life.clock.now()
        if life.has_ended(held, now):
            if life.deadlines is not None:
                return None
            self._table.remove_in(key, inner)
            return held if life.shows_expired else None
        touched = life.touched(held)
        if touched is not held:
            self._table.put_in(key, inner, touched)
        return touched

    def _live(self) -> Iterator[tuple[Any, Any]]:
        for inner, held in list(self._held().items()):
            seen = self._read(inner, held)
            if seen is not None:
                yield inner, seen[0]

    def get(self, key: Any) -> Any:
        held = self._held().get(key)
        seen = None if held is None else self._read(key, held)
        return None if seen is None else seen[0]

    def contains(self, key: Any) -> bool:
        held = self._held().get(key)
        return held is not None and self._read(key, held) is not None

    def put(self, key: Any, value: Any) -> None:
        new = self._life.renewed(value, self._held().get(key))
        self._table.put_in(self._backend.key, key, new)
        self._life.look_at(self._backend.key, new[1])

    def put_all(self, dict_value: Any) -> None:
        for key, value in dict(dict_value).items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        self._table.remove_in(self._backend.key, key)
        if not self._held():
            self._life.forget(self._backend.key)

    def items(self) -> list[tuple[Any, Any]]:
        return list(self._live())

    def keys(self) -> list[Any]:
        return [key for key, _ in self._live()]

    def values(self) -> list[Any]:
        return [value for _, value in self._live()]

    def is_empty(self) -> bool:
        return not len(self)

    def clear(self) -> None:
        self._table.remove_all(self._backend.key)
        self._life.forget(self._backend.key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __len__(self) -> int:
        life, now = self._life, self._life.clock.now()
        return sum(not life.has_ended(held, now) for held in self._held().values())

    def _sweep_key(self, key: Any, now: int) -> None:
        held, life = self._table.data[key], self._life
        if held is None:
            return
        for inner in [inner for inner, each in held.items() if life.leaves(each, now)]:
            self._table.remove_in(key, inner)
        if held:
            life.look_at(key, min(each[1] for each in held.values()))
