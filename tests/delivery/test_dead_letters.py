"""Records on which a function raises: skipped, sent away, or the job's end; nothing is left of the failed call."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pytest

from flintstream import (
    AggregateFunction,
    AggregatingStateDescriptor,
    CollectSink,
    CoMapFunction,
    DeadLetter,
    FileSource,
    FilterFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    ReducingStateDescriptor,
    StateTtlConfig,
    TopKStateDescriptor,
    ValueStateDescriptor,
    bounded,
    tumbling,
    vectorized,
)
from flintstream.errors import (
    DefinitionError,
    InvalidArgumentError,
    TypeMismatchError,
    UnknownTagError,
    UnsupportedError,
    UserFunctionError,
)

BAD = OutputTag("bad")


@pytest.fixture
def env(make_env):
    return make_env("local")


def both(stream: Any) -> tuple[list[Any], list[DeadLetter]]:
    """Run a program and return an operator's output and its dead letters."""
    good, bad = CollectSink(), CollectSink()
    stream.sink_to(good)
    stream.get_side_output(BAD).sink_to(bad)
    stream.get_execution_environment().execute()
    return good.results, bad.results


def half(n: Any) -> Any:
    if n == 3:
        raise ValueError("three")
    return n / 2


def test_by_default_the_job_fails(env):
    env.from_collection([1, 3]).map(half).print()
    with pytest.raises(UserFunctionError, match="ValueError: three"):
        env.execute()


@pytest.mark.parametrize(
    ("add", "good"),
    [
        (lambda s: s.map(half), [0.5, 1.0, 2.0]),
        (lambda s: s.filter(lambda n: half(n) >= 1), [2, 4]),
        (lambda s: s.flat_map(lambda n: [n, half(n)]), [1, 0.5, 2, 1.0, 4, 2.0]),
        (lambda s: s.key_by(lambda n: 0).map(half), [0.5, 1.0, 2.0]),
        (lambda s: s.key_by(lambda n: 0).filter(lambda n: half(n) >= 1), [2, 4]),
        (lambda s: s.key_by(lambda n: 0).flat_map(lambda n: [n, half(n)]), [1, 0.5, 2, 1.0, 4, 2.0]),
        (lambda s: s.key_by(lambda n: 0).reduce(lambda a, b: a + half(b)), [1, 2.0, 4.0]),
        (lambda s: s.key_by(lambda n: 0).map_with_state(lambda n, t: (half(n), n + (t or 0))), [0.5, 1.0, 2.0]),
        (lambda s: s.map(vectorized("arrow")(lambda c: pa.array([half(n) for n in c.to_pylist()]))), [0.5, 1.0, 2.0]),
    ],
)
def test_every_kind_of_function_goes_on(env, add, good):
    found, letters = both(add(env.from_collection([1, 2, 3, 4])).uid("half").on_error(BAD))
    assert found == good
    (letter,) = letters
    assert (letter.record, letter.error, letter.message, letter.operator) == (3, "ValueError", "three", "half")
    assert letter.traceback.splitlines()[-1] == "ValueError: three"
    assert "flintstream" not in letter.traceback.replace(__file__, "")


def test_a_generator_that_fails_on_the_way_has_emitted_nothing(env):
    class Walk(ProcessFunction):
        def process_element(self, value, ctx):
            yield value
            yield OutputTag("side"), value
            yield half(value)

    stream = env.from_collection([1, 3]).process(Walk()).on_error(BAD)
    side = CollectSink()
    stream.get_side_output(OutputTag("side")).sink_to(side)
    good, letters = both(stream)
    assert (good, side.results, [each.record for each in letters]) == ([1, 0.5], [1], [3])


def test_skipping_counts_and_tells(env, caplog):
    with caplog.at_level(logging.WARNING, logger="flintstream"):
        sink = CollectSink()
        env.from_collection([1, 3, 3]).map(half).uid("half").on_error("skip").sink_to(sink)
        result = env.execute()
    assert sink.results == [0.5]
    assert result.get_accumulator_result("half")["dead_letters"] == 2
    assert "2 records that 'half' could not process" in str(result)
    assert "'half' (test_dead_letters.py:" in caplog.text
    assert "could not process 2 records" in caplog.text


