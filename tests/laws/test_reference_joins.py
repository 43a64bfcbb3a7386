"""Joins with reference data against brute force, and under the batching law: cut, spread and killed in any way.

The oracles know nothing of operators: they look at all records at once, with the watermark before each of them.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import (
    CollectSink,
    Configuration,
    DataStream,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
    bounded,
)
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from tests.capabilities.support import Lists
from tests.laws.programs import Outputs
from tests.laws.runs import Input, Life, Way, lateness, run
from tests.laws.test_batching_law import (
    LONG_SPLIT,
    PLAIN,
    SPLITS,
    counted,
    law,
    local_env,
    numbered,
    some_splits,
    ways,
)

pytestmark = pytest.mark.timeout(900)
LATE, LATE_VERSIONS, ALONE = OutputTag("late"), OutputTag("late versions"), OutputTag("alone")
TTL = 9


class WithTime(ProcessFunction):
    """Emits records with their timestamps."""

    def process_element(self, value, ctx):
        yield value, ctx.timestamp()


def numbers(left: Any, right: Any) -> tuple[Any, Any]:
    return None if left is None else left["n"], None if right is None else right["n"]


def is_end(version: Any) -> bool:
    return version["n"] % 5 == 0


def _temporal(left: DataStream, right: DataStream, how: str, ends: bool) -> Outputs:
    joined = left.key_by("key").temporal_join(right.key_by("key"), how=how)
    joined = joined.ends_when(is_end) if ends else joined
    joined = joined.side_output_left_late_data(LATE).side_output_right_late_data(LATE_VERSIONS)
    results = joined.apply(numbers)
    late = {"late": results.get_side_output(LATE), "versions late": results.get_side_output(LATE_VERSIONS)}
    return {"main": results.process(WithTime()), **late}


def temporal(left: DataStream, right: DataStream) -> Outputs:
    return _temporal(left, right, "left", ends=False)


def temporal_inner(left: DataStream, right: DataStream) -> Outputs:
    joined = left.key_by("key").temporal_join(right.key_by("key")).side_output_left_unmatched(ALONE)
    results = joined.apply(numbers)
    return {"main": results.process(WithTime()), "alone": results.get_side_output(ALONE).process(WithTime())}


def temporal_ends(left: DataStream, right: DataStream) -> Outputs:
    return _temporal(left, right, "left", ends=True)


def latest(left: DataStream, right: DataStream) -> Outputs:
    joined = left.key_by("key").temporal_join(right.key_by("key"), how="left", as_of="processing").ends_when(is_end)
    return {"main": joined.apply(numbers).process(WithTime())}


def regular(left: DataStream, right: DataStream) -> Outputs:
    joined = left.key_by("key").regular_join(right.key_by("key"), ttl=TTL, how="full")
    return {"main": joined.apply(numbers).process(WithTime())}


def regular_left(left: DataStream, right: DataStream) -> Outputs:
    joined = left.key_by("key").regular_join(right.key_by("key"), ttl=TTL, how="left")
    results = joined.side_output_right_unmatched(ALONE).apply(numbers)
    return {"main": results.process(WithTime()), "alone": results.get_side_output(ALONE).process(WithTime())}


def changes(left: DataStream, right: DataStream) -> Outputs:
    joined = left.key_by("key").regular_join(right.key_by("key"), ttl=TTL, how="full").changelog()
    return {"main": joined.apply(numbers).map(lambda change: (str(change.kind), change.value))}


def for_ever(left: DataStream, right: DataStream) -> Outputs:
    return {"main": left.key_by("key").regular_join(right.key_by("key"), ttl=None).apply(numbers).process(WithTime())}


NAMES = {"a": ["Ada", "Abe"], "b": ["Bob"]}
TABLE = pa.table({"key": ["a", "a", "b"], "name": ["Ada", "Abe", "Bob"]})


def looked_up(left: DataStream, right: DataStream) -> Outputs:
    # Behind an exchange, since splits are merged into one order only there.
    joined = left.key_by("key").lookup_join(NAMES.get, on="key", how="left").apply(lambda row, name: (row["n"], name))
    table = right.key_by("key").join_static(TABLE, on="key", how="left").map(lambda row: (row.n, row.name))
    return {"main": joined.process(WithTime()), "table": table}


ALL = [temporal, temporal_inner, temporal_ends, latest, regular, regular_left, changes, for_ever, looked_up]
ANY_ORDER = [temporal_inner, temporal_ends, for_ever, looked_up]
"""Versions of one key and one time aside, these do not depend on how splits interleave, if nothing is late."""


@pytest.mark.parametrize("program", ALL)
@law(4)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), way=ways())
def test_one_split_has_one_result(program, split, bound, way):
    records = Input(numbered([split]), bound=bound)
    assert run(program, records, way, local_env) == run(program, records, PLAIN, local_env)


@pytest.mark.parametrize("program", ALL)
@law(3)
@given(left=SPLITS, right=SPLITS, bound=st.integers(0, 12), way=ways(deterministic=True))
def test_deterministic_order_has_one_result(program, left, right, bound, way):
    records = Input(numbered(left), numbered(right, 100), bound)
    assert run(program, records, way, local_env) == run(program, records, Way(deterministic=True), local_env)


@pytest.mark.parametrize("program", ANY_ORDER)
@law(4)
@given(left=SPLITS, right=SPLITS, way=ways())
def test_splits_may_interleave_as_they_like_if_nothing_is_late(program, left, right, way):
    versions = one_of_each_time(numbered(right, 100))
    bound = max(lateness(numbered(left)), lateness(versions))
    records = Input(numbered(left), versions, bound=bound)
    some, other = run(program, records, way, local_env), run(program, records, PLAIN, local_env)
    assert {name: counted(values) for name, values in some.items()} == {
        name: counted(values) for name, values in other.items()
    }


def one_of_each_time(splits: list[list[Any]]) -> list[list[Any]]:
    """Leave out versions of a key that has one of that time already."""
    seen: set[tuple[str, int]] = set()
    kept: list[list[Any]] = []
    for split in splits:
        kept.append([])
        for record in split:
            if (record["key"], record["ts"]) not in seen:
                seen.add((record["key"], record["ts"]))
                kept[-1].append(record)
    return kept


class Event(NamedTuple):
    """A record of one side, the watermark before it and the one after it, and its place in the order of arrival."""

    record: dict[str, Any]
    before: int
    after: int
    place: int


def events(records: list[dict[str, Any]], bound: int) -> tuple[list[Event], list[Event]]:
    """Return both sides of a program over one split, whose right stream are its odd records."""
    left: list[Event] = []
    right: list[Event] = []
    watermark = newest = MIN_TIMESTAMP
    for index, record in enumerate(records):
        newest = max(newest, record["ts"])
        after = max(watermark, newest - bound - 1)
        left.append(Event(record, watermark, after, 2 * index))
        if record["n"] % 2:
            right.append(Event(record, watermark, after, 2 * index + 1))
        watermark = after
    return left, right


@law(25)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), way=ways())
def test_the_version_is_the_newest_one_up_to_the_records_time(split, bound, way):
    (records,) = numbered([split])
    found = run([temporal, temporal_inner], Input([records], bound=bound), way, local_env)
    expected, late, late_versions = versions_by_force(records, bound, ends=False)
    assert counted(found["temporal main"]) == counted(expected)
    inner = [(pair, time) for pair, time in expected if pair[1] is not None]
    assert counted(found["temporal_inner main"]) == counted(inner)
    alone = [(pair[0], time) for pair, time in expected if pair[1] is None]
    assert counted([(record["n"], time) for record, time in found["temporal_inner alone"]]) == counted(alone)
    assert found["temporal late"] == late
    assert found["temporal versions late"] == late_versions


@law(15)
@given(split=LONG_SPLIT, way=ways())
def test_an_ended_version_is_none(split, way):
    (records,) = numbered([split])
    bound = lateness([records])
    found = run(temporal_ends, Input([records], bound=bound), way, local_env)
    expected, late, _ = versions_by_force(records, bound, ends=True)
    assert counted(found["temporal_ends main"]) == counted(expected)
    assert not late


def versions_by_force(records: list[Any], bound: int, ends: bool) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the results of a left join, late records and late versions."""
    left, right = events(records, bound)
    results = []
    for mine in (each for each in left if each.record["ts"] > each.before):
        passed = [each.place for each in left if each.after >= mine.record["ts"]]
        decided = min(passed, default=MAX_TIMESTAMP)
        versions = [
            (each.record["ts"], each.place, each.record)
            for each in right
            # The record that moves the watermark has both its sides taken in before it moves.
            if each.record["key"] == mine.record["key"]
            and each.place <= decided + 1
            and each.record["ts"] <= mine.record["ts"]
        ]
        version = max(versions)[2] if versions else None
        if version is not None and ends and is_end(version):
            version = None
        results.append((numbers(mine.record, version), mine.record["ts"]))
    return (
        results,
        [each.record for each in left if each.record["ts"] <= each.before],
        [each.record for each in right if each.record["ts"] <= each.before],
    )


