"""No record is lost without a word: in = taken + late + dropped, for every operator that event time can close.

`taken` is what its results show, `late` what came too late and `dropped` what belongs to no window; the manifest has
the two last ones by operator, and side outputs have exactly the late records.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import CollectSink, DataStream, OutputTag, bounded, calendar, count, session, sliding, tumbling
from tests.capabilities.support import Epochs, Lists, StopAfter, StoppedOnPurpose
from tests.laws.programs import Merged
from tests.laws.runs import Life
from tests.laws.test_batching_law import SPLITS, law, local_env, numbered

pytestmark = pytest.mark.timeout(900)
LATE = OutputTag("late")
Declare = Callable[[DataStream], DataStream]
Count = Callable[[list[Any]], int]


def in_windows(results: list[Any]) -> int:
    """Count the records in windows; each is in one, and a window fires once."""
    return len({n for _, _, _, numbers, _ in results for n in numbers})


def windows(assigner: Any) -> Declare:
    return lambda s: s.key_by("key").window(assigner).side_output_late_data(LATE).process(Merged())


def in_rows(results: list[Any]) -> int:
    return sum(row.n for row in results)


def columns(assigner: Any) -> Declare:
    return lambda s: s.key_by("key").window(assigner).late(LATE).agg(n=count())


KINDS: list[tuple[str, Declare, Count]] = [
    ("tumbling", windows(tumbling("10ms")), in_windows),
    ("lateness", lambda s: s.key_by("key").window(tumbling("10ms")).late(LATE).allowed_lateness(3).process(Merged()),
     in_windows),
    ("sliding", windows(sliding("9ms", "3ms")), in_windows),
    ("apart", windows(sliding("3ms", "5ms")), in_windows),
    ("session", windows(session("4ms")), in_windows),
    ("calendar", windows(calendar("day", "Europe/Berlin")), in_windows),
    ("columns", columns(tumbling("10ms")), in_rows),
    ("columns apart", columns(sliding("3ms", "5ms")), in_rows),
    ("columns of sessions", columns(session("4ms")), in_rows),
    ("sorted", lambda s: s.key_by("key").sort_by_event_time(late=LATE), len),
    ("sorted as a whole", lambda s: s.sort_by_event_time(late=LATE), len),
]  # fmt: skip


@pytest.mark.parametrize(("declare", "taken"), [pytest.param(*rest, id=name) for name, *rest in KINDS])
@law(10)
@given(splits=SPLITS, bound=st.integers(0, 12), lives=st.lists(st.builds(
    Life, st.integers(1, 30), st.integers(1, 3), st.integers(1, 3)), max_size=2))  # fmt: skip
def test_what_goes_in_comes_out_or_is_late_or_is_dropped(declare, taken, splits, bound, lives):
    records = numbered(splits)
    main, late, epochs = CollectSink(), CollectSink(), Epochs()
    with tempfile.TemporaryDirectory() as folder:
        for life in [*lives, Life(9, 2)]:
            env = local_env(life.parallelism, max_records=life.max_records, checkpoint_dir=folder)
            stream = env.from_source(Lists(*records), watermark=bounded(bound, on="ts")).uid("source")
            results = declare(stream).uid("counted")
            results.sink_to(main)
            results.get_side_output(LATE).sink_to(late)
            env.add_listener(epochs)
            if life.stop_after is not None:
                env.add_listener(StopAfter(life.stop_after))
            try:
                result = env.execute("law")
                break
            except StoppedOnPurpose:
                continue
    came = sum(map(len, records))
    gone = epochs.counts("counted", "late")
    assert epochs.counts("counted", "in") == came
    assert came == taken(main.results) + gone + epochs.counts("counted", "dropped")
    assert gone == len(late.results) == result.get_accumulator_result("counted").get("late", 0)
    assert (f"{gone} late records in 'counted'" in str(result)) == bool(gone)
