"""What the contract of sources says of ranges: read again, in pieces, in any order, they are the same records.

Apart from the checks of splits and of logs, which both come down to this.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from flintstream.model.connect import TimedRecords
from flintstream.testing.contract import Judge, show

CUTS = 8
"""In how many ways each range is cut at random."""
_ONE_BY_ONE = 20

KIND = "a range gives a list or an Arrow array"
NO_MORE = "a range gives no more records than positions"
TIMED = "as many timestamps come as records"
AGAIN = "reading a range again gives the same records"
APART = "what a reader does to the records it was given changes nothing"
COMPOSES = "two ranges that meet give the records of both"
ANY_ORDER = "ranges can be read in any order"

Read = Callable[[Any, int, int], Any]
"""Reads positions `[start, end)` of a split or a part."""


class Timed(NamedTuple):
    """A record that has brought its timestamp."""

    value: Any
    timestamp: int


class Reader:
    """Reads ranges, and looks at what comes; `worker` reads by a copy of the source that was sent to one."""

    def __init__(self, judge: Judge, read: Read, worker: Read) -> None:
        self._judge = judge
        self._here = read
        self.worker = worker

    def raw(self, name: Any, start: int, end: int, by: Read | None = None) -> Any:
        """Return what the source itself returns."""
        remedy = "let it read any range of its positions"
        return self._judge.asked(called(name, start, end), lambda: (by or self._here)(name, start, end), remedy)

    def read(self, name: Any, start: int, end: int, by: Read | None = None) -> list[Any]:
        """Return the records of a range as plain values, each with its timestamp if it brings one."""
        judge, rule = self._judge, self._judge.current
        found, call = self.raw(name, start, end, by), called(name, start, end)
        records, timestamps = found, None
        if isinstance(found, TimedRecords):
            records, timestamps = found.records, found.timestamps
        judge.rule(KIND)
        remedy = "return a list of records or a pyarrow.Array, or either as TimedRecords"
        judge.require(isinstance(records, list | pa.Array), f"{call} returned {type(records).__name__}", remedy)
        values: list[Any] = list(cast("list[Any]", records)) if isinstance(records, list) else records.to_pylist()
        judge.rule(NO_MORE)
        remedy = "stop at the end of the range: what is behind it is read later, and would come twice"
        judge.require(len(values) <= end - start, f"{call} returned {len(values)} records: {show(values)}", remedy)
        if timestamps is not None:
            judge.rule(TIMED)
            values = list(map(Timed, values, self._times(call, timestamps, len(values))))
        judge.rule(rule)
        return values

    def _times(self, call: str, timestamps: Any, count: int) -> list[int]:
        judge = self._judge
        remedy = "give TimedRecords a timestamp in ms for each record"
        times = judge.asked(call, lambda: np.asarray(timestamps, np.int64).tolist(), remedy)
        judge.require(len(times) == count, f"{call} returned {count} records and {len(times)} timestamps", remedy)
        return times


def called(name: Any, start: int, end: int) -> str:
    """Return how a read is written."""
    return f"read({name!r}, {start}, {end})"


def check_range(judge: Judge, reader: Reader, name: Any, start: int, end: int, rng: random.Random) -> list[Any]:
    """Read one range in many ways; return its records."""
    call = called(name, start, end)
    judge.rule(AGAIN)
    whole = reader.read(name, start, end)
    remedy = "let what is read depend on the split and the positions alone"
    for way, by in (("again", None), ("by a copy that was sent to a worker", reader.worker)):
        found = reader.read(name, start, end, by)
        judge.require(found == whole, differs(call, whole, way, found), remedy)
    judge.rule(APART)
    given = reader.raw(name, start, end)
    if isinstance(given, list):
        cast("list[Any]", given).clear()
        found = reader.read(name, start, end)
        seen = differs(call, whole, "after its reader had emptied the list", found)
        judge.require(found == whole, seen, "return a list of the reader's own, not one that the source keeps")
    judge.rule(COMPOSES)
    for cut in cuts(start, end, rng):
        joined = [record for first, last in pairwise(cut) for record in reader.read(name, first, last)]
        seen = differs(call, whole, f"cut at {', '.join(map(str, cut[1:-1]))}", joined)
        judge.require(joined == whole, seen, "give each record one position, and return it where the range has that")
    judge.rule(ANY_ORDER)
    middle = (start + end) // 2
    if start < middle:
        later, earlier = reader.read(name, middle, end), reader.read(name, start, middle)
        seen = differs(call, whole, f"from {middle} on first", earlier + later)
        judge.require(earlier + later == whole, seen, "do not go on from where the last call stopped")
    return whole


def cuts(start: int, end: int, rng: random.Random) -> Iterator[tuple[int, ...]]:
    """Yield different ways to cut a range: at every position of its beginning, and at random."""
    inner = range(start + 1, end)
    if not inner:
        return
    chosen = {(*range(start, min(end, start + _ONE_BY_ONE)), end)}
    for _ in range(CUTS):
        chosen.add((start, *sorted(rng.sample(inner, min(rng.randint(1, 5), len(inner)))), end))
    yield from sorted(chosen, key=len, reverse=True)


def differs(call: str, whole: list[Any], way: str, found: list[Any]) -> str:
    """Return in words where two readings of one range differ."""
    for number, (one, other) in enumerate(zip(whole, found, strict=False)):
        if one != other:
            return f"{call} gave {one!r} as record {number}, and {way} {other!r}"
    return f"{call} gave {show(whole)}, and {way} {show(found)}"
