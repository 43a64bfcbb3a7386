"""A plan's picture by its structure: which boxes, lines, labels and places for numbers it has, never its pixels."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import (
    DiscardingSink,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
    avg,
    bounded,
    tumbling,
)
from flintstream.errors import InvalidArgumentError
from flintstream.graph.nodes import Exchange, FunctionNode, SinkNode, SourceNode
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.planner.picture import in_words, picture
from flintstream.planner.picture_text import cut, shown, text_width
from flintstream.planner.plan import Link, Plan, PlannedOperator

SVG = "{http://www.w3.org/2000/svg}"


class Sides(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(2)


def read(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def groups(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [each for each in root.iter(f"{SVG}g") if kind in each.attrib["class"].split()]


def texts(element: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in element.iter(f"{SVG}text")]


def numbers(svg: str, uid: str) -> dict[str, str]:
    return {
        each.attrib["data-field"]: each.text or ""
        for each in read(svg).iter(f"{SVG}text")
        if each.attrib.get("data-uid") == uid
    }


def averages(env: StreamExecutionEnvironment) -> Plan:
    """A source with timestamps, a keyed window with a late output, and a branch that is rebalanced and broadcast."""
    late = OutputTag("late")
    source = env.from_collection([{"id": "a", "ts": 1, "x": 1.0}]).name("readings").uid("readings")
    timed = source.assign_timestamps_and_watermarks(bounded("1s", on="ts")).uid("time")
    means = timed.key_by("id").window(tumbling("5s")).late(late).agg(mean=avg("x")).name("means").uid("means")
    means.sink_to(DiscardingSink()).name("results").uid("results")
    means.get_side_output(late).sink_to(DiscardingSink()).name("too late").uid("too late")
    timed.rebalance().process(Sides()).name("spread").uid("spread").broadcast().sink_to(DiscardingSink()).uid("all")
    return env.compile("averages")


def test_every_operator_and_every_edge_is_there(env):
    root = read(picture(averages(env)))
    assert {box.attrib["data-uid"]: box.attrib["class"].split()[1] for box in groups(root, "fs-operator")} == {
        "readings": "fs-source",
        "time": "fs-step",
        "means": "fs-step",
        "results": "fs-sink",
        "too late": "fs-sink",
        "spread": "fs-step",
        "all": "fs-sink",
    }
    edges = {
        (edge.attrib["data-from"], edge.attrib["data-to"]): (edge.attrib["class"].split()[1:], texts(edge))
        for edge in groups(root, "fs-edge")
    }
    assert edges == {
        ("readings", "time"): (["fs-forward"], []),
        ("time", "means"): (["fs-exchange"], ["hash by id"]),
        ("means", "results"): (["fs-forward"], []),
        ("means", "too late"): (["fs-forward", "fs-side"], ["side output late"]),
        ("time", "spread"): (["fs-exchange"], ["rebalance"]),
        ("spread", "all"): (["fs-exchange"], ["broadcast"]),
    }
    assert [level.attrib["data-level"] for level in groups(root, "fs-level")] == ["0", "1", "2"]


def test_a_box_names_the_operator_its_way_its_tasks_and_its_line(env):
    plan = averages(env)
    box = next(box for box in groups(read(picture(plan)), "fs-operator") if box.attrib["data-uid"] == "means")
    assert texts(box)[:2] == ["means", "vectorised, 2 tasks"]
    location = next(op.node.location for op in plan.operators if op.uid == "means")
    assert box.findtext(f"{SVG}title") == f"means\nuid means\n{location}\nvectorised, parallelism 2"


def test_side_outputs_are_dashed_and_nothing_else_is(env):
    root = read(picture(averages(env)))
    dashed = [
        edge.attrib["data-to"]
        for edge in groups(root, "fs-edge")
        if any("stroke-dasharray" in path.attrib for path in edge.iter(f"{SVG}path"))
    ]
    assert dashed == ["too late"]


def test_places_for_numbers_are_empty_and_those_of_sources_and_sinks_are_their_own(env):
    svg = picture(averages(env))
    common = {"watermark", "watermark_lag_ms", "busy", "waiting", "state_entries", "state_bytes"}
    taken = {"records_in_per_second", "bytes_in_per_second"}
    given_on = {"records_out_per_second", "bytes_out_per_second"}
    assert set(numbers(svg, "means")) == common | taken | given_on
    assert set(numbers(svg, "readings")) == common | given_on | {"lag_records", "lag_ms"}
    assert set(numbers(svg, "results")) == common | taken | {"latency_p50", "latency_p99"}
    assert set(numbers(svg, "means").values()) == {""}


def test_a_status_fills_the_numbers_and_marks_the_slow_operator(env):
    status = {
        "operators": {
            "means": {
                "records_in_per_second": 12_345.6,
                "bytes_in_per_second": 1_200_000,
                "records_out": 42,
                "watermark": 1_767_225_605_000,
                "watermark_lag_ms": 2_300,
                "busy": 0.83,
                "waiting": 0.0,
                "state_entries": 7,
                "state_bytes": 2048,
                "slowest": True,
            },
        },
        "sources": {"readings": {"lag_records": 5_000_000, "lag_ms": 90_000}},
        "sinks": {"results": {"latency_ms": {"p50": 12, "p99": 250.4}}, "too late": {"latency_ms": None}},
    }
    svg = picture(averages(env), status)
    assert numbers(svg, "means") == {
        "records_in_per_second": "12.3 k/s",
        "bytes_in_per_second": "1.2 MB/s",
        "records_out_per_second": "42",
        "bytes_out_per_second": "",
        "watermark": "01-01 00:00:05",
        "watermark_lag_ms": "2.3 s",
        "busy": "83%",
        "waiting": "0%",
        "state_entries": "7",
        "state_bytes": "2.05 kB",
    }
    assert [numbers(svg, "readings")[name] for name in ("lag_records", "lag_ms")] == ["5 M", "1.5 min"]
    assert [numbers(svg, "results")[name] for name in ("latency_p50", "latency_p99")] == ["12 ms", "250 ms"]
    assert [numbers(svg, "too late")[name] for name in ("latency_p50", "latency_p99")] == ["", ""]
    assert [box.attrib["data-uid"] for box in groups(read(svg), "fs-slow")] == ["means"]


def test_what_a_picture_shows_is_said_in_words(env):
    plan = averages(env)
    root = read(picture(plan))
    assert root.attrib["role"] == "img"
    assert root.findtext(f"{SVG}title") == root.attrib["aria-label"] == "Dataflow of job averages"
    assert root.findtext(f"{SVG}desc") == in_words(plan)
    assert in_words(plan).startswith("Level 0: Source: readings goes to ")
    assert "Level 1: means goes to results, too late (side output late)." in in_words(plan)


def test_a_picture_without_numbers_is_lower_and_says_the_line(env):
    plan = averages(env)
    full, small = read(picture(plan)), read(picture(plan, live=False))
    assert float(small.attrib["height"]) < float(full.attrib["height"])
    assert not [each for each in small.iter(f"{SVG}text") if "data-field" in each.attrib]
    box = next(box for box in groups(small, "fs-operator") if box.attrib["data-uid"] == "means")
    assert next(op.node.location for op in plan.operators if op.uid == "means") in texts(box)


def test_the_same_plan_is_the_same_picture(env):
    plan = averages(env)
    assert picture(plan) == picture(plan)


def test_env_graph_is_the_program_before_it_runs(env, tmp_path):
    averages(env)
    graph = env.graph()
    assert repr(graph) == "JobGraph(7 operators, 3 levels)"
    assert len(groups(read(str(graph)), "fs-operator")) == 7
    saved = graph.save(tmp_path / "job.svg")
    assert saved == tmp_path / "job.svg" and saved.read_text() == str(graph) == graph._repr_svg_()
    assert str(graph) in graph._repr_html_()
    with pytest.raises(InvalidArgumentError, match=r"'job\.png' is not the name of an SVG; let it end in \.svg"):
        graph.save("job.png")


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Plans of any shape, with any names: what the planner would never make must be drawn as well."""
    levels = sorted(draw(st.lists(st.integers(0, 3), min_size=1, max_size=9)))
    kinds: list[type[Any]] = [SourceNode, FunctionNode, SinkNode]
    operators = [
        PlannedOperator(
            draw(st.sampled_from(kinds))(id=index, name=draw(st.text(max_size=60)), location="job.py:1"),
            f"{index} {draw(st.text(max_size=8))}",
            level,
            draw(st.integers(1, 9)),
            frozenset(),
            "per record",
            3,
        )
        for index, level in enumerate(levels)
    ]
    links = [
        Link(source, draw(st.sampled_from(["", '<late> & "other"'])), target, 0, draw(st.sampled_from(WAYS)))
        for source in range(len(levels))
        for target in range(source + 1, len(levels))
        if draw(st.integers(0, 3)) == 0
    ]
    return Plan(draw(st.text(max_size=20)), tuple(operators), tuple(links), 128)


