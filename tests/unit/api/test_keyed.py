from __future__ import annotations

import dataclasses
from collections import namedtuple

import pytest

from flintstream import (
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ReduceFunction,
    Row,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from flintstream.errors import DefinitionError, InvalidArgumentError, TypeMismatchError
from flintstream.model.assigners_count import CountSlidingWindowAssigner, CountTumblingWindowAssigner


def collect(stream) -> list:
    return list(stream.execute_and_collect())


@dataclasses.dataclass(frozen=True)
class Sale:
    shop: str
    amount: int
    note: str = ""


Named = namedtuple("Named", "shop amount note")
ROWS = [("a", 3, "x"), ("a", 1, "y"), ("a", 3, "z")]
SHAPES = {
    "tuple": lambda r: r,
    "list": list,
    "row": lambda r: Row(shop=r[0], amount=r[1], note=r[2]),
    "dict": lambda r: {"shop": r[0], "amount": r[1], "note": r[2]},
    "dataclass": lambda r: Sale(*r),
    "named tuple": lambda r: Named(*r),
}
ROLLED = {
    "sum": [("a", 3, "x"), ("a", 4, "x"), ("a", 7, "x")],
    "min": [("a", 3, "x"), ("a", 1, "x"), ("a", 1, "x")],
    "max": [("a", 3, "x"), ("a", 3, "x"), ("a", 3, "x")],
    "min_by": [("a", 3, "x"), ("a", 1, "y"), ("a", 1, "y")],
    "max_by": [("a", 3, "x"), ("a", 3, "x"), ("a", 3, "x")],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ROLLED)
def test_rolling_aggregates_of_any_record_with_fields(env, kind, shape):
    make = SHAPES[shape]
    position = 1 if shape in ("tuple", "list") else "amount"
    stream = env.from_collection([make(row) for row in ROWS]).key_by(lambda r: "a")
    assert collect(getattr(stream, kind)(position)) == [make(row) for row in ROLLED[kind]]


@pytest.mark.parametrize(("kind", "expected"), [("sum", [3, 4, 6]), ("min", [3, 1, 1]), ("max_by", [3, 3, 3])])
def test_rolling_aggregates_of_plain_values(env, kind, expected):
    assert collect(getattr(env.from_collection([3, 1, 2]).key_by(lambda x: 0), kind)()) == expected


def test_a_field_of_a_plain_value_is_refused(env):
    with pytest.raises(TypeMismatchError, match="no field 1"):
        collect(env.from_collection([3, 1]).key_by(lambda x: 0).sum(1))


@pytest.mark.parametrize("wrong", [1.5, None, True])
def test_a_position_must_be_a_number_or_a_name(env, wrong):
    with pytest.raises(TypeMismatchError, match=r"is not a field; test_keyed\.py"):
        env.from_collection([3]).key_by(lambda x: 0).sum(wrong)


def test_a_missing_field_is_named(env):
    with pytest.raises(DefinitionError, match="no field 'price'"):
        collect(env.from_collection([Row(a=1), Row(a=1)]).key_by("a").sum("price"))
    with pytest.raises(DefinitionError, match="no field 5"):
        collect(env.from_collection([(1, 2), (1, 2)]).key_by(0).sum(5))


def test_reduce_takes_a_callable_or_a_reduce_function(env):
    class Longest(ReduceFunction):
        def reduce(self, value1, value2):
            return max(value1, value2, key=len)

    words = ["a", "ccc", "bb"]
    assert collect(env.from_collection(words).key_by(lambda w: 0).reduce(Longest())) == ["a", "ccc", "ccc"]
    assert collect(env.from_collection(words).key_by(lambda w: 0).reduce(lambda x, y: x + y)) == ["a", "accc", "acccbb"]


class Numbered(MapFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.INT()))

    def map(self, value):
        self.seen.update((self.seen.value() or 0) + 1)
        return value, self.seen.value()


