"""Adding up without hashes gives what Arrow's grouping gives, and keeps off what it cannot add up."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.api.aggregates import count, sum_of
from flintstream.ops import window_dense
from flintstream.ops.batch import Values
from flintstream.ops.window_dense import summed_densely
from flintstream.ops.window_fold import Folder

STEPS = [("i", "sum", "total"), ("", "count_all", "rows")]
NUMBERS = st.integers(-(1 << 40), 1 << 40)


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_dense, "_LEAST_ROWS", 1)


@given(
    st.lists(st.tuples(st.integers(-5, 5), NUMBERS), min_size=1, max_size=50),
    st.sampled_from([0, 7, -(1 << 63) + 5, (1 << 63) - 6]),
)
def test_sums_are_those_of_arrow(rows: list[tuple[int, int]], near: int) -> None:
    table = pa.table({"k": pa.array([near + key for key, _ in rows]), "i": pa.array([value for _, value in rows])})
    found = summed_densely(table, "k", STEPS)
    if found is None:
        assert max(rows)[0] - min(rows)[0] >= 2 * len(rows)
        return
    expected = table.group_by("k").aggregate([("i", "sum"), ([], "count_all")]).sort_by("k")
    assert found["k"].to_pylist() == expected.column("k").to_pylist()
    assert found["total"].to_pylist() == expected.column("i_sum").to_pylist()
    assert found["rows"].to_pylist() == expected.column("count_all").to_pylist()


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        (pa.array([1, None, 2]), pa.array([1, 2, 3])),
        (pa.array(["a", "b", "a"]), pa.array([1, 2, 3])),
        (pa.array([0, 1 << 62, 1]), pa.array([1, 2, 3])),
        (pa.array([-(1 << 63), (1 << 63) - 1, 1]), pa.array([1, 2, 3])),
        (pa.array([1, 2, 1]), pa.array([1.0, 2.0, 3.0])),
        (pa.array([1, 2, 1]), pa.array([1, None, 3])),
    ],
)
def test_other_keys_and_values_are_left_to_arrow(keys: pa.Array, values: pa.Array) -> None:
    assert summed_densely(pa.table({"k": keys, "i": values}), "k", STEPS) is None


def test_the_least_value_is_no_sum() -> None:
    assert summed_densely(pa.table({"k": pa.array([1, 1]), "i": pa.array([1, 2])}), "k", [("i", "min", "i")]) is None


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.none() | NUMBERS), min_size=1, max_size=8), min_size=1))
def test_batches_with_and_without_absent_values_count_alike(batches: list[list[tuple[int, int | None]]]) -> None:
    folder = Folder([("total", sum_of("value")), ("records", count())])
    times = [np.zeros(len(batch), np.int64) for batch in batches]
    parts = [
        folder.records(Values([{"value": value} for _, value in batch]), Values([key for key, _ in batch]), at)
        for batch, at in zip(batches, times, strict=True)
    ]
    merged = folder.merge(folder.fold(folder.stacked(parts)))
    found = dict(
        zip(
            merged.column("k0:int").to_pylist(),
            zip(*(each.result(merged)[0].to_pylist() for _, each in folder.aggregates), strict=True),
            strict=True,
        )
    )
    rows = [row for batch in batches for row in batch]
    for key in {key for key, _ in rows}:
        values = [value for each, value in rows if each == key]
        present = [value for value in values if value is not None]
        assert found[key] == (sum(present) if present else None, len(values))
