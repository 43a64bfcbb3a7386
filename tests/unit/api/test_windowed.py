from __future__ import annotations

import pytest

from flintstream import (
    AggregateFunction,
    AllWindowFunction,
    CountEvictor,
    CountTrigger,
    NoEffectWarning,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    Row,
    Time,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Types,
    WatermarkStrategy,
    WindowFunction,
    approx_count_distinct,
    approx_quantile,
    avg,
    bounded,
    count,
    last_of,
    max_of,
    min_of,
    quantile,
    session,
    sliding,
    sum_of,
    top_n,
    tumbling,
)
from flintstream.errors import (
    DefinitionError,
    InvalidArgumentError,
    JobError,
    TypeMismatchError,
    UnknownTagError,
)
from flintstream.graph.nodes import AggregateNode, WindowNode
from flintstream.ops.selectors import FieldKey
from flintstream.planner.compile import path_of
from tests.shown import name_of

TIMED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r[1])
RECORDS = [("a", 1), ("a", 4), ("b", 6), ("a", 12)]


def collect(stream) -> list:
    return list(stream.execute_and_collect())


def timed(env, records=RECORDS, strategy=TIMED):
    return env.from_collection(records).assign_timestamps_and_watermarks(strategy)


def windows(env, **attributes):
    return timed(env, **attributes).key_by(lambda r: r[0]).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))


def last(env):
    return list(env.declarations.graph().nodes.values())[-1]


class Span(WindowFunction):
    def apply(self, key, window, inputs):
        return [(key, window.start, window.end, len(list(inputs)))]


class Spanned(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().end, [element[1] for element in elements]


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[1]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def test_reduce_apply_process_and_aggregate(env):
    def sums(x, y):
        return x[0], x[1] + y[1]

    assert sorted(collect(windows(env).reduce(sums))) == [("a", 5), ("a", 12), ("b", 6)]
    assert sorted(collect(windows(env).aggregate(Total()))) == [5, 6, 12]
    assert sorted(collect(windows(env).apply(Span()))) == [("a", 0, 10, 2), ("a", 10, 20, 1), ("b", 0, 10, 1)]
    assert sorted(collect(windows(env).process(Spanned()))) == [("a", 10, [1, 4]), ("a", 20, [12]), ("b", 10, [6])]


def test_incremental_functions_with_a_window_function(env):
    reduced = windows(env).reduce(lambda x, y: (x[0], x[1] + y[1]), Spanned())
    assert sorted(collect(reduced)) == [("a", 10, [5]), ("a", 20, [12]), ("b", 10, [6])]
    aggregated = windows(env).aggregate(Total(), window_function=Span())
    assert sorted(collect(aggregated)) == [("a", 0, 10, 1), ("a", 10, 20, 1), ("b", 0, 10, 1)]


def test_output_type_is_enforced(env):
    with pytest.raises(TypeMismatchError, match="STRING"):
        collect(windows(env).aggregate(Total(), output_type=Types.STRING()))


def test_trigger_and_evictor_say_when_and_what(env):
    stream = windows(env).trigger(CountTrigger.of(2)).evictor(CountEvictor.of(1)).apply(Span())
    assert collect(stream) == [("a", 0, 10, 1)]


def test_trigger_changes_the_object_as_in_pyflink(env):
    stream = windows(env)
    stream.trigger(CountTrigger.of(1)).allowed_lateness(5).side_output_late_data(OutputTag("late"))
    stream.apply(Span())
    node = last(env)
    assert isinstance(node, WindowNode)
    assert (node.trigger, node.allowed_lateness_ms, node.late_tag) == (CountTrigger.of(1), 5, "late")
    assert node.name == "TumblingEventTimeWindows"


LATE = [("a", 1), ("a", 30), ("a", 4)]


def test_late_records_go_to_the_side_output(env):
    tag = OutputTag("late")
    main = windows(env, records=LATE).side_output_late_data(tag).reduce(lambda x, y: (x[0], x[1] + y[1]))
    assert collect(main.get_side_output(tag)) == [("a", 4)]
    assert collect(main) == [("a", 1), ("a", 30)]


def test_allowed_lateness_fires_again(env):
    stream = windows(env, records=LATE).allowed_lateness("100ms").reduce(lambda x, y: (x[0], x[1] + y[1]))
    assert collect(stream) == [("a", 1), ("a", 5), ("a", 30)]


def test_a_tag_that_a_window_never_emits_is_refused(env):
    main = windows(env).reduce(lambda x, y: x)
    with pytest.raises(UnknownTagError, match=r"late.*test_windowed\.py"):
        main.get_side_output(OutputTag("late"))


def test_lateness_is_for_event_time(env):
    keyed = timed(env).key_by(lambda r: r[0])
    with pytest.raises(DefinitionError, match=r"not of event time.*test_windowed\.py"):
        keyed.window(TumblingProcessingTimeWindows.of("5s")).allowed_lateness(5)
    with pytest.raises(InvalidArgumentError, match=r"test_windowed\.py"):
        windows(env).allowed_lateness(-5)


def test_windows_of_a_whole_stream(env):
    class All(AllWindowFunction):
        def apply(self, window, inputs):
            yield window.start, len(list(inputs))

    class ProcessAll(ProcessAllWindowFunction):
        def process(self, context, elements):
            yield context.window().end, [element[1] for element in elements]

    def whole():
        return timed(env).window_all(tumbling("10ms"))

    assert collect(whole().apply(All())) == [(0, 3), (10, 1)]
    assert collect(whole().process(ProcessAll())) == [(10, [1, 4, 6]), (20, [12])]
    assert collect(whole().reduce(lambda x, y: ("", x[1] + y[1]), ProcessAll())) == [(10, [11]), (20, [12])]
    assert collect(whole().aggregate(Total())) == [11, 12]


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        ("reduce", 1),
        ("aggregate", lambda x: x),
        ("apply", Spanned()),
        ("process", Span()),
        ("process", Spanned),
        ("trigger", "count"),
        ("evictor", 1),
        ("side_output_late_data", "late"),
    ],
    ids=name_of,
)
def test_an_argument_of_the_wrong_kind_is_refused_with_the_line(env, call, argument):
    with pytest.raises(TypeMismatchError, match=r"test_windowed\.py:\d+"):
        getattr(windows(env), call)(argument)


