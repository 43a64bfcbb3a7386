from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.errors import IncompatibleStateError, TypeMismatchError, UnserialisableFunctionError
from flintstream.model.time import MIN_TIMESTAMP
from flintstream.model.watermark_generators import Watermark, WatermarkGenerator, WatermarkOutput
from flintstream.ops.batch import Values
from flintstream.ops.watermark_generators import GeneratorMemory, LaneOutput
from tests.unit.values import law


class Summing(WatermarkGenerator):
    """Its watermark is the sum of all it has seen, in both kinds of attributes."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.total = 0
        self.count = 0

    def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
        self.total += timestamp
        self.count += 1

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(self.total + self.count)


class WithStateOfItsOwn(WatermarkGenerator):
    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.cannot_be_pickled = (line for line in "x")

    def __getstate__(self) -> list[int]:
        return sorted(self.seen)

    def __setstate__(self, state: list[int]) -> None:
        self.seen = set(state)

    def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
        self.seen.add(timestamp)
        output.emit_watermark(len(self.seen))


def advance(supplier: Any, times: list[int], cuts: set[int]) -> list[int]:
    """Return the watermarks of records that come in several chunks, with what is remembered as text between them."""
    found: list[int] = []
    text, level, idle = "", MIN_TIMESTAMP, False
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(times)], strict=True):
        memory = GeneratorMemory(supplier, text, level, idle)
        part = times[start:stop]
        found += memory.advance(Values(part), np.array(part, np.int64)).tolist()
        text, level, idle = memory.dump(), found[-1] if found else level, memory.idle
    return found


@law
@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.sets(st.integers(0, 12)))
@pytest.mark.parametrize("supplier", [Summing, lambda: Summing(), WithStateOfItsOwn])
def test_a_generator_goes_on_where_it_was(supplier: Any, times: list[int], cuts: set[int]) -> None:
    cuts = {cut for cut in cuts if cut < len(times)}
    assert advance(supplier, times, cuts) == advance(supplier, times, set())


def test_the_sum_is_what_it_is() -> None:
    assert advance(Summing, [3, 4, 5], {1}) == [4, 9, 15]


def test_a_watermark_never_falls_and_makes_active() -> None:
    output = LaneOutput(5, False)
    output.mark_idle()
    assert output.idle
    output.emit_watermark(Watermark(3))
    assert (output.level, output.idle) == (5, False)
    output.emit_watermark(7)
    output.mark_idle()
    output.mark_active()
    assert (output.level, output.idle) == (7, False)


def test_what_is_no_watermark_is_refused() -> None:
    wrong: Any = "7"
    with pytest.raises(TypeMismatchError, match="'7'"):
        LaneOutput(0, False).emit_watermark(wrong)


def test_a_supplier_of_something_else_is_refused() -> None:
    wrong: Any = list
    with pytest.raises(TypeMismatchError, match="no WatermarkGenerator"):
        GeneratorMemory(wrong, "", 0, False)


def test_memory_that_cannot_be_pickled_is_refused() -> None:
    class Holding(Summing):
        def __init__(self) -> None:
            super().__init__()
            self.lines = (line for line in "x")

    with pytest.raises(UnserialisableFunctionError, match="Holding"):
        GeneratorMemory(Holding, "", 0, False).dump()


def test_newer_code_that_cannot_go_on_says_so() -> None:
    text = GeneratorMemory(Summing, "", 0, False).dump()
    with pytest.raises(IncompatibleStateError, match="WithStateOfItsOwn"):
        GeneratorMemory(WithStateOfItsOwn, text.replace("=", "") + "!", 0, False)


def test_memory_of_another_strategy_is_forgotten() -> None:
    memory = GeneratorMemory(Summing, "learned:abc", 0, False)
    assert memory.advance(Values([2]), np.array([2])).tolist() == [3]
