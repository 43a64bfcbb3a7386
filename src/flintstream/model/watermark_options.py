"""What a watermark strategy can be told besides its bound: a bound that is learned, a group, a range of time.

Values only, apart from the strategy that carries them, each with its own check.
"""

from __future__ import annotations

from dataclasses import dataclass

from flintstream.errors import InvalidArgumentError
from flintstream.model.location import refused


@dataclass(frozen=True, slots=True)
class LearnedBound:
    """A bound that follows the lateness of the records seen.

    Attributes:
        target: the share of records that shall be on time.
        most_ms: the bound never grows beyond this, or None.
        half_life: after how many records of a split one counts half.
    """

    target: float = 0.999
    most_ms: int | None = None
    half_life: int = 10_000

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            what = f"a share of {self.target} of all records cannot be aimed at"
            raise refused(InvalidArgumentError, what, "give a number between 0 and 1, such as 0.999")
        if self.most_ms is not None and self.most_ms < 0:
            what = f"records cannot be out of order by {self.most_ms} ms"
            raise refused(InvalidArgumentError, what, "give 0 ms or more")
        if self.half_life < 1:
            what = f"lateness cannot be forgotten within {self.half_life} records"
            raise refused(InvalidArgumentError, what, "give a half_life of 1 record or more")


@dataclass(frozen=True, slots=True)
class WatermarkAlignment:
    """Splits of a group are not read on while they are more than `drift_ms` ahead of the slowest one.

    `update_interval_ms` is what a program asked for; alignment is looked at before every epoch.
    """

    group: str
    drift_ms: int
    update_interval_ms: int | None = None

    def __post_init__(self) -> None:
        if not self.group:
            raise refused(InvalidArgumentError, "the alignment group has no name", "name one")
        if self.drift_ms <= 0:
            what = f"a watermark drift of {self.drift_ms} ms is not positive"
            raise refused(InvalidArgumentError, what, "give 1 ms or more")


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Event times from `start` to before `end`; None is open."""

    start: int | None = None
    end: int | None = None

    def __post_init__(self) -> None:
        if self.start is None and self.end is None:
            raise refused(InvalidArgumentError, "the range of time has no border", "give a start or an end")
        if self.start is not None and self.end is not None and self.start >= self.end:
            what = f"the range of time from {self.start} to {self.end} is empty"
            raise refused(InvalidArgumentError, what, "give a start before the end")