def test_a_window_function_of_the_wrong_kind_is_refused(env):
    with pytest.raises(TypeMismatchError, match="WindowFunction or a ProcessWindowFunction"):
        windows(env).reduce(lambda x, y: x, window_function=Total())


def test_an_accumulator_type_is_checked_and_said_to_be_needless(env):
    with pytest.warns(NoEffectWarning, match="accumulator_type"):
        windows(env).aggregate(Total(), accumulator_type=Types.LONG())
    with pytest.raises(TypeMismatchError):
        windows(env).aggregate(Total(), accumulator_type=Types)


READINGS = [
    {"sensor": "a", "ts": 0, "t": 20},
    {"sensor": "b", "ts": 400, "t": 5},
    {"sensor": "a", "ts": 900, "t": 23},
    {"sensor": "a", "ts": 1500, "t": 7},
]


def readings(env, **attributes):
    return timed(env, READINGS, bounded("1s", on="ts")).key_by("sensor", **attributes).window(tumbling("1s"))


@pytest.mark.parametrize("key_type", [None, Types.STRING()])
def test_agg_computes_on_columns(env, key_type):
    stream = readings(env, key_type=key_type).agg(
        n=count(), total=sum_of("t"), low=min_of("t"), high=max_of("t"), mean=avg("t")
    )
    node = last(env)
    assert isinstance(node, AggregateNode)
    assert node.key == FieldKey(("sensor",))
    rows = sorted(collect(stream), key=lambda row: (row.window_start, row.sensor))
    assert rows == [
        Row(sensor="a", window_start=0, window_end=1000, n=2, total=43, low=20, high=23, mean=21.5),
        Row(sensor="b", window_start=0, window_end=1000, n=1, total=5, low=5, high=5, mean=5.0),
        Row(sensor="a", window_start=1000, window_end=2000, n=1, total=7, low=7, high=7, mean=7.0),
    ]


