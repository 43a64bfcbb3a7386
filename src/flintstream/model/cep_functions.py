"""Functions that get matches.

Apart from the other functions because only pattern streams take them. As everywhere, what a function yields goes
downstream, and a yielded pair `tag, value` goes to the side output of that tag.

Flink: PatternProcessFunction, PatternSelectFunction and their kin of org.apache.flink.cep.
Differs from Flink: what is yielded for a partial match that timed out may go downstream too, not to side outputs only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flintstream.errors import TypeMismatchError, describe
from flintstream.model.functions import Function
from flintstream.model.tags import OutputTag

Match = dict[str, list[Any]]
"""The records of a match by stage, in the order in which they were taken."""


class PatternProcessFunction(Function):
    """Turns each match into any number of records."""

    class Context(ABC):
        """What is known about a match besides its records."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the time of the match in ms: that of its last record, or of the moment it timed out."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the time of the clock in ms."""

    @abstractmethod
    def process_match(self, match: Match, ctx: PatternProcessFunction.Context) -> Any:
        """Called for every match; what is yielded goes downstream."""


class TimedOutPartialMatchHandler(ABC):
    """Makes a PatternProcessFunction that extends it also see the partial matches that timed out."""

    @abstractmethod
    def process_timed_out_match(self, match: Match, ctx: PatternProcessFunction.Context) -> Any:
        """Called for every partial match that `within` has ended; what is yielded goes downstream."""


class PatternSelectFunction(Function):
    """Turns each match into one record."""

    @abstractmethod
    def select(self, match: Match) -> Any:
        """Called for every match; the result goes downstream."""


class PatternFlatSelectFunction(Function):
    """Turns each match into any number of records."""

    @abstractmethod
    def flat_select(self, match: Match) -> Any:
        """Called for every match; every item of the returned iterable goes downstream."""


class PatternTimeoutFunction(Function):
    """Turns each partial match that timed out into one record."""

    @abstractmethod
    def timeout(self, match: Match, timeout_timestamp: int) -> Any:
        """Called for every partial match that `within` has ended, at that time; the result goes to a side output."""


class PatternFlatTimeoutFunction(Function):
    """Turns each partial match that timed out into any number of records."""

    @abstractmethod
    def timeout(self, match: Match, timeout_timestamp: int) -> Any:
        """Called for every partial match that `within` has ended; every item returned goes to a side output."""


@dataclass(frozen=True)
class NearMiss:
    """A partial match that came to nothing.

    Attributes:
        match: what it had taken.
        pattern: the stage that it waited for, or that forbade what came.
        reason: "condition" if a record came that it could neither take nor leave out, "not" if one came that a
            `not_next` or `not_followed_by` forbids, "timeout", or "skipped" if another match ended it.
        event: the record that ended it, None at a timeout.
    """

    match: Match
    pattern: str
    reason: str
    event: Any = None


class Selection(PatternProcessFunction):
    """`select` and `flat_select` as a PatternProcessFunction: gives the results of one function per match."""

    def __init__(self, function: Function | None, call: Callable[[Match], Any], is_flat: bool) -> None:
        self.functions = [] if function is None else [function]
        self._call, self._is_flat = call, is_flat

    def open(self, runtime_context: Any) -> None:
        for function in self.functions:
            function.open(runtime_context)

    def close(self) -> None:
        for function in self.functions:
            function.close()

    def process_match(self, match: Match, ctx: PatternProcessFunction.Context) -> Any:
        result = self._call(match)
        return result if self._is_flat else (result,)


class TimedSelection(Selection, TimedOutPartialMatchHandler):
    """The same, and gives to a side output what another function makes of partial matches that timed out."""

    def __init__(self, selection: Selection, timeout: Selection, tag: OutputTag) -> None:
        super().__init__(None, selection._call, selection._is_flat)
        self.functions = [*selection.functions, *timeout.functions]
        self._timeout, self._timeout_is_flat, self._tag = timeout._call, timeout._is_flat, tag

    def process_timed_out_match(self, match: Match, ctx: PatternProcessFunction.Context) -> Any:
        timeout: Callable[..., Any] = self._timeout
        result = timeout(match, ctx.timestamp())
        for each in (result or ()) if self._timeout_is_flat else (result,):
            yield self._tag, each


def user_functions(function: PatternProcessFunction | None) -> list[Function]:
    """Return the user's own objects behind a function."""
    if isinstance(function, Selection):
        return function.functions
    return [] if function is None else [function]


def as_selection(function: Any, kind: type[Function], method: str, is_flat: bool) -> Selection:
    """Read a function of a match: an object of the class, or a plain function."""
    if isinstance(function, kind):
        return Selection(function, getattr(function, method), is_flat)
    if isinstance(function, type | Function) or not callable(function):
        what = f"{function!r:.100} is not a {kind.__name__}"
        raise TypeMismatchError(describe(what, remedy=f"pass a {kind.__name__}, or a function"))
    return Selection(None, function, is_flat)
