from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.errors import CorruptStateError
from flintstream.state.changelog import checksum, pack, unpack
from tests.unit.values import law

TABLES = {
    "count/#event-timers": pa.record_batch({"key": ["a", "b"], "time": [1, None]}),
    "count/total": pa.record_batch({"key": pa.array([], pa.string())}),
    "größe": pa.RecordBatch.from_arrays(
        [pa.array([1])], schema=pa.schema([pa.field("key", pa.int64(), metadata={"k": "v"})], metadata={"t": "x"})
    ),
}


def test_tables_come_back_by_name_with_rows_and_metadata() -> None:
    back = unpack(pack(TABLES), "a.bin")
    assert list(back) == list(TABLES)
    for name, batch in TABLES.items():
        assert back[name].equals(batch)
        assert back[name].schema.equals(batch.schema, check_metadata=True)


def test_nothing_is_a_changelog_too() -> None:
    assert unpack(pack({}), "a.bin") == {}


def test_a_table_in_the_file_is_an_arrow_stream_that_other_tools_read() -> None:
    data = pack({"t": TABLES["count/total"]})
    with pa.ipc.open_stream(data[data.index(b"\xff\xff\xff\xff") :]) as reader:
        assert reader.read_all().column_names == ["key"]


@law
@given(st.data())
def test_a_file_cut_short_is_found_and_named(data: st.DataObject) -> None:
    packed = pack(TABLES)
    length = data.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(CorruptStateError, match=r"state/1-0\.bin"):
        unpack(packed[:length], "state/1-0.bin")


@pytest.mark.parametrize("data", [b"", b"hello", b"FLNT0002" + pack({})[8:], b"FLNT0001\x02\x00\x00\x00[]"])
def test_what_is_no_changelog_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptStateError, match="not a changelog"):
        unpack(data, "a.bin")


@law
@given(st.data())
def test_a_flipped_bit_changes_the_checksum(data: st.DataObject) -> None:
    packed = bytearray(pack(TABLES))
    good = checksum(bytes(packed))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert checksum(bytes(packed)) != good
