"""How late it is in event time, for code of the user that runs now: at a record, or at a timer.

State that expires asks at every read. Operators keep what they know where their loops put it anyway, and a moment looks
it up there, so that programs without such state pay nothing.

At a record it is as late as the watermark says. At a timer it is as late as the timer's own time, not as the watermark
that made it fire: a coarse watermark, or the end of the input, passes many timers at once, and each must find the state
that it would have found if event time had stopped at it.
"""

from __future__ import annotations

from typing import Protocol

from flintstream.ops.batch import NO_TIMESTAMP, Batch


class Moment(Protocol):
    """What an operator knows of event time while the user's code runs in it."""

    def now(self) -> int:
        """Return how far event time has come; within one key it never goes back."""
        ...

    def stamp(self) -> int:
        """Return the timestamp of the record or the event timer; what has none is as old as `now`."""
        ...


class RecordMoment:
    """The moment of operators without timers: they stand at record `index` of a batch."""

    __slots__ = ("batch", "index")

    def __init__(self) -> None:
        self.batch: Batch | None = None
        self.index = 0

    def now(self) -> int:
        assert self.batch is not None and self.batch.watermarks is not None
        return int(self.batch.watermarks[self.index])

    def stamp(self) -> int:
        assert self.batch is not None
        timestamp = int(self.batch.timestamps[self.index])
        return self.now() if timestamp == NO_TIMESTAMP else timestamp
