"""Panes and trigger expressions as declared on windowed streams."""

from __future__ import annotations

import pytest

from flintstream import (
    ContinuousProcessingTimeTrigger,
    ProcessAllWindowFunction,
    PurgingTrigger,
    Types,
    after_count,
    after_watermark,
    count,
    each,
    every,
    monotonous,
    tumbling,
)
from flintstream.errors import DefinitionError
from flintstream.planner.time_domains import uses_processing_time


def timed(env, *stamps):
    records = [{"id": "k", "n": stamp} for stamp in stamps]
    return env.from_collection(records).assign_timestamps_and_watermarks(monotonous(on="n"))


def windows(env, *stamps):
    return timed(env, *stamps).key_by("id").window(tumbling("10ms"))


def test_built_in_aggregates_come_in_panes(env):
    paned = windows(env, 1, 2, 3, 12).trigger(after_watermark(early=after_count(2))).with_pane().agg(n=count())
    panes = list(paned.execute_and_collect())
    assert [(pane.info.timing.name, pane.value.n) for pane in panes] == [("EARLY", 2), ("ON_TIME", 3), ("ON_TIME", 1)]


class Numbered(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield context.pane().number, len(list(elements))


def test_windows_of_a_whole_stream_have_panes(env):
    paned = timed(env, 1, 2, 3).window_all(tumbling("10ms")).trigger(each()).discarding().process(Numbered())
    assert list(paned.execute_and_collect()) == [(0, 1), (1, 1), (2, 1)]


def test_the_mode_and_with_pane_can_be_said_in_any_order(env):
    for declare in (lambda w: w.with_pane().discarding(), lambda w: w.discarding().with_pane()):
        panes = declare(windows(env, 1, 2).trigger(each())).reduce(lambda x, y: x).execute_and_collect()
        assert [(pane.value["n"], pane.info.number) for pane in panes] == [(1, 0), (2, 1)]


@pytest.mark.parametrize("declare", [lambda w: w.with_pane(), lambda w: w.retracting()])
def test_an_output_type_does_not_go_with_panes(env, declare):
    with pytest.raises(DefinitionError, match=r"its records are Panes; test_panes\.py:\d+; leave output_type out"):
        declare(windows(env, 1)).reduce(lambda x, y: x, output_type=Types.INT())


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        (every("1s"), True),
        (after_watermark(early=every("1s")), True),
        (each() | ContinuousProcessingTimeTrigger.of("1s"), True),
        (PurgingTrigger.of(ContinuousProcessingTimeTrigger.of("1s")), True),
        (PurgingTrigger.of(every("1s")), True),
        (after_watermark(early=after_count(2)), False),
        (each() | PurgingTrigger.of(each()), False),
    ],
)
def test_epochs_run_without_input_only_for_triggers_that_go_by_the_clock(env, trigger, expected):
    windows(env, 1).trigger(trigger).reduce(lambda x, y: x).print()
    assert uses_processing_time(env.compile()) is expected
