"""Windows through whole programs, against what they mean: sessions by sorting, sliding windows by trying them all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import DataStream, session, sliding
from tests.laws.programs import Merged, Outputs, with_late
from tests.laws.runs import Input, lateness, run
from tests.laws.test_batching_law import LONG_SPLIT, law, local_env, numbered, ways

pytestmark = pytest.mark.timeout(900)
GAP = 4


def sessions(left: DataStream, right: DataStream) -> Outputs:
    return {"main": left.key_by("key").window(session(f"{GAP}ms")).process(Merged())}


def sessions_by_record(left: DataStream, right: DataStream) -> Outputs:
    return {"main": left.key_by("key").window(session(gap_of)).process(Merged())}


def gap_of(record: dict[str, Any]) -> int:
    return 1 + record["ts"] % 7


def slides(left: DataStream, right: DataStream) -> Outputs:
    return with_late(left.key_by("key").window(sliding("10ms", "4ms", "1ms")), lambda w: w.process(Merged()))


def slides_apart(left: DataStream, right: DataStream) -> Outputs:
    """Windows with gaps between them, in which records belong to none."""
    return with_late(left.key_by("key").window(sliding("3ms", "5ms", "-1ms")), lambda w: w.process(Merged()))


def spans(results: list[Any]) -> list[Any]:
    """Return windows without the order of their records and the moment of their result."""
    return sorted((key, start, end, sorted(numbers)) for key, start, end, numbers, _ in results)


def merged(records: list[dict[str, Any]], gap: Any) -> list[Any]:
    """Return sessions as they are defined: intervals that overlap or touch are one."""
    found: list[Any] = []
    for record in sorted(records, key=lambda r: (r["key"], r["ts"])):
        start, end = record["ts"], record["ts"] + gap(record)
        last = found[-1] if found and found[-1][0] == record["key"] else None
        if last is not None and start <= last[2]:
            last[2] = max(last[2], end)
            last[3].append(record["n"])
        else:
            found.append([record["key"], start, end, [record["n"]]])
    return sorted((key, start, end, sorted(numbers)) for key, start, end, numbers in found)


@pytest.mark.parametrize(("program", "gap"), [(sessions, lambda r: GAP), (sessions_by_record, gap_of)])
@law(8)
@given(split=LONG_SPLIT, random=st.randoms(use_true_random=False), way=ways())
def test_sessions_do_not_depend_on_the_order_of_arrival(program, gap, split, random, way):
    (records,) = numbered([split])
    expected = merged(records, gap)
    shuffled = list(records)
    random.shuffle(shuffled)
    for order in (records, shuffled):
        # One more than the records need: at that bound a session ends just before a record that touches it may come.
        results = run(program, Input([order], bound=lateness([order]) + 1), way, local_env)
        assert spans(results[f"{program.__name__} main"]) == expected


def slid(records: list[dict[str, Any]], bound: int, size: int, slide: int, offset: int) -> tuple[list[Any], list[Any]]:
    """Try all windows for every record: which get it, and which records come after all theirs have closed."""
    held: dict[Any, list[int]] = {}
    late: list[Any] = []
    watermark = newest = -(10**9)
    for record in records:
        at = record["ts"]
        starts = [s for s in range(offset - 20 * slide, 100, slide) if s <= at < s + size]
        open_ones = [s for s in starts if s + size - 1 > watermark]
        for start in open_ones:
            held.setdefault((record["key"], start), []).append(record["n"])
        if not open_ones and (starts or at <= watermark):
            late.append(record)
        newest = max(newest, at)
        watermark = max(watermark, newest - bound - 1)
    return sorted((key, start, start + size, sorted(numbers)) for (key, start), numbers in held.items()), late


@pytest.mark.parametrize(("program", "shape"), [(slides, (10, 4, 1)), (slides_apart, (3, 5, -1))])
@law(10)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), way=ways())
def test_sliding_windows_are_what_trying_all_windows_gives(program, shape, split, bound, way):
    (records,) = numbered([split])
    results = run(program, Input([records], bound=bound), way, local_env)
    windows, late = slid(records, bound, *shape)
    assert spans(results[f"{program.__name__} main"]) == windows
    assert results[f"{program.__name__} late"] == late
