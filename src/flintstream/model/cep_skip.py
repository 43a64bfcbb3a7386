"""What happens to overlapping matches when one was found: after-match skip strategies, as values.

Apart from `cep.py` because the automaton obeys them and a pattern only carries one.

Flink: org.apache.flink.cep.nfa.aftermatch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from flintstream.errors import DefinitionError, InvalidArgumentError
from flintstream.model.location import refused


class SkipKind(Enum):
    """Which partial matches a match ends; that of the strategy with the same name."""

    NO_SKIP = "no skip"
    TO_NEXT = "skip to next"
    PAST_LAST_EVENT = "skip past last event"
    TO_FIRST = "skip to first"
    TO_LAST = "skip to last"


@dataclass(frozen=True)
class AfterMatchSkipStrategy:
    """Says which partial matches end when a match is found; make one by the static methods."""

    kind: SkipKind = SkipKind.NO_SKIP
    pattern_name: str | None = None
    throws_on_miss: bool = False

    @staticmethod
    def no_skip() -> AfterMatchSkipStrategy:
        """Give all matches."""
        return AfterMatchSkipStrategy()

    @staticmethod
    def skip_to_next() -> AfterMatchSkipStrategy:
        """End every partial match that began with the same record."""
        return AfterMatchSkipStrategy(SkipKind.TO_NEXT)

    @staticmethod
    def skip_past_last_event() -> AfterMatchSkipStrategy:
        """End every partial match that began before the match ended."""
        return AfterMatchSkipStrategy(SkipKind.PAST_LAST_EVENT)

    @staticmethod
    def skip_to_first(pattern_name: str) -> AfterMatchSkipStrategy:
        """End every partial match that began before the first record of this stage."""
        return AfterMatchSkipStrategy(SkipKind.TO_FIRST, pattern_name)

    @staticmethod
    def skip_to_last(pattern_name: str) -> AfterMatchSkipStrategy:
        """End every partial match that began before the last record of this stage."""
        return AfterMatchSkipStrategy(SkipKind.TO_LAST, pattern_name)

    def throw_exception_on_miss(self) -> AfterMatchSkipStrategy:
        """Fail the job if a match has no record of the stage to skip to, or begins with it."""
        if self.pattern_name is None:
            what = f"{self.kind.value!r} skips to no stage, so none can be missed"
            raise refused(DefinitionError, what, "use it with skip_to_first(...) or skip_to_last(...)")
        return replace(self, throws_on_miss=True)

    def check(self, names: set[str]) -> None:
        """Raise if the stage to skip to is none of a pattern's."""
        if self.pattern_name is not None and self.pattern_name not in names:
            what = f"the pattern has no stage {self.pattern_name!r} to skip to"
            raise refused(InvalidArgumentError, what, f"name one of {', '.join(sorted(names))}")
