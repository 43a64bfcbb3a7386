"""A value of state with the time it was last touched: what state that expires consists of.

A type of its own, not a plain pair, so that values say of themselves whether they expire: columns, local disk and
merged changelogs need not know, and a program that gives state a time to live, or takes it away, can tell what it
finds.
"""

from __future__ import annotations

from typing import Any


class Stamped(tuple[Any, ...]):
    """`(value, stamp)`; the stamp is in ms of the clock by which the value expires."""

    __slots__ = ()
