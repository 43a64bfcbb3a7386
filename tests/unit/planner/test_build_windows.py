from __future__ import annotations

from typing import Any

import pytest

from flintstream.graph.nodes import WindowNode
from flintstream.model.assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from flintstream.model.evictors import CountEvictor
from flintstream.model.functions import AggregateFunction
from flintstream.model.panes import Panes
from flintstream.model.triggers import CountTrigger, EventTimeTrigger
from flintstream.ops.window import WindowOperator
from flintstream.ops.window_aligned import AlignedWindowOperator
from flintstream.ops.window_evict import EvictingWindowOperator
from flintstream.planner.build import build_operator
from flintstream.planner.plan import PlannedOperator
from tests.unit.ops.window_harness import END, Record, Total, Watermark, WindowHarness

TUMBLING = TumblingEventTimeWindows(10)


def node(**rest: Any) -> WindowNode:
    return WindowNode(1, "window", "job.py:1", **{"assigner": TUMBLING, "aggregate": Total(), **rest})


def built(**rest: Any) -> Any:
    return build_operator(PlannedOperator(node(**rest), "uid", 1, 1, frozenset(), "python", 3))


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ({}, AlignedWindowOperator),
        ({"trigger": EventTimeTrigger()}, AlignedWindowOperator),
        ({"assigner": SlidingEventTimeWindows(10, 5)}, AlignedWindowOperator),
        ({"assigner": SlidingEventTimeWindows(10, 3)}, WindowOperator),
        ({"assigner": EventTimeSessionWindows(10)}, WindowOperator),
        ({"trigger": CountTrigger(2)}, WindowOperator),
        ({"panes": Panes()}, WindowOperator),
        ({"evictor": CountEvictor(2)}, EvictingWindowOperator),
    ],
)
def test_a_window_runs_the_shortest_way_it_can(declared: Any, kind: type) -> None:
    assert type(built(**declared)) is kind


@pytest.mark.parametrize("declared", [{}, {"trigger": CountTrigger(1)}, {"evictor": CountEvictor(9)}])
def test_lateness_and_its_side_output_reach_the_operator(declared: Any) -> None:
    harness = WindowHarness(lambda: built(allowed_lateness_ms=5, late_tag="late", **declared))
    harness.feed(Watermark(13), Record("a", 1, 2), Watermark(14), Record("a", 2, 2), END)
    assert harness.values() == [(1, 1)]
    assert harness.values("late") == [2]


def test_each_subtask_has_a_function_of_its_own() -> None:
    class Opened(Total):
        count = 0

        def open(self, runtime_context: Any) -> None:
            self.count += 1

    function: AggregateFunction = Opened()
    for _ in range(2):
        WindowHarness(lambda: built(aggregate=function))
    assert function.count == 0