@law(25)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), way=ways())
def test_all_records_meet_that_are_kept_long_enough(split, bound, way):
    (records,) = numbered([split])
    found = run([regular, regular_left, for_ever], Input([records], bound=bound), way, local_env)
    left, right = events(records, bound)
    pairs = pairs_by_force(left, right, TTL)
    times = {each["n"]: each["ts"] for each in records}
    met = [{pair[side] for pair, _ in pairs} for side in (0, 1)]
    lonely_left = [((n, None), times[n]) for n in (each.record["n"] for each in left) if n not in met[0]]
    lonely_right = [((None, n), times[n]) for n in (each.record["n"] for each in right) if n not in met[1]]
    assert counted(found["regular main"]) == counted([*pairs, *lonely_left, *lonely_right])
    assert counted(found["regular_left main"]) == counted([*pairs, *lonely_left])
    alone = [((None, record["n"]), time) for record, time in found["regular_left alone"]]
    assert counted(alone) == counted(lonely_right)
    assert counted(found["for_ever main"]) == counted(pairs_by_force(left, right, 10**9))


def pairs_by_force(left: list[Event], right: list[Event], ttl: int) -> list[Any]:
    """Return the pairs: the one that came first is kept when it comes, and still when the other one does."""
    pairs = []
    for one in left:
        for other in right:
            first, last = sorted((one, other), key=lambda event: event.place)
            kept_until = first.record["ts"] + ttl
            if one.record["key"] == other.record["key"] and first.before < kept_until and last.before < kept_until:
                pairs.append((numbers(one.record, other.record), max(one.record["ts"], other.record["ts"])))
    return pairs


