"""Panes: the results that one window gives one after another, and what each says about itself.

Apart from triggers because a trigger says when a pane is over, and not what becomes of the one before.

Flink: none beyond FIRE and FIRE_AND_PURGE; the model is that of Beam (PaneInfo, accumulation modes).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class PaneTiming(Enum):
    """Where the watermark stood when a pane fired.

    EARLY: before the end of the window; for windows without an end until the input ends. ON_TIME: at the moment when it
    passed the end. LATE: after that, be it for a late record or for the trigger's sake. For windows of processing time
    that clock is meant.
    """

    EARLY = "EARLY"
    ON_TIME = "ON_TIME"
    LATE = "LATE"


class PaneMode(Enum):
    """What a pane has to do with those before it."""

    ACCUMULATING = "accumulating"
    DISCARDING = "discarding"
    RETRACTING = "retracting"


@dataclass(frozen=True)
class Panes:
    """What a stream declares of its windows' panes: the mode, and whether results are emitted as `Pane`s."""

    mode: PaneMode = PaneMode.ACCUMULATING
    shown: bool = False


@dataclass(frozen=True)
class PaneInfo:
    """Which of a window's panes this is.

    Attributes:
        timing: EARLY, ON_TIME or LATE.
        number: counts the panes of a window from 0; in a window that others became it goes on from the highest. A
            window without an end starts anew when it is purged.
        last: True if no pane can follow, since the window goes away at the same moment: the pane on time, if no
            lateness is allowed. False promises nothing.
        is_retraction: the result is one that the window gave before, and is to be taken back.
    """

    timing: PaneTiming
    number: int
    last: bool = False
    is_retraction: bool = False

    @property
    def first(self) -> bool:
        """Whether it is the first pane of its window."""
        return self.number == 0


@dataclass(frozen=True)
class Pane(Generic[T]):
    """A result of a window together with its pane and its window; see `with_pane()`."""

    value: T
    info: PaneInfo
    window: Any
