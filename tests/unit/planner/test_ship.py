from __future__ import annotations

import functools
import pickle
import threading

import pytest

from flintstream import MapFunction, StreamExecutionEnvironment, WatermarkStrategy, tumbling
from flintstream.errors import UnserialisableFunctionError
from flintstream.planner.ship import check_functions, find_culprit, pack_plan

LOCK = threading.Lock()


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(1)


class Holder(MapFunction):
    def __init__(self, held):
        self.held = held

    def map(self, value):
        return value


def capture(lock):
    return lambda value: (lock, value)


def by_default(value, lock=LOCK):
    return lock, value


class Plain:
    def __init__(self):
        self.deep = {"lock": LOCK}

    def method(self, value):
        return value


CULPRITS = [
    (capture(LOCK), "variable 'lock'"),
    (lambda value: (LOCK, value), "variable 'LOCK'"),
    (Holder(LOCK), "attribute 'held'"),
    (Holder(Holder(LOCK)), "attribute 'held'"),
    (functools.partial(by_default, lock=LOCK), "argument 'lock'"),
    (Plain().method, "attribute 'deep'"),
]


@pytest.mark.parametrize(("function", "named"), CULPRITS, ids=[named for _, named in CULPRITS])
def test_the_variable_at_fault_is_named(env, function, named):
    env.from_collection([1]).map(function).uid("here").name("Hold").print()
    with pytest.raises(UnserialisableFunctionError) as caught:
        env.execute()
    message = str(caught.value)
    assert message.startswith(f"the function of operator 'Hold' cannot be sent to workers: {named} is a ")
    assert caught.value.location.startswith("test_ship.py:")
    assert caught.value.location in message
    assert caught.value.uid == "here"


def test_key_selectors_partitioners_windows_and_strategies_are_looked_at(env):
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner
    programs = {
        "the key selector": lambda s: s.key_by(capture(LOCK)).sum(),
        "the partitioner": lambda s: s.partition_custom(lambda key, n: (LOCK, 0)[1], lambda x: x).map(str),
        "the watermark strategy": lambda s: s.assign_timestamps_and_watermarks(timed(lambda r, t: (LOCK, r)[1])),
        "the window function": lambda s: s.key_by(lambda x: x).window(tumbling("1s")).reduce(lambda x, y: (LOCK, x)),
    }
    for part, declare in programs.items():
        declare(env.from_collection([1])).print()
        with pytest.raises(UnserialisableFunctionError, match=part):
            env.execute()
        env.declarations.settle()


def test_a_plan_survives_the_trip(env):
    env.from_collection([1]).map(lambda x: x + 1).print()
    plan = pickle.loads(pack_plan(env.compile("job")))
    assert [op.node.name for op in plan.operators] == ["Collection Source", "Map", "Print"]
    assert plan.operators[1].node.function.map(1) == 2


def test_a_source_that_cannot_travel_is_named(env):
    env.from_collection([LOCK]).print()
    plan = env.compile()
    check_functions(plan)
    with pytest.raises(UnserialisableFunctionError, match="the source of operator 'Collection Source'"):
        pack_plan(plan)


def test_without_a_culprit_there_is_none():
    assert find_culprit(capture(3)) is None
