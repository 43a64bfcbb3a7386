"""State that stays small however much is added to it: a sample, a number of distinct values, quantiles, the commonest.

Separate from `state.py` because these answer approximately, by a bound that their descriptor sets, and take no more
space than that bound needs. What they answer depends on the records of a key and their order alone: neither on how the
input was cut into epochs, nor on restarts, nor on parallelism.

Differs from Flink: it has no such state; there one keeps a sketch in value state and writes its serializer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from flintstream.errors import InvalidArgumentError, UnsupportedError, describe
from flintstream.model.location import refused
from flintstream.model.state import MergingState, StateDescriptor
from flintstream.model.state_ttl import StateTtlConfig

IN = TypeVar("IN")
OUT = TypeVar("OUT")
T = TypeVar("T")
S = TypeVar("S", bound="SummaryState[Any, Any]", covariant=True)

_MOST_ERROR, _LEAST_ERROR = 0.2, 0.001


class SummaryState(MergingState[IN, OUT]):
    """A summary of the values added for the current key, in bounded space."""

    @abstractmethod
    def count(self) -> int:
        """Return how many values were added."""

    @abstractmethod
    def to_bytes(self) -> bytes | None:
        """Return the summary to be sent elsewhere and merged there; None if nothing was added."""

    @abstractmethod
    def merge(self, summary: bytes | None) -> None:
        """Add what another summary of the same kind and settings has seen; None is an empty one."""


class ReservoirState(SummaryState[T, list[T]]):
    """A uniform random sample of the added values; which ones is decided by a hash, so a replay chooses alike."""

    @abstractmethod
    def get(self) -> list[T]:
        """Return the sampled values, in no particular order; all of them while they are no more than `size`."""


class DistinctCountState(SummaryState[Any, int]):
    """About how many different values were added; equal as `==` sees it, so `1` and `1.0` are one."""

    @abstractmethod
    def get(self) -> int:
        """Return the estimate, 0 if nothing was added."""


class QuantilesState(SummaryState[float, tuple[float, ...]]):
    """About which values have a given share of the added ones below them; most exact at both ends."""

    @abstractmethod
    def get(self) -> tuple[float, ...] | None:
        """Return the descriptor's quantiles, None if nothing was added."""

    @abstractmethod
    def quantile(self, share: float) -> float | None:
        """Return the value below which a share (0 to 1) of the added ones is, None if nothing was added."""

    @abstractmethod
    def rank(self, value: float) -> float | None:
        """Return the share of added values below `value`, None if nothing was added."""


class TopKState(SummaryState[T, list[tuple[T, int]]]):
    """About which values were added most often, and how often."""

    @abstractmethod
    def get(self) -> list[tuple[T, int]]:
        """Return at most `k` pairs of value and count, the commonest first; no count is too small."""

    @abstractmethod
    def error(self) -> int:
        """Return by how much a count may be too great; what was added no more often may be missing."""


class SummaryStateDescriptor(StateDescriptor, Generic[S]):
    """Asks for a summary by `runtime_context.get_summary_state(descriptor)`."""

    def __init__(self, name: str) -> None:
        super().__init__(name, None)

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Refuse: a summary cannot tell what of it is old."""
        what = f"the summary {self.name!r} was given a time to live, and cannot tell what of it is old"
        raise UnsupportedError(describe(what, None, "clear it by a timer, or keep one summary for each window"))

    def settings(self) -> tuple[Any, ...]:
        """Return what two summaries must agree on to be merged, or to be restored."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {', '.join(map(repr, self.settings()))})"


def _refuse(name: str, what: str, remedy: str) -> InvalidArgumentError:
    return refused(InvalidArgumentError, f"the summary {name!r} {what}", remedy)


class ReservoirStateDescriptor(SummaryStateDescriptor[ReservoirState[Any]]):
    """Asks for a `ReservoirState`.

    Args:
        name: what the state is called.
        size: how many values are kept for each key.
        seed: another seed chooses other values.
    """

    def __init__(self, name: str, size: int, seed: int = 0) -> None:
        super().__init__(name)
        if size < 1:
            raise _refuse(name, f"is a sample of {size} values", "sample at least one")
        self.size = size
        self.seed = seed

    def settings(self) -> tuple[Any, ...]:
        return self.size, self.seed


class DistinctCountStateDescriptor(SummaryStateDescriptor[DistinctCountState]):
    """Asks for a `DistinctCountState`: HyperLogLog, which takes about 1 / relative_error² bytes for each key.

    Args:
        name: what the state is called.
        relative_error: the standard error of the estimate, as a share of it.
    """

    def __init__(self, name: str, relative_error: float = 0.02) -> None:
        super().__init__(name)
        if not _LEAST_ERROR <= relative_error <= _MOST_ERROR:
            what = f"has a relative error of {relative_error}"
            raise _refuse(name, what, f"give one from {_LEAST_ERROR} to {_MOST_ERROR}, such as 0.02")
        self.relative_error = relative_error

    def settings(self) -> tuple[Any, ...]:
        return (self.relative_error,)


class QuantilesStateDescriptor(SummaryStateDescriptor[QuantilesState]):
    """Asks for a `QuantilesState`: a t-digest, which takes some 20 * compression bytes for each key, and 2 kB.

    Args:
        name: what the state is called.
        quantiles: those that `get` returns, as shares from 0 to 1.
        compression: how many pieces the values are summed up in; the share below a result is wrong by up to some
            4 / compression in the middle, and by far less at both ends.
    """

    def __init__(self, name: str, quantiles: Sequence[float] = (0.5, 0.95, 0.99), compression: int = 200) -> None:
        super().__init__(name)
        for share in quantiles:
            if not 0.0 <= share <= 1.0:
                raise _refuse(name, f"has a quantile {share}", "give shares from 0 to 1, such as 0.99")
        if not 10 <= compression <= 10_000:
            raise _refuse(name, f"has a compression of {compression}", "give one from 10 to 10,000, such as 200")
        self.quantiles = tuple(quantiles)
        self.compression = compression

    def settings(self) -> tuple[Any, ...]:
        return (self.compression,)


class TopKStateDescriptor(SummaryStateDescriptor[TopKState[Any]]):
    """Asks for a `TopKState`; values must be hashable.

    Args:
        name: what the state is called.
        k: how many values `get` returns.
        capacity: how many are watched for each key; a value that is more than 2 / capacity of all is never missed.
            Without it, 16 * k.
    """

    def __init__(self, name: str, k: int = 10, capacity: int | None = None) -> None:
        super().__init__(name)
        capacity = 16 * k if capacity is None else capacity
        if k < 1 or capacity < k:
            what = f"watches {capacity} values to give the {k} commonest"
            raise _refuse(name, what, "let k be at least 1, and capacity several times k")
        self.k = k
        self.capacity = capacity

    def settings(self) -> tuple[Any, ...]:
        return (self.capacity,)
