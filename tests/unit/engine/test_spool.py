"""Rows come out in the order of their stamps, whether their blobs fit into memory or not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.engine.envelope import CONTROL, DRIVER, Envelope, from_arrow, to_arrow
from flintstream.engine.spool import in_order
from flintstream.ops.batch import FIRST

ROWS = st.lists(
    st.builds(
        Envelope,
        st.just(0),
        st.sampled_from([1, DRIVER]),
        st.just(0),
        st.sampled_from([CONTROL, 1, 2]),
        st.integers(0, 3),
        st.just(7),
        st.sampled_from([FIRST, 0, 1, 5]),
        st.integers(0, 2),
        st.integers(0, 3),
        st.binary(max_size=40),
    ),
    max_size=30,
)


@pytest.mark.parametrize("limit", [0, 100, 1 << 20], ids=["by file", "some in a file", "in memory"])
@given(rows=ROWS)
def test_rows_are_sorted_stably_and_whole(limit, rows):
    received = from_arrow(to_arrow(iter(rows)))
    spooled = [row._replace(blob=bytes(row.blob)) for row in in_order(received, limit)]
    assert spooled == sorted(rows, key=lambda row: row.order)


def test_a_blob_outlives_the_rows_it_came_with():
    rows = [Envelope(0, 1, 0, 1, 0, 7, time, 0, 0, bytes([time]) * 100) for time in (3, 1, 2)]
    first, *_ = list(in_order(iter(rows), limit=50))
    assert bytes(first.blob) == bytes([1]) * 100


def test_nothing_is_read_ahead_of_a_failure():
    def failing():
        yield Envelope(0, 1, 0, 1, 0, 7, 1, 0, 0, b"blob")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        next(in_order(failing(), limit=0))
