"""Joins in time as users write them: what is refused, with their line, and what no transcript can say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from flintstream import (
    CoGroupFunction,
    CountTrigger,
    FlatJoinFunction,
    JoinFunction,
    MapFunction,
    OutputTag,
    ProcessJoinFunction,
    StreamExecutionEnvironment,
    TaggedUnion,
    Trigger,
    TriggerResult,
    TumblingProcessingTimeWindows,
    Types,
    bounded,
    monotonous,
    tumbling,
)
from flintstream.errors import (
    DefinitionError,
    InvalidArgumentError,
    JobError,
    TypeMismatchError,
    UnknownTagError,
)
from flintstream.ops import join_interval

TAG, OTHER = OutputTag("late"), OutputTag("other")


def rows(env: Any, records: Any = (("a", 1),), strategy: Any = None) -> Any:
    return env.from_collection(list(records)).assign_timestamps_and_watermarks(strategy or monotonous(on=1))


def keyed(env: Any, records: Any = (("a", 1),)) -> Any:
    return rows(env, records).key_by(0)


def near(env: Any, **how: Any) -> Any:
    return keyed(env).interval_join(keyed(env), **how).between(-1, 1)


def together(env: Any) -> Any:
    return rows(env).join(rows(env)).where(0).equal_to(0)


class NoJoin(MapFunction):
    def map(self, value):
        return value


class Groups(CoGroupFunction):
    def co_group(self, first, second):
        yield len(list(first)), len(list(second))


WRONG: dict[str, Any] = {
    "no keys": (
        lambda env: rows(env).interval_join(keyed(env)), DefinitionError, "interval_join(...) works per key"),
    "no keys on the right": (
        lambda env: keyed(env).interval_join(rows(env)), TypeMismatchError, "needs keys on both streams"),
    "no stream": (lambda env: rows(env).join(3), TypeMismatchError, "3 is not a DataStream"),
    "no stream to group": (lambda env: rows(env).co_group(3), TypeMismatchError, "3 is not a DataStream"),
    "another environment": (
        lambda env: rows(env).join(rows(StreamExecutionEnvironment.get_execution_environment(runtime="local"))),
        TypeMismatchError, "two streams of different environments"),
    "another environment, keyed": (
        lambda env: keyed(env).interval_join(
            keyed(StreamExecutionEnvironment.get_execution_environment(runtime="local"))),
        TypeMismatchError, "two streams of different environments"),
    "no kind": (lambda env: rows(env).join(rows(env), how="outer"), InvalidArgumentError, "'outer' is not a kind"),
    "no kind, keyed": (
        lambda env: keyed(env).interval_join(keyed(env), how=None), InvalidArgumentError, "None is not a kind"),
    "no length of time": (
        lambda env: keyed(env).interval_join(keyed(env)).between(1.5, 2), TypeMismatchError, "1.5 is not a length"),
    "no such length of time": (
        lambda env: keyed(env).interval_join(keyed(env)).between(0, "soon"), InvalidArgumentError, "'soon' cannot be"),
    "nothing between": (
        lambda env: keyed(env).interval_join(keyed(env)).between(2, 1).process(), InvalidArgumentError,
        "no time is between 2 ms and 1 ms"),
    "nothing between, bounds left out": (
        lambda env: near(env).lower_bound_exclusive().upper_bound_exclusive()
        and keyed(env).interval_join(keyed(env)).between(1, 1).upper_bound_exclusive().process(),
        InvalidArgumentError, "no time is between 1 ms and 1 ms without these bounds"),
    "no tag": (lambda env: near(env).side_output_left_late_data("late"), TypeMismatchError, "'late' is not an Output"),
    "no tag on the right": (
        lambda env: near(env).side_output_right_late_data("late"), TypeMismatchError, "'late' is not an Output"),
    "no tag for the lonely": (
        lambda env: near(env).side_output_right_unmatched(1), TypeMismatchError, "1 is not an OutputTag"),
    "lonely records twice": (
        lambda env: near(env, how="left").side_output_left_unmatched(TAG), DefinitionError,
        "of a left join, left records that met none are results already"),
    "one tag for two things": (
        lambda env: near(env).side_output_left_unmatched(TAG).side_output_right_late_data(TAG).process(),
        DefinitionError, "side output 'late' is named for late records and for others"),
    "a tag of nobody": (
        lambda env: near(env).side_output_left_late_data(TAG).process().get_side_output(OTHER), UnknownTagError,
        "never emits to side output 'other'"),
    "no function": (lambda env: near(env).process(3), TypeMismatchError, "3 is not a ProcessJoinFunction"),
    "a class": (lambda env: near(env).process(ProcessJoinFunction), TypeMismatchError, "is a class"),
    "another function": (lambda env: near(env).process(NoJoin()), TypeMismatchError, "is not a ProcessJoinFunction"),
    "no function of a window": (
        lambda env: together(env).window(tumbling("1s")).apply(NoJoin()), TypeMismatchError, "is not a JoinFunction"),
    "no function of groups": (
        lambda env: rows(env).co_group(rows(env)).where(0).equal_to(0).window(tumbling("1s")).apply(None),
        TypeMismatchError, "None is not a CoGroupFunction"),
    "no key": (lambda env: rows(env).join(rows(env)).where(None), TypeMismatchError, "None cannot be a key"),
    "no second key": (
        lambda env: rows(env).join(rows(env)).where(0).window(tumbling("1s")), DefinitionError,
        "window(...) needs the keys of both streams"),
    "the second key first": (
        lambda env: rows(env).join(rows(env)).equal_to(0), DefinitionError, "equal_to(...) needs where(...)"),
    "the first key twice": (
        lambda env: rows(env).join(rows(env)).where(0).where(0), DefinitionError, "where(...) was said already"),
    "the second key twice": (
        lambda env: together(env).equal_to(0), DefinitionError, "equal_to(...) was said already"),
    "keys that are never equal": (
        lambda env: rows(env).join(rows(env)).where(0, Types.STRING()).equal_to(0, Types.INT()), TypeMismatchError,
        "the keys are of different types"),
    "no windows": (lambda env: together(env).window("1s"), TypeMismatchError, "'1s' is not a window assigner"),
    "late by the clock": (
        lambda env: together(env).window(TumblingProcessingTimeWindows.of(5)).side_output_left_late_data(TAG),
        DefinitionError, "is not of event time"),
    "late by the clock on the right": (
        lambda env: together(env).window(TumblingProcessingTimeWindows.of(5)).side_output_right_late_data(TAG),
        DefinitionError, "is not of event time"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_it_is_refused_with_the_users_line(name, env):
    declare, kind, message = WRONG[name]
    with pytest.raises(kind, match=re.escape(message)) as caught:
        declare(env)
    assert re.search(r"test_joins\.py:\d+", str(caught.value))


def test_a_record_without_a_timestamp_is_refused(env):
    streams = [env.from_collection([("a", 1)]).key_by(0) for _ in range(2)]
    with pytest.raises(JobError, match="an interval join needs one"):
        list(streams[0].interval_join(streams[1]).between(0, 1).process().execute_and_collect())


LEFT = [("a", 1), ("b", 2), ("c", 3), ("a", 4)]
RIGHT = [("b", 2), ("a", 3), ("d", 4)]
FULL = {(("a", 1), ("a", 3)), (("b", 2), ("b", 2)), (("c", 3), None), (("a", 4), None), (None, ("d", 4))}


def full(env: Any, left: Any = LEFT, right: Any = RIGHT) -> list[Any]:
    joined = keyed(env, left).interval_join(keyed(env, right), how="full").between(0, 2)
    return list(joined.process().execute_and_collect())


def test_keys_with_one_hash_are_told_apart(env, monkeypatch):
    monkeypatch.setattr(join_interval, "hash_column", lambda array, kind: np.zeros(len(array), np.uint64))
    assert set(full(env)) == FULL


def test_keys_are_equal_as_in_python(env):
    left = [(1, 1), (0.0, 2), (None, 3), ((1, "x"), 4)]
    right = [(1.0, 1), (False, 2), (None, 3), ((1, "x"), 4), ("1", 5)]
    pairs = full(env, left, right)
    assert len(pairs) == 5
    assert sum(None not in pair for pair in pairs) == 4


@dataclass
class Click:
    user: str
    at: int


def test_records_of_any_kind_are_joined(env):
    """Records of a stream may be of several types, some of which are no columns."""
    left = [Click("a", 1), {"user": "a", "at": 2}, ("a", 3, object)]
    stream = env.from_collection(left).assign_timestamps_and_watermarks(
        bounded("1ms").with_timestamp_assigner(lambda record, _: left.index(record) + 1)
    )
    joined = stream.key_by(lambda record: "a").interval_join(keyed(env, [("a", 2), ("b", 3)]), how="full").between(0, 9)
    found = list(joined.process().execute_and_collect())
    assert len(found) == 4
    assert all(pair in found for pair in [(left[0], ("a", 2)), (left[1], ("a", 2)), (left[2], None), (None, ("b", 3))])


def test_times_may_lie_at_the_ends_of_time(env):
    far = 2**63 - 10
    left, right = [("a", -far), ("a", 0), ("a", far)], [("a", -far), ("a", far)]
    joined = keyed(env, left).interval_join(keyed(env, right), how="full").between("-1d", "1d")
    pairs = set(joined.process().execute_and_collect())
    assert pairs == {(("a", -far), ("a", -far)), (("a", 0), None), (("a", far), ("a", far))}


def test_the_type_of_pairs_is_known(env):
    pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    one, two = (env.from_collection([("a", 1)], type_info=pair) for _ in range(2))
    streams = [each.assign_timestamps_and_watermarks(monotonous(on=1)) for each in (one, two)]
    inner = streams[0].key_by(0).interval_join(streams[1].key_by(0)).between(0, 1).process()
    assert inner.get_type() == Types.TUPLE([pair, pair])
    named = streams[0].key_by(0).interval_join(streams[1].key_by(0)).between(0, 1)
    assert named.process(lambda left, right: 1, Types.INT()).get_type() == Types.INT()
    windows = streams[0].join(streams[1]).where(0).equal_to(0).window(tumbling("1s"))
    assert windows.apply().get_type() == Types.TUPLE([pair, pair])
    assert windows.get_input_type() is None


def test_explain_says_that_pairs_without_a_function_are_columns(env):
    near(env).process().print()
    near(env).process(lambda left, right: left).print()
    lines = [line for line in env.explain().splitlines() if "uid" in line and "Interval Join" in line]
    assert ["vectorised" in line for line in lines] == [True, False]


class EvenRight(Trigger):
    """Fires at every second record of the right stream."""

    def on_element(self, element: TaggedUnion, timestamp, window, ctx):
        assert element.is_one() != element.is_two()
        assert (element.get_two() if element.is_one() else element.get_one()) is None
        value = element.get_one() or element.get_two()
        fires = element.is_two() and value[1] % 2 == 0
        return TriggerResult.FIRE_AND_PURGE if fires else TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        pass


def test_triggers_see_which_stream_a_record_is_of(env):
    left, right = rows(env, [("a", 1), ("a", 3)]), rows(env, [("a", 2), ("a", 5)])
    windows = left.co_group(right).where(0).equal_to(0).window(tumbling("1s")).trigger(EvenRight())
    assert sum(n for pair in windows.apply(Groups()).execute_and_collect() for n in pair) in (2, 3)


def test_windows_of_two_streams_have_panes(env):
    left, right = rows(env, [("a", 1), ("a", 3)]), rows(env, [("a", 2)])
    windows = left.co_group(right).where(0).equal_to(0).window(tumbling("1s")).trigger(CountTrigger.of(3)).with_pane()
    panes = list(windows.apply(Groups()).execute_and_collect())
    assert [(pane.value, pane.info.number) for pane in panes] == [((2, 1), 0)]


class Opened(JoinFunction):
    def open(self, runtime_context):
        self.name = runtime_context.get_task_name()

    def join(self, first, second):
        return self.name, first[1], second[1]


class OpenedFlat(FlatJoinFunction):
    def open(self, runtime_context):
        self.name = runtime_context.get_task_name()

    def join(self, first, second):
        return None if first[1] > 1 else [self.name]


def test_functions_are_opened(env):
    left, right = rows(env, [("a", 1), ("a", 3)]), rows(env, [("a", 2)])
    windows = left.join(right).where(0).equal_to(0).window(tumbling("1s"))
    assert list(windows.apply(Opened()).execute_and_collect()) == [
        ("TumblingEventTimeWindows", 1, 2),
        ("TumblingEventTimeWindows", 3, 2),
    ]
    assert list(windows.apply(OpenedFlat()).execute_and_collect()) == ["TumblingEventTimeWindows"]
    pairs = left.key_by(0).interval_join(right.key_by(0)).between(0, 5)
    assert list(pairs.process(Opened()).execute_and_collect()) == [("Interval Join", 1, 2)]
    assert list(windows.late(TAG).apply(lambda a, b: (a[1], b[1])).get_side_output(TAG).execute_and_collect()) == []
