from __future__ import annotations

import base64
import datetime as dt
import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream.connectors.json_lines import json_lines


def parsed(batch: pa.RecordBatch) -> list[dict]:
    text = bytes(json_lines(batch)).decode()
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.split("\n")[:-1]]


NESTED = pa.struct([("x", pa.int64()), ("tags", pa.list_(pa.string())), ("in", pa.struct([("y", pa.float64())]))])
MAYBE = {
    "s": (pa.string(), st.text()),
    "i": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "f": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "b": (pa.bool_(), st.booleans()),
    "l": (pa.large_list(pa.int64()), st.lists(st.none() | st.integers(-9, 9), max_size=3)),
    "n": (
        NESTED,
        st.fixed_dictionaries(
            {
                "x": st.none() | st.integers(-9, 9),
                "tags": st.none() | st.lists(st.none() | st.text(max_size=3), max_size=3),
                "in": st.none() | st.fixed_dictionaries({"y": st.none() | st.floats(-5, 5)}),
            }
        ),
    ),
}


@settings(deadline=None)
@given(
    st.lists(st.fixed_dictionaries({name: st.none() | values for name, (_, values) in MAYBE.items()}), max_size=8),
    st.integers(0, 3),
)
def test_any_record_is_read_back_by_a_json_parser(records, skipped):
    schema = pa.schema([(name, kind) for name, (kind, _) in MAYBE.items()])
    batch = pa.RecordBatch.from_pylist(records, schema=schema).slice(skipped)
    read = parsed(batch)
    assert read == records[skipped:]
    assert [type(r["f"]) for r in read] == [type(r["f"]) for r in records[skipped:]]


@pytest.mark.parametrize("value", [1.0, -0.0, 1e16, 1e20, 1.5e-7, 123456789.0, 5e-324, 0.1])
def test_floats_stay_floats(value):
    (record,) = parsed(pa.record_batch({"f": [value]}))
    assert type(record["f"]) is float
    assert (record["f"], math.copysign(1, record["f"])) == (value, math.copysign(1, value))


def test_values_that_json_does_not_have_are_written_as_spark_writes_them():
    batch = pa.record_batch({"f": [math.nan, math.inf, -math.inf, None, 1.5], "b": [b"\xff", b"", None, b"a", b"b"]})
    read = parsed(batch)
    assert [r["f"] for r in read] == ["NaN", "Infinity", "-Infinity", None, 1.5]
    assert [r["b"] and base64.b64decode(r["b"]) for r in read] == [b"\xff", "", None, b"a", b"b"]


def test_times_are_iso_strings():
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 6)
    batch = pa.record_batch(
        {
            "naive": [moment],
            "utc": [moment.replace(tzinfo=dt.UTC)],
            "date": [moment.date()],
            "time": [moment.time()],
            "decimal": [Decimal("1.50")],
        }
    )
    (record,) = parsed(batch)
    assert dt.datetime.fromisoformat(record["naive"]) == moment
    assert dt.datetime.fromisoformat(record["utc"]) == moment.replace(tzinfo=dt.UTC)
    assert record["date"] == "2026-01-02"
    assert dt.time.fromisoformat(record["time"]) == moment.time()
    assert record["decimal"] == 1.5


def test_maps_dictionaries_and_columns_of_nothing():
    entries = pa.array([[("a", 1), ('"', None)], None, []], pa.map_(pa.string(), pa.int64()))
    batch = pa.record_batch({"m": entries, "d": pa.array(["x", None, "y"]).dictionary_encode(), "n": pa.nulls(3)})
    expected = [
        {"m": {"a": 1, '"': None}, "d": "x", "n": None},
        {"m": None, "d": None, "n": None},
        {"m": {}, "d": "y", "n": None},
    ]
    assert parsed(batch) == expected
    assert parsed(batch.slice(1)) == expected[1:]


def test_names_are_escaped_and_an_empty_batch_is_no_text():
    assert parsed(pa.record_batch({'a"\n': [1]})) == [{'a"\n': 1}]
    assert bytes(json_lines(pa.record_batch({"a": pa.array([], pa.int64())}))) == b""
