"""The part of the contract of sources that is about logs: parts that go by name, grow, and become more."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from flintstream.model.connect import LogPart, LogSource, Split, SplitSource
from flintstream.testing.contract import Checked, Judge
from flintstream.testing.ranges import AGAIN, Reader, Timed, check_range, differs

NAMES = "parts have names of their own, and begin before they end"
KNOWN = "parts that are known are not found again"
AVAILABLE = "it tells up to where each part can be read"
TRAVELS = "it can be sent to workers"
ONWARDS = "what can be read never becomes less"
COMMITTED = "hearing how far it was read is no trouble"
TIMES = "a time is found at its first record, or the first after it"
_TIMES_TRIED = 5


def check_log(
    judge: Judge,
    make_log: Callable[[], LogSource],
    positions: int,
    rng: random.Random,
    grow: Callable[[], object] | None,
) -> Checked:
    """Check a log as the driver and the tasks of a job use it."""
    log = make_log()
    parts = _discover(judge, log)
    available = _available(judge, log, list(parts))
    judge.rule(TRAVELS)
    reader = Reader(judge, log.read_part, judge.copied(log, "source").read_part)
    seen: dict[str, tuple[int, int, list[Any]]] = {}
    for name, part in parts.items():
        end = available[name] if part.end is None else min(part.end, available[name])
        start = max(part.start, end - positions)
        found = check_range(judge, reader, name, start, end, rng) if start < end else []
        seen[name] = start, end, found
        judge.checked.records += len(found)
        if start == part.start and type(log).positions_at is not SplitSource.positions_at:
            _check_times(judge, log, Split(0, start, part.end, name), end, found)
    judge.rule(COMMITTED)
    ends = {name: end for name, (_, end, _) in seen.items()}
    for _ in range(2):
        judge.asked("committed(...)", lambda: log.committed(ends), "return without complaint, as often as it is told")
    if grow is not None:
        _check_growth(judge, make_log, grow, parts, seen)
    return judge.checked


def _discover(judge: Judge, log: LogSource) -> dict[str, LogPart]:
    judge.rule(NAMES)
    parts = judge.asked("discover((), True)", lambda: list(log.discover((), True)), "return the parts that there are")
    judge.require(bool(parts), "discover((), True) found no part", "let the check have a log with records in it")
    names = [part.name for part in parts]
    judge.require(len(set(names)) == len(names), f"discover((), True) found the parts {names}", "name each differently")
    for part in parts:
        judge.require(bool(part.name), f"{part!r} has no name", "give it the name by which it is read")
        seen = f"discover((), True) found {part!r}"
        judge.require(part.end is None or part.start <= part.end, seen, "let it end where it begins, or behind")
    judge.rule(KNOWN)
    again = [part.name for part in log.discover(names, False)]
    remedy = "leave out the parts in `known`: they would be read twice"
    judge.require(not set(again) & set(names), f"discover({names}, False) found {again}", remedy)
    return {part.name: part for part in parts}


def _available(judge: Judge, log: LogSource, names: list[str]) -> Mapping[str, int]:
    judge.rule(AVAILABLE)
    found = judge.asked(f"available({names})", lambda: log.available(names), "return a position for each name")
    missing = [name for name in names if not isinstance(found.get(name), int)]
    judge.require(not missing, f"available({names}) tells nothing of {missing}", "return a position for each name")
    return found


def _check_times(judge: Judge, log: LogSource, split: Split, end: int, records: list[Any]) -> None:
    """Ask where times are, of a log whose every position has a record with a time."""
    times: list[int] = [each[1] for each in records if isinstance(each, Timed)]
    if not times or len(times) != end - split.start:
        return
    judge.rule(TIMES)
    tried = sorted(set(times))
    for time in [*tried[:: max(1, len(tried) // _TIMES_TRIED)], tried[-1] + 1]:
        wanted = next((split.start + number for number, own in enumerate(times) if own >= time), end)
        call = f"positions_at(part {split.name!r}, {time})"
        (found,) = judge.asked(call, lambda: log.positions_at([split], time), "return a position for each split")  # noqa: B023 - called at once
        remedy = "return the first position whose record has that time or a later one, or the end"
        judge.require(found == wanted, f"{call} returned {found}, and it is {wanted}", remedy)


def _check_growth(
    judge: Judge,
    make_log: Callable[[], LogSource],
    grow: Callable[[], object],
    parts: Mapping[str, LogPart],
    seen: Mapping[str, tuple[int, int, list[Any]]],
) -> None:
    """See that a log that has grown still has what it had, for a job that starts again."""
    log = make_log()
    names = list(parts)
    before = _available(judge, log, names)
    grow()
    after = _available(judge, log, names)
    judge.rule(ONWARDS)
    for name in names:
        what = f"part {name!r} could be read up to {before[name]}, and after it had grown up to {after[name]}"
        judge.require(after[name] >= before[name], what, "never take back what can be read")
    news = [part.name for part in log.discover(names, False)]
    grown = any(after[name] > before[name] for name in names) or bool(news)
    judge.require(grown, "nothing more can be read after the log has grown", "tell the new end, or the new part")
    judge.rule(AGAIN)
    reader = Reader(judge, log.read_part, log.read_part)
    for name, (start, end, whole) in seen.items():
        found = reader.read(name, start, end) if start < end else []
        what = differs(f"read({name!r}, {start}, {end})", whole, "after the log had grown", found)
        judge.require(found == whole, what, "let positions mean the same records for ever")
