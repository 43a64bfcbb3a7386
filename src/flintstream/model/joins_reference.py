"""What a join with reference data declares: which rows it keeps, whose function makes a result, when a side is over.

A declaration is a `Function`, so that it travels in the plan, is opened and closed like every function of the user's,
and few rooms need to know that joins exist. Apart from the operators, which the planner alone builds.

Flink: the options of its SQL joins (temporal, lookup, regular); its DataStreams have none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from flintstream.model.functions import Function, entry_point
from flintstream.model.functions_join import JoinFunction, PairUp
from flintstream.model.row import RowKind

T = TypeVar("T")
Tags = tuple[str | None, str | None]
"""A side output for each of the two sides, or none."""


@dataclass(frozen=True)
class Change(Generic[T]):
    """A result of a join whose results may be taken back: what happens, and to which value.

    Attributes:
        kind: `RowKind.INSERT`, or `RowKind.DELETE` for a result that was given before and no longer holds.
        value: the result.
    """

    kind: RowKind
    value: T


class JoinDeclaration(Function):
    """What all these joins have: which unmatched records they keep, and what they make of two records.

    `tags` are all side outputs, `late_tag` is the one of records that come too late, if none of those is dropped, and
    `unmatched` are those of left and right records that have met nothing. `goes_by_clock` says that epochs must run
    without input.
    """

    late_tag: str | None = None
    goes_by_clock = False

    def __init__(self, how: str, function: JoinFunction, unmatched: Tags = (None, None)) -> None:
        self.how = how
        self.function = function
        self.unmatched = unmatched

    @property
    def tags(self) -> tuple[str, ...]:
        """The side outputs that records may go to."""
        return tuple(tag for tag in self.unmatched if tag is not None)

    @property
    def is_custom(self) -> bool:
        """Whether a function of the user's makes the results, which may also go to side outputs."""
        return not isinstance(self.function, PairUp)

    @property
    def combine(self) -> Callable[[Any, Any], Any]:
        """What makes a result of two records, of which one may be None."""
        return entry_point(self.function, "join")

    def open(self, runtime_context: Any) -> None:
        self.function.open(runtime_context)

    def close(self) -> None:
        self.function.close()


class TemporalJoin(JoinDeclaration):
    """Joins each record with the version of its key that was valid at its time, or is the newest one known.

    Args:
        how: "inner" or "left".
        by_clock: True takes the newest version at the moment when the record comes.
        ends: Says of a version that it ends the one before, and is none itself.
        late: The side outputs of records and of versions that come too late.
    """

    def __init__(
        self,
        how: str,
        by_clock: bool,
        ends: Callable[[Any], Any] | None,
        late: Tags,
        function: JoinFunction,
        unmatched: Tags = (None, None),
    ) -> None:
        super().__init__(how, function, unmatched)
        self.by_clock, self.ends, self.late = by_clock, ends, late
        # Where one side has no output, late records of it are dropped, and the job's result must say so.
        self.late_tag = late[0] if late[1] is not None else None

    @property
    def tags(self) -> tuple[str, ...]:
        return (*super().tags, *(tag for tag in self.late if tag is not None))


class RegularJoin(JoinDeclaration):
    """Joins all records of two streams that have the same key, as long as both are kept.

    Args:
        how: "inner", "left", "right" or "full".
        ttl: For how many milliseconds a record is kept; None is for ever.
        by_clock: True counts them by the clock, False by event time.
        changes: True gives `Change`s, with unmatched records at once; False gives those when their time is over.
    """

    def __init__(
        self,
        how: str,
        ttl: int | None,
        by_clock: bool,
        changes: bool,
        function: JoinFunction,
        unmatched: Tags = (None, None),
    ) -> None:
        super().__init__(how, function, unmatched)
        self.ttl, self.changes = ttl, changes
        self.goes_by_clock = self.by_clock = by_clock and ttl is not None

    @property
    def outer(self) -> tuple[bool, bool]:
        """Whether unmatched records of the left and of the right side are results."""
        return self.how in ("left", "full"), self.how in ("right", "full")
