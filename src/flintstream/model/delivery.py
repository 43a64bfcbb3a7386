"""How often a record shows in a sink after failures, and whether it shows before its epoch is committed.

Two words that a user chooses for each sink, or for a whole job. They are values apart from sinks because the planner
weighs them, sinks declare them, and users type them.

Flink: org.apache.flink.connector.base.DeliveryGuarantee. Differs from Flink: there is AT_MOST_ONCE, and an isolation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from flintstream.errors import InvalidArgumentError
from flintstream.model.location import refused

E = TypeVar("E", bound=Enum)


class DeliveryGuarantee(Enum):
    """EXACTLY_ONCE, AT_LEAST_ONCE (doubled by a failure), AT_MOST_ONCE (lost by one), or NONE (lost or doubled)."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"
    NONE = "none"

    @staticmethod
    def of(given: DeliveryGuarantee | str) -> DeliveryGuarantee:
        """Return a guarantee that was given as one or by its name."""
        return _read(DeliveryGuarantee, "guarantee", given)

    def weaker(self, other: DeliveryGuarantee) -> DeliveryGuarantee:
        """Return what is left if records pass both: where one may lose and the other may double, nothing is."""
        known = {self, other} - {DeliveryGuarantee.EXACTLY_ONCE}
        if not known:
            return DeliveryGuarantee.EXACTLY_ONCE
        return known.pop() if len(known) == 1 else DeliveryGuarantee.NONE


class Isolation(Enum):
    """Whether a sink's readers see only what is committed, or also what a failure may take back or repeat."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"

    @staticmethod
    def of(given: Isolation | str) -> Isolation:
        """Return an isolation that was given as one or by its name."""
        return _read(Isolation, "isolation", given)


def _read(kind: type[E], word: str, given: Any) -> E:
    if isinstance(given, kind):
        return given
    by_name = {text: each for each in kind for text in (each.value, each.name)}
    found = by_name.get(given) if isinstance(given, str) else None
    if found is None:
        names = ", ".join(repr(each.value) for each in kind)
        raise refused(InvalidArgumentError, f"there is no {word} {given!r:.100}", f"use one of {names}")
    return found


@dataclass(frozen=True, slots=True)
class Delivery:
    """One way in which a sink can work."""

    guarantee: DeliveryGuarantee
    isolation: Isolation = Isolation.READ_COMMITTED

    @property
    def is_early(self) -> bool:
        """Whether readers see output before its epoch is committed."""
        return self.isolation is Isolation.READ_UNCOMMITTED

    @property
    def is_repeated(self) -> bool:
        """Whether a job that starts again publishes its last epoch once more: all but at-most-once need that."""
        return self.guarantee is not DeliveryGuarantee.AT_MOST_ONCE

    def __str__(self) -> str:
        return f"{self.guarantee.value}, {self.isolation.value}"


EXACTLY_ONCE = Delivery(DeliveryGuarantee.EXACTLY_ONCE)
"""Staged while the epoch runs, published after its commit, and again after a crash, which changes nothing."""
EAGER = Delivery(DeliveryGuarantee.EXACTLY_ONCE, Isolation.READ_UNCOMMITTED)
"""Shown before the commit, and taken back if that never comes."""
AT_LEAST_ONCE = Delivery(DeliveryGuarantee.AT_LEAST_ONCE)
"""Published after the commit, and once more after a crash."""
DIRECT = Delivery(DeliveryGuarantee.AT_LEAST_ONCE, Isolation.READ_UNCOMMITTED)
"""Shown before the commit, and never taken back."""
AT_MOST_ONCE = Delivery(DeliveryGuarantee.AT_MOST_ONCE)
"""Published after the commit, once: a crash between the two loses an epoch's output."""
NO_GUARANTEE = Delivery(DeliveryGuarantee.NONE, Isolation.READ_UNCOMMITTED)