def test_agg_takes_columns_where_it_can_and_records_elsewhere(env):
    keyed = timed(env).key_by(0)
    columns = [keyed.window(assigner) for assigner in (tumbling("1s"), sliding("2s", "1s"), session("1s"))]
    records = [
        keyed.window(sliding("1s", "2s")),
        keyed.window(TumblingProcessingTimeWindows.of("1s")),
        keyed.count_window(2),
        keyed.window(tumbling("1s")).trigger(CountTrigger.of(2)),
        keyed.window(tumbling("1s")).evictor(CountEvictor.of(2)),
        keyed.window(tumbling("1s")).allowed_lateness(5),
    ]
    for streams, kind, path in ((columns, AggregateNode, "vectorised"), (records, WindowNode, "per record")):
        for stream in streams:
            stream.agg(n=count())
            assert isinstance(last(env), kind)
            assert path_of(last(env)) == path


def test_agg_gives_the_same_rows_by_any_path(env):
    by_count = timed(env, READINGS, bounded("1s", on="ts")).key_by("sensor").count_window(1)
    assert collect(by_count.agg(t=sum_of("t")))[0].get_field_names() == ["sensor", "t"]
    evicted = readings(env).evictor(CountEvictor.of(1)).agg(n=count(), t=last_of("t"))
    rows = sorted(collect(evicted), key=lambda row: (row.window_start, row.sensor))
    assert rows[0] == Row(sensor="a", window_start=0, window_end=1000, n=1, t=23)
    whole = timed(env, READINGS, bounded("1s", on="ts")).window_all(tumbling("1s")).agg(n=count())
    assert collect(whole) == [Row(window_start=0, window_end=1000, n=3), Row(window_start=1000, window_end=2000, n=1)]


@pytest.mark.parametrize(
    "declare",
    [
        lambda: quantile("t", 1.5),
        lambda: approx_quantile("t", 0.5, 0),
        lambda: approx_count_distinct("t", 0.9),
        lambda: top_n(0, "t"),
    ],
)
def test_aggregates_refuse_numbers_out_of_range(declare):
    with pytest.raises(InvalidArgumentError, match=r"out of range.*test_windowed\.py:\d+; give a number from"):
        declare()


def test_agg_wants_built_in_aggregates(env):
    with pytest.raises(DefinitionError, match="no aggregate"):
        readings(env).agg()
    with pytest.raises(TypeMismatchError, match=r"n=<built-in function sum>.*test_windowed\.py"):
        readings(env).agg(n=sum)


def test_late_records_of_an_aggregate_go_to_the_side_output(env):
    tag = OutputTag("late")
    records = [Row(k="a", ts=1, v=1), Row(k="a", ts=30, v=2), Row(k="a", ts=4, v=3)]
    stream = timed(env, records, bounded(0, on="ts")).key_by("k").window(tumbling("10ms"))
    main = stream.side_output_late_data(tag).agg(total=sum_of("v"))
    assert collect(main.get_side_output(tag)) == [Row(k="a", ts=4, v=3)]


class Rigid(CountTrigger):
    """A trigger that cannot follow windows that merge."""

    def can_merge(self):
        return False


def test_a_trigger_that_cannot_merge_is_refused_where_it_is_given(env):
    sessions = timed(env).key_by(lambda r: r[0]).window(session("5ms"))
    with pytest.raises(DefinitionError, match="Rigid cannot merge") as refused:
        sessions.trigger(Rigid(2))
    assert "test_windowed.py:" in refused.value.location


@pytest.mark.parametrize(
    "results",
    [
        lambda stream: stream.key_by(lambda r: r["k"]).delta_window("x", 3).reduce(lambda a, b: a),
        lambda stream: stream.key_by("k").window(tumbling("1s")).agg(total=sum_of("x")),
        lambda stream: stream.key_by("k").sort_by_event_time(),
    ],
    ids=["difference of texts", "sum of texts", "no timestamps"],
)
def test_what_our_own_code_cannot_work_with_is_blamed_on_the_line_that_gave_it(env, results, request):
    stream = env.from_collection([{"k": "a", "ts": 1, "x": "text"}, {"k": "a", "ts": 5, "x": "t"}])
    if "timestamps" not in request.node.callspec.id:
        stream = stream.assign_timestamps_and_watermarks(bounded("1s", on="ts"))
    with pytest.raises(JobError) as refused:
        collect(results(stream))
    assert "test_windowed.py:" in str(refused.value)
    assert "test_windowed.py:" in refused.value.location
