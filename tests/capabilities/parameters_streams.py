"""Parameters of streams and of operators in general."""

from __future__ import annotations

from typing import Any

from flintstream import (
    CollectSink,
    CoMapFunction,
    DiscardingSink,
    OutputTag,
    ProcessFunction,
    Types,
    WatermarkStrategy,
    WindowFunction,
    bounded,
    tumbling,
)
from flintstream.errors import (
    DuplicateUidError,
    InvalidArgumentError,
    TypeMismatchError,
    UnknownTagError,
)
from tests.capabilities.parameters import REFUSALS, Bench, case, epochs_of
from tests.capabilities.support import Epochs, WithSubtask, collect, plan_of

STREAM, KEYED, CO = "DataStream", "KeyedOperations", "ConnectedStreams"
INT, TEXT = Types.INT(), Types.STRING()


def plotted(bench: Bench, name: str | None) -> list[str]:
    folder, stream = (
        bench.folder(),
        bench.of({"ts": 1}, {"ts": 2}).assign_timestamps_and_watermarks(bounded(0, on="ts")),
    )
    stream.plot_time(None if name is None else folder / name)
    collect(stream.map(str))
    return [path.name for path in folder.iterdir()]


class Say(ProcessFunction):
    def __init__(self, word: str) -> None:
        self._word = word

    def process_element(self, value, ctx):
        yield f"{self._word} {value}"


class Aside(ProcessFunction):
    def process_element(self, value, ctx):
        yield OutputTag("even" if value % 2 == 0 else "odd"), value


class CoSay(CoMapFunction):
    def __init__(self, word: str) -> None:
        self._word = word

    def map1(self, value):
        return f"{self._word} {value}"

    def map2(self, value):
        return str(value)


class Sizes(WindowFunction):
    def apply(self, key, window, inputs):
        yield len(list(inputs))


def first(record: Any) -> Any:
    return record[0]


def doubled(number: Any) -> Any:
    return number * 2


def columns(bench: Bench) -> Any:
    """Return a stream of rows that Spark reads: a from 0 to 3, b ten times as much."""
    env = bench.env()
    return env.from_dataframe(env._settings.session.range(4).selectExpr("id AS a", "id * 10 AS b"))


def as_tuples(stream: Any) -> list[Any]:
    return sorted(tuple(row) for row in collect(stream))


def frame(bench: Bench, expression: str) -> list[Any]:
    env = bench.env()
    return as_tuples(env.from_dataframe(env._settings.session.range(2).selectExpr(expression)))


def frame_windows(bench: Bench, bound: str) -> list[Any]:
    """Rows of the two windows come in turn, so that a small bound finds the last of the first window late."""
    env = bench.env()
    stamps = env._settings.session.createDataFrame([("k", 5), ("k", 15), ("k", 1)], "id STRING, ts BIGINT").coalesce(1)
    stream = env.from_dataframe(stamps, watermark=bounded(bound, on="ts"))
    return collect(stream.key_by("id").window(tumbling("10ms")).apply(Sizes()))


def frame_in_order(bench: Bench, order_by: Any) -> list[int]:
    env = bench.env()
    frame = env._settings.session.range(5).selectExpr("id AS up", "-id AS down").repartition(3)
    return [row.up for row in collect(env.from_dataframe(frame, order_by=order_by))]


def frame_in_splits(bench: Bench, split_by: str | None) -> list[int]:
    """The second row is late for the first, unless it is of another split."""
    env = bench.env()
    frame = env._settings.session.createDataFrame([(1, 100), (2, 5)], "id INT, ts BIGINT")
    stream = env.from_dataframe(frame, bounded(0, on="ts"), split_by=split_by, order_by="id")
    return collect(stream.key_by(lambda _: 0).window(tumbling("10ms")).apply(Sizes()))


def key_of(bench: Bench, keys: tuple[Any, ...]) -> list[Any]:
    return collect(bench.of(("a", 1, 1), ("a", 2, 2), ("b", 1, 4)).key_by(*keys).sum(2))


def one_of(bench: Bench, sink: str) -> tuple[int, str]:
    kept = CollectSink()
    stream = bench.of(1)
    stream.sink_to(kept if sink == "collect" else DiscardingSink())
    stream.get_execution_environment().execute()
    return len(kept.results)


def job_name(bench: Bench, name: str | None) -> str:
    epochs, stream = Epochs(), bench.of(1)
    stream.get_execution_environment().add_listener(epochs)
    list(stream.execute_and_collect(name))
    return epochs.manifests[-1].job


def printed(bench: Bench, identifier: str | None) -> str:
    stream = bench.of(1)
    stream.print(identifier)
    bench.printed()
    stream.get_execution_environment().execute()
    return bench.printed()[0]


def in_plan(bench: Bench, **calls: Any) -> tuple[str, str, int]:
    """Return name, description and parallelism of an operator in the plan, after these calls on it."""
    stream = bench.of(1).map(str)
    for call, value in calls.items():
        getattr(stream, call)(value)
    stream.print()
    node = list(plan_of(stream.get_execution_environment()).values())[1]
    return node["type"], node["contents"], node["parallelism"]


