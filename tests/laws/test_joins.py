"""Joins in time against an oracle: Flink's rules written down record by record, and a join over all pairs.

The oracle of the interval join is Flink's own operator, naively: buckets by time, timers that empty them. It knows
nothing of runs, piles and columns, and must be met to the order of results, however a run is cut, spread and killed.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import DataStream, OutputTag, ProcessFunction, ProcessJoinFunction, ValueStateDescriptor, tumbling
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.ops import join_interval
from flintstream.state.keygroups import hash_key
from tests.laws.programs import Outputs
from tests.laws.runs import Input, Way, lateness, run
from tests.laws.test_batching_law import LONG_SPLIT, PLAIN, SPLITS, counted, law, local_env, numbered, ways

pytestmark = pytest.mark.timeout(900)
LATE = OutputTag("left late"), OutputTag("right late")
UNMATCHED = OutputTag("left unmatched"), OutputTag("right unmatched")
HOW = ["inner", "left", "right", "full"]
BOUNDS = st.tuples(st.integers(-12, 12), st.integers(0, 12)).map(lambda bounds: (bounds[0], bounds[0] + bounds[1]))
# Records close together meet at the very border of what is late and what is gone.
CLOSE = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), min_size=8, max_size=40)
FEW = st.tuples(st.integers(-3, 3), st.integers(0, 3)).map(lambda bounds: (bounds[0], bounds[0] + bounds[1]))


class Tell(ProcessFunction):
    """Tells what a result is, its time, and how far event time was."""

    def process_element(self, value, ctx):
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


class Times(ProcessJoinFunction):
    """Emits a pair with its times and the number of pairs of its key so far; with one in three it emits twice."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, left, right, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        for _ in range(2 if count % 3 == 0 else 1):
            yield ctx.get_current_key(), _n(left), _n(right), ctx.get_left_timestamp(), ctx.get_right_timestamp(), count


def _n(record: Any) -> int | None:
    if record is None:
        return None
    return record[0] if isinstance(record, tuple) else record["n"]


def _sides(stream: DataStream) -> tuple[Any, Any]:
    """Return a stream's records as two: they are of one split, so that their order is known."""
    return (
        stream.filter(lambda r: r["n"] % 2 == 0).uid("evens").key_by("key"),
        stream.filter(lambda r: r["n"] % 2 == 1).map(lambda r: (r["n"], r["key"])).uid("odds").key_by(1),
    )


def interval(bounds: tuple[int, int], how: str, closed: tuple[bool, bool] = (True, True), function: Any = None) -> Any:
    """Return the program of an interval join; right records are tuples, so that both sides have types of their own."""

    def program(left: DataStream, right: DataStream) -> Outputs:
        first, second = _sides(left)
        joined = first.interval_join(second, how=how).between(*bounds)
        joined.side_output_left_late_data(LATE[0]).side_output_right_late_data(LATE[1])
        if not closed[0]:
            joined.lower_bound_exclusive()
        if not closed[1]:
            joined.upper_bound_exclusive()
        if how == "inner":
            joined.side_output_left_unmatched(UNMATCHED[0]).side_output_right_unmatched(UNMATCHED[1])
        main = joined.process(function).uid("join")
        outputs = {"main": main.process(Tell()), **{tag.tag_id: main.get_side_output(tag) for tag in LATE}}
        if how == "inner":
            outputs |= {tag.tag_id: main.get_side_output(tag).process(Tell()) for tag in UNMATCHED}
        return outputs

    return program


def _shown(side: int, record: Any) -> Any:
    return record if side == 0 else (record["n"], record["key"])