@law(15)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), way=ways())
def test_changes_add_up_to_the_outer_join(split, bound, way):
    """Whatever was taken back had been given before, and what is left at the end is the join without retractions."""
    (records,) = numbered([split])
    found = run([changes, regular], Input([records], bound=bound), way, local_env)
    left: Counter[Any] = Counter()
    for kind, value in found["changes main"]:
        left[value] += 1 if kind == "+I" else -1
        assert left[value] >= 0, value
    assert +left == Counter(value for value, _ in found["regular main"])


KEYS = st.one_of(st.none(), st.integers(0, 3))


@law(30)
@given(
    rows=st.lists(st.tuples(KEYS, KEYS), max_size=12),
    table=st.lists(st.tuples(KEYS, KEYS), max_size=12),
    how=st.sampled_from(["inner", "left", "left_semi", "left_anti"]),
    cut=st.integers(1, 12),
)
def test_a_static_join_is_the_join_of_sql(rows, table, how, cut):
    named = [{"a": a, "b": b, "n": n} for n, (a, b) in enumerate(rows)]
    columns = {"a": [a for a, _ in table], "b": [b for _, b in table], "m": list(range(len(table)))}
    static = pa.table(columns, schema=pa.schema([("a", pa.int64()), ("b", pa.int64()), ("m", pa.int64())]))
    configuration = Configuration.from_dict({"flintstream.epoch.max-records": str(cut)})
    env = StreamExecutionEnvironment.get_execution_environment(configuration, runtime="local")
    joined = env.from_collection(named).join_static(static, on=["a", "b"], how=how)
    found = [tuple(row.as_dict().get(name) for name in ("n", "m")) for row in joined.execute_and_collect()]
    assert found == static_by_force(rows, table, how)


def static_by_force(rows: list[Any], table: list[Any], how: str) -> list[tuple[int, int | None]]:
    found: list[tuple[int, int | None]] = []
    for n, row in enumerate(rows):
        matches = [m for m, other in enumerate(table) if row == other and None not in row]
        if how in ("inner", "left"):
            found += [(n, m) for m in matches] or ([(n, None)] if how == "left" else [])
        elif bool(matches) == (how == "left_semi"):
            found.append((n, None))
    return found


def test_state_may_be_larger_than_memory(tmp_path):
    rng = random.Random(5)
    split = [(str(rng.randrange(60)), 3 * at + rng.randrange(20)) for at in range(400)]
    found = []
    for limit in (10**6, 20):
        settings = {"flintstream.epoch.max-records": "50", "flintstream.state.entries-in-memory": str(limit)}
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings), runtime="local")
        env.set_parallelism(2).set_checkpoint_dir(str(tmp_path / str(limit)))
        source = env.from_source(Lists(*numbered([split])), bounded(20, on="ts")).uid("source")
        sinks = [CollectSink() for _ in ALL]
        for program, sink in zip(ALL, sinks, strict=True):
            program(source, source.filter(is_odd))["main"].sink_to(sink)
        env.execute()
        found.append([sink.results for sink in sinks])
    assert found[0] == found[1]


def is_odd(record: Any) -> bool:
    return record["n"] % 2 == 1


@pytest.mark.spark
def test_all_joins_are_the_same_on_spark(make_env):
    """All programs as one job: cut, spread, killed between epochs and within one, against one epoch in-process."""
    rng = random.Random(11)
    records = Input(numbered(some_splits(rng, 1)), bound=4)
    lives = [Life(7, 2, stop_after=1), Life(6, 2, fuse=13), Life(8, 3)]
    spark = run(ALL, records, Way(lives), lambda *args, **named: make_env("spark", *args, **named))
    assert spark == run(ALL, records, PLAIN, local_env)
