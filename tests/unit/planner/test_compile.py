"""Plans of a handful of graphs; the numbers are ids, in the order of declaration, so they read like line numbers."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream.errors import DanglingStreamError, DefinitionError, DuplicateUidError
from flintstream.graph.nodes import AggregateNode, Exchange, FunctionNode, ProjectNode, SourceNode, Upstream, WindowNode
from flintstream.model.assigners import TumblingEventTimeWindows
from flintstream.model.watermarks import WatermarkStrategy
from flintstream.ops.selectors import ConstantKey
from tests.unit.graphs import KEY, Sketch, by, by_key, levels, links, parallelism


def test_a_chain_without_exchanges_is_one_level() -> None:
    sketch = Sketch()
    source = sketch.source()
    mapped = sketch.function(source)
    sink = sketch.sink(mapped)
    plan = sketch.plan()
    assert levels(plan) == {source: 0, mapped: 0, sink: 0}
    assert plan.levels == 1
    assert links(plan) == [(source, mapped, "FORWARD", None), (mapped, sink, "FORWARD", None)]
    assert parallelism(plan) == {source: 4, mapped: 4, sink: 4}


def test_each_exchange_is_a_level_and_an_edge() -> None:
    sketch = Sketch()
    source = sketch.source()
    counted = sketch.function(by_key(source), shape="keyed_process")
    mapped = sketch.function(counted)
    again = sketch.function(by_key(mapped), shape="reduce")
    sink = sketch.sink(by(again, "REBALANCE"))
    plan = sketch.plan()
    assert levels(plan) == {source: 0, counted: 1, mapped: 1, again: 2, sink: 3}
    assert links(plan) == [
        (source, counted, "HASH", 1),
        (counted, mapped, "FORWARD", None),
        (mapped, again, "HASH", 2),
        (again, sink, "REBALANCE", 3),
    ]
    assert [plan.is_head(op) for op in plan.operators] == [False, True, False, True, True]
    assert [op.id for op in plan.at_level(1)] == [counted, mapped]


def test_an_operator_is_as_far_down_as_its_longest_way() -> None:
    sketch = Sketch()
    source = sketch.source()
    counted = sketch.function(by_key(source), shape="keyed_process")
    joined = sketch.function([source, counted])
    sketch.sink(joined)
    plan = sketch.plan()
    assert levels(plan)[joined] == 1
    # The short way crosses a level too, so it is an edge of the shuffle although nothing is exchanged.
    assert links(plan)[1:3] == [(source, joined, "FORWARD", 2), (counted, joined, "FORWARD", None)]


def test_two_inputs_keep_their_ports() -> None:
    sketch = Sketch()
    left, right = sketch.source(), sketch.source()
    joined = sketch.function(by_key(left), by_key(right), shape="keyed_process", methods=("one", "two"))
    sketch.sink(joined)
    plan = sketch.plan()
    assert [(link.source, link.port, link.edge) for link in plan.links_to(joined)] == [(left, 0, 1), (right, 1, 2)]


def test_side_outputs_are_links_with_a_tag() -> None:
    sketch = Sketch()
    source = sketch.source()
    split = sketch.function(source, shape="process")
    main, side = sketch.sink(split), sketch.sink(Upstream(split, "late"))
    plan = sketch.plan()
    assert [(link.target, link.tag) for link in plan.links_from(split)] == [(main, ""), (side, "late")]


def test_branches_that_no_sink_reads_are_left_out() -> None:
    sketch = Sketch()
    source = sketch.source()
    unread = sketch.function(source)
    sketch.function(by_key(unread), shape="reduce")
    sink = sketch.sink(source)
    assert levels(sketch.plan()) == {source: 0, sink: 0}


def test_a_watermark_strategy_behind_an_exchange_gets_the_stream_in_one_piece() -> None:
    sketch = Sketch()
    source = sketch.source()
    counted = sketch.function(by_key(source), shape="keyed_process")
    timed = sketch.timestamps(counted)
    mapped = sketch.function(timed)
    sketch.sink(mapped)
    plan = sketch.plan()
    assert links(plan)[1] == (counted, timed, "GLOBAL", 2)
    assert parallelism(plan)[timed] == parallelism(plan)[mapped] == 1
    assert levels(plan)[timed] == 2


def test_a_watermark_strategy_right_behind_an_exchange_replaces_it() -> None:
    sketch = Sketch()
    source = sketch.source()
    timed = sketch.timestamps(by(source, "REBALANCE"))
    sketch.sink(timed)
    plan = sketch.plan()
    assert links(plan)[0] == (source, timed, "GLOBAL", 1)
    assert parallelism(plan)[timed] == 1


def test_a_watermark_strategy_at_a_source_stays_there() -> None:
    sketch = Sketch()
    source = sketch.source()
    timed = sketch.timestamps(sketch.function(source))
    sketch.sink(timed)
    plan = sketch.plan()
    assert levels(plan)[timed] == 0
    assert parallelism(plan)[timed] == 4


def test_another_parallelism_than_that_of_the_input_rebalances() -> None:
    sketch = Sketch()
    source = sketch.source()
    same = sketch.function(source, parallelism=4)
    fewer = sketch.function(same, parallelism=2)
    inherits = sketch.function(fewer)
    sink = sketch.sink(inherits, parallelism=1)
    plan = sketch.plan()
    assert links(plan) == [
        (source, same, "FORWARD", None),
        (same, fewer, "REBALANCE", 1),
        (fewer, inherits, "FORWARD", None),
        (inherits, sink, "REBALANCE", 2),
    ]
    assert parallelism(plan) == {source: 4, same: 4, fewer: 2, inherits: 2, sink: 1}


def test_an_exchange_of_the_users_is_kept_whatever_the_parallelism() -> None:
    sketch = Sketch()
    source = sketch.source()
    counted = sketch.function(by_key(source), shape="reduce", parallelism=2)
    sketch.sink(counted)
    plan = sketch.plan()
    assert links(plan)[0] == (source, counted, "HASH", 1)
    assert plan.partitions(1) == 2


@pytest.mark.parametrize("exchange", [Exchange("GLOBAL"), Exchange("HASH", ConstantKey())])
def test_what_must_be_in_one_place_has_parallelism_one(exchange: Exchange) -> None:
    sketch = Sketch()
    source = sketch.source()
    alone = sketch.function(Upstream(source, exchange=exchange), parallelism=3)
    after = sketch.function(alone)
    sketch.sink(after)
    assert parallelism(sketch.plan())[alone] == 1
    assert parallelism(sketch.plan())[after] == 1


def test_lanes_are_those_of_the_nearest_assigners() -> None:
    sketch = Sketch()
    first, second = sketch.source(), sketch.source()
    timed = sketch.timestamps(sketch.function(first))
    joined = sketch.function(by_key(timed), by_key(second), shape="keyed_process")
    late = sketch.timestamps(joined)
    sink = sketch.sink(late)
    plan = sketch.plan()
    assert {op.id: op.assigner for op in plan.operators if op.assigner is not None} == {
        first: 0,
        second: 1,
        timed: 2,
        late: 3,
    }
    lanes = {op.id: set(op.lanes) for op in plan.operators}
    assert lanes[timed] == {2}
    assert lanes[joined] == {1, 2}
    assert lanes[late] == lanes[sink] == {3}
    assert plan.lane_group(1) == plan.lane_group(2) == {1, 2}
    assert plan.lane_group(3) == {3}


def test_stamps_grow_with_every_operator_that_emits_freely() -> None:
    sketch = Sketch()
    source = sketch.source()
    mapped = sketch.function(source)
    flat = sketch.function(mapped, shape="flat_map")
    process = sketch.function(flat, shape="process")
    keyed = sketch.function(by_key(process), shape="keyed_process")
    window = sketch.add(WindowNode, "Window", by_key(keyed), assigner=TumblingEventTimeWindows(5))
    columns = sketch.add(AggregateNode, "Sum", by_key(source), assigner=TumblingEventTimeWindows(5), key=KEY)
    joined = sketch.function([window, columns])
    timed = sketch.timestamps(joined)
    sink = sketch.sink(timed)
    widths = {op.id: op.width for op in sketch.plan().operators}
    assert widths == {
        source: 3,
        mapped: 3,
        flat: 3,
        process: 4,
        keyed: 5,
        window: 8,
        columns: 3,
        joined: 12,  # records of one source come by two ways, and take turns
        timed: 12,
        sink: 3,
    }


def test_ways_are_numbered_where_records_of_one_origin_meet_again() -> None:
    sketch = Sketch()
    first, second = sketch.source(), sketch.source()
    left, right = sketch.function(first), sketch.function(first, shape="flat_map")
    reunited = sketch.function([left, right])
    apart = sketch.function([reunited, second])
    sketch.sink(apart)
    plan = sketch.plan()
    assert [link.turn for link in plan.links_to(reunited)] == [0, 1]
    assert [link.turn for link in plan.links_to(apart)] == [None, None]
    assert {op.id: op.width for op in plan.operators}[reunited] == 5


def test_a_given_uid_is_kept_and_others_follow_from_name_and_place() -> None:
    sketch = Sketch()
    source = sketch.source()
    counted = sketch.function(by_key(source), shape="keyed_process", uid="count")
    first, second = sketch.function(counted), sketch.function(counted)
    sketch.sink(first)
    sketch.sink(second, uid="sink-1")
    plan = sketch.plan()
    assert [op.uid for op in plan.operators] == ["source-1", "count", "map-1", "map-2", "sink-1-auto", "sink-1"]


def test_forward_with_another_parallelism_is_refused_by_line() -> None:
    def plan(exchange: Exchange, **fields: Any) -> Any:
        sketch = Sketch()
        source = sketch.source(parallelism=2)
        sketch.sink(sketch.function(Upstream(source, exchange=exchange), **fields))
        return sketch.plan()

    forward = Exchange("FORWARD", imposed=True)
    with pytest.raises(DefinitionError, match=r"'Source' has parallelism 2 and 'map' has 3; job\.py:2; give both"):
        plan(forward, parallelism=3)
    assert [link.exchange.kind for link in plan(forward, parallelism=2).links] == ["FORWARD", "FORWARD"]
    assert [link.exchange.kind for link in plan(forward).links] == ["FORWARD", "FORWARD"]
    assert [link.exchange.kind for link in plan(Exchange(), parallelism=3).links] == ["REBALANCE", "FORWARD"]


def test_a_derived_uid_never_is_one_that_was_given() -> None:
    sketch = Sketch()
    source = sketch.source()
    sketch.sink(sketch.function(source, uid="sink-1"))
    sketch.sink(sketch.function(source, uid="sink-1-auto"))
    uids = [op.uid for op in sketch.plan().operators]
    assert uids == ["source-1", "sink-1", "sink-1-auto-auto", "sink-1-auto", "sink-2"]


def test_two_operators_with_one_uid_are_named_by_their_lines() -> None:
    sketch = Sketch()
    source = sketch.source()
    sketch.sink(sketch.function(source, uid="count"), uid="count")
    with pytest.raises(DuplicateUidError, match=r"uid 'count'; job\.py:2 and job\.py:3") as caught:
        sketch.plan()
    assert caught.value.uid == "count"
    assert caught.value.location == "job.py:3"


def test_a_program_without_a_sink_is_refused_with_the_line_of_its_loose_end() -> None:
    sketch = Sketch()
    sketch.function(sketch.source())
    with pytest.raises(DanglingStreamError, match=r"no sink: 'map' \(job\.py:2\)"):
        sketch.plan()


def test_a_program_without_a_source_is_refused() -> None:
    sketch = Sketch()
    sketch.sink()
    with pytest.raises(DefinitionError, match="no source"):
        sketch.plan()


def test_the_path_says_who_does_the_work() -> None:
    sketch = Sketch()
    source = sketch.source()
    by_column = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("t")
    by_function = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    first = sketch.timestamps(source, strategy=by_column)
    second = sketch.timestamps(first, strategy=by_function)
    mapped = sketch.function(second)
    projected = sketch.add(ProjectNode, "Project", mapped, positions=(0,))
    columns = sketch.add(AggregateNode, "Sum", by_key(projected), assigner=TumblingEventTimeWindows(5), key=KEY)
    sketch.sink(columns)
    paths = {op.id: op.path for op in sketch.plan().operators}
    assert (paths[source], paths[first], paths[second]) == ("vectorised", "vectorised", "per record")
    assert (paths[mapped], paths[columns]) == ("per record", "vectorised")


def test_settings_of_the_job_are_in_the_plan() -> None:
    sketch = Sketch()
    sketch.sink(sketch.source())
    plan = sketch.plan(batch_mode=True, deterministic=True, parameters=(("a", "b"),))
    assert (plan.name, plan.max_parallelism, plan.batch_mode, plan.deterministic) == ("job", 128, True, True)
    assert plan.parameters == (("a", "b"),)
    assert isinstance(plan.operators[0].node, SourceNode)
    assert not any(isinstance(op.node, FunctionNode) for op in plan.operators)
