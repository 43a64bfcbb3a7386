from __future__ import annotations

import json

import pytest

from flintstream import (
    DiscardingSink,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
    Types,
    bounded,
    count,
    tumbling,
)
from flintstream.planner.guarantee import guarantee_of


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(2)


def lines(env) -> list[str]:
    return [" ".join(line.split()) for line in env.explain().splitlines()]


def test_graph_levels_exchanges_tasks_and_paths_are_shown(env, capsys):
    timed = env.from_collection([{"id": "a", "ts": 1}]).assign_timestamps_and_watermarks(bounded("1s", on="ts"))
    counts = timed.key_by("id").window(tumbling("1s")).agg(n=count()).name("count")
    counts.map(lambda row: row.n, Types.LONG()).set_description("only the number").print()
    text = [line.partition(" test_explain.py")[0] for line in lines(env)]
    assert text[:-1] == [
        "Job 'Flintstream Job': streaming on local, 128 key groups",
        "Logical graph",
        "1 Source: Collection Source",
        "2 Timestamps/Watermarks <- 1 FORWARD",
        "3 count <- 2 HASH by id",
        "4 Map: LONG <- 3 FORWARD",
        "5 Sink: Print <- 4 FORWARD",
        "Levels",
        "level 0: as the sources are split",
        "Collection Source vectorised uid collection-source-1 Collection Source[0]",
        "Timestamps/Watermarks vectorised uid timestamps-watermarks-1 Timestamps/Watermarks[0]",
        "exchange 1: Timestamps/Watermarks -> count at level 1, HASH by id",
        "level 1",
        "count vectorised uid count-1 count[0], count[1]",
        "Map per record uid map-1 Map[0], Map[1]",
        "Print vectorised uid print-1 Print[0], Print[1]",
        "Delivery",
        "Sink: Print at-least-once, read_committed",
    ]
    assert "only the number" in env.explain()


def test_the_weakest_link_is_named(env):
    stream = env.from_collection([1])
    stream.sink_to(DiscardingSink())
    strong = env.compile()
    stream.print().name("screen")
    weak = env.compile()
    every = "exactly-once: every source is replayable, and every sink commits with the epoch"
    assert str(guarantee_of(strong, "here")) == every
    assert str(guarantee_of(weak, "here")).startswith("at-least-once: sink 'screen' is at-least-once (test_explain.py:")
    assert str(guarantee_of(strong, None)).startswith("at-least-once: without a checkpoint directory a job")


def test_keys_side_outputs_and_many_tasks(env):
    class Tagged(ProcessFunction):
        def process_element(self, value, ctx):
            yield OutputTag("side"), value

    main = env.from_collection([1]).rebalance().process(Tagged()).set_parallelism(9)
    main.get_side_output(OutputTag("side")).key_by(lambda x: x, Types.INT()).sum().name("total").print()
    text = lines(env)
    assert any(line.endswith("Process[0], Process[1], Process[2], ..., Process[8]") for line in text)
    assert any("3 total <- 2 side output 'side' HASH by a function" in line for line in text)


class Frame:
    isStreaming = False
    columns = ("topic", "partition", "offset")


@pytest.mark.parametrize(
    ("arguments", "order"),
    [
        ({}, "unordered, one split"),
        ({"order_by": "offset"}, "one split, ordered by offset"),
        (
            {"split_by": ["topic", "partition"], "order_by": "offset"},
            "a split for each topic, partition, ordered by offset",
        ),
    ],
)
def test_the_order_of_a_data_frame_is_told(env, arguments, order):
    env.from_dataframe(Frame(), **arguments).print()
    assert next(line for line in lines(env) if line.startswith("1 Source: DataFrame test_explain")).endswith(order)
    source = json.loads(env.get_execution_plan())["nodes"][0]
    assert source["contents"] == f"Source: DataFrame, {order}"


def test_mode_order_and_whole_stream_windows_are_shown(env):
    timed = env.from_collection([{"ts": 1}]).assign_timestamps_and_watermarks(bounded("1s", on="ts"))
    timed.window_all(tumbling("1s")).reduce(lambda x, y: x).print()
    text = lines(env.deterministic_order())
    assert text[0].endswith("128 key groups, deterministic order")
    assert any("HASH into one" in line for line in text)
