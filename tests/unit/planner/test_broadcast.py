"""Where operators with broadcast state stand: behind both inputs, and in batch mode behind all broadcast records."""

from __future__ import annotations

import pytest

from flintstream.graph.nodes import BroadcastNode
from flintstream.model.functions_broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from flintstream.model.state import MapStateDescriptor
from flintstream.ops.broadcast import BroadcastProcessOperator, KeyedBroadcastOperator
from flintstream.planner.build import build_operator
from flintstream.planner.compile import Settings, compile_graph
from tests.unit.graphs import Input, Sketch, by, by_key, levels, links


class Plain(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        pass

    def process_broadcast_element(self, value, ctx):
        pass


class Keyed(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        pass

    def process_broadcast_element(self, value, ctx):
        pass


def both(sketch: Sketch, stream: Input, rules: Input, shape: str = "broadcast") -> int:
    function = Keyed() if shape == "keyed_broadcast" else Plain()
    states = (MapStateDescriptor("rules"),)
    return sketch.add(BroadcastNode, "Both", stream, rules, shape=shape, function=function, states=states)


def test_a_stream_that_stays_where_it_is_crosses_once() -> None:
    sketch = Sketch()
    events, rules = sketch.source(), sketch.source()
    checked = both(sketch, events, by(rules, "BROADCAST"))
    sink = sketch.sink(checked)
    plan = sketch.plan()
    assert levels(plan) == {events: 0, rules: 0, checked: 1, sink: 1}
    assert links(plan)[:2] == [(events, checked, "FORWARD", 1), (rules, checked, "BROADCAST", 2)]


def test_behind_an_exchange_it_has_a_level_of_its_own() -> None:
    """Were it in the level of the stream's last operator, that would hand records over before they are in order."""
    sketch = Sketch()
    events, rules = sketch.source(), sketch.source()
    counted = sketch.function(by_key(events), shape="keyed_process")
    checked = both(sketch, counted, by(rules, "BROADCAST"))
    sketch.sink(checked)
    plan = sketch.plan()
    assert levels(plan)[counted] == 1 and levels(plan)[checked] == 2
    assert all(link.edge is not None for link in plan.links_to(checked))


@pytest.mark.parametrize("batch_mode", [False, True])
def test_in_batch_mode_broadcast_records_go_ahead(batch_mode: bool) -> None:
    sketch = Sketch()
    checked = both(sketch, sketch.source(), by(sketch.source(), "BROADCAST"))
    sketch.sink(checked)
    plan = compile_graph(sketch.graph, Settings("job", 4, 128, batch_mode))
    assert [link.ahead for link in plan.links_to(checked)] == [False, batch_mode]
    assert not any(link.ahead for link in plan.links_from(checked))


@pytest.mark.parametrize(
    ("shape", "kind"), [("broadcast", BroadcastProcessOperator), ("keyed_broadcast", KeyedBroadcastOperator)]
)
def test_each_shape_has_its_operator(shape: str, kind: type) -> None:
    sketch = Sketch()
    checked = both(sketch, by_key(sketch.source()), by(sketch.source(), "BROADCAST"), shape)
    sink = sketch.sink(checked)
    plan = sketch.plan()
    assert type(build_operator(plan.operator(checked))) is kind
    assert plan.operator(sink).width == 6, "what it emits has a stamp of six columns"