def test_only_the_errors_that_were_named_are_a_records_fault(env):
    sink = CollectSink()
    env.from_collection(["1", "x", ""]).map(int).on_error("skip", errors=(ValueError, KeyError)).sink_to(sink)
    env.execute()
    assert sink.results == [1]
    env.from_collection([3]).map(half).on_error("skip", errors=KeyError).print()
    with pytest.raises(UserFunctionError, match="ValueError"):
        env.execute()


def test_what_is_wrong_with_the_program_fails_the_job(env):
    class Asks(MapFunction):
        def open(self, runtime_context):
            self.context = runtime_context

        def map(self, value):
            return self.context.get_state(ValueStateDescriptor("n"))

    env.from_collection([1]).map(Asks()).on_error("skip").print()
    with pytest.raises(DefinitionError, match="stream without keys"):
        env.execute()


class Everything(KeyedProcessFunction):
    """Touches every kind of state, a timer of each clock, and then fails if the record says so."""

    def __init__(self, ttl: bool) -> None:
        self._ttl = ttl

    def open(self, runtime_context):
        def mortal(descriptor):
            if self._ttl:
                descriptor.enable_time_to_live(StateTtlConfig.new_builder("1h").use_event_time().build())
            return descriptor

        self.value = runtime_context.get_state(mortal(ValueStateDescriptor("value")))
        self.box = runtime_context.get_state(mortal(ValueStateDescriptor("box")))
        self.list = runtime_context.get_list_state(mortal(ListStateDescriptor("list")))
        self.map = runtime_context.get_map_state(mortal(MapStateDescriptor("map")))
        self.sum = runtime_context.get_reducing_state(mortal(ReducingStateDescriptor("sum", lambda a, b: a + b)))
        self.all = runtime_context.get_aggregating_state(mortal(AggregatingStateDescriptor("all", Gather())))
        self.top = runtime_context.get_summary_state(TopKStateDescriptor("top", 3))

    def process_element(self, value, ctx):
        key, n, verb = value
        self.value.update(n)
        box = self.box.value() or {"seen": []}
        box["seen"].append(n)
        self.box.update(box)
        self.list.add(n)
        self.map.put(n, [n])
        self.sum.add(n)
        self.all.add(n)
        self.top.add(n)
        ctx.timer_service().register_event_time_timer(1000 + n)
        if verb == "clear":
            for state in (self.value, self.box, self.list, self.map, self.sum, self.all):
                state.clear()
            ctx.timer_service().delete_event_time_timer(1000 + n - 1)
        if verb == "change":
            self.list.update([9])
            self.map.remove(n - 1)
            for held in self.map.values():
                held.append("changed in place")
        yield self._shown(key)
        if verb != "keep":
            raise RuntimeError(verb)

    def on_timer(self, timestamp, ctx):
        yield "timer", timestamp

    def _shown(self, key):
        kept = sorted((inner, list(held)) for inner, held in self.map.items())
        box = None if self.box.value() is None else list(self.box.value()["seen"])
        return key, self.value.value(), box, list(self.list.get()), kept, self.sum.get(), self.all.get()


