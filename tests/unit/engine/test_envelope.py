"""Records on their way between levels: what is written is read again, exactly."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.engine.envelope import (
    CONTROL,
    DRIVER,
    FAILED,
    SCHEMA,
    Envelope,
    Sender,
    from_arrow,
    read_blob,
    read_partials,
    to_arrow,
    write_blob,
    write_partials,
)
from flintstream.errors import UserFunctionError
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.ops.batch import FIRST, Batch, Values
from tests.unit.values import columns, exactly, key_columns, law

NUMBERS = st.integers(-5, 5) | st.sampled_from([MIN_TIMESTAMP, MAX_TIMESTAMP])
SENDER = Sender(producer=(1 << 20) | 3, attempt=42)


def numbers(draw: st.DrawFn, count: int) -> Any:
    """A column of numbers, sometimes of one number only."""
    if draw(st.booleans()):
        return np.full(count, draw(NUMBERS))
    return np.array(draw(st.lists(NUMBERS, min_size=count, max_size=count)), np.int64)


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[Any], list[Any] | None, Batch]:
    rows = draw(columns(min_size=1, max_size=5))
    keys = draw(st.none() | key_columns(min_size=len(rows), max_size=len(rows)))
    count, width = len(rows), draw(st.integers(3, 9))
    stamp = [numbers(draw, count) for _ in range(width)]
    return rows, keys, Batch(Values(rows), numbers(draw, count), stamp, None, None if keys is None else Values(keys))


def assert_same(batch: Batch, rows: list[Any], keys: list[Any] | None, original: Batch) -> None:
    assert exactly(batch.values.rows()) == exactly(rows)
    assert exactly(None if batch.keys is None else batch.keys.rows()) == exactly(keys)
    assert batch.timestamps.tolist() == original.timestamps.tolist()
    assert [column.tolist() for column in batch.stamp] == [column.tolist() for column in original.stamp]
    assert {column.dtype for column in (batch.timestamps, *batch.stamp)} == {np.dtype(np.int64)}


@law
@given(batches(), st.none() | st.lists(st.integers() | st.text(max_size=3), max_size=2))
def test_a_blob_is_its_batch(pair: Any, chunk: Any) -> None:
    rows, keys, batch = pair
    back, place = read_blob(write_blob(batch, chunk))
    assert_same(back, rows, keys, batch)
    assert place == chunk


@law
@given(st.lists(batches(), min_size=1, max_size=3), st.integers(1, 3))
def test_rows_survive_arrow_however_many_levels_they_pass(made: list[Any], levels: int) -> None:
    rows = [SENDER.data(2, index, 7, batch, [index]) for index, (_, _, batch) in enumerate(made)]
    rows.append(SENDER.control(DRIVER, 0, {"any": "message"}))
    passing = rows
    for _ in range(levels):
        sent = list(to_arrow(passing))
        assert all(batch.schema == SCHEMA for batch in sent)
        passing = list(from_arrow(sent))
    assert [row._replace(blob=bytes(row.blob)) for row in passing] == rows
    for (values, keys, batch), row in zip(made, passing, strict=False):
        assert_same(read_blob(row.blob)[0], values, keys, batch)
    assert pickle.loads(passing[-1].blob) == {"any": "message"}


def test_a_data_row_begins_with_its_first_stamp() -> None:
    stamp = [np.array([5, 6]), np.array([1, 1]), np.array([9, 10]), np.array([0, 0])]
    row = SENDER.data(2, 3, 7, Batch(Values(["a", "b"]), np.array([1, 2]), stamp), None)
    assert row[:-1] == (3, 2, 3, 7, SENDER.producer, 42, 5, 1, 9)
    assert row.order == (1, 5, 1, 9)


def test_control_rows_come_before_all_records() -> None:
    early = SENDER.data(1, 0, 1, Batch(Values(["a"]), np.array([1]), [np.array([FIRST])] * 3), None)
    control = SENDER.control(1, 0, "message")
    failure = SENDER.failure(0, ValueError("x"))
    assert control.edge == CONTROL
    assert sorted([early, control, failure], key=lambda row: row.order)[2] is early


def test_a_failure_carries_the_error_to_the_driver() -> None:
    error = UserFunctionError("it raised", operator="count", uid="c")
    row = SENDER.failure(2, error)
    (passed,) = from_arrow(to_arrow(from_arrow(to_arrow([row]))))
    assert (passed.partition, passed.level, passed.edge) == (2, DRIVER, FAILED)
    told = pickle.loads(passed.blob)
    assert (type(told), told.operator, told.uid, str(told)) == (UserFunctionError, "count", "c", "it raised")


def test_partial_results_are_told_from_records() -> None:
    table = pa.record_batch({"k0:int": [1, 2]}).replace_schema_metadata({"own": "kept"})
    found = read_partials(write_partials(table, 17))
    assert found is not None
    batch, records = found
    assert records == 17
    assert batch.column(0).to_pylist() == [1, 2]
    assert batch.schema.metadata[b"own"] == b"kept"
    row = SENDER.partials(2, 3, 7, write_partials(table, 17))
    assert (row.partition, row.level, row.edge, row.order) == (3, 2, 7, (1, FIRST, FIRST, FIRST))
    records_blob = write_blob(Batch(Values(["a"]), np.array([1]), [np.array([0])] * 3), None)
    assert read_partials(records_blob) is None


def test_small_rows_travel_together_and_large_ones_soon() -> None:
    small = [Envelope(0, 1, 0, 1, 0, 0, 0, 0, index, b"x" * 10) for index in range(1000)]
    assert [batch.num_rows for batch in to_arrow(small)] == [1000]
    large = [row._replace(blob=b"x" * (3 << 20)) for row in small[:5]]
    assert [batch.num_rows for batch in to_arrow(large)] == [2, 2, 1]
    assert list(to_arrow([])) == []


@pytest.mark.parametrize("count", [1, 5])
def test_columns_of_one_number_are_written_once(count: int) -> None:
    same = np.full(count, 7)
    blob = write_blob(Batch(Values(["a"] * count), same, [same] * 3), None)
    with pa.ipc.open_stream(blob) as reader:
        assert reader.schema.names == ["value"]


LOW, HIGH = -(1 << 63), (1 << 63) - 1


@pytest.mark.parametrize(
    ("column", "written"),
    [
        ([4, 5, 6, 7], False),
        ([9, 6, 3], False),
        ([LOW, LOW + 1], False),
        ([LOW, HIGH], True),
        ([0, HIGH], False),
        ([4, 5, 7, 7], True),
        ([4, 6, 5, 7], True),
        ([1, 2, 1], True),
    ],
)
def test_columns_of_even_steps_are_not_written_either(column: list[int], written: bool) -> None:
    made = Batch(Values(["a"] * len(column)), np.array(column), [np.array(column)] * 3)
    blob = write_blob(made, None)
    with pa.ipc.open_stream(blob) as reader:
        assert ("timestamp" in reader.schema.names) == written
    read, _ = read_blob(blob)
    assert read.timestamps.tolist() == column
    assert [stamp.tolist() for stamp in read.stamp] == [column] * 3
