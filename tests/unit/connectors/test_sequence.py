from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream.connectors.sequence import NumberSequenceSource
from flintstream.errors import InvalidArgumentError


@settings(deadline=None)
@given(st.integers(-50, 50), st.integers(0, 100), st.integers(1, 9))
def test_splits_are_contiguous_cover_the_range_and_differ_by_one_at_most(start, length, parallelism):
    source = NumberSequenceSource(start, start + length)
    splits = source.splits(parallelism)
    numbers = [n for s in splits for n in source.read(s.number, s.start, s.end).to_pylist()]
    assert numbers == list(range(start, start + length + 1))
    assert [s.number for s in splits] == list(range(parallelism))
    sizes = [s.end - s.start for s in splits]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


def test_numbers_are_an_arrow_column_of_64_bits():
    source = NumberSequenceSource(2**62, 2**62 + 3)
    assert source.is_bounded
    array = source.read(0, 1, 3)
    assert array.type == pa.int64()
    assert array.to_pylist() == [2**62 + 1, 2**62 + 2]


@pytest.mark.parametrize(("start", "end"), [(2, 1), (0, 2**63), (-(2**63), 2**63 - 1)])
def test_bounds_that_make_no_sequence_are_refused(start, end):
    with pytest.raises(InvalidArgumentError):
        NumberSequenceSource(start, end)
