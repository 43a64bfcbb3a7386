"""Row 19: what goes in comes out, type for type, through every kind of operator and a restore."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
from typing import Any

import pytest

from flintstream import (
    CollectSink,
    CoMapFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    Row,
    ValueStateDescriptor,
    WatermarkStrategy,
    tumbling,
)
from tests.capabilities.support import Lists, collect, run


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: float | None = None


@dataclasses.dataclass
class Path:
    name: str
    points: list[Point]


class Plain:
    """An object that has no column form."""

    def __init__(self, secret: Any) -> None:
        self.secret = secret

    def __repr__(self) -> str:
        return f"Plain({self.secret!r})"


EVENING = dt.datetime(2026, 1, 1, 18, 30, 0, 123456)
VALUES: dict[str, list[Any]] = {
    "int": [0, -1, 2**62],
    "big int": [2**80, -(2**70), 5],
    "float": [0.1, -0.0, float("inf")],
    "bool": [True, False, True],
    "str": ["", "Grüße 🎉", "a\nb"],
    "bytes": [b"", b"\x00\xff", b"abc"],
    "tuple": [(1, "a"), (2, "b"), (3, None)],
    "uneven tuple": [(1,), (), (1, (2, (3,)))],
    "dict": [{"a": 1, "b": None}, {"b": 2, "a": 3}, {}],
    "dict by number": [{1: "one"}, {2: [2]}, {None: {}}],
    "list": [[1, [2, [3]]], [], [None, "x"]],
    "dataclass": [Point(1, 2.5), Point(2), Point(-3, -0.0)],
    "nested dataclass": [Path("a", [Point(1)]), Path("b", []), Path("c", [Point(1), Point(2, 3.0)])],
    "named row": [Row(a=1, b="x"), Row(a=2, b=None), Row(a=3, b="z")],
    "row": [Row(1, "x"), Row(2, "y"), Row(3, Row(4, 5))],
    "datetime": [EVENING, dt.datetime.min, dt.datetime.max],
    "datetime in a zone": [
        EVENING.replace(tzinfo=dt.UTC),
        EVENING.astimezone(dt.timezone(dt.timedelta(hours=2))),
        EVENING,
    ],
    "date and time": [dt.date(2026, 1, 1), dt.time(1, 2, 3), dt.timedelta(days=1)],
    "decimal": [decimal.Decimal("1.10"), decimal.Decimal("-0"), decimal.Decimal("1E+3")],
    "object": [Plain(1), Plain([Point(1)]), Plain(None)],
    "None": [None, None, None],
    "everything": [None, Point(1), {"k": [EVENING]}],
}
EACH = 3


def shown(value: Any) -> tuple[str, str]:
    """Return a text that differs whenever a value or its type differs: `repr` tells -0.0, 1 and True apart."""
    return type(value).__name__, repr(value)


def at_index(record: tuple[int, Any], _: int) -> int:
    return record[0]


def same(record: Any) -> Any:
    return record


class OddAside(ProcessFunction):
    def process_element(self, value, ctx):
        if value[0] % 2:
            yield OutputTag("odd"), value
        else:
            yield value


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield from elements


class Same(CoMapFunction):
    def map1(self, value):
        return value

    def map2(self, value):
        return value


class Remember(KeyedProcessFunction):
    """Keeps what it sees first of a key, and gives it back when the key comes again."""

    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value"))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list"))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map"))

    def process_element(self, record, ctx):
        index, value = record
        if index < EACH:
            self.value.update(value)
            self.list.add_all([value, value])
            self.map.put("first", value)
        else:
            yield index - EACH, [self.value.value(), *self.list.get(), self.map.get("first")], value


def declare_chain(env: Any, values: list[Any], sink: CollectSink) -> None:
    """Put one of each kind of operator between a source of (index, value), twice over, and a sink."""
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(at_index)
    records = env.from_source(Lists(list(enumerate(values * 2))), timed)
    even = records.map(same).filter(lambda r: True).flat_map(lambda r: [r]).rebalance().process(OddAside())
    odd = even.get_side_output(OutputTag("odd"))
    both = even.union(odd).key_by(0).window(tumbling("1ms")).process(Contents())
    rolled = both.key_by(lambda r: r[0]).reduce(lambda old, new: new)
    remembered = rolled.connect(rolled.filter(lambda r: False)).map(Same())
    remembered.key_by(lambda r: r[0] % EACH).process(Remember()).sink_to(sink)


@pytest.mark.row(19)
@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.replace(" ", "-")) for kind in VALUES])
def test_values_pass_all_operators_and_a_restore_unchanged(make_env, tmp_path, kind):
    check_kinds(lambda: make_env("local", max_records=EACH, checkpoint_dir=tmp_path), [kind])


@pytest.mark.row(19)
@pytest.mark.spark
def test_values_pass_all_operators_and_a_restore_unchanged_on_spark(make_env, tmp_path):
    check_kinds(lambda: make_env("spark", max_records=EACH * len(VALUES), checkpoint_dir=tmp_path), list(VALUES))


def check_kinds(new_env: Any, kinds: list[str]) -> None:
    sinks = {kind: CollectSink() for kind in kinds}

    def declare(env: Any, _: CollectSink) -> None:
        for kind in kinds:
            declare_chain(env, VALUES[kind], sinks[kind])

    assert not run(new_env(), CollectSink(), declare, stop_after=1)
    assert run(new_env(), CollectSink(), declare)
    for kind in kinds:
        results = sorted(sinks[kind].results, key=lambda result: result[0])
        assert [index for index, _, _ in results] == list(range(EACH)), kind
        for value, (_, kept, passed) in zip(VALUES[kind], results, strict=True):
            assert [shown(each) for each in (*kept, passed)] == [shown(value)] * 5, kind


@pytest.mark.row(19)
def test_records_of_all_types_in_one_stream_need_no_wrapping(env):
    values = [value for values in VALUES.values() for value in values]
    stream = env.from_collection(values).map(same).rebalance().filter(lambda value: True)
    assert sorted(map(shown, collect(stream))) == sorted(map(shown, values))
