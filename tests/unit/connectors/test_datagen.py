from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream.connectors.datagen import DataGeneratorSource
from flintstream.connectors.datagen_fields import (
    choice,
    constant,
    integers,
    normal,
    random_bits,
    sequence,
    timestamps,
    uniform,
)
from flintstream.errors import InvalidArgumentError, SourceError, UserFunctionError
from flintstream.state.codec import decode, kind_of_arrow

FIELDS = {
    "id": sequence(),
    "u": uniform(-1.0, 1.0),
    "i": integers(-3, 1 << 40),
    "c": choice(["a", "b", None]),
    "w": choice([1, 2], [1, 9]),
    "n": normal(20.0, 5.0),
    "t": timestamps(1_000, 10, 35),
    "k": constant("x"),
}


def records_of(source: DataGeneratorSource, parallelism: int) -> list[dict]:
    splits = source.splits(parallelism)
    return [record for s in splits for record in source.read(s.number, s.start, s.end).to_pylist()]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 3), st.integers(0, 20_000), st.lists(st.integers(1, 9_000), min_size=1, max_size=6))
def test_a_range_is_the_same_in_any_cut(split, start, lengths):
    source = DataGeneratorSource(FIELDS, seed=5, splits=4)
    whole = source.read(split, start, start + sum(lengths))
    pieces, at = [], start
    for length in lengths:
        pieces.append(pickle.loads(pickle.dumps(source)).read(split, at, at + length))
        at += length
    assert pa.concat_arrays(pieces).equals(whole)


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(1, 7), st.integers(1, 7))
def test_the_records_are_the_same_whatever_the_parallelism(count, one, other):
    def sorted_records(parallelism):
        return sorted(records_of(DataGeneratorSource(FIELDS, count=count, seed=1), parallelism), key=lambda r: r["id"])

    assert sorted_records(one) == sorted_records(other)
    assert [r["id"] for r in sorted_records(one)] == list(range(count))


def test_record_i_of_split_s_has_global_index_i_times_splits_plus_s():
    source = DataGeneratorSource({"id": sequence(100)}, count=7)
    splits = source.splits(3)
    assert [(s.start, s.end) for s in splits] == [(0, 3), (0, 2), (0, 2)]
    assert [source.read(s, 0, 2).field("id").to_pylist() for s in range(3)] == [[100, 103], [101, 104], [102, 105]]


def test_records_are_rows_with_names():
    array = DataGeneratorSource({"id": sequence(), "k": constant(1.5)}, splits=1).read(0, 0, 1)
    (row,) = decode(array, kind_of_arrow(array.type))
    assert row.as_dict() == {"id": 0, "k": 1.5}


def test_seed_and_name_each_change_the_values():
    def values(seed, name):
        return DataGeneratorSource({name: uniform()}, seed=seed, splits=1).read(0, 0, 100).field(name).to_numpy()

    assert not (values(1, "a") == values(2, "a")).any()
    assert not (values(1, "a") == values(1, "b")).any()


def test_without_a_count_it_never_ends_and_the_rate_is_passed_on():
    source = DataGeneratorSource(FIELDS, rate=500.0)
    assert not source.is_bounded
    assert [s.end for s in source.splits(2)] == [None, None]
    assert source.rate() == 500.0
    assert DataGeneratorSource(FIELDS, count=1).rate() is None
    assert DataGeneratorSource(FIELDS, count=1).is_bounded


def test_given_splits_hold_at_any_parallelism():
    source = DataGeneratorSource(FIELDS, count=10, splits=4)
    assert len(source.splits(1)) == len(source.splits(9)) == 4


def test_the_number_of_splits_travels_with_the_source():
    source = DataGeneratorSource({"id": sequence()})
    with pytest.raises(SourceError, match="before its splits were made"):
        source.read(0, 0, 1)
    source.splits(3)
    assert pickle.loads(pickle.dumps(source)).read(2, 0, 2).field("id").to_pylist() == [2, 5]


def column(field, count=100_000):
    return field.column(np.arange(count), 12345)


def test_uniform_fills_its_range_evenly():
    values = column(uniform(2.0, 4.0)).to_numpy()
    assert values.min() >= 2.0
    assert values.max() < 4.0
    assert np.allclose(np.histogram(values, 10, (2.0, 4.0))[0], 10_000, atol=500)


