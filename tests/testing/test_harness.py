"""The harnesses: what goes in step by step comes out as it would in production, and what is inside can be seen."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream import (
    AggregateFunction,
    AggregatingStateDescriptor,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    ReducingStateDescriptor,
    StateTtlConfig,
    TimeDomain,
    ValueStateDescriptor,
    count,
    tumbling,
)
from flintstream.errors import (
    DefinitionError,
    InvalidArgumentError,
    TypeMismatchError,
    UnknownUidError,
    UnserialisableFunctionError,
    UnsupportedError,
    UserFunctionError,
)
from flintstream.testing import FunctionHarness, PipelineHarness, Timer

LOUD = OutputTag("loud")
RULES = MapStateDescriptor("rules")


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


MEAN = AggregatingStateDescriptor("mean", Mean())


class Everything(KeyedProcessFunction):
    """Has state of every kind, both timers and a side output."""

    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all"))
        self.by_size = runtime_context.get_map_state(MapStateDescriptor("by size"))
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda x, y: x + y))
        self.mean = runtime_context.get_aggregating_state(MEAN)

    def process_element(self, value, ctx):
        word, size = value
        self.last.update(size)
        self.all.add(size)
        self.by_size.put(size, word)
        self.sum.add(size)
        self.mean.add(size)
        timers = ctx.timer_service()
        timers.register_event_time_timer((ctx.timestamp() or 0) + 10)
        timers.register_processing_time_timer(timers.current_processing_time() + 500)
        if size > 4:
            yield LOUD, f"{word}!"
        yield word, size, ctx.timestamp()

    def on_timer(self, timestamp, ctx):
        yield "timer", ctx.time_domain().name, timestamp, list(self.all.get())


def test_records_timers_clock_state_and_side_outputs():
    with FunctionHarness(Everything(), key_by=lambda value: value[0], side_outputs=[LOUD]) as harness:
        assert harness.process(("a", 3), timestamp=100) == [("a", 3, 100)]
        assert harness.process(("a", 5), timestamp=105) == [("a", 5, 105)]
        assert harness.process(("b", 1)) == [("b", 1, None)]
        assert harness.state("last", "a") == 5
        assert harness.state("all", "a") == [3, 5]
        assert harness.state("by size", "a") == {3: "a", 5: "a"}
        assert harness.state("sum", "a") == 8
        assert harness.state("mean", "a") == (8, 2)
        assert harness.state("mean", "nobody") is None
        assert harness.state("nothing", "a") is None
        assert [(timer.key, timer.time) for timer in harness.timers() if timer.domain is TimeDomain.EVENT_TIME] == [
            ("b", 10),
            ("a", 110),
            ("a", 115),
        ]
        assert harness.timers("b") == [
            Timer("function", "b", 10, TimeDomain.EVENT_TIME),
            Timer("function", "b", 500, TimeDomain.PROCESSING_TIME),
        ]
        assert harness.watermark(110) == [("timer", "EVENT_TIME", 10, [1]), ("timer", "EVENT_TIME", 110, [3, 5])]
        assert sorted(harness.clock(501)) == [
            ("timer", "PROCESSING_TIME", 500, [1]),
            ("timer", "PROCESSING_TIME", 500, [3, 5]),
        ]
        assert [timer.time for timer in harness.timers()] == [115]
        assert harness.side_output(LOUD) == harness.side_output("loud") == ["a!"]
        assert harness.records[:3] == [(("a", 3, 100), 100), (("a", 5, 105), 105), (("b", 1, None), None)]
        assert harness.end() == [("timer", "EVENT_TIME", 115, [3, 5])]
        assert len(harness.output) == 8


def test_a_descriptor_shows_state_as_the_function_sees_it():
    with FunctionHarness(Everything(), key_by=lambda value: value[0]) as harness:
        harness.process(("a", 3))
        harness.process(("a", 5))
        assert harness.state(MEAN, "a") == 4.0
        assert harness.state(ValueStateDescriptor("last"), "a") == 5
        assert harness.state(ListStateDescriptor("all"), "nobody") == []
        assert harness.state(MapStateDescriptor("by size"), "a") == {3: "a", 5: "a"}
        assert harness.state(ReducingStateDescriptor("sum", lambda x, y: x + y), "a") == 8


class Forgetful(KeyedProcessFunction):
    descriptor = ValueStateDescriptor("seen")

    def open(self, runtime_context):
        self.descriptor.enable_time_to_live(StateTtlConfig.new_builder("10s").build())
        self.seen = runtime_context.get_state(self.descriptor)

    def process_element(self, value, ctx):
        self.seen.update(value)
        return ()


def test_state_that_has_expired_is_not_seen_by_its_descriptor():
    function = Forgetful()
    function.descriptor.enable_time_to_live(StateTtlConfig.new_builder("10s").build())
    with FunctionHarness(function, key_by=lambda value: value) as harness:
        harness.process("a")
        assert (harness.state("seen", "a"), harness.state(function.descriptor, "a")) == ("a", "a")
        harness.clock("11s")
        assert harness.state(function.descriptor, "a") is None


class Remembers(KeyedProcessFunction):
    """Counts in an attribute, where it does not belong, and in state."""

    def open(self, runtime_context):
        self.attribute = 0
        self.state = runtime_context.get_state(ValueStateDescriptor("n"))

    def process_element(self, value, ctx):
        self.attribute += 1
        self.state.update((self.state.value() or 0) + 1)
        yield self.attribute, self.state.value()


def test_a_restart_keeps_state_and_nothing_else():
    with FunctionHarness(Remembers(), key_by=lambda value: value) as harness:
        assert harness.process_all(["a", "a"]) == [(1, 1), (2, 2)]
        harness.restart()
        assert harness.state("n", "a") == 2
        assert harness.process("a") == [(1, 3)]
        harness.restart(parallelism=3)
        assert harness.process("a") == [(1, 4)]
        assert harness.entries() == {"entries": 1, "timers": 0}


class Many(MapFunction):
    def open(self, runtime_context):
        self.many = runtime_context.get_number_of_parallel_subtasks()

    def map(self, value):
        return self.many


def test_parallelism_is_what_was_asked_for():
    for harness in (
        FunctionHarness(Many(), key_by=lambda value: value, parallelism=3),
        PipelineHarness(lambda stream: stream.key_by(lambda value: value).map(Many()), parallelism=3),
    ):
        with harness:
            assert harness.process("a") == [3]
            harness.restart(parallelism=2)
            assert harness.process("a") == [2]
            harness.restart()
            assert harness.process("a") == [2]


class Double(MapFunction):
    def map(self, value):
        return 2 * value


class Words(FlatMapFunction):
    def flat_map(self, value):
        return value.split()


class Large(FilterFunction):
    def filter(self, value):
        return value > 2


class Stamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timestamp()


class Add(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


class Sizes(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, len(list(elements))


class AllSizes(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield context.window().start, len(list(elements))


@pytest.mark.parametrize(
    ("function", "options", "values", "expected"),
    [
        (Double(), {}, [1, 2], [2, 4]),
        (Double(), {"key_by": lambda value: value}, [1, 2], [2, 4]),
        (Words(), {}, ["to be", "or"], ["to", "be", "or"]),
        (Large(), {}, [1, 3], [3]),
        (Stamp(), {}, ["a"], [("a", 1000)]),
        (Add(), {"key_by": lambda value: value % 2}, [1, 2, 3], [1, 2, 4]),
        (Add(), {"key_by": lambda value: value % 2, "window": tumbling("10s")}, [1, 3, 5], [9]),
        (Mean(), {"key_by": lambda value: 0, "window": tumbling("10s")}, [1, 3, 5], [3.0]),
        (Sizes(), {"key_by": lambda value: value, "window": tumbling("10s")}, [7, 7], [(7, 0, 2)]),
        (AllSizes(), {"window": tumbling("10s")}, [7, 8], [(0, 2)]),
    ],
    ids=lambda each: type(each).__name__ if not isinstance(each, list | dict) else "",
)
def test_functions_of_one_input(function: Any, options: Any, values: Any, expected: Any):
    with FunctionHarness(function, **options) as harness:
        for value in values:
            harness.process(value, timestamp="1s")
        harness.watermark("20s")
        assert harness.output == expected


class Both(CoMapFunction):
    def map1(self, value):
        return f"left {value}"

    def map2(self, value):
        return f"right {value}"


class BothFlat(CoFlatMapFunction):
    def flat_map1(self, value):
        return [value, value]

    def flat_map2(self, value):
        return []


class BothProcess(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield 1, value, ctx.timestamp()

    def process_element2(self, value, ctx):
        yield 2, value, ctx.timestamp()


class Pairs(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.left = runtime_context.get_state(ValueStateDescriptor("left"))

    def process_element1(self, value, ctx):
        self.left.update(value)
        ctx.timer_service().register_event_time_timer(100)
        return ()

    def process_element2(self, value, ctx):
        yield self.left.value(), value

    def on_timer(self, timestamp, ctx):
        yield "timer", ctx.get_current_key()


def test_functions_of_two_inputs():
    for function, expected in (
        (Both(), ["left 1", "right 2"]),
        (BothFlat(), [1, 1]),
        (BothProcess(), [(1, 1, 5), (2, 2, 6)]),
    ):
        with FunctionHarness(function) as harness:
            harness.process(1, timestamp=5, input="first")
            harness.process(2, timestamp=6, input=2)
            assert harness.output == expected
    with FunctionHarness(Pairs(), key_by=(lambda value: value, lambda value: -value)) as harness:
        harness.process(1, input=1)
        assert harness.process(-1, input=2) == [(1, -1)]
        assert harness.watermark(200, input="first") == []
        assert harness.watermark(200, input="second") == [("timer", 1)]


class Named(BroadcastProcessFunction):
    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)

    def process_element(self, value, ctx):
        yield ctx.get_broadcast_state(RULES).get(value)


class KeyedNamed(KeyedBroadcastProcessFunction):
    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)

    def process_element(self, value, ctx):
        yield ctx.get_current_key(), ctx.get_broadcast_state(RULES).get(value)


def test_functions_with_broadcast_state():
    with FunctionHarness(Named(), broadcast=RULES) as harness:
        harness.process((1, "one"), input="broadcast")
        assert harness.process(1, input="records") == ["one"]
    with FunctionHarness(KeyedNamed(), key_by=lambda value: value, broadcast=[RULES], parallelism=2) as harness:
        harness.process((1, "one"), input="broadcast")
        harness.restart(parallelism=1)
        assert harness.process(1, input="records") == [(1, "one")]


def clicks_per_user(clicks):
    return clicks.key_by("user").window(tumbling("10s")).side_output_late_data(LOUD).agg(n=count())


def with_late(clicks):
    results = clicks_per_user(clicks)
    return {"counts": results, "loud": results.get_side_output(LOUD)}


def test_a_pipeline_with_windows_and_late_records():
    with PipelineHarness(with_late, parallelism=2) as harness:
        harness.process_all([{"user": "ann"}, {"user": "bob"}, {"user": "ann"}], ["1s", "2s", "9s"])
        assert harness.watermark("9s") == []
        assert sorted((row.user, row.n) for row in harness.watermark("10s")) == [("ann", 2), ("bob", 1)]
        harness.process({"user": "eve"}, timestamp="3s")
        assert [row["user"] for row in harness.side_output(LOUD)] == ["eve"]
        assert harness.counter("late") == 1
        assert harness.entries() == {"entries": 0, "timers": 0}


def joined(orders, prices):
    return orders.key_by(0).connect(prices.key_by(0)).process(Latest())


class Latest(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.price = runtime_context.get_state(ValueStateDescriptor("price"))

    def process_element1(self, value, ctx):
        yield value[0], self.price.value()

    def process_element2(self, value, ctx):
        self.price.update(value[1])
        return ()


def test_inputs_go_by_the_names_of_the_parameters():
    with PipelineHarness(joined) as harness:
        harness.process(("a", 7), input="prices")
        assert harness.process(("a",), input="orders") == [("a", 7)]
    with PipelineHarness(lambda *streams: joined(*streams), inputs=["left", "right"]) as harness:
        harness.process(("a", 7), input="right")
        assert harness.process(("a",), input="left") == [("a", 7)]


def test_in_one_order_records_wait_for_each_other():
    with PipelineHarness(joined, deterministic=True) as harness:
        harness.watermark(5, input="orders")
        assert harness.process(("a",), input="orders") == []
        assert harness.process(("a", 7), input="prices") == []
        assert harness.watermark(5, input="prices") == [("a", 7)]
    with PipelineHarness(joined) as harness:
        harness.watermark(5, input="orders")
        assert harness.process(("a",), input="orders") == [("a", None)]


def test_other_bounded_sources_of_the_pipeline_are_read_at_once():
    def pipeline(orders):
        prices = orders.get_execution_environment().from_collection([("a", 7)])
        return orders.key_by(0).connect(prices.key_by(0)).process(Latest())

    with PipelineHarness(pipeline) as harness:
        harness.watermark(0)
        assert harness.process(("a",)) == [("a", 7)]


def test_a_source_that_never_ends_is_refused():
    def pipeline(orders):
        return orders.union(orders.get_execution_environment().generate(generator=lambda n: n))

    with pytest.raises(UnsupportedError, match="never ends, and a test cannot wait for it"):
        PipelineHarness(pipeline)


def test_state_of_several_operators_is_asked_for_by_uid():
    def pipeline(words):
        first = words.key_by(lambda word: word).process(Remembers()).uid("first")
        return first.key_by(lambda pair: pair[0]).process(Remembers()).uid("second")

    with PipelineHarness(pipeline) as harness:
        harness.process("a")
        assert (harness.state("n", "a", uid="first"), harness.state("n", 1, uid="second")) == (1, 1)
        with pytest.raises(InvalidArgumentError, match="several operators have a state 'n': 'first', 'second'"):
            harness.state("n", "a")
        with pytest.raises(UnknownUidError, match="no operator with uid 'third'"):
            harness.state("n", "a", uid="third")
        assert harness.timers(uid="first") == []


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: FunctionHarness(Remembers()), DefinitionError, "Remembers needs keys"),
        (lambda: FunctionHarness(Pairs()), DefinitionError, "Pairs needs keys"),
        (lambda: FunctionHarness(Pairs(), key_by=lambda v: v), DefinitionError, "give key_by= a pair"),
        (lambda: FunctionHarness(Sizes(), key_by=lambda v: v), DefinitionError, "Sizes needs windows"),
        (lambda: FunctionHarness(Named()), DefinitionError, "Named needs broadcast state"),
        (lambda: FunctionHarness(Double(), broadcast=RULES), DefinitionError, "has no broadcast state"),
        (lambda: FunctionHarness(len), TypeMismatchError, "no function that can stand alone"),  # type: ignore[arg-type]
        (lambda: FunctionHarness(Double(), window=tumbling("1s")), DefinitionError, "cannot|can stand alone"),
        (lambda: PipelineHarness(lambda: None), InvalidArgumentError, "the pipeline has no input"),  # type: ignore[arg-type,return-value]
        (lambda: PipelineHarness(lambda stream: None), DefinitionError, "the pipeline returned None"),  # type: ignore[arg-type,return-value]
    ],
)
def test_what_cannot_work_is_refused_with_the_users_line(make: Any, error: Any, message: str):
    with pytest.raises(error, match=message) as caught:
        make()
    assert "test_harness.py:" in str(caught.value)


def test_a_function_that_cannot_travel_is_refused_as_on_a_cluster():
    import threading

    lock = threading.Lock()
    with pytest.raises(UnserialisableFunctionError, match="'lock'"):
        PipelineHarness(lambda stream: stream.map(lambda value: (lock, value)))


def test_wrong_steps_are_refused():
    with PipelineHarness(joined) as harness:
        for call, message in (
            (lambda: harness.process(1), "the pipeline has several inputs"),
            (lambda: harness.process(1, input="left"), "there is no input 'left'"),
            (lambda: harness.process(1, input=3), "there is no input 3"),
            (lambda: harness.process_all([1], [1, 2], input=1), "there are 1 values and 2 timestamps"),
            (lambda: harness.side_output("late"), "there is no output 'late', only 'main'"),
        ):
            with pytest.raises(InvalidArgumentError, match=message):
                call()
        harness.clock(10)
        with pytest.raises(InvalidArgumentError, match="cannot go back to 5"):
            harness.clock(5)
        harness.end()
        with pytest.raises(DefinitionError, match="the input has ended"):
            harness.watermark(1)
    with FunctionHarness(Double()) as harness, pytest.raises(InvalidArgumentError, match=r"side_outputs=\["):
        harness.side_output(LOUD)


def test_a_failure_of_the_function_is_told_with_its_line():
    with (
        PipelineHarness(lambda stream: stream.map(lambda value: 1 / value)) as harness,
        pytest.raises(UserFunctionError, match="ZeroDivisionError"),
    ):
        harness.process(0)
