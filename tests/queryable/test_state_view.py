"""What can be asked of queryable state: keys and values of all kinds, windows, pages, names, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flintstream import (
    AggregateFunction,
    AggregatingStateDescriptor,
    CountEvictor,
    EventTimeSessionWindows,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessWindowFunction,
    QueryableStateClient,
    ReducingStateDescriptor,
    Row,
    ValueStateDescriptor,
    VectorizedAggregateFunction,
    avg,
    computed_by,
    count,
    monotonous,
    session,
    sliding,
    sum_of,
    top_n,
    tumbling,
)
from flintstream.api.queryable import KeyText
from flintstream.errors import DefinitionError, InvalidArgumentError, UnknownStateError, UnsupportedError
from flintstream.testing.stepped import InProcess, Line, ScriptedSource, SteppedJob
from tests.queryable.programs import queryable

Pair = namedtuple("Pair", "x y")


@dataclass(frozen=True)
class Point:
    x: int
    y: str


@dataclass(frozen=True)
class Opaque:
    inner: Any


KEYS: list[tuple[Any, Any]] = [
    ("text", "text"),
    ("with/slash and äöü", "with/slash and äöü"),
    (42, 42),
    (-1, -1),
    (2**70, 2**70),
    (0.5, 0.5),
    (None, None),
    (b"\x00\xff", {"base64": "AP8="}),
    (("de", 7), ["de", 7]),
    ((("a", 1), "b"), [["a", 1], "b"]),
    (Point(1, "b"), {"x": 1, "y": "b"}),
    (Row(name="ann", age=3), {"name": "ann", "age": 3}),
    (Row("ann", 3), ["ann", 3]),
    (Pair(1, 2), [1, 2]),
    (dt.datetime(2026, 11, 16, 12, 30), "2026-11-16T12:30:00"),
    (dt.date(2026, 11, 16), "2026-11-16"),
    (dt.time(1, 2, 3), "01:02:03"),
]


def kept(keys: list[Any]) -> Any:
    def declare(env: Any, folder: Path) -> dict[str, Any]:
        stream = env.from_source(ScriptedSource(folder, "in", 1)).uid("in")
        keyed = stream.key_by(lambda row: keys[row["key"]])
        keyed.as_queryable_state("newest", uncommitted=True).uid("keep")
        return {}

    return declare


def run(declare: Any, folder: Path, *epochs: list[Any], parallelism: int = 2) -> SteppedJob:
    folder.mkdir(exist_ok=True)
    job = SteppedJob(declare, folder, InProcess(), parallelism)
    for lines in epochs:
        job.epoch([Line("in", 0, row) for row in lines])
    return job


def client_of(job: SteppedJob) -> QueryableStateClient:
    return QueryableStateClient(str(job.folder / "checkpoint"))


@pytest.mark.parametrize(("key", "form"), KEYS, ids=[repr(key) for key, _ in KEYS])
def test_a_key_of_any_type_is_found_as_itself_as_json_and_as_text(key: Any, form: Any, tmp_path: Path):
    job = run(kept([key]), tmp_path, [{"key": 0, "n": 1}], [{"key": 0, "n": 2}])
    client = client_of(job)
    text = form if isinstance(form, str) else json.dumps(form)
    for asked in (key, form, KeyText(text)):
        answer = client.get("newest", asked)
        assert (answer.key, answer.found, answer.value, answer.epoch) == (form, True, {"key": 0, "n": 2}, 2)
    assert [entry.key for entry in client.scan("newest").entries] == [form]
    assert client.get("newest", key, consistency="uncommitted").value == {"key": 0, "n": 2}
    job.stop()


def test_keys_of_several_types_live_in_one_state(tmp_path: Path):
    keys = [key for key, _ in KEYS]
    job = run(kept(keys), tmp_path, [{"key": number} for number in range(len(keys))])
    client = client_of(job)
    answers = client.get_many("newest", keys)
    assert [answer.value for answer in answers] == [{"key": number} for number in range(len(keys))]
    assert client.get("newest", "nobody").found is False
    job.stop()


def test_text_that_is_json_means_the_text_first(tmp_path: Path):
    job = run(kept(["42", 42, "[1]"]), tmp_path, [{"key": 0}, {"key": 1}, {"key": 2}])
    client = client_of(job)
    assert client.get("newest", KeyText("42")).key == "42"
    assert client.get("newest", 42).value == {"key": 1}
    assert client.get("newest", KeyText("[1]")).value == {"key": 2}
    assert client.get("newest", KeyText('"42"')).value == {"key": 0}
    job.stop()


class Kinds(KeyedProcessFunction):
    """Keeps the same in state of every kind."""

    def open(self, runtime_context: Any) -> None:
        get = runtime_context
        self.value = get.get_state(queryable(ValueStateDescriptor("v"), "value"))
        self.list = get.get_list_state(queryable(ListStateDescriptor("l"), "list"))
        self.map = get.get_map_state(queryable(MapStateDescriptor("m"), "map"))
        self.numbers = get.get_map_state(queryable(MapStateDescriptor("n"), "numbers"))
        self.sum = get.get_reducing_state(queryable(ReducingStateDescriptor("r", lambda x, y: x + y), "sum"))
        self.mean = get.get_aggregating_state(queryable(AggregatingStateDescriptor("a", Mean()), "mean"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        number = value["n"]
        self.value.update(Point(number, "p"))
        self.list.add((number, "x"))
        self.map.put(str(number), number)
        self.numbers.put(number, Opaque(number))
        self.sum.add(number)
        self.mean.add(number)
        return ()


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def test_state_of_every_kind_is_shown_as_json(tmp_path: Path):
    def declare(env: Any, folder: Path) -> dict[str, Any]:
        stream = env.from_source(ScriptedSource(folder, "in", 1)).uid("in")
        return {"main": stream.key_by("k").process(Kinds()).uid("kinds")}

    job = run(declare, tmp_path, [{"k": "a", "n": 1}], [{"k": "a", "n": 3}])
    client = client_of(job)
    shown = {name: client.get(name, "a").value for name in ("value", "list", "map", "numbers", "sum", "mean")}
    assert shown == {
        "value": {"x": 3, "y": "p"},
        "list": [[1, "x"], [3, "x"]],
        "map": {"1": 1, "3": 3},
        "numbers": [[1, {"inner": 1}], [3, {"inner": 3}]],
        "sum": 4,
        "mean": [4, 2],
    }
    states = {each["name"]: each for each in client.states()}
    assert states["map"] == {
        "operator": "kinds",
        "operator_name": "Keyed Process",
        "name": "map",
        "kind": "map",
        "windowed": False,
        "uncommitted": True,
    }
    job.stop()


def test_a_pickle_that_names_code_is_shown_as_bytes_and_never_run(tmp_path: Path):
    job = run(kept_values([Evil(), 1]), tmp_path, [{"key": "a", "n": 0}], [{"key": "b", "n": 1}])
    shown = client_of(job).get("newest", "a").value
    assert list(shown) == ["pickle"]
    assert not Evil.ran
    job.stop()


class Evil:
    ran = False

    def __reduce__(self) -> Any:
        return _run, ()


def _run() -> Any:
    Evil.ran = True
    return Evil()


def kept_values(values: list[Any]) -> Any:
    def declare(env: Any, folder: Path) -> dict[str, Any]:
        stream = env.from_source(ScriptedSource(folder, "in", 1)).uid("in")
        keyed = stream.key_by("key")
        keyed.process(Keep(values)).uid("keep").name("Keeper").print()
        return {}

    return declare


class Keep(KeyedProcessFunction):
    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(queryable(ValueStateDescriptor("v"), "newest", uncommitted=False))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.state.update(self.values[value["n"]])
        Evil.ran = False
        return ()


@pytest.mark.parametrize("prefix", ["", "a", "ab", "b", "z"])
def test_pages_of_text_keys_come_in_order_and_miss_none(prefix: str, tmp_path: Path):
    keys = sorted(f"{one}{two}{number}" for one in "abc" for two in "abc" for number in range(5))
    rows = [{"key": number} for number in range(len(keys))]
    job = run(kept(keys), tmp_path, rows[::2], rows[1::2], rows[:3])
    client = client_of(job)
    found, after = list[Any](), None
    while True:
        page = client.scan("newest", prefix=prefix, limit=4, after=after)
        found += [entry.key for entry in page.entries]
        assert len(page.entries) <= 4
        after = page.after
        if after is None:
            break
    assert found == [key for key in keys if key.startswith(prefix)]
    job.stop()


def test_pages_of_numbers_and_of_tuples_come_in_order(tmp_path: Path):
    keys = [("b", 2), ("a", 10), ("a", 9), ("b", 1), ("ab", 0)]
    job = run(kept(keys), tmp_path / "t", [{"key": number} for number in range(5)])
    client = client_of(job)
    assert [each.key for each in client.scan("newest").entries] == [["a", 9], ["a", 10], ["ab", 0], ["b", 1], ["b", 2]]
    assert [each.key for each in client.scan("newest", prefix=("a",)).entries] == [["a", 9], ["a", 10]]
    assert [each.key for each in client.scan("newest", prefix=KeyText('["b"]')).entries] == [["b", 1], ["b", 2]]
    job.stop()
    job = run(kept([10, 9, -1]), tmp_path / "n", [{"key": number} for number in range(3)])
    assert [each.key for each in client_of(job).scan("newest").entries] == [-1, 9, 10]
    job.stop()


def windowed(declare_windows: Any) -> Any:
    def declare(env: Any, folder: Path) -> dict[str, Any]:
        stream = env.from_source(ScriptedSource(folder, "in", 1)).uid("in")
        timed = stream.assign_timestamps_and_watermarks(monotonous(on="t"))
        return {"main": declare_windows(timed.key_by("k")).uid("windows")}

    return declare


ROWS = [
    [{"k": "a", "t": 1, "n": 1}, {"k": "b", "t": 2, "n": 5}],
    [{"k": "a", "t": 6, "n": 2}],
    [{"k": "a", "t": 12, "n": 4}],
]


def at(start: int, end: int, value: Any) -> dict[str, Any]:
    return {"window": {"start": start, "end": end}, "value": value}


class Listed(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield len(list(elements))


PATHS = {
    "columns": lambda keyed: keyed.window(tumbling("20ms")).set_queryable("w").agg(n=count(), total=sum_of("n")),
    "records": lambda keyed: (
        keyed.window(tumbling("20ms")).allowed_lateness(1).set_queryable("w").agg(n=count(), total=sum_of("n"))
    ),
}


@pytest.mark.parametrize("path", PATHS)
def test_an_open_window_shows_the_results_it_would_give_now(path: str, tmp_path: Path):
    job = run(windowed(PATHS[path]), tmp_path, *ROWS)
    client = client_of(job)
    assert client.get("w", "a").value == [at(0, 20, {"n": 3, "total": 7})]
    assert client.get("w", "a", window=0).value == {"n": 3, "total": 7}
    assert client.get("w", "a", window="0,20").value == {"n": 3, "total": 7}
    assert client.get("w", "a", window=(0, 20)).value == {"n": 3, "total": 7}
    assert not client.get("w", "a", window=20).found
    assert client.get("w", "b").value == [at(0, 20, {"n": 1, "total": 5})]
    assert client.states()[0]["windowed"] is True
    job.epoch([Line("in", 0, {"k": "c", "t": 25, "n": 9})])
    # It has fired since.
    assert not client.get("w", "a").found
    assert client.get("w", "c").value == [at(20, 40, {"n": 1, "total": 9})]
    job.stop()


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        (lambda w: w.aggregate(avg("n")), 7 / 3),
        (lambda w: w.aggregate(top_n(2, "n")), [4, 2]),
        (lambda w: w.reduce(lambda x, y: {**y, "n": x["n"] + y["n"]}), {"k": "a", "t": 12, "n": 7}),
        (lambda w: w.process(Listed()), [row for rows in ROWS for row in rows if row["k"] == "a"]),
        (lambda w: w.evictor(CountEvictor.of(2)).process(Listed()), [r for rs in ROWS for r in rs if r["k"] == "a"]),
    ],
)
def test_a_window_of_any_function_shows_what_it_holds(windows: Any, expected: Any, tmp_path: Path):
    declared = windowed(lambda keyed: windows(keyed.window(tumbling("20ms")).set_queryable("w")))
    job = run(declared, tmp_path, *ROWS)
    assert client_of(job).get("w", "a").value == [at(0, 20, expected)]
    job.stop()


def test_sliding_windows_show_those_that_are_open(tmp_path: Path):
    declared = windowed(lambda keyed: keyed.window(sliding("20ms", "10ms")).set_queryable("w").agg(n=sum_of("n")))
    job = run(declared, tmp_path, *ROWS)
    # Event time is 11: the window from -10 to 10 has fired.
    assert client_of(job).get("w", "a").value == [at(0, 20, {"n": 7}), at(10, 30, {"n": 4})]
    job.stop()


@pytest.mark.parametrize("by_columns", [True, False])
def test_sessions_show_themselves_as_they_have_grown(by_columns: bool, tmp_path: Path):
    def declare(keyed: Any) -> Any:
        if by_columns:
            return keyed.window(session("8ms")).set_queryable("w").agg(n=sum_of("n"))
        windows = keyed.window(EventTimeSessionWindows.with_gap(8)).allowed_lateness(1).set_queryable("w")
        return windows.reduce(lambda x, y: {**x, "n": x["n"] + y["n"]})

    job = run(windowed(declare), tmp_path, *ROWS)
    client = client_of(job)
    shown = client.get("w", "a").value
    assert [each["window"] for each in shown] == [{"start": 1, "end": 20}]
    assert shown[0]["value"]["n"] == 7
    assert [entry.key for entry in client.scan("w").entries] in (["a"], ["a", "b"])
    job.stop()


class WithState(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        state = context.window_state().get_state(queryable(ValueStateDescriptor("seen"), "seen"))
        state.update((state.value() or 0) + 1)
        kinds = context.window_state().get_map_state(queryable(MapStateDescriptor("kinds"), "kinds"))
        kinds.put("n", state.value())
        yield 1

    def clear(self, context: Any) -> None:
        context.window_state().get_state(queryable(ValueStateDescriptor("seen"), "seen")).clear()
        context.window_state().get_map_state(queryable(MapStateDescriptor("kinds"), "kinds")).clear()


def test_state_of_a_window_is_found_by_key_and_window(tmp_path: Path):
    declared = windowed(lambda keyed: keyed.window(tumbling("5ms")).allowed_lateness(100).process(WithState()))
    job = run(declared, tmp_path, *ROWS)
    client = client_of(job)
    assert client.get("seen", "a").value == [at(0, 5, 1), at(5, 10, 1)]
    assert client.get("seen", "a", window=5).value == 1
    assert client.get("kinds", "a", window=5).value == {"n": 1}
    job.stop()


def test_what_is_not_marked_or_not_there_is_refused_with_what_there_is(tmp_path: Path):
    job = SteppedJob(kept_values([1, 2]), tmp_path, InProcess(), 2)
    client = client_of(job)
    with pytest.raises(UnknownStateError, match="committed nothing yet"):
        client.states()
    job.epoch([Line("in", 0, {"key": "a", "n": 0})])
    with pytest.raises(UnknownStateError, match=r"no state is queryable as 'v'.* that are: 'newest' of 'keep'"):
        client.get("v", "a")
    with pytest.raises(UnknownStateError, match="of operator 'other'"):
        client.get("newest", "a", operator="other")
    with pytest.raises(InvalidArgumentError, match="can only be read as committed"):
        client.get("newest", "a", consistency="uncommitted")
    with pytest.raises(InvalidArgumentError, match="no consistency"):
        client.get("newest", "a", consistency="dirty")
    with pytest.raises(InvalidArgumentError, match=r"'newest' has no windows; .*; leave the window out"):
        client.get("newest", "a", window=0)
    with pytest.raises(InvalidArgumentError, match="no window"):
        client.get("newest", "a", window="soon")
    with pytest.raises(InvalidArgumentError, match="entries"):
        client.scan("newest", limit=0)
    with pytest.raises(InvalidArgumentError, match="where a page ended"):
        client.scan("newest", after="{")
    with pytest.raises(InvalidArgumentError, match="no prefix"):
        client.scan("newest", prefix=7)
    assert client.get("newest", "a", operator="keep").value == client.get("newest", "a", operator="Keeper").value == 1
    job.stop()


def test_addresses_that_cannot_be_are_refused(tmp_path: Path):
    with pytest.raises(InvalidArgumentError, match="no job is named"):
        QueryableStateClient("http://localhost:1")
    with pytest.raises(InvalidArgumentError, match="leave both out"):
        QueryableStateClient(str(tmp_path), job="x")


def test_what_has_no_key_cannot_be_marked(tmp_path: Path, make_env: Any):
    env = make_env("local")
    stream = env.from_collection([1]).key_by(lambda x: x)
    with pytest.raises(DefinitionError, match="name"):
        stream.as_queryable_state("")
    with pytest.raises(DefinitionError, match="descriptor"):
        stream.as_queryable_state("x", MapStateDescriptor("m"))
    with pytest.raises(DefinitionError, match="per key"):
        env.from_collection([1]).as_queryable_state("x")
    windows = env.from_collection([{"k": 1}]).key_by("k").window(tumbling("1s")).set_queryable("x")
    with pytest.raises(UnsupportedError, match="leave it out"):
        windows.agg(n=computed_by(Own()))


class Own(VectorizedAggregateFunction):
    def accumulate(self, values: Any) -> Any:
        return {}

    def merge(self, columns: Any, groups: Any) -> Any:
        return columns

    def get_result(self, columns: Any) -> Any:
        return []


def test_watching_tells_every_change_and_what_is_gone(tmp_path: Path):
    job = run(kept(["a", "ab", "b"]), tmp_path, [{"key": 0, "n": 1}])
    client = client_of(job)
    one, many = client.watch("newest", "a"), client.watch("newest", prefix="a")
    assert (next(one).value, next(many).key) == ({"key": 0, "n": 1}, "a")
    job.epoch([Line("in", 0, {"key": 2, "n": 1})])
    job.epoch([Line("in", 0, {"key": 1, "n": 5}), Line("in", 0, {"key": 0, "n": 2})])
    assert next(one).value == {"key": 0, "n": 2}
    changes = [next(many), next(many)]
    assert [(each.key, each.value["n"], each.epoch) for each in changes] == [("a", 2, 3), ("ab", 5, 3)]
    job.stop()
    again = client.watch("newest", "a", since=3)
    job = SteppedJob(kept(["a", "ab", "b"]), tmp_path, InProcess(), 2)
    job._lengths["in", 0] = 4
    job.epoch([Line("in", 0, {"key": 0, "n": 3})])
    assert next(again).value == {"key": 0, "n": 3}
    job.stop()