@pytest.mark.parametrize(("low", "high"), [(-5, 5), (-(2**40), 2**40), (-(2**63), -1), (7, 8)])
def test_integers_fill_their_range_and_leave_out_its_end(low, high):
    values = column(integers(low, high)).to_numpy()
    assert values.dtype == np.int64
    assert low <= values.min() <= values.max() < high
    counts = np.histogram(values.astype(float), 10, (float(low), float(high)))[0]
    assert high - low == 1 or np.allclose(counts, 10_000, atol=500)


def test_normal_has_its_mean_and_deviation():
    values = column(normal(20.0, 5.0)).to_numpy()
    assert abs(values.mean() - 20.0) < 0.1
    assert abs(values.std() - 5.0) < 0.1
    assert 0.67 < (abs(values - 20.0) < 5.0).mean() < 0.70


def test_choice_is_even_or_by_weight_and_keeps_its_type():
    counts = dict(zip(*np.unique(column(choice([1, 2])).to_numpy(), return_counts=True), strict=True))
    assert abs(counts[1] - 50_000) < 1_000
    weighted = column(choice(["a", "b", "c"], [1, 0, 3])).to_pylist()
    assert "b" not in weighted
    assert abs(weighted.count("a") - 25_000) < 1_000
    assert column(choice(["a"])).type == pa.string()


@settings(deadline=None)
@given(st.integers(0, 50), st.floats(0, 20, allow_nan=False))
def test_timestamps_are_never_later_than_the_jitter_behind_an_earlier_record(jitter, step):
    times = column(timestamps(0, step, jitter), 2_000).to_numpy()
    behind = np.maximum.accumulate(times) - times
    assert behind.max() <= jitter
    assert times.min() >= 0


def test_timestamps_are_out_of_order_with_jitter_only():
    assert (np.diff(column(timestamps(0, 1, 100)).to_numpy()) < 0).any()
    assert column(timestamps(5, 0.5), 5).to_pylist() == [5, 5, 6, 6, 7]


def test_constant_takes_any_value():
    assert column(constant({"a": [1]}), 2).to_pylist() == [{"a": [1]}] * 2


def test_bits_are_those_of_splitmix64():
    # The published first outputs of splitmix64 with seed 1234567.
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert random_bits(np.arange(4), 1234567).tolist() == expected


def test_a_generator_function_is_called_with_global_indices():
    source = DataGeneratorSource(generator=lambda index: ("r", index), count=5)
    source.splits(2)
    assert source.read(1, 0, 2) == [("r", 1), ("r", 3)]
    assert source.read(0, 0, 3) == [("r", 0), ("r", 2), ("r", 4)]


def test_a_generator_function_that_raises_is_named_with_its_line():
    def broken(index):
        raise ZeroDivisionError("no luck")

    source = DataGeneratorSource(generator=broken, splits=1)
    with pytest.raises(UserFunctionError, match="ZeroDivisionError: no luck") as caught:
        source.read(0, 0, 1)
    assert "test_datagen.py" in (caught.value.location or "")


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"fields": {}},
        {"fields": FIELDS, "generator": print},
        {"fields": {"a": 1}},
        {"fields": FIELDS, "count": -1},
        {"fields": FIELDS, "rate": 0},
        {"fields": FIELDS, "splits": 0},
    ],
)
def test_arguments_that_can_never_be_right_are_refused(arguments):
    with pytest.raises(InvalidArgumentError):
        DataGeneratorSource(**arguments)


@pytest.mark.parametrize(
    "make",
    [
        lambda: uniform(1, 1),
        lambda: integers(3, 3),
        lambda: integers(-(2**63), 2**63),
        lambda: normal(0, -1),
        lambda: choice([]),
        lambda: choice([1, "a"]),
        lambda: choice(["a", "b"], [1]),
        lambda: choice(["a"], [0]),
        lambda: choice(["a", "b"], [2, -1]),
        lambda: timestamps(0, -1),
        lambda: timestamps(0, 1, "-1s"),
        lambda: constant(object()),
    ],
)
def test_fields_that_can_never_be_right_are_refused(make):
    with pytest.raises(InvalidArgumentError):
        make()