class Gather(AggregateFunction):
    """An accumulator that is changed in place."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return list(accumulator)

    def merge(self, a, b):
        return a + b


@pytest.mark.parametrize("ttl", [False, True])
@pytest.mark.parametrize("spilled", [False, True])
@pytest.mark.parametrize("max_records", [0, 1])
def test_a_failed_call_leaves_no_trace_in_state_or_timers(make_env, tmp_path, ttl, spilled, max_records):
    good = [("a", 1, "keep"), ("a", 2, "keep"), ("b", 1, "keep"), ("a", 3, "keep"), ("b", 2, "keep")]
    poisoned = [
        ("b", 7, "fail"),
        ("a", 1, "keep"),
        ("a", 2, "clear"),
        ("a", 2, "keep"),
        ("a", 3, "change"),
        ("b", 1, "keep"),
        ("a", 8, "fail"),
        ("a", 3, "keep"),
        ("a", 4, "clear"),
        ("b", 2, "change"),
        ("b", 2, "keep"),
        ("a", 9, "fail"),
    ]

    def run(records):
        settings = {"flintstream.state.entries-in-memory": "1"} if spilled else {}
        env = make_env("local", max_records=max_records, settings=settings)
        stream = env.from_collection(records).key_by(lambda r: r[0]).process(Everything(ttl)).on_error(BAD)
        return both(stream)

    expected, nothing = run(good)
    found, letters = run(poisoned)
    assert nothing == []
    assert found == expected
    assert sorted((each.key, each.record[1], each.message) for each in letters) == [
        ("a", 2, "clear"),
        ("a", 3, "change"),
        ("a", 4, "clear"),
        ("a", 8, "fail"),
        ("a", 9, "fail"),
        ("b", 2, "change"),
        ("b", 7, "fail"),
    ]


def test_a_timers_function_may_fail(env):
    class Alarm(KeyedProcessFunction):
        def open(self, runtime_context):
            self.rings = runtime_context.get_state(ValueStateDescriptor("rings"))

        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value)

        def on_timer(self, timestamp, ctx):
            self.rings.update((self.rings.value() or 0) + 1)
            ctx.timer_service().register_event_time_timer(timestamp + 100)
            yield timestamp, self.rings.value()
            if timestamp % 100 == 20 or timestamp > 300:
                raise RuntimeError("no more")

    stream = env.from_collection([10, 20, 30]).key_by(lambda n: "k").process(Alarm()).uid("alarm").on_error(BAD)
    good, letters = both(stream)
    assert good == [(10, 1), (30, 2), (110, 3), (130, 4), (210, 5), (230, 6)]
    assert [(each.record, each.timestamp, each.key) for each in letters] == [
        (None, 20, "k"),
        (None, 310, "k"),
        (None, 330, "k"),
    ]


def test_two_inputs(env):
    class Two(KeyedCoProcessFunction):
        def process_element1(self, value, ctx):
            yield "left", half(value)

        def process_element2(self, value, ctx):
            yield "right", half(value)

    left, right = env.from_collection([1, 3]), env.from_collection([3, 2])
    keyed = left.connect(right).key_by(lambda n: 0, lambda n: 0).process(Two()).on_error(BAD)
    good, letters = both(keyed)
    assert sorted(good) == [("left", 0.5), ("right", 1.0)]
    assert [each.record for each in letters] == [3, 3]

    class Maps(CoMapFunction):
        def map1(self, value):
            return half(value)

        def map2(self, value):
            return -half(value)

    good, letters = both(left.connect(right).map(Maps()).on_error(BAD))
    assert sorted(good) == [-1.0, 0.5]


def test_a_letter_has_the_records_time_and_key(env):
    timed = env.from_collection([{"k": "a", "ts": 5, "n": 3}]).assign_timestamps_and_watermarks(bounded(0, on="ts"))
    (letter,) = both(timed.key_by("k").map(lambda r: half(r["n"])).on_error(BAD))[1]
    assert (letter.timestamp, letter.key, letter.split, letter.position) == (5, "a", None, None)


class Stubborn:
    """Cannot be pickled, nor shown."""

    def __reduce__(self):
        raise TypeError("no")

    def __repr__(self):
        raise TypeError("no")


def test_a_record_that_cannot_travel_does_not_fail_the_job(env):
    found = both(env.from_collection([1]).map(lambda n: Stubborn()).map(lambda s: half(3)).on_error(BAD))
    assert found[1][0].record == "a Stubborn that cannot be shown"


def test_letters_as_text_are_of_one_shape(env):
    graveyard, good = CollectSink(), CollectSink()
    env.set_on_error(graveyard)
    mixed = env.from_collection([1, "x", (2, 3), 3]).map(lambda n: half(n)).uid("half")
    mixed.key_by(lambda n: 0).reduce(lambda a, b: a + b).sink_to(good)
    env.execute()
    assert good.results == [0.5]
    assert sorted((each["operator"], each["record"], each["error"], each["key"]) for each in graveyard.results) == [
        ("half", "(2, 3)", "TypeError", None),
        ("half", "3", "ValueError", None),
        ("half", "x", "TypeError", None),
    ]
    assert {tuple(each) for each in graveyard.results} == {tuple(DeadLetter.__dataclass_fields__)}


def test_an_operators_own_word_comes_before_the_jobs(env):
    env.set_on_error("skip")
    env.from_collection([3]).map(half).on_error("fail").print()
    with pytest.raises(UserFunctionError):
        env.execute()
    sink = CollectSink()
    env.from_collection([3, 4]).map(half).sink_to(sink)
    env.execute()
    assert sink.results == [2.0]
    env.set_on_error("fail").from_collection([3]).map(half).print()
    with pytest.raises(UserFunctionError):
        env.execute()


def test_branches_without_a_sink_are_left_out_as_ever(env):
    calls = []
    env.set_on_error(CollectSink())
    stream = env.from_collection([1])
    stream.map(calls.append)
    stream.map(half).print()
    assert sum(op.node.name == "Map" for op in env.compile().operators) == 1


def test_verdicts_whose_truth_raises(env):
    class Odd:
        def __bool__(self):
            raise ValueError("neither")

    class Judge(FilterFunction):
        def filter(self, value):
            return Odd() if value == 3 else True

    good, letters = both(env.from_collection([1, 3]).filter(Judge()).on_error(BAD))
    assert (good, [each.message for each in letters]) == ([1], ["neither"])


def test_a_vectorised_function_is_tried_in_halves(env):
    sizes = []

    @vectorized("arrow")
    def halves(column):
        sizes.append(len(column))
        return pa.array([half(n) for n in column.to_pylist()])

    good, letters = both(env.from_collection([1, 3, 4]).map(halves).on_error(BAD))
    assert (good, [each.record for each in letters]) == ([0.5, 2.0], [3])
    assert sizes == [3, 1, 2, 1, 1]


def test_a_wrong_answer_of_a_vectorised_function_fails_the_job(env):
    env.from_collection([1, 2]).map(vectorized("arrow")(lambda column: pa.array([1]))).on_error("skip").print()
    with pytest.raises(Exception, match="got 2 rows and returned 1"):
        env.execute()


def test_what_cannot_go_on_is_refused_with_the_line(env, tmp_path):
    timed = env.from_collection([(1, 1)]).assign_timestamps_and_watermarks(bounded(0, on=0))
    window = timed.key_by(0).window(tumbling("1s")).reduce(lambda a, b: a)
    match = r"'.*' cannot go on after an error; test_dead_letters.py:\d+; let a map"
    # Without a schema nobody knows what a good line is.
    for stream in (window, timed, env.from_source(FileSource.json(tmp_path))):
        with pytest.raises(UnsupportedError, match=match):
            stream.on_error("skip")
    with pytest.raises(DefinitionError, match=r"on_error\(...\) is said of an operator"):
        timed.key_by(0).on_error("skip")


def test_wrong_words_are_refused_with_the_line(env):
    stream = env.from_collection([1]).map(half)
    with pytest.raises(InvalidArgumentError, match=r"treated by 'ignore'; test_dead_letters.py:\d+; use \"fail\""):
        stream.on_error("ignore")
    with pytest.raises(InvalidArgumentError, match=r"treated by 'ignore'; test_dead_letters.py:\d+; use \"fail\""):
        env.set_on_error("ignore")
    with pytest.raises(TypeMismatchError, match=r"'KeyError' is not a class of exceptions; test_dead_letters.py:\d+"):
        stream.on_error("skip", errors=["KeyError"])
    with pytest.raises(InvalidArgumentError, match="names none"):
        stream.on_error("skip", errors=[])
    with pytest.raises(UnknownTagError, match=r"never emits to side output 'bad'; test_dead_letters.py:\d+"):
        stream.get_side_output(BAD)
