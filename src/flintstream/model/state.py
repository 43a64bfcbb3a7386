"""State as a function sees it: the handles, and the descriptors that ask for them.

Flink: pyflink.datastream.state. A handle always speaks of the current key (and, for a window's state, the current
window); who that is, and where values live, is the engine's business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar, cast

from flintstream.errors import InvalidArgumentError, TypeMismatchError
from flintstream.model.functions import AggregateFunction, ReduceFunction, as_reduce_function
from flintstream.model.location import refused
from flintstream.model.queryable import Queryable
from flintstream.model.state_ttl import StateTtlConfig
from flintstream.model.typeinfo import ListTypeInfo, MapTypeInfo, PickledBytesTypeInfo, TypeInformation
from flintstream.model.types import to_type_info

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """Something kept for the current key between records."""

    @abstractmethod
    def clear(self) -> None:
        """Forget what is kept for the current key."""


class ValueState(State, Generic[T]):
    """One value for each key."""

    @abstractmethod
    def value(self) -> T | None:
        """Return the value of the current key, None if there is none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Set the value of the current key; None removes it."""


class AppendingState(State, Generic[IN, OUT]):
    """State that values are added to and something is read from."""

    @abstractmethod
    def get(self) -> OUT | None:
        """Return what was made of the added values; None, or nothing to iterate over, if there are none."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add a value for the current key."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state of which two can become one, as merging windows need."""


class ReducingState(MergingState[T, T]):
    """All added values, reduced to one as they come."""


class AggregatingState(MergingState[IN, OUT]):
    """All added values, aggregated as they come; reading gives the aggregate's result."""


class ListState(MergingState[T, Iterable[T]]):
    """A list for each key."""

    @abstractmethod
    def get(self) -> Iterable[T]:
        """Return the values of the current key in the order they were added."""

    @abstractmethod
    def update(self, values: Iterable[T]) -> None:
        """Replace the list of the current key; an empty one removes it."""

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Add all these values for the current key."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class _ReadableMap(State, Generic[K, V]):
    """What can be read from a map, keyed or broadcast."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Return the value under a map key, None if there is none."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Say whether there is a value under a map key."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Return all pairs of map key and value."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Return all map keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Return all values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Say whether there is no pair at all."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class _WritableMap(_ReadableMap[K, V]):
    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value under a map key."""

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V]) -> None:
        """Set all these pairs."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove the value under a map key, if there is one."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(_WritableMap[K, V]):
    """A map for each key."""


class ReadOnlyBroadcastState(_ReadableMap[K, V]):
    """The broadcast map as the side with the keyed records sees it: the same everywhere, not to be changed."""


class BroadcastState(ReadOnlyBroadcastState[K, V], _WritableMap[K, V]):
    """The broadcast map as the broadcast side sees it."""


class StateDescriptor:
    """The name and type of some state; equal names in one function mean the same state.

    Attributes:
        name: what the state is called in savepoints; unique within a function.
        type_info: the type of the whole state (a list for list state), or None to look at the values.
        ttl_config: how long an entry lives, or None for ever.
        queryable: under which name others may look it up while the job runs, or None if they may not.
    """

    def __init__(self, name: str, type_info: TypeInformation | None) -> None:
        if not name:
            raise refused(InvalidArgumentError, "a state descriptor has no name", "give it a name")
        self.name = name
        self.type_info = type_info
        self.ttl_config: StateTtlConfig | None = None
        self.queryable: Queryable | None = None

    def get_name(self) -> str:
        """Return the name of the state."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let entries of this state expire."""
        self.ttl_config = ttl_config

    def set_queryable(self, queryable_state_name: str, uncommitted: bool = False) -> None:
        """Let others look this state up by key while the job runs, see `QueryableStateClient`.

        With `uncommitted` they may also ask for what the running epoch has changed, which may come to nothing.
        """
        self.queryable = Queryable.of(queryable_state_name, uncommitted)

    def is_queryable(self) -> bool:
        """Say whether others may look this state up."""
        return self.queryable is not None

    def get_queryable_state_name(self) -> str | None:
        """Return the name under which others look this state up, None if they may not."""
        return None if self.queryable is None else self.queryable.name

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), self.name))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info})"


class ValueStateDescriptor(StateDescriptor):
    """Asks for a `ValueState`; the type may also be a Python one: `ValueStateDescriptor("count", int)`."""

    def __init__(self, name: str, value_type_info: TypeInformation | type[Any] | None = None) -> None:
        super().__init__(name, to_type_info(value_type_info))


class ListStateDescriptor(StateDescriptor):
    """Asks for a `ListState`."""

    def __init__(self, name: str, elem_type_info: TypeInformation | type[Any] | None = None) -> None:
        element = to_type_info(elem_type_info)
        super().__init__(name, None if element is None else ListTypeInfo(element))


class MapStateDescriptor(StateDescriptor):
    """Asks for a `MapState`, or for a broadcast one; a type given for one side only leaves the other pickled."""

    def __init__(
        self,
        name: str,
        key_type_info: TypeInformation | type[Any] | None = None,
        value_type_info: TypeInformation | type[Any] | None = None,
    ) -> None:
        key, value = to_type_info(key_type_info), to_type_info(value_type_info)
        known = key is not None or value is not None
        pickled = PickledBytesTypeInfo()
        super().__init__(name, MapTypeInfo(key or pickled, value or pickled) if known else None)


class ReducingStateDescriptor(StateDescriptor):
    """Asks for a `ReducingState`."""

    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any],
        type_info: TypeInformation | type[Any] | None = None,
    ) -> None:
        super().__init__(name, to_type_info(type_info))
        self.reduce_function = as_reduce_function(reduce_function)

    def get_reduce_function(self) -> ReduceFunction:
        """Return the function that reduces two values to one."""
        return self.reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Asks for an `AggregatingState`; the type is that of the accumulator."""

    def __init__(
        self,
        name: str,
        agg_function: AggregateFunction,
        state_type_info: TypeInformation | type[Any] | None = None,
    ) -> None:
        super().__init__(name, to_type_info(state_type_info))
        if not isinstance(cast("object", agg_function), AggregateFunction):
            what = f"state {name!r} got {agg_function!r} to aggregate with"
            raise refused(TypeMismatchError, what, "pass an AggregateFunction")
        self.agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction:
        """Return the function that aggregates values."""
        return self.agg_function