WAYS = [Exchange(), Exchange("REBALANCE"), Exchange("BROADCAST"), Exchange("HASH")]


@given(plans())
def test_any_plan_with_any_names_is_well_formed_and_whole(plan):
    root = read(picture(plan))
    boxes = groups(root, "fs-operator")
    assert [box.attrib["data-uid"].split()[0] for box in boxes] == [str(op.id) for op in plan.operators]
    edges = [
        (edge.attrib["data-from"].split()[0], edge.attrib["data-to"].split()[0]) for edge in groups(root, "fs-edge")
    ]
    assert edges == [(str(link.source), str(link.target)) for link in plan.links]


@given(st.text(), st.sampled_from([11, 13]), st.integers(20, 300))
def test_a_cut_text_fits_and_is_the_beginning_of_the_whole(text, size, room):
    found = cut(text, size, room)
    assert text_width(found, size) <= room
    if found.endswith("…") and "…" not in text:
        assert text_width(" ".join(text.split()), size) > room


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("watermark", None, ""),
        ("watermark", MIN_TIMESTAMP, ""),
        ("watermark", MAX_TIMESTAMP, "end of input"),
        ("watermark", 10**17, "100000000000000000"),
        ("watermark_lag_ms", 999, "999 ms"),
        ("watermark_lag_ms", 7_200_000, "2 h"),
        ("lag_ms", 172_800_000, "2 d"),
        ("records_in", 999_999, "1 M"),
        ("state_bytes", 0, "0 B"),
        ("busy", 0.046, "5%"),
        ("slowest", True, ""),
        ("backlog_text", "3 files", "3 files"),
    ],
)
def test_numbers_are_short(field, value, expected):
    assert shown(field, value).strip() == expected
