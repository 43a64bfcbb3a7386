"""Watermark generators that users write: they see every record of a split and say how far event time has got.

They are a file of their own because they are a contract for the user's code, while a strategy is a value.

Flink: WatermarkGenerator, WatermarkOutput and Watermark of its event-time API; PyFlink has none of them.
Differs from Flink: `on_periodic_emit` is called after every record and not by the clock. Flink does the same where
records come slower than its interval, and it makes results independent of when and in which batches records come. What
a generator has in its attributes is state: it is kept with the split, through restarts too, and so must be picklable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, order=True, slots=True)
class Watermark:
    """The statement that no record with a timestamp up to `timestamp` (in ms) will come any more."""

    timestamp: int

    def get_timestamp(self) -> int:
        """Return the timestamp in ms."""
        return self.timestamp


class WatermarkOutput(ABC):
    """What a generator tells of its split."""

    @abstractmethod
    def emit_watermark(self, watermark: Watermark | int) -> None:
        """Raise the split's watermark, which never goes back, and make the split active."""

    @abstractmethod
    def mark_idle(self) -> None:
        """Leave the split out of the minimum until its next watermark."""

    @abstractmethod
    def mark_active(self) -> None:
        """Count the split again, at the watermark it had."""


class WatermarkGenerator(ABC):
    """Makes the watermarks of one split: periodic, punctuated or both. Every split has one of its own.

    Example:
        >>> class Punctuated(WatermarkGenerator):
        ...     def on_event(self, event, timestamp, output):
        ...         if event["last_of_its_second"]:
        ...             output.emit_watermark(timestamp)
    """

    @abstractmethod
    def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
        """Called for every record, after it was sent on: remember its timestamp, or emit a watermark at once."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Called after every record's `on_event`; may emit a watermark."""


GeneratorSupplier: TypeAlias = Callable[[], WatermarkGenerator]
"""What makes the generator of a split: a class, or a function without arguments."""
