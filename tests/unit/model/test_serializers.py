"""Window serializers for assigners that were written for PyFlink."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest

from flintstream.model.serializers import CountWindowSerializer, GlobalWindowSerializer, TimeWindowSerializer
from flintstream.model.windows import CountWindow, GlobalWindow, TimeWindow


@pytest.mark.parametrize(
    ("serializer", "windows", "size"),
    [
        (TimeWindowSerializer(), [TimeWindow(-5, 5), TimeWindow(0, 2**62)], 16),
        (CountWindowSerializer(), [CountWindow(0), CountWindow(7)], 8),
        (GlobalWindowSerializer(), [GlobalWindow.get(), GlobalWindow.get()], 1),
    ],
)
def test_windows_are_read_back_one_after_the_other(serializer: Any, windows: list[Any], size: int) -> None:
    stream = BytesIO()
    for window in windows:
        serializer.serialize(window, stream)
    assert stream.tell() == size * len(windows)
    stream.seek(0)
    assert [serializer.deserialize(stream) for _ in windows] == windows


def test_times_are_written_as_flink_does() -> None:
    stream = BytesIO()
    TimeWindowSerializer().serialize(TimeWindow(1, 2), stream)
    assert stream.getvalue() == bytes(7) + b"\x01" + bytes(7) + b"\x02"


def test_serializers_are_equal_by_kind() -> None:
    assert TimeWindowSerializer() == TimeWindowSerializer()
    assert hash(TimeWindowSerializer()) == hash(TimeWindowSerializer())
    assert TimeWindowSerializer() != CountWindowSerializer()
    assert repr(TimeWindowSerializer()) == "TimeWindowSerializer()"
