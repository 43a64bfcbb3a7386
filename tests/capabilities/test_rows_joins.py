"""Row 104: joins of two streams in time."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream import CollectSink, OutputTag, RuntimeExecutionMode, bounded, tumbling
from tests.capabilities.support import Epochs, Lists, collect, run_with_stops

MINUTE, HOUR = 60_000, 3_600_000
LATE, ALONE = OutputTag("late"), OutputTag("no order")
CLICKS = [("ada", 0), ("bob", 10), ("ada", 70), ("eve", 80), ("fay", 200), ("ada", 30)]
ORDERS = [("ada", 60), ("bob", 71), ("ada", 75), ("eve", 140), ("dan", 150), ("fay", 300)]
WITHIN_AN_HOUR = [("ada", 0, 60), ("ada", 70, 75), ("eve", 80, 140)]


def rows(visits: list[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"user": user, "ts": minute * MINUTE, "minute": minute} for user, minute in visits]


def sides(env: Any) -> tuple[Any, Any]:
    """Return clicks and orders; the last click comes too late."""
    clicks = env.from_source(Lists(rows(CLICKS)), bounded(0, on="ts")).uid("clicks")
    orders = env.from_source(Lists(rows(ORDERS)), bounded(0, on="ts")).uid("orders")
    return clicks.key_by("user"), orders.key_by("user")


def pair(click: Any, order: Any) -> tuple[Any, ...]:
    user = (click or order)["user"]
    return user, click and click["minute"], order and order["minute"]


@pytest.mark.row(104)
def test_an_order_within_an_hour_of_a_click_is_joined_however_often_the_job_dies(new_env, tmp_path):
    def declare(env: Any, sink: CollectSink) -> None:
        clicks, orders = sides(env)
        joined = clicks.interval_join(orders, how="left").between(0, "1h").process(pair).uid("join")
        joined.sink_to(sink).uid("sink")

    def env() -> Any:
        return new_env(max_records=2, checkpoint_dir=tmp_path / "checkpoint").deterministic_order(True)

    found = run_with_stops(env, declare, [1, 1])
    assert sorted(found, key=str) == sorted([*WITHIN_AN_HOUR, ("bob", 10, None), ("fay", 200, None)], key=str)


@pytest.mark.row(104)
def test_state_is_dropped_after_the_bound_and_the_late_side_is_visible(new_env):
    env, epochs = new_env(max_records=2), Epochs()
    env.deterministic_order(True)
    clicks, orders = sides(env)
    two = clicks.interval_join(orders).between(0, "1h").side_output_left_late_data(LATE)
    joined = two.side_output_left_unmatched(ALONE).process().uid("join")
    sinks = main, late, alone = CollectSink(), CollectSink(), CollectSink()
    outputs = joined, joined.get_side_output(LATE), joined.get_side_output(ALONE)
    for stream, sink in zip(outputs, sinks, strict=True):
        stream.sink_to(sink)
    env.add_listener(epochs)
    env.execute()
    assert sorted(pair(*each) for each in main.results) == WITHIN_AN_HOUR
    assert late.results == rows([("ada", 30)])
    assert alone.results == rows([("bob", 10), ("fay", 200)])
    assert epochs.counts("join", "late") == 1
    entries = [[each for report in reports for each in report.entries.items()] for reports in epochs.reports]
    held = [sum(rows for name, rows in each if name.startswith("join/")) for each in entries]
    assert max(held) > 0
    assert held[-1] == 0


@pytest.mark.row(104)
def test_records_of_one_window_are_joined_or_grouped(new_env):
    env = new_env(max_records=2)
    clicks, orders = sides(env)
    together = clicks.join(orders, how="full").where("user").equal_to("user").window(tumbling("1h"))
    pairs, counts = CollectSink(), CollectSink()
    together.apply(pair).sink_to(pairs)
    groups = clicks.co_group(orders).where("user").equal_to("user").window(tumbling("2h"))
    groups.apply(lambda first, second: [(len(first), len(second))]).sink_to(counts)
    env.deterministic_order(True)
    env.execute()
    full = [("ada", 0, None), ("bob", 10, None), ("bob", None, 71), ("ada", 70, 60), ("ada", 70, 75), ("eve", 80, None)]
    full += [("eve", None, 140), ("dan", None, 150), ("fay", 200, None), ("fay", None, 300)]
    assert sorted(pairs.results, key=str) == sorted(full, key=str)
    assert sorted(counts.results) == [(0, 1), (0, 1), (0, 1), (1, 0), (1, 0), (1, 1), (2, 2)]


@pytest.mark.row(104)
def test_a_batch_gives_all_pairs_at_once(new_env):
    env = new_env()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    clicks, orders = sides(env)
    joined = clicks.interval_join(orders, how="full").between(0, "1h").process(pair)
    # In a batch nothing is late.
    expected = [*WITHIN_AN_HOUR, ("ada", 30, 60), ("ada", 30, 75), ("bob", 10, None), ("fay", 200, None)]
    expected += [("bob", None, 71), ("dan", None, 150), ("fay", None, 300)]
    assert sorted(collect(joined), key=str) == sorted(expected, key=str)
