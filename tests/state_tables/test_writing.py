"""A savepoint made of tables is one that a job would have taken: it goes on from it as from its own."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from flintstream import (
    AggregateFunction,
    AggregatingStateDescriptor,
    CollectSink,
    Instant,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Row,
    SavepointWriter,
    TimeDomain,
    TopKStateDescriptor,
    Types,
    ValueStateDescriptor,
    savepoint,
)
from flintstream.errors import (
    IncompatibleStateError,
    InvalidArgumentError,
    SavepointError,
    TypeMismatchError,
    UnknownUidError,
    UnsupportedError,
)
from tests.capabilities.support import Lists
from tests.state_tables.programs import Account, Rules, declare, expiring, savepoint_of, stopped


@pytest.fixture
def new_env(make_env: Any) -> Any:
    """The runtime in this process."""
    return lambda **settings: make_env("local", **settings)


def results_from(new_env: Any, path: str, program: Any = declare, parallelism: int = 2) -> list[Any]:
    """Return what a job emits that starts from a savepoint."""
    sink, env = CollectSink(), new_env().set_parallelism(parallelism)
    program(env, sink)
    env.start_from_savepoint(path)
    env.execute("job")
    return sink.results


def shown(path: Any, uid: str, name: str) -> list[dict[str, Any]]:
    return sorted(savepoint(path).state(uid, name, arrow=True).to_pylist(), key=str)


class Told(KeyedProcessFunction):
    """Tells what a state holds for the key of each record."""

    def __init__(self, descriptor: Any) -> None:
        self._descriptor = descriptor

    def open(self, runtime_context):
        kinds = {
            ListStateDescriptor: runtime_context.get_list_state,
            MapStateDescriptor: runtime_context.get_map_state,
            ReducingStateDescriptor: runtime_context.get_reducing_state,
            AggregatingStateDescriptor: runtime_context.get_aggregating_state,
        }
        self._state: Any = kinds.get(type(self._descriptor), runtime_context.get_state)(self._descriptor)

    def process_element(self, value, ctx):
        state = self._state
        if isinstance(self._descriptor, MapStateDescriptor):
            yield value, dict(state.items())
        elif isinstance(self._descriptor, ListStateDescriptor):
            yield value, list(state.get())
        else:
            yield value, state.value() if hasattr(state, "value") else state.get()


def told(new_env: Any, path: str, descriptor: Any, keys: list[Any]) -> dict[Any, Any]:
    """Return what a job that starts from a savepoint finds in a state, by key."""

    def program(env: Any, sink: CollectSink) -> None:
        env.from_source(Lists(keys)).key_by(lambda value: value).process(Told(descriptor)).uid("op").sink_to(sink)

    return dict(results_from(new_env, path, program))


@dataclass(frozen=True)
class Place:
    """A key with fields, and a value with a default."""

    town: str
    street: int = 0


NOON = dt.datetime(2026, 1, 2, 12, 30)
TABLE = pa.table(
    {
        "key": ["x", "y"],
        "i": [1, 2],
        "f": [0.5, 2.0],
        "s": ["one", "two"],
        "b": [b"1", b"2"],
        "t": pa.array([NOON, None], pa.timestamp("us", "UTC")),
        "d": pa.array([Decimal("1.50"), Decimal(2)], pa.decimal128(10, 2)),
        "big": [str(1 << 80), "-1"],
        "l": [[1, 2], [3]],
        "m": pa.array([[("p", 1)], []], pa.map_(pa.string(), pa.int64())),
        "town": ["A", "B"],
        "nested": [{"town": "A", "street": 5}, {"town": "B", "street": 6}],
    }
)


@pytest.mark.parametrize(
    ("column", "declared", "expected"),
    [
        ("i", int, 1),
        ("i", None, 1),
        ("i", float, 1.0),
        ("i", Types.BIG_DEC(), Decimal(1)),
        ("f", float, 0.5),
        ("s", str, "one"),
        ("b", bytes, b"1"),
        ("d", Decimal, Decimal("1.50")),
        ("big", Types.BIG_INT(), 1 << 80),
        ("l", list[int], [1, 2]),
        ("l", None, [1, 2]),
        ("m", Types.MAP(Types.STRING(), Types.LONG()), {"p": 1}),
        ("nested", Place, Place("A", 5)),
        ("nested", None, Row(town="A", street=5)),
        ("nested", Types.TUPLE([Types.STRING(), Types.LONG()]), ("A", 5)),
        ("nested", Types.DICT({"street": Types.LONG(), "town": Types.STRING()}), {"street": 5, "town": "A"}),
        (None, Types.ROW_NAMED(["i", "s"], [Types.LONG(), Types.STRING()]), Row(i=1, s="one")),
        (None, Place, Place("A", 0)),
    ],
)
def test_columns_become_values_of_the_declared_type(new_env, tmp_path, column, declared, expected):
    descriptor = ValueStateDescriptor("v", declared)
    path = SavepointWriter.new_savepoint().with_state("op", descriptor, TABLE, value=column).write(tmp_path / "sp")
    found = told(new_env, path, descriptor, ["x", "z"])
    assert found == {"x": expected, "z": None}
    assert type(found["x"]) is type(expected)


def test_moments_lose_their_zone_and_nulls_are_refused(new_env, tmp_path):
    one = TABLE.slice(0, 1)
    for declared, expected in ((dt.datetime, NOON), (Types.INSTANT(), Instant(1767357000, 0)), (None, NOON)):
        descriptor = ValueStateDescriptor("v", declared)
        path = tmp_path / f"sp-{declared}"
        SavepointWriter.new_savepoint().with_state("op", descriptor, one, value="t").write(path)
        assert told(new_env, str(path), descriptor, ["x"]) == {"x": expected}
    writer = SavepointWriter.new_savepoint().with_state("op", ValueStateDescriptor("v"), TABLE, value="t")
    with pytest.raises(InvalidArgumentError, match=r"a row has no value, for state 'v' of operator 'op'"):
        writer.write(tmp_path / "nulls")
    assert not (tmp_path / "nulls").exists() or not list((tmp_path / "nulls").iterdir())


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


@pytest.mark.parametrize(
    ("descriptor", "data", "expected"),
    [
        (ListStateDescriptor("v", int), [("x", [1, 2]), ("y", [])], {"x": [1, 2], "y": []}),
        (ListStateDescriptor("v"), TABLE.select(["key", "l"]), {"x": [1, 2], "y": [3]}),
        (MapStateDescriptor("v"), [("x", {1: "a", 2: None})], {"x": {1: "a", 2: None}, "y": {}}),
        (
            MapStateDescriptor("v", str, int),
            pa.table({"key": ["x", "x", "y"], "map_key": ["a", "b", "a"], "value": [1, 2, None]}),
            {"x": {"a": 1, "b": 2}, "y": {"a": None}},
        ),
        (ReducingStateDescriptor("v", lambda a, b: a + b, int), [("x", 3)], {"x": 3, "y": None}),
        (AggregatingStateDescriptor("v", Mean()), [("x", (6, 4))], {"x": 1.5, "y": None}),
    ],
)
def test_state_of_every_kind_can_be_made(new_env, tmp_path, descriptor, data, expected):
    path = SavepointWriter.new_savepoint().with_state("op", descriptor, data).write(tmp_path / "sp")
    assert told(new_env, path, descriptor, ["x", "y"]) == expected


@pytest.mark.parametrize(
    ("data", "options", "key"),
    [
        (pa.table({"a": ["x"], "b": [1], "value": [7]}), {"key": ["a", "b"]}, ("x", 1)),
        (
            pa.table({"town": ["x"], "street": [1], "value": [7]}),
            {"key": ["town", "street"], "key_type": Place},
            Place("x", 1),
        ),
        (pa.table({"key": [1], "value": [7]}), {"key_type": float}, 1.0),
        ([(("x", 1), 7)], {}, ("x", 1)),
    ],
)
def test_keys_may_have_fields_and_types(new_env, tmp_path, data, options, key):
    descriptor = ValueStateDescriptor("v", int)
    path = SavepointWriter.new_savepoint().with_state("op", descriptor, data, **options).write(tmp_path / "sp")
    assert told(new_env, path, descriptor, [key]) == {key: 7}


def test_a_job_goes_on_from_what_was_bootstrapped(new_env, tmp_path):
    writer = SavepointWriter.new_savepoint()
    writer.with_state("all", ValueStateDescriptor("count", int), [("a", 10)])
    writer.with_state("all", ValueStateDescriptor("account", Account), pa.table({"key": ["a"], "balance": [100]}))
    writer.with_timers("all", pa.table({"key": ["z"], "time": [25]}))
    path = writer.write(tmp_path / "sp", tags=["first"], comment="by hand")
    for parallelism in (1, 2, 3):
        found = results_from(new_env, path, parallelism=parallelism)
        assert [row for row in found if row[0] == "a" and row[1] != "timer"] == [
            ("a", 11, 101),
            ("a", 12, 104),
            ("a", 13, 110),
        ]
        assert ("z", "timer", 25) in found


def test_timers_of_processing_time_fire_too(new_env, tmp_path):
    class Fires(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield value

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key(), timestamp, ctx.time_domain()

    def program(env: Any, sink: CollectSink) -> None:
        env.from_source(Lists([1])).key_by(lambda value: value).process(Fires()).uid("op").sink_to(sink)

    writer = SavepointWriter.new_savepoint().with_timers("op", [(9, 1000)], domain=TimeDomain.PROCESSING_TIME)
    found = results_from(new_env, writer.write(tmp_path / "sp"), program)
    assert (9, 1000, TimeDomain.PROCESSING_TIME) in found


def test_broadcast_state_keeps_its_order(new_env, tmp_path):
    table = pa.table({"map_key": ["z", "a"], "value": [1, 2]})
    path = SavepointWriter.new_savepoint().with_broadcast_state("rules", Rules.descriptor, table).write(tmp_path / "sp")

    def program(env: Any, sink: CollectSink) -> None:
        rules = env.from_source(Lists([("b", 3)])).broadcast(Rules.descriptor)
        env.from_source(Lists([5])).connect(rules).process(Rules()).uid("rules").sink_to(sink)

    ((value, rules),) = results_from(new_env, path, program)
    assert value == 5
    assert list(rules)[:2] == ["z", "a"]


def test_state_that_expires_does_so_by_the_time_it_was_touched(new_env, tmp_path):
    hour = 3_600_000
    data = pa.table({"key": ["a", "b"], "value": [1, 2], "at": [0, hour]})
    writer = SavepointWriter.new_savepoint().with_state("all", expiring("fresh"), data, last_access="at")
    path = writer.write(tmp_path / "sp")
    assert shown(path, "all", "fresh")[0] == {"key": "a", "value": 1, "last_access": 0}
    folder = tmp_path / "cp"

    def program(env: Any, sink: CollectSink) -> None:
        env.start_from_savepoint(path)
        declare(env, sink, [("c", 1, hour + 5), ("c", 2, hour + 6), ("c", 3, hour + 7)])

    stopped(new_env, folder, program, epochs=2, records=1)
    assert [row["key"] for row in shown(folder, "all", "fresh")] == ["b", "c"]


def test_what_was_read_can_be_written_and_nothing_is_different(new_env, tmp_path):
    old = savepoint_of(stopped(new_env, tmp_path / "cp"), tmp_path / "old")
    reader = savepoint(old)
    writer = SavepointWriter.from_existing_savepoint(old)
    for kind, name in (
        (ValueStateDescriptor, "count"),
        (ValueStateDescriptor, "account"),
        (ListStateDescriptor, "numbers"),
        (MapStateDescriptor, "by-number"),
    ):
        writer.with_state("all", kind(name), reader.state("all", name, arrow=True))
    writer.with_state("all", expiring("fresh"), reader.state("all", "fresh", arrow=True), last_access="last_access")
    writer.with_timers("all", reader.timers("all", arrow=True))
    new = writer.write(tmp_path / "new")
    assert all(each.is_same for each in reader.diff(new).summary())
    assert results_from(new_env, new) == results_from(new_env, old)


@pytest.mark.parametrize("base", ["savepoint", "checkpoint"])
def test_some_values_are_repaired_and_results_follow(new_env, tmp_path, base):
    folder = stopped(new_env, tmp_path / "cp")
    old = savepoint_of(folder, tmp_path / "old") if base == "savepoint" else str(folder)
    table = savepoint(old).state("all", "account", arrow=True)
    balances = [1000 if row["key"] == "a" else row["balance"] for row in table.to_pylist()]
    repaired = table.set_column(table.column_names.index("balance"), "balance", pa.array(balances))
    new = SavepointWriter.from_existing_savepoint(old).with_state("all", ValueStateDescriptor("account"), repaired)
    path = new.write(tmp_path / "new")
    found = [row for row in results_from(new_env, path) if row[1] != "timer"]
    assert found == [("b", 2, 7), ("a", 3, 1006)]
    changes = savepoint(old).diff(path).state("all", "account", arrow=True).to_pylist()
    assert changes == [
        {
            "change": "different",
            "key": "a",
            "here_balance": 4,
            "there_balance": 1000,
            "here_owner": "a",
            "there_owner": "a",
        }
    ]


def test_operators_and_states_can_be_left_out(new_env, tmp_path):
    old = savepoint_of(stopped(new_env, tmp_path / "cp"), tmp_path / "old")
    without = SavepointWriter.from_existing_savepoint(old).remove_state("all", "fresh").write(tmp_path / "without")
    names = [info.name for info in savepoint(without).states("all")]
    assert names == ["count", "account", "numbers", "by-number", "event-timers"]
    none = SavepointWriter.from_existing_savepoint(old).remove_operator("all").write(tmp_path / "none")
    assert savepoint(none).operators() == []
    # Sources go on where they were: two records are left.
    assert [row for row in results_from(new_env, none) if row[1] != "timer"] == [("b", 1, 5), ("a", 1, 6)]
    with pytest.raises(UnknownUidError, match=r"there is no operator 'al'.*there are .*'all'"):
        SavepointWriter.from_existing_savepoint(old).remove_operator("al")
    with pytest.raises(InvalidArgumentError, match=r"operator 'all' has no state 'x'.*it has .*'count', 'account'"):
        SavepointWriter.from_existing_savepoint(old).remove_state("all", "x")


INT = ValueStateDescriptor("v", int)


@pytest.mark.parametrize(
    ("descriptor", "data", "options", "error", "message"),
    [
        (INT, TABLE, {"key": "no"}, InvalidArgumentError, "the data has no column 'no', .*it has 'key'"),
        (INT, TABLE, {"value": "s"}, TypeMismatchError, "a column of string cannot be state of type LONG"),
        (ValueStateDescriptor("v", str), TABLE, {"value": "i"}, TypeMismatchError, "a column of int64 cannot be"),
        (ValueStateDescriptor("v", Types.BYTE()), [("x", 1000)], {}, TypeMismatchError, "1000.*BYTE"),
        (INT, [("x", "one")], {}, TypeMismatchError, "'one'"),
        (INT, TABLE, {}, InvalidArgumentError, "no column is the value .*name it with value="),
        (INT, [("x", 1), ("x", 2)], {}, InvalidArgumentError, "two rows are about 'x'"),
        (INT, [(None, 1)], {}, InvalidArgumentError, "a row has no key"),
        (INT, [([], 1)], {}, InvalidArgumentError, "a key cannot be one"),
        (INT, [("x", None)], {}, InvalidArgumentError, "a row has no value"),
        (INT, [1, 2], {}, InvalidArgumentError, "neither a table nor pairs of key and value"),
        (ListStateDescriptor("v"), TABLE, {"value": "i"}, InvalidArgumentError, "1 is not a list"),
        (MapStateDescriptor("v"), [("x", 1)], {}, InvalidArgumentError, "1 is not a dict"),
        (
            ValueStateDescriptor("v", Place),
            TABLE.select(["key", "i"]),
            {},
            InvalidArgumentError,
            "none of the value's fields",
        ),
    ],
)
def test_data_that_cannot_be_the_state_is_refused_with_the_users_line(
    tmp_path, descriptor, data, options, error, message
):
    writer = SavepointWriter.new_savepoint().with_state("op", descriptor, data, **options)
    with pytest.raises(error, match=message) as raised:
        writer.write(tmp_path / "sp")
    assert "test_writing.py" in str(raised.value)
    assert not (tmp_path / "sp" / "savepoint.json").exists()


def test_what_can_never_be_written_is_refused_at_once(tmp_path):
    writer = SavepointWriter.new_savepoint()
    with pytest.raises(UnsupportedError, match=r"TopKStateDescriptor.* cannot be written"):
        writer.with_state("op", TopKStateDescriptor("top"), [])
    with pytest.raises(TypeMismatchError, match=r"'v' is not a state descriptor; .*test_writing.py"):
        writer.with_state("op", "v", [])  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidArgumentError, match=r"state 'v' does not expire"):
        writer.with_state("op", INT, [], last_access="at")
    with pytest.raises(InvalidArgumentError, match=r"max parallelism 0"):
        SavepointWriter.new_savepoint(0)


def test_a_savepoint_is_never_written_over(tmp_path):
    writer = SavepointWriter.new_savepoint(max_parallelism=4).with_state("op", INT, [("x", 1)])
    path = writer.write(tmp_path / "sp")
    with pytest.raises(SavepointError, match="is not empty"):
        writer.write(path)
    assert shown(path, "op", "v") == [{"key": "x", "value": 1}]


def test_the_job_must_have_the_same_number_of_key_groups(new_env, tmp_path):
    path = SavepointWriter.new_savepoint(max_parallelism=4).with_state("op", INT, [("x", 1)]).write(tmp_path / "sp")
    with pytest.raises(IncompatibleStateError, match=r"max parallelism 4"):
        told(new_env, path, INT, ["x"])


def test_savepoints_on_an_object_store_are_written_and_read(new_env):
    address = "memory://state-tables/sp"
    path = SavepointWriter.new_savepoint().with_state("op", INT, [("x", 1)]).write(address)
    assert shown(path, "op", "v") == [{"key": "x", "value": 1}]
    assert told(new_env, path, INT, ["x"]) == {"x": 1}
    copy = SavepointWriter.from_existing_savepoint(path).with_timers("op", [("x", 5)]).write(f"{address}-copy")
    assert shown(copy, "op", "v") == shown(path, "op", "v")
