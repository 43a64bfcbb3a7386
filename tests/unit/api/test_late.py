"""What a program says about late records, and how it sorts and cuts streams."""

from __future__ import annotations

import logging

import pytest

from flintstream import (
    CollectSink,
    DeltaWindows,
    OutputTag,
    TumblingProcessingTimeWindows,
    UntilWindows,
    bounded,
    count,
    tumbling,
)
from flintstream.errors import DefinitionError, InvalidArgumentError, TypeMismatchError, UnknownTagError
from flintstream.graph.nodes import AggregateNode, SortNode, WindowNode, late_output, logs_late

TAG = OutputTag("late")
RECORDS = [{"id": "a", "ts": ts} for ts in (1, 30, 4)]


def keyed(env):
    return env.from_collection(RECORDS).assign_timestamps_and_watermarks(bounded(0, on="ts")).key_by("id")


def last(env):
    return list(env.declarations.graph().nodes.values())[-1]


def declared(env, *calls):
    windows = keyed(env).window(tumbling("10ms"))
    for name, argument in calls:
        getattr(windows, name)(argument)
    windows.reduce(max)
    return logs_late(last(env)), late_output(last(env))


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([], (False, None)),
        ([("late", "drop")], (False, None)),
        ([("late", "log")], (True, None)),
        ([("late", TAG)], (False, "late")),
        ([("side_output_late_data", TAG), ("late", "log")], (True, "late")),
        ([("late", "log"), ("side_output_late_data", TAG)], (True, "late")),
        ([("late", TAG), ("late", "drop")], (False, None)),
        ([("late", "log"), ("late", TAG)], (False, "late")),
    ],
)
def test_the_last_word_about_late_records_counts(env, calls, expected):
    assert declared(env, *calls) == expected


def test_windows_aggregates_and_sorts_know_it(env):
    keyed(env).window(tumbling("10ms")).late("log").agg(n=count())
    assert isinstance(last(env), AggregateNode)
    assert logs_late(last(env))
    keyed(env).sort_by_event_time(late="log")
    assert isinstance(last(env), SortNode)
    assert logs_late(last(env))
    keyed(env).sort_by_event_time(late=TAG)
    assert late_output(last(env)) == "late"
    keyed(env).map(str)
    assert not logs_late(last(env))
    assert late_output(last(env)) is None


def test_what_is_not_of_event_time_has_no_late_records(env):
    with pytest.raises(DefinitionError, match=r"not of event time.*test_late\.py:\d+; leave late\(\.\.\.\) out"):
        keyed(env).window(TumblingProcessingTimeWindows.of("1s")).late("drop")
    with pytest.raises(DefinitionError, match=r"leave allowed_lateness\(\.\.\.\) out"):
        keyed(env).window_until(bool).allowed_lateness(5)
    with pytest.raises(InvalidArgumentError, match=r"treated by 5; test_late\.py:\d+; use \"drop\", \"log\" or an"):
        keyed(env).sort_by_event_time(late=5)


def test_a_sort_has_no_other_side_output(env):
    with pytest.raises(UnknownTagError, match=r"'Sort' never emits to side output 'other'; test_late\.py"):
        keyed(env).sort_by_event_time(late=TAG).get_side_output(OutputTag("other"))


def test_late_records_are_told_once_at_the_end_unless_they_have_an_output(env, caplog):
    def messages(how):
        caplog.clear()
        keyed(env).sort_by_event_time(late=how).uid("sort").sink_to(CollectSink())
        with caplog.at_level(logging.WARNING, "flintstream"):
            result = env.execute()
        assert str(result).endswith(" ms, 1 late records in 'sort'")
        return [record.getMessage().partition(")")[2] for record in caplog.records]

    dropped = " dropped 1 late records"
    assert messages("drop") == [dropped]
    assert messages("log") == [": key 'a', timestamp 4, watermark 29: {'id': 'a', 'ts': 4}", dropped]
    assert messages(TAG) == []


def test_the_short_spellings_of_windows_by_data(env):
    keyed(env).delta_window("ts", 10).reduce(max)
    node = last(env)
    assert isinstance(node, WindowNode)
    assert isinstance(node.assigner, DeltaWindows)
    assert (node.assigner.threshold, node.assigner.value({"ts": 7})) == (10, 7)
    keyed(env).window_until(bool).reduce(max)
    assert last(env).assigner == UntilWindows(bool)
    with pytest.raises(InvalidArgumentError, match=r"threshold of -1; test_late\.py:\d+; give 0 or more"):
        keyed(env).delta_window("ts", -1)
    with pytest.raises(TypeMismatchError, match=r"3 is not a function; test_late\.py:\d+; pass one"):
        keyed(env).window_until(3)


@pytest.mark.parametrize("call", ["delta_window", "window_until"])
def test_windows_by_data_need_keys(env, call):
    with pytest.raises(DefinitionError, match=rf"{call}\(\.\.\.\) works per key"):
        getattr(env.from_collection([1]), call)(abs, 1)