def test_map_filter_and_flat_map_keep_state_per_key(env):
    keyed = env.from_collection(["a", "b", "a"]).key_by(lambda w: w)
    assert sorted(collect(keyed.map(Numbered()))) == [("a", 1), ("a", 2), ("b", 1)]
    keyed = env.from_collection(["a", "b", "a"]).key_by(lambda w: w)
    assert sorted(collect(keyed.filter(lambda w: w == "a"))) == ["a", "a"]
    keyed = env.from_collection(["a", "b"]).key_by(lambda w: w)
    assert sorted(collect(keyed.flat_map(lambda w: [w, w]))) == ["a", "a", "b", "b"]


def test_state_without_keys_is_refused(env):
    with pytest.raises(DefinitionError, match=r"without keys.*put key_by"):
        collect(env.from_collection(["a"]).map(Numbered()))


class Expire(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1] + 10)
        yield OutputTag("seen"), value[0]

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


def test_process_has_keys_timers_and_side_outputs(env):
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r[1])
    stream = env.from_collection([("a", 1), ("b", 2)]).assign_timestamps_and_watermarks(timed)
    fired = stream.key_by(lambda r: r[0], key_type=Types.STRING()).process(Expire())
    assert collect(fired) == [("a", 11), ("b", 12)]
    assert collect(fired.get_side_output(OutputTag("seen"))) == ["a", "b"]


def test_map_with_state_is_told_the_state_and_returns_the_next(env):
    def deltas(value, before):
        return (value[0], value[1] - (before or 0)), value[1]

    stream = env.from_collection([("a", 1), ("a", 4), ("b", 2)]).key_by(0).map_with_state(deltas)
    assert sorted(collect(stream)) == [("a", 1), ("a", 3), ("b", 2)]


def test_map_with_state_forgets_where_the_state_is_none(env):
    def alternate(value, before):
        return before, None if before else value

    assert collect(env.from_collection([1, 2, 3]).key_by(lambda x: 0).map_with_state(alternate)) == [None, 1, None]


def test_map_with_state_wants_a_pair(env):
    with pytest.raises(TypeMismatchError, match="pair"):
        collect(env.from_collection([1]).key_by(lambda x: 0).map_with_state(lambda value, state: value))
    with pytest.raises(TypeMismatchError, match="is not a function"):
        env.from_collection([1]).key_by(lambda x: 0).map_with_state(3)


def test_a_keyed_process_function_and_a_keyed_stream_belong_together(env):
    class Plain(ProcessFunction):
        def process_element(self, value, ctx):
            yield value

    with pytest.raises(DefinitionError, match=r"needs keys.*test_keyed\.py:\d+; put key_by"):
        env.from_collection([1]).process(Expire())
    with pytest.raises(TypeMismatchError, match=r"not a KeyedProcessFunction; test_keyed\.py"):
        env.from_collection([1]).key_by(lambda x: x).process(Plain())


@pytest.mark.parametrize("call", ["rebalance", "rescale", "shuffle", "forward", "broadcast"])
def test_a_keyed_stream_keeps_its_partitioning(env, call):
    with pytest.raises(DefinitionError, match=r"partitioned by its keys already; test_keyed\.py"):
        getattr(env.from_collection([1]).key_by(lambda x: x), call)()
    with pytest.raises(DefinitionError, match="partitioned by its keys"):
        env.from_collection([1]).key_by(lambda x: x).partition_custom(lambda k, n: 0, lambda x: x)


def test_a_keyed_stream_can_be_printed_and_united(env, capsys):
    keyed = env.from_collection([1]).key_by(lambda x: x)
    keyed.print()
    env.execute()
    assert capsys.readouterr().out.rpartition("> ")[2] == "1\n"
    assert sorted(collect(keyed.union(env.from_collection([2])))) == [1, 2]


def test_count_windows(env):
    keyed = env.from_collection([1, 2, 3, 4, 5]).key_by(lambda x: 0)
    assert keyed.count_window(2)._assigner == CountTumblingWindowAssigner(2)
    assert keyed.count_window(2, 1)._assigner == CountSlidingWindowAssigner(2, 1)
    assert collect(keyed.count_window(2).reduce(lambda x, y: x + y)) == [3, 7]
    for size, slide in ((0, 0), (1, -1)):
        with pytest.raises(InvalidArgumentError, match=r"test_keyed\.py"):
            keyed.count_window(size, slide)