def counted_under(bench: Bench, uid: str) -> list[str]:
    manifest = epochs_of(bench.of(1).map(str).uid(uid)).manifests[-1]
    return sorted(set(manifest.counters) - {"collection-source-1", "collect-1"})


def two_uids(bench: Bench, uid: str) -> list[str]:
    return collect(bench.of(1).map(str).uid("one").map(str).uid(uid))


def limited(bench: Bench, limit: int) -> tuple[str, str, int]:
    stream = bench.of(1).map(str).set_parallelism(3).set_max_parallelism(limit)
    return len(collect(stream))


def _plus(x: int, y: int) -> int:
    return x + y


def _itself(number: int, _: int) -> int:
    return number


def _timed(bench: Bench, bound: int = 0) -> Any:
    """Return 6, 12, 1 as timestamps too: the last is late unless the bound is large."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(bound).with_timestamp_assigner(_itself)
    return bench.of(6, 12, 1).assign_timestamps_and_watermarks(strategy)


def late_of_sort(stream: Any, late: Any) -> list[int]:
    """Return what comes too late for a sort."""
    return collect(stream.sort_by_event_time(late).get_side_output(OutputTag("late")))


def _union(bench: Bench, others: int) -> Any:
    env = bench.env()
    return env.from_collection([0]).union(*(env.from_collection([n + 1]) for n in range(others)))


def _connected(bench: Bench, other: int) -> Any:
    env = bench.env()
    return env.from_collection([1]).connect(env.from_collection([other])).map(CoSay("a"))


case(f"{STREAM}.map.func", lambda b, f: collect(b.of(1, 2).map(f)), (str, ["1", "2"]), (doubled, [2, 4]))
case(
    f"{STREAM}.map.output_type",
    lambda b, t: collect(b.of(1).map(doubled, t)),
    (None, [2]),
    (Types.DOUBLE(), [2.0]),
    (TEXT, TypeMismatchError),
)
case(
    f"{STREAM}.flat_map.func",
    lambda b, f: collect(b.of(1, 2).flat_map(f)),
    (lambda n: [n] * n, [1, 2, 2]),
    (lambda n: [], []),
)
case(
    f"{STREAM}.flat_map.output_type",
    lambda b, t: collect(b.of(1).flat_map(lambda n: [n], t)),
    (None, [1]),
    (Types.DOUBLE(), [1.0]),
)
case(
    f"{STREAM}.filter.func", lambda b, f: collect(b.of(1, 2).filter(f)), (lambda n: n > 1, [2]), (lambda n: n < 2, [1])
)
case(f"{STREAM}.process.func", lambda b, w: collect(b.of(1).process(Say(w))), ("a", ["a 1"]), ("b", ["b 1"]))
case(
    f"{STREAM}.process.output_type",
    lambda b, t: collect(b.of(1).process(Say("a"), t)),
    (TEXT, ["a 1"]),
    (INT, TypeMismatchError),
)
case(
    f"{STREAM}.key_by.key_selector",
    lambda b, k: key_of(b, (k,)),
    (0, [("a", 1, 1), ("a", 1, 3), ("b", 1, 4)]),
    (lambda r: r[1], [("a", 1, 1), ("a", 2, 2), ("a", 1, 5)]),
)
case(
    f"{STREAM}.key_by.key_type",
    lambda b, t: key_of(b, (first, t)),
    (TEXT, [("a", 1, 1), ("a", 1, 3), ("b", 1, 4)]),
    (INT, TypeMismatchError),
)
case(
    f"{STREAM}.key_by.more",
    lambda b, more: key_of(b, (0, *more)),
    ((), [("a", 1, 1), ("a", 1, 3), ("b", 1, 4)]),
    ((1, 2), [("a", 1, 1), ("a", 2, 2), ("b", 1, 4)]),
)
case(
    f"{STREAM}.window_all.window_assigner",
    lambda b, size: collect(_timed(b).window_all(tumbling(size)).reduce(_plus)),
    ("10ms", [6, 12]),
    ("20ms", [19]),
)
case(
    f"{STREAM}.count_window_all.size",
    lambda b, n: collect(b.of(1, 2, 3, 4).count_window_all(n).reduce(_plus)),
    (2, [3, 7]),
    (3, [6]),
)
case(
    f"{STREAM}.count_window_all.slide",
    lambda b, n: collect(b.of(1, 2, 3, 4).count_window_all(3, n).reduce(_plus)),
    (0, [6]),
    (1, [6, 9]),
)
case(
    f"{STREAM}.sort_by_event_time.late",
    lambda b, late: late_of_sort(_timed(b), late),
    ("drop", UnknownTagError),
    (OutputTag("late"), [1]),
)
case(f"{STREAM}.union.streams", lambda b, n: sorted(collect(_union(b, n).map(doubled))), (0, [0]), (2, [0, 2, 4]))
case(
    f"{STREAM}.connect.ds", lambda b, other: sorted(collect(_connected(b, other))), (2, ["2", "a 1"]), (3, ["3", "a 1"])
)
case(
    f"{STREAM}.project.field_indexes",
    lambda b, fields: collect(b.of(("a", 1, True)).project(*fields)),
    ((0,), [("a",)]),
    ((2, 1), [(True, 1)]),
)
case(
    f"{STREAM}.assign_timestamps_and_watermarks.watermark_strategy",
    lambda b, bound: collect(_timed(b, bound).key_by(lambda n: 0).window(tumbling("10ms")).reduce(_plus)),
    (0, [6, 12]),
    (50, [7, 12]),
)
case(
    f"{STREAM}.partition_custom.partitioner",
    lambda b, p: collect(b.of(5).partition_custom(p, lambda n: n).map(WithSubtask())),
    (lambda key, n: 0, [(5, 0)]),
    (lambda key, n: key % n, [(5, 1)]),
)
case(
    f"{STREAM}.partition_custom.key_selector",
    lambda b, k: collect(b.of(5).partition_custom(lambda key, n: key % n, k).map(WithSubtask())),
    (lambda n: n, [(5, 1)]),
    (doubled, [(5, 0)]),
)
case(
    f"{STREAM}.select.columns",
    lambda b, c: as_tuples(columns(b).select(*c)),
    (("a",), [(0,), (1,), (2,), (3,)]),
    (("b", "a"), [(0, 0), (10, 1), (20, 2), (30, 3)]),
    on_spark=True,
)
case(
    f"{STREAM}.select.named",
    lambda b, c: as_tuples(columns(b).select(c=c)),
    ("a + 1", [(1,), (2,), (3,), (4,)]),
    ("b - a", [(0,), (9,), (18,), (27,)]),
    on_spark=True,
)
case(
    f"{STREAM}.where.condition",
    lambda b, c: as_tuples(columns(b).where(c)),
    ("a > 2", [(3, 30)]),
    ("b = 10", [(1, 10)]),
    on_spark=True,
)
case(
    f"{STREAM}.with_columns.named",
    lambda b, c: as_tuples(columns(b).where("a = 3").with_columns(**c)),
    ({"b": "a"}, [(3, 3)]),
    ({"c": "a + b"}, [(3, 30, 33)]),
    on_spark=True,
)
case(
    "StreamExecutionEnvironment.from_dataframe.df",
    frame,
    ("id", [(0,), (1,)]),
    ("id + 5 AS id", [(5,), (6,)]),
    on_spark=True,
)
case(
    "StreamExecutionEnvironment.from_dataframe.watermark", frame_windows, ("0ms", [1, 1]), ("1s", [2, 1]), on_spark=True
)
case(
    "StreamExecutionEnvironment.from_dataframe.order_by",
    frame_in_order,
    ("up", [0, 1, 2, 3, 4]),
    (["down"], [4, 3, 2, 1, 0]),
    ("sideways", InvalidArgumentError),
    on_spark=True,
)
case(
    "StreamExecutionEnvironment.from_dataframe.split_by",
    frame_in_splits,
    (None, [1]),
    ("id", [1, 1]),
    on_spark=True,
)
case(
    f"{STREAM}.get_side_output.output_tag",
    lambda b, tag: collect(b.of(1, 2).process(Aside()).get_side_output(OutputTag(tag))),
    ("even", [2]),
    ("odd", [1]),
)
case(f"{STREAM}.sink_to.sink", one_of, ("collect", 1), ("discard", 0))
case(f"{STREAM}.print.sink_identifier", printed, ("a", "a> 1\n"), (None, "1\n"))
case(f"{STREAM}.execute_and_collect.job_execution_name", job_name, ("a", "a"), (None, "Flintstream Job"))
case(
    f"{STREAM}.execute_and_collect.limit",
    lambda b, n: list(b.of(1, 2, 3).execute_and_collect(limit=n)),
    (1, [1]),
    (None, [1, 2, 3]),
)
case(
    "Declared.name.name",
    lambda b, name: in_plan(b, name=name),
    ("Text", ("Text", "Text", 1)),
    ("Other", ("Other", "Other", 1)),
)
case("Declared.uid.uid", counted_under, ("one", ["one"]), ("two", ["two"]))
case("Declared.uid.uid", two_uids, ("two", ["1"]), ("one", DuplicateUidError))
case(
    "Declared.set_description.description",
    lambda b, text: in_plan(b, set_description=text),
    ("x", ("Map", "x", 1)),
    ("y", ("Map", "y", 1)),
)
case(
    "Declared.set_parallelism.parallelism",
    lambda b, n: in_plan(b, set_parallelism=n),
    (1, ("Map", "Map", 1)),
    (3, ("Map", "Map", 3)),
)
case("Declared.set_max_parallelism.max_parallelism", limited, (3, 1), (2, InvalidArgumentError))
case(f"{STREAM}.plot_time.path", plotted, (None, []), ("time.svg", ["time.svg"]), ("time.png", ["time.png"]))
REFUSALS["Declared.set_uid_hash"] = lambda b: b.of(1).map(str).set_uid_hash("ab")
REFUSALS[f"{STREAM}.add_sink"] = lambda b: b.of(1).add_sink(print)
