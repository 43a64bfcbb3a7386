"""Rows 5 to 9: how records travel from the tasks of one operator to those of the next."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from flintstream import CollectSink, NumberSequenceSource, WindowFunction
from flintstream.errors import DefinitionError
from tests.capabilities.support import Lists, WithSubtask, collect, plan_of, run_with_stops


@pytest.mark.row(5)
def test_forward_keeps_every_record_in_its_task(env):
    numbers = env.from_source(NumberSequenceSource(1, 100)).map(WithSubtask()).name("First")
    hops = collect(numbers.forward().map(WithSubtask()).name("Second"))
    assert sorted(number for (number, _), _ in hops) == list(range(1, 101))
    assert {(first, second) for (_, first), second in hops} == {(0, 0), (1, 1)}


@pytest.mark.row(5)
def test_forward_behind_an_exchange_keeps_every_record_in_its_task(env):
    first = env.from_collection(range(100)).key_by(lambda n: n % 10).map(WithSubtask())
    hops = collect(first.forward().map(WithSubtask()))
    assert {(before, after) for (_, before), after in hops} == {(0, 0), (1, 1)}


@pytest.mark.row(5)
def test_the_plan_of_forward_has_no_shuffle(env):
    env.from_source(NumberSequenceSource(1, 10)).map(str).name("First").forward().map(str).name("Second").print()
    assert [edge["ship_strategy"] for edge in plan_of(env)["Second"]["predecessors"]] == ["FORWARD"]
    assert "level 1" not in env.explain()


@pytest.mark.row(5)
def test_forward_to_another_parallelism_is_refused(env):
    env.from_source(NumberSequenceSource(1, 10)).map(str).name("First").forward().map(str).set_parallelism(3).print()
    with pytest.raises(DefinitionError, match=r"'First' has parallelism 2 and 'Map' has 3; test_rows_exchanges\.py"):
        env.execute()


@pytest.mark.row(6)
def test_broadcast_gives_all_records_to_all_tasks(env):
    receipts = collect(env.from_collection(range(10)).broadcast().map(WithSubtask()).set_parallelism(3))
    assert sorted(receipts) == [(number, task) for number in range(10) for task in range(3)]


@pytest.mark.row(7)
def test_a_key_stays_with_one_task_across_restarts(new_env, tmp_path):
    def declare(env, sink):
        tags = env.from_source(Lists([f"tag{n % 40}" for n in range(400)])).key_by(lambda tag: tag)
        tags.map(WithSubtask()).sink_to(sink)

    seen = run_with_stops(lambda: new_env(max_records=150, checkpoint_dir=tmp_path), declare, [1, 1])
    assert len(seen) == 400
    tasks_of_tag: dict[str, set[int]] = {}
    for tag, task in seen:
        tasks_of_tag.setdefault(tag, set()).add(task)
    assert len(tasks_of_tag) == 40
    assert all(len(tasks) == 1 for tasks in tasks_of_tag.values())
    assert set().union(*tasks_of_tag.values()) == {0, 1}


@pytest.mark.row(8)
@pytest.mark.parametrize("exchange", ["rebalance", "shuffle"])
def test_records_are_spread_evenly_over_four_tasks(new_env, exchange):
    env = new_env(4)
    stream = getattr(env.from_collection(range(10_000)), exchange)().map(WithSubtask())
    shares = Counter(task for _, task in collect(stream))
    assert sorted(shares) == [0, 1, 2, 3]
    assert all(2_375 <= share <= 2_625 for share in shares.values()), shares


@pytest.mark.row(8)
def test_rebalance_is_even_from_several_tasks_and_over_several_epochs(new_env):
    env = new_env(4, max_records=300)
    stream = env.from_source(NumberSequenceSource(1, 900)).rebalance().map(WithSubtask())
    shares = Counter(task for _, task in collect(stream))
    assert all(214 <= share <= 236 for share in shares.values()), shares


def plan_with(new_env, imposed: bool) -> dict:
    env = new_env()
    numbers = env.from_source(NumberSequenceSource(1, 20)).map(lambda n: n).name("First")
    numbers = numbers.rebalance() if imposed else numbers
    numbers.map(lambda n: 2 * n).name("Second").sink_to(CollectSink())
    return json.loads(env.get_execution_plan())


@pytest.mark.row(9)
def test_a_plan_with_an_imposed_exchange_differs_in_that_edge_only(new_env):
    chosen, imposed = plan_with(new_env, imposed=False), plan_with(new_env, imposed=True)
    edges = [
        node["predecessors"][0] for plan in (chosen, imposed) for node in plan["nodes"] if node["type"] == "Second"
    ]
    assert [edge.pop("ship_strategy") for edge in edges] == ["FORWARD", "REBALANCE"]
    assert chosen == imposed


class WindowSize(WindowFunction):
    def apply(self, key, window, inputs):
        yield key, len(list(inputs))


@pytest.mark.row(9)
def test_an_exchange_is_chosen_where_the_program_needs_one(env):
    numbers = env.from_source(NumberSequenceSource(1, 12)).map(lambda n: n).name("Wide")
    numbers = numbers.map(lambda n: n).name("Narrow").set_parallelism(1)
    sizes = numbers.key_by(lambda n: n % 2).count_window(3).apply(WindowSize()).name("Sizes")
    sink = CollectSink()
    sizes.sink_to(sink)
    plan = plan_of(env)
    assert plan["Wide"]["predecessors"][0]["ship_strategy"] == "FORWARD"
    assert plan["Narrow"]["predecessors"][0]["ship_strategy"] == "REBALANCE"
    assert plan["Sizes"]["predecessors"][0]["ship_strategy"] == "HASH"
    env.execute()
    assert sorted(sink.results) == [(0, 3), (0, 3), (1, 3), (1, 3)]