class Flink:
    """Flink's IntervalJoinOperator, fed with one split; outer as its SQL joins are."""

    def __init__(self, bounds: tuple[int, int], how: str, out_of_order: int) -> None:
        self.lower, self.upper = bounds
        self.outer = how in ("left", "full"), how in ("right", "full")
        self.how = how
        self.out_of_order = out_of_order
        self.watermark = MIN_TIMESTAMP
        self.buffers: Any = [defaultdict(lambda: defaultdict(list)) for _ in range(2)]
        self.timers: set[tuple[int, int, str]] = set()
        self.outputs: dict[str, list[Any]] = defaultdict(list)
        self.arrivals = 0

    def play(self, records: list[Any]) -> dict[str, list[Any]]:
        newest = MIN_TIMESTAMP
        for record in records:
            self._element(record["n"] % 2, record)
            newest = max(newest, record["ts"])
            self._advance(newest - self.out_of_order - 1)
        self._advance(MAX_TIMESTAMP)
        assert not any(buckets for buffer in self.buffers for buckets in buffer.values())
        return self.outputs

    def _element(self, side: int, record: Any) -> None:
        time, key = record["ts"], record["key"]
        if time < self.watermark:
            self.outputs[LATE[side].tag_id].append(_shown(side, record))
            return
        lower, upper = (self.lower, self.upper) if side == 0 else (-self.upper, -self.lower)
        cleanup = time + upper if upper > 0 else time
        self.arrivals += 1
        entry = {"record": record, "met": False, "gone": max(cleanup, self.watermark + 1), "arrival": self.arrivals}
        self.buffers[side][key][time].append(entry)
        for other_time in sorted(self.buffers[1 - side][key]):
            if time + lower <= other_time <= time + upper:
                for other in self.buffers[1 - side][key][other_time]:
                    entry["met"] = other["met"] = True
                    pair = (entry, other) if side == 0 else (other, entry)
                    self._emit(pair[0]["record"], pair[1]["record"], max(time, other_time))
        self.timers.add((cleanup, side, key))

    def _emit(self, left: Any, right: Any, time: int) -> None:
        shown = tuple(None if each is None else _shown(side, each) for side, each in enumerate((left, right)))
        self.outputs["main"].append((shown, time, self.watermark))

    def _advance(self, watermark: int) -> None:
        if watermark <= self.watermark:
            return
        leaving = []
        for timer in [timer for timer in self.timers if timer[0] <= watermark]:
            self.timers.remove(timer)
            time, side, key = timer
            upper = self.upper if side == 0 else -self.lower
            leaving += [(each, side) for each in self.buffers[side][key].pop(time - upper if upper > 0 else time, [])]
        leaving.sort(key=lambda each: _place(*each))
        for entry, side in leaving:
            if not entry["met"] and self.outer[side]:
                self._emit(*((entry["record"], None) if side == 0 else (None, entry["record"])), entry["gone"])
            elif not entry["met"] and self.how == "inner":
                result = _shown(side, entry["record"]), entry["gone"], self.watermark
                self.outputs[UNMATCHED[side].tag_id].append(result)
        self.watermark = watermark


def _place(entry: Any, side: int) -> tuple[Any, ...]:
    record = entry["record"]
    return entry["gone"], hash_key(record["key"]) >> 1, side, record["ts"], entry["arrival"]


def _played(program: Any, records: Input, way: Way) -> dict[str, list[Any]]:
    results = run(program, records, way, local_env)
    return {name.removeprefix("program "): values for name, values in results.items()}


@pytest.mark.parametrize("how", HOW)
@law(15)
@given(split=LONG_SPLIT, bounds=BOUNDS, out_of_order=st.integers(0, 12), way=ways())
def test_interval_joins_are_what_flink_says_they_are(how, split, bounds, out_of_order, way):
    _check_interval_join(how, split, bounds, out_of_order, way)


@pytest.mark.parametrize("how", HOW)
@law(25)
@given(split=CLOSE, bounds=FEW, out_of_order=st.integers(0, 1), way=ways())
def test_so_are_those_at_the_border(how, split, bounds, out_of_order, way):
    _check_interval_join(how, split, bounds, out_of_order, way)


def _check_interval_join(how: str, split: Any, bounds: tuple[int, int], out_of_order: int, way: Way) -> None:
    (records,) = numbered([split])
    results = _played(interval(bounds, how), Input([records], bound=out_of_order), way)
    expected = Flink(bounds, how, out_of_order).play(records)
    assert results == {name: expected[name] for name in results}


@pytest.mark.parametrize("how", ["inner", "full"])
@law(15)
@given(split=CLOSE, bounds=FEW, out_of_order=st.integers(0, 3), way=ways())
def test_so_are_those_with_more_pairs_than_fit_into_memory(how, split, bounds, out_of_order, way):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join_interval, "MOST_PAIRS", 2)
        _check_interval_join(how, split, bounds, out_of_order, way)


@law(15)
@given(split=LONG_SPLIT, bounds=BOUNDS, closed=st.tuples(st.booleans(), st.booleans()), way=ways())
def test_bounds_can_be_left_out(split, bounds, closed, way):
    (records,) = numbered([split])
    inner = bounds[0] + (not closed[0]), bounds[1] - (not closed[1])
    if inner[0] > inner[1]:
        return
    results = _played(interval(bounds, "full", closed), Input([records], bound=5), way)
    expected = Flink(inner, "full", 5).play(records)
    assert results == {name: expected[name] for name in results}


