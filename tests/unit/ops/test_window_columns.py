"""Columnar windows, against a dict of lists."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.errors import JobError
from flintstream.model.assigners import TumblingEventTimeWindows
from flintstream.model.row import Row
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.ops.aggregates import Aggregate
from flintstream.ops.batch import Values
from flintstream.ops.selectors import FieldKey, FunctionKey, KeySource
from flintstream.ops.window_columns import ColumnWindowOperator
from flintstream.ops.window_fold import WindowFolder, with_groups
from flintstream.state.keygroups import hash_key
from flintstream.state.timers import order_of
from tests.unit.ops.window_harness import END, Record, Step, Watermark, WindowHarness, play
from tests.unit.values import KEY_SHAPES, Frozen, Noted, Point, exactly, law

SIZE, OFFSET = 10, 3
ALL = [(kind, Aggregate(kind, 0)) for kind in ("count", "sum", "min", "max", "avg")]
BY_FUNCTION = FunctionKey(lambda value: value)


def windows(
    key: KeySource = BY_FUNCTION, aggregates: Any = ALL, late_tag: str | None = "late"
) -> Callable[[], ColumnWindowOperator]:
    return lambda: ColumnWindowOperator(TumblingEventTimeWindows(SIZE, OFFSET), key, aggregates, late_tag)


def results(values: list[Any]) -> tuple[Any, ...]:
    """Return count, sum, least, greatest and average, as the aggregates promise them."""
    present = [value for value in values if value is not None]
    if not present:
        return len(values), None, None, None, None
    total = sum(map(Fraction, present), Fraction(0))
    whole = all(type(value) is int for value in present)
    rounded = int(total) if whole else total.numerator / total.denominator
    return len(values), rounded, min(present), max(present), float(rounded) / len(present)


class Model:
    """What a script means: results by window and key, and what is late."""

    def __init__(self, script: Iterable[Step]) -> None:
        self.fired: list[tuple[int, dict[Any, list[Any]]]] = []
        self.late: list[Any] = []
        held: dict[int, dict[Any, list[Any]]] = {}
        watermark = MIN_TIMESTAMP
        for step in script:
            if isinstance(step, Record):
                start = step.timestamp - (step.timestamp - OFFSET) % SIZE
                if start + SIZE - 1 <= watermark:
                    self.late.append(step.value)
                else:
                    held.setdefault(start, {}).setdefault(step.key, []).append(step.value[0])
            else:
                watermark = max(watermark, step.time)
                for start in sorted(start for start in held if start + SIZE - 1 <= watermark):
                    self.fired.append((start, held.pop(start)))

    def rows(self) -> list[tuple[Any, ...]]:
        """Return (start, key, results...) in the order in which they are emitted."""
        return [
            (start, key, *results(values))
            for start, by_key in self.fired
            for key, values in sorted(by_key.items(), key=lambda item: hash_key(item[0]) >> 1)
        ]


def found(harness: WindowHarness) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for emission in harness.emitted:
        if not emission.tag:
            key, start, end, *rest = emission.value
            assert (end, emission.timestamp) == (start + SIZE, end - 1)
            rows.append((start, key, *rest))
    return rows


NUMBERS = st.sampled_from(
    [st.integers(-(2**40), 2**40), st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), st.integers(-9, 9) | st.just(0.5)]
)
PLAIN_KEYS = st.sampled_from(
    [
        st.integers(0, 3),
        st.sampled_from(["a", "b", "longer than eight"]),
        st.sampled_from([None, "a"]),
        st.sampled_from([1, 1.0, True, "a", None, 2.5, 0.0, -0.0]),
        st.tuples(st.integers(0, 1), st.sampled_from(["x", None])),
        st.tuples(st.none() | st.integers(0, 1), st.none() | st.integers(0, 1)),
        st.sampled_from([(), (1,), (1, 2), (1, 2, 3), None, 1, (None, None), ("a", 2)]),
        st.builds(Row, st.integers(0, 1)),
        st.builds(Frozen, st.integers(0, 1)),
        st.builds(Point, st.integers(0, 1), st.just("y")),
        st.builds(Noted, st.integers(0, 1), st.integers(0, 1)),
    ]
)


@st.composite
def scripts(draw: st.DrawFn, keys: Any = PLAIN_KEYS) -> list[Step]:
    key, number = draw(keys), draw(NUMBERS)
    number = number | st.none() if draw(st.booleans()) else number
    record = st.builds(Record, key, st.tuples(number), st.integers(-25, 40))
    return [*draw(st.lists(st.one_of(record, record, st.builds(Watermark, st.integers(-25, 45))), max_size=14)), END]


CUTS = st.lists(st.integers(0, 14), max_size=4)


def played(script: list[Step], cuts: list[int], restarts: list[int]) -> WindowHarness:
    limit = len(script)
    return play(windows(), script, [min(c, limit) for c in cuts], [min(c, limit - 1) for c in restarts])


@law
@given(scripts(), CUTS, CUTS)
def test_windows_are_those_of_a_dict_however_the_input_is_cut(
    script: list[Step], cuts: list[int], restarts: list[int]
) -> None:
    model, harness = Model(script), played(script, cuts, restarts)
    assert found(harness) == model.rows()
    assert [type(row[3]) for row in found(harness)] == [type(row[3]) for row in model.rows()]
    assert harness.values("late") == model.late
    assert harness.late == len(model.late)
    assert harness.entries() == {}


@law
@given(scripts(), CUTS, CUTS)
def test_cuts_and_restarts_change_no_type_and_no_stamp(
    script: list[Step], cuts: list[int], restarts: list[int]
) -> None:
    whole, parts = played(script, [], []), played(script, cuts, restarts)

    def seen(harness: WindowHarness) -> Any:
        # Of equal keys that differ in type, one stands for all, and which one is left open.
        return [
            (e.tag, e.value if e.tag else exactly(list(e.value)[1:]), e.timestamp, e.stamp) for e in harness.emitted
        ]

    assert sorted(seen(parts), key=repr) == sorted(seen(whole), key=repr)


@law
@given(scripts(keys=KEY_SHAPES), CUTS)
def test_keys_come_back_as_they_were(script: list[Step], cuts: list[int]) -> None:
    harness = played(script, cuts, [])
    given_keys = [exactly(step.key) for step in script if isinstance(step, Record)]
    for _, key, *_ in found(harness):
        assert exactly(key) in given_keys


@law
@given(scripts(), CUTS)
def test_partial_results_from_before_the_shuffle_are_as_good_as_records(script: list[Step], cuts: list[int]) -> None:
    records = [step for step in script if isinstance(step, Record)]
    folder = WindowFolder(TumblingEventTimeWindows(SIZE, OFFSET), ALL)
    harness = WindowHarness(windows())
    bounds = sorted({0, *(min(cut, len(records)) for cut in cuts), len(records)})
    for begin, stop in itertools.pairwise(bounds):
        part = records[begin:stop]
        keys, values = Values([record.key for record in part]), Values([record.value for record in part])
        times = np.array([record.timestamp for record in part])
        for start, partial in folder.partials(values, keys, folder.starts(times), times):
            harness.operator.add_partial(start, with_groups(partial, 16))
    harness.feed(END)
    assert found(harness) == Model([*records, END]).rows()
    assert harness.entries() == {}


@law
@given(scripts())
def test_state_is_kept_under_the_key_group_of_its_key(script: list[Step]) -> None:
    harness = WindowHarness(windows())
    records = [step for step in script if isinstance(step, Record)]
    harness.feed(*records)
    for changes in harness.commit().values():
        wanted = {hash_key(record.key) % 16 for record in records}
        assert set(changes.column("key_group").to_pylist()) == wanted


def test_a_window_fires_at_the_advance_that_reaches_its_end() -> None:
    harness = WindowHarness(windows())
    harness.feed(Record("a", (1,), 4), Watermark(11))
    assert harness.emitted == []
    harness.feed(Record("a", (2,), 5), Watermark(12), Record("b", (9,), 20), Watermark(30))
    first, second = harness.emitted
    assert first.value == Row(key="a", window_start=3, window_end=13, count=2, sum=3, min=1, max=2, avg=1.5)
    assert first.timestamp == 12
    assert first.stamp == (11, 0, 1, 12, order_of("a"), 0)
    assert (second.value[0], second.timestamp, second.stamp[:3]) == ("b", 22, (12, 0, 2))


def test_a_key_of_several_fields_stands_in_as_many_columns() -> None:
    script = [Record(("a", 1), (1,), 4), Record(("a", "x"), (2,), 4), Record((None, None), (3,), 4), END]
    for cuts in ([], [1], [1, 2]):
        harness = play(windows(FieldKey(("name", 1)), [("n", Aggregate("count"))]), script, cuts)
        rows = {(row["name"], row["1"]): row["n"] for row in harness.values()}
        assert rows == {("a", 1): 1, ("a", "x"): 1, (None, None): 1}
        assert harness.values()[0].get_field_names() == ["name", "1", "window_start", "window_end", "n"]


def test_late_records_are_counted_even_without_an_output_for_them() -> None:
    harness = play(windows(late_tag=None), [Watermark(50), Record("a", (1,), 4), Record("b", (1,), 60), END])
    assert harness.late == 1
    assert [row[0] for row in harness.values()] == ["b"]


def test_a_record_without_a_timestamp_is_an_error() -> None:
    with pytest.raises(JobError, match="no timestamp"):
        WindowHarness(windows()).feed(Record("a", (1,)))


def test_the_last_window_fires_with_the_end_of_the_input() -> None:
    harness = play(windows(), [Record("a", (1,), 4), Watermark(MAX_TIMESTAMP)])
    assert [row[3] for row in harness.values()] == [1]


def test_many_windows_in_one_run_are_told_apart() -> None:
    script = [*(Record(number % 3, (number,), number * 7) for number in range(60)), END]
    assert found(play(windows(), script)) == Model(script).rows()


def test_a_window_is_always_behind_an_exchange() -> None:
    harness = WindowHarness(windows())
    with pytest.raises(AssertionError, match="behind an exchange"):
        harness.operator.process(None, 0, harness)  # type: ignore[arg-type]
