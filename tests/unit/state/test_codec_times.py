"""Dates and times out of columns: the same objects that Arrow makes, to the type of their time zone."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.state.codec import decode, encode, kind_of_arrow
from flintstream.state.codec_times import times_of

MOMENTS = st.datetimes()
LENGTHS = st.timedeltas(datetime.timedelta(days=-(10**8)), datetime.timedelta(days=10**8))
UTC = pa.timestamp("us", tz="UTC")


def told(values: list) -> list:
    return [(type(value), repr(value)) for value in values]


@given(
    st.lists(MOMENTS, min_size=1).map(lambda values: pa.array(values, pa.timestamp("us")))
    | st.lists(MOMENTS, min_size=1).map(lambda values: pa.array(values, pa.timestamp("us")).cast(UTC))
    | st.lists(st.dates(), min_size=1).map(pa.array)
    | st.lists(LENGTHS, min_size=1).map(lambda values: pa.array(values, pa.duration("us")))
)
def test_times_are_those_that_arrow_makes(array: pa.Array) -> None:
    found = times_of(array)
    assert found is not None
    assert told(found) == told(array.to_pylist())
    assert told(decode(array, kind_of_arrow(array.type))) == told(array.to_pylist())


@pytest.mark.parametrize(
    "array",
    [
        pa.array([datetime.datetime(2026, 1, 1), None]),
        pa.array([1], pa.timestamp("us", tz="Europe/Berlin")),
        pa.array([1], pa.timestamp("ns")),
        pa.array([1 << 62], pa.timestamp("us")),
        pa.array([-(1 << 31)], pa.int32()).cast(pa.date32()),
        pa.array([-(1 << 63)]).cast(pa.duration("us")),
        pa.array([], pa.date32()),
        pa.array([1]),
    ],
)
def test_what_numpy_has_not_is_left_to_arrow(array: pa.Array) -> None:
    assert times_of(array) is None


@given(st.lists(st.datetimes(timezones=st.just(datetime.UTC)) | MOMENTS | st.dates() | LENGTHS, min_size=1))
def test_what_was_encoded_comes_back(values: list) -> None:
    assert decode(*encode(values)) == values
