from __future__ import annotations

import pytest

from flintstream import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
    Types,
    ValueStateDescriptor,
)
from flintstream.errors import DefinitionError, TypeMismatchError


def collect(stream) -> list:
    return list(stream.execute_and_collect())


def pair(env, left=(1, 2), right=("a",)):
    return env.from_collection(left).connect(env.from_collection(right))


class Tell(CoMapFunction):
    def open(self, runtime_context):
        self.mark = "!"

    def map1(self, value):
        return f"left {value}{self.mark}"

    def map2(self, value):
        return None


class Repeat(CoFlatMapFunction):
    def flat_map1(self, value):
        return [value] * value

    def flat_map2(self, value):
        yield value


class Sides(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield "left", value

    def process_element2(self, value, ctx):
        yield OutputTag("right"), value


class Join(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.name = runtime_context.get_state(ValueStateDescriptor("name", Types.STRING()))
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element1(self, value, ctx):
        self.name.update(value[1])
        return self.both(ctx)

    def process_element2(self, value, ctx):
        self.count.update(value[1])
        return self.both(ctx)

    def both(self, ctx):
        if self.name.value() is not None and self.count.value() is not None:
            yield ctx.get_current_key(), self.name.value(), self.count.value()


@pytest.mark.parametrize("keyed", [False, True])
def test_map_has_a_method_for_each_side_and_none_gives_nothing(env, keyed):
    both = pair(env)
    both = both.key_by(lambda x: x, lambda x: x) if keyed else both
    assert sorted(collect(both.map(Tell()))) == ["left 1!", "left 2!"]


@pytest.mark.parametrize("keyed", [False, True])
def test_flat_map_has_a_method_for_each_side(env, keyed):
    both = pair(env)
    both = both.key_by(str, str) if keyed else both
    assert sorted(map(str, collect(both.flat_map(Repeat())))) == ["1", "2", "2", "a"]


def test_process_has_side_outputs(env):
    main = pair(env).process(Sides())
    assert collect(main) == [("left", 1), ("left", 2)]
    assert collect(main.get_side_output(OutputTag("right"))) == ["a"]


def test_keyed_process_shares_state_between_the_sides(env):
    names = env.from_collection([(1, "one"), (2, "two")])
    counts = env.from_collection([(2, 20), (1, 10)])
    joined = names.connect(counts).key_by(lambda r: r[0], lambda r: r[0], Types.INT()).process(Join())
    assert sorted(collect(joined)) == [(1, "one", 10), (2, "two", 20)]
    joined = names.key_by(0).connect(counts.key_by(0)).process(Join())
    assert sorted(collect(joined)) == [(1, "one", 10), (2, "two", 20)]


def test_output_type_is_enforced(env):
    with pytest.raises(TypeMismatchError, match=r"'Co-Map'.*INT.*test_connected\.py"):
        collect(pair(env).map(Tell(), Types.INT()))


def test_a_keyed_function_needs_keys_on_both_sides(env):
    first, second = env.from_collection([(1, "one")]), env.from_collection([(1, 2)])
    for connected in (first.connect(second), first.key_by(0).connect(second)):
        with pytest.raises(DefinitionError, match=r"needs keys on both streams; test_connected\.py:\d+; call key_by"):
            connected.process(Join())


@pytest.mark.parametrize(("call", "argument"), [("map", str), ("flat_map", Tell()), ("process", Tell()), ("map", Tell)])
def test_a_function_of_the_wrong_kind_is_refused_with_the_line(env, call, argument):
    with pytest.raises(TypeMismatchError, match=r"test_connected\.py:\d+"):
        getattr(pair(env), call)(argument)
