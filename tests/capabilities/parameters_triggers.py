"""Parameters of triggers that can be combined."""

from __future__ import annotations

from typing import Any

from flintstream import after, after_count, after_watermark, each, every, monotonous, never, on, tumbling
from tests.capabilities.parameters import Bench, case
from tests.capabilities.parameters_windows import Total, keyed, numbers
from tests.capabilities.support import collect


def fired(bench: Bench, trigger: Any, *stamps: int) -> list[Any]:
    """Return the records of each pane, where each shows only what is new."""
    windows = keyed(bench, *(stamps or (1, 2, 3, 4, 15, 5, 40))).allowed_lateness("10ms")
    return [values for _, values in numbers(bench, windows.trigger(trigger).discarding())]


def fires_by_clock(bench: Bench, trigger: Any) -> bool:
    """Say whether a window of an hour fires while records come for a third of a second."""
    records = bench.env().generate(generator=lambda i: {"n": i}, count=30, rate=90, splits=1, watermark=INDEX)
    return bool(collect(records.key_by(lambda record: "k").window(tumbling("1h")).trigger(trigger).aggregate(Total())))


INDEX = monotonous(on="n")
case(
    "after_count.count",
    lambda b, n: fired(b, after_count(n)),
    (2, [[1, 2], [3, 4]]),
    (3, [[1, 2, 3]]),
)
case(
    "on.predicate",
    lambda b, n: fired(b, on(lambda record: record["n"] == n)),
    (2, [[1, 2]]),
    (15, [[15]]),
)
case(
    "every.event_time",
    lambda b, yes: fired(b, every("2ms", event_time=yes), 1, 4, 5, 6),
    (True, [[1, 4], [5, 6]]),
    (False, []),
)
case(
    "after_watermark.early",
    lambda b, early: fired(b, after_watermark(early)),
    (None, [[1, 2, 3, 4], [5], [15], [40]]),
    (after_count(3), [[1, 2, 3], [4], [5], [15], [40]]),
)
case(
    "after_watermark.late",
    lambda b, late: fired(b, after_watermark(late=late)),
    (each(), [[1, 2, 3, 4], [5], [15], [40]]),
    (never(), [[1, 2, 3, 4], [15], [40]]),
)
case(
    "every.interval",
    lambda b, interval: fires_by_clock(b, every(interval)),
    ("50ms", True),
    ("1 day", False),
)
case(
    "after.delay",
    lambda b, delay: fires_by_clock(b, after(delay)),
    ("50ms", True),
    ("1 day", False),
)