@pytest.mark.parametrize("how", ["inner", "full"])
@law(10)
@given(split=LONG_SPLIT, bounds=BOUNDS, out_of_order=st.integers(0, 12), way=ways())
def test_a_function_sees_what_comes_without_one(how, split, bounds, out_of_order, way):
    (records,) = numbered([split])
    results = _played(interval(bounds, how, function=Times()), Input([records], bound=out_of_order), way)
    pairs = Flink(bounds, how, out_of_order).play(records)["main"]
    expected, counts = [], defaultdict(int)
    for (left, right), time, watermark in pairs:
        key = right[1] if left is None else left["key"]
        counts[key] += 1
        times = None if left is None else left["ts"], None if right is None else records[right[0]]["ts"]
        told = key, _n(left), _n(right), *times, counts[key]
        expected += [(told, time, watermark)] * (2 if counts[key] % 3 == 0 else 1)
    assert results["main"] == expected


def several(left: DataStream, right: DataStream) -> Outputs:
    """Joins of two sources, in windows and in intervals, all kinds."""
    outputs: Outputs = {}
    for how in HOW:
        pairs = left.key_by("key").interval_join(right.key_by("key"), how=how).between(-4, 7)
        outputs[f"interval {how}"] = pairs.process().uid(f"interval {how}").map(_numbers)
        windows = left.join(right, how=how).where("key").equal_to("key").window(tumbling("10ms"))
        windows.side_output_left_late_data(LATE[0]).side_output_right_late_data(LATE[1])
        main = windows.apply().uid(f"window {how}")
        outputs[f"window {how}"] = main.map(_numbers)
        outputs |= {f"{how} {tag.tag_id}": main.get_side_output(tag) for tag in LATE}
    groups = left.co_group(right).where("key").equal_to("key").window(tumbling("10ms"))
    outputs["groups"] = groups.apply(lambda a, b: [([r["n"] for r in a], [r["n"] for r in b])]).uid("groups")
    return outputs


def _numbers(pair: Any) -> tuple[int | None, int | None]:
    return _n(pair[0]), _n(pair[1])


@law(8)
@given(left=SPLITS, right=SPLITS, way=ways())
def test_joins_of_two_sources_are_joins_over_all_pairs(left, right, way):
    lefts, rights = numbered(left), numbered(right, 1000)
    bound = max(lateness(lefts), lateness(rights))
    results = run(several, Input(lefts, rights, bound), way, local_env)
    first, second = [r for split in lefts for r in split], [r for split in rights for r in split]
    near = _over_all_pairs(first, second, lambda a, b: -4 <= b["ts"] - a["ts"] <= 7)
    same = _over_all_pairs(first, second, lambda a, b: a["ts"] // 10 == b["ts"] // 10)
    for how in HOW:
        assert counted(results[f"several interval {how}"]) == counted(near[how])
        assert counted(results[f"several window {how}"]) == counted(same[how])
        assert not results[f"several {how} left late"] + results[f"several {how} right late"]


def _over_all_pairs(left: list[Any], right: list[Any], meet: Any) -> dict[str, list[Any]]:
    inner = [(a, b) for a in left for b in right if a["key"] == b["key"] and meet(a, b)]
    met = {record["n"] for pair in inner for record in pair}
    lonely = [(a, None) for a in left if a["n"] not in met], [(None, b) for b in right if b["n"] not in met]
    kinds = {
        "inner": inner,
        "left": inner + lonely[0],
        "right": inner + lonely[1],
        "full": inner + lonely[0] + lonely[1],
    }
    return {how: [_numbers(pair) for pair in pairs] for how, pairs in kinds.items()}


@law(6)
@given(left=SPLITS, right=SPLITS, bound=st.integers(0, 12), way=ways(deterministic=True))
def test_in_deterministic_order_joins_have_one_result(left, right, bound, way):
    records = Input(numbered(left), numbered(right, 1000), bound)
    assert run(several, records, way, local_env) == run(several, records, Way(deterministic=True), local_env)


@law(8)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), way=ways())
def test_joins_of_one_split_have_one_result(split, bound, way):
    records = Input(numbered([split]), bound=bound)
    assert run(several, records, way, local_env) == run(several, records, PLAIN, local_env)
