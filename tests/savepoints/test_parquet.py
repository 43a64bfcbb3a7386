"""State as Parquet: every column that the codec makes comes back as it was, and other tools can read it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from flintstream import Row
from flintstream.errors import CorruptStateError
from flintstream.model.windows import CountWindow, GlobalWindow, TimeWindow
from flintstream.state.codec import decode, encode, field_of, kind_of_field
from flintstream.state.parquet import part_bytes, read_part
from tests.unit.values import columns, exactly, law

SCHEMA = {b"flintstream.table": b"resident"}


def batch_of(values: list[Any]) -> pa.RecordBatch:
    array, kind = encode(values)
    return pa.RecordBatch.from_arrays([array], schema=pa.schema([field_of("value", array, kind)], SCHEMA))


def round_trip(values: list[Any]) -> list[Any]:
    batch = batch_of(values)
    read = read_part(part_bytes(batch), "part", len(values))
    assert read.schema.metadata == SCHEMA
    assert kind_of_field(read.schema.field(0)) == kind_of_field(batch.schema.field(0))
    return decode(read.column(0), kind_of_field(read.schema.field(0)))


@law
@given(columns())
def test_any_values_come_back(values: list[Any]):
    assert exactly(round_trip(values)) == exactly(values)


@pytest.mark.parametrize(
    "values",
    [
        [],
        [None],
        [()],
        [(), None, ()],
        [[()], [], None, [(), ()]],
        [{}],
        [((),), ((),)],
        [{"a": {}}, {"a": {}}],
        [TimeWindow(1, 2), CountWindow(3)],
        [TimeWindow(1, 2)],
        [GlobalWindow.get()],
        [Row(1, "a"), Row(2, None)],
        [10**30, 1],
        [True, 1, 1.0],
    ],
    ids=repr,
)
def test_what_parquet_finds_hard(values: list[Any]):
    assert repr(round_trip(values)) == repr(values)


def test_any_tool_reads_it():
    table = pq.read_table(pa.BufferReader(part_bytes(batch_of([("a", 1), ("b", 2)]))))
    assert table.to_pylist() == [{"value": {"f0": "a", "f1": 1}}, {"value": {"f0": "b", "f1": 2}}]


@pytest.mark.parametrize("harm", [b"", b"PAR1", b"x" * 100])
def test_bytes_that_are_none(harm: bytes):
    with pytest.raises(CorruptStateError, match="part"):
        read_part(harm, "part", 1)
