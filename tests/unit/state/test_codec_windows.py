from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from flintstream.model.windows import CountWindow, GlobalWindow, TimeWindow
from flintstream.state.codec import decode, encode, field_of, kind_of_field
from flintstream.state.keygroups import hash_column, hash_key


@pytest.mark.parametrize(
    ("windows", "columns"),
    [
        ([TimeWindow(0, 10), TimeWindow(-5, 5)], {"start": pa.int64(), "end": pa.int64()}),
        ([CountWindow(3), CountWindow(0)], {"id": pa.int64()}),
        ([GlobalWindow.get(), GlobalWindow.get()], {"all": pa.bool_()}),
    ],
)
def test_windows_are_columns(windows: list[Any], columns: dict[str, pa.DataType]) -> None:
    for values in (windows, [None, *windows], windows[:1]):
        array, kind = encode(values)
        assert {field.name: field.type for field in array.type} == columns
        back = decode(array, kind_of_field(field_of("window", array, kind)))
        assert back == values
        assert list(map(type, back)) == list(map(type, values))


def test_windows_stay_windows_inside_other_values() -> None:
    values = [("a", TimeWindow(0, 10)), ("b", TimeWindow(10, 20))]
    array, kind = encode(values)
    assert kind == ["tuple", ["str", ["window", ["int", "int"]]]]
    assert decode(array, kind) == values


@pytest.mark.parametrize("values", [[TimeWindow(0, 10), CountWindow(1)], [TimeWindow(0, 2**70)]])
def test_what_has_no_column_still_comes_back(values: list[Any]) -> None:
    assert decode(*encode(values)) == values


@pytest.mark.parametrize("window", [TimeWindow(0, 10), CountWindow(3), GlobalWindow.get()])
def test_a_window_as_a_key_hashes_alike_alone_and_in_a_column(window: Any) -> None:
    assert hash_column(*encode([window])).tolist() == [hash_key(window)]
