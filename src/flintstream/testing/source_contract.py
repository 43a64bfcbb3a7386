"""The contract of sources, as a check that a user's own can be put to.

A job remembers of a source nothing but positions. Everything it promises, one result however the input is cut and
however often the job dies, rests on what is tried here: a range of positions is always the same records.

Flink: SourceTestSuiteBase of flink-connector-test-utils.
Differs from Flink: no job is run and nothing is killed; what a job needs of a source is tried directly.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flintstream.connectors.files_local import LocalFileReader
from flintstream.connectors.files_source import FileSource
from flintstream.model.connect import LogSource, Source, Split, SplitSource
from flintstream.testing.contract import Checked, Judge, show_names
from flintstream.testing.log_contract import TRAVELS, check_log
from flintstream.testing.ranges import AGAIN, ANY_ORDER, Reader, called, check_range, differs

PARALLELISMS = (1, 2, 3)

IS_SOURCE = "it is a source that is read by positions"
NUMBERED = "splits are numbered from 0, and begin before they end"
STABLE = "the same program has the same splits when it starts again"
BOUNDED = "it says truly whether it ends"
RATE = "a rate is above nothing"
PARALLEL = "the number of splits changes no record"
GROWN = "splits stay where they are when there is more to read"


def check_source(
    make_source: Callable[[], Source],
    *,
    positions: int = 500,
    seed: int = 0,
    grow: Callable[[], object] | None = None,
) -> Checked:
    """Prove that a source keeps the contract of sources.

    Example:
        >>> from flintstream import NumberSequenceSource
        >>> check_source(lambda: NumberSequenceSource(1, 100)).records
        300

    Args:
        make_source: Makes the source as the program does; called often, for every start of the job is a new one.
        positions: At most how many positions of each split are read at its beginning, and as many before its end.
        seed: Another seed cuts the ranges elsewhere.
        grow: Adds records to what is read, so that what was there can be seen to stay as it was: for a `LogSource`, and
            for any source of a job that may be started again when there is more.

    Returns:
        The rules that held, and how many records they were tried on, counted once for 1, 2 and 3 splits.

    Raises:
        ContractError: a rule is broken. The message names it, and the values that show it.
    """
    judge = Judge("the source", Checked())
    judge.rule(IS_SOURCE)
    source = _readable(judge, make_source)
    if isinstance(source, LogSource):
        return check_log(judge, lambda: _as_log(judge, make_source), positions, random.Random(seed), grow)
    for parallelism in PARALLELISMS:
        _check_splits(judge, make_source, parallelism)
    for parallelism in PARALLELISMS:
        source = _readable(judge, make_source)
        splits = list(source.splits(parallelism))
        judge.rule(TRAVELS)
        reader = Reader(judge, source.read, judge.copied(source, "source").read)
        rng = random.Random(seed)
        for split in splits:
            for start, end in _stretches(split, positions):
                judge.checked.records += len(check_range(judge, reader, split.number, start, end, rng))
        _check_in_turns(judge, reader, splits, min(positions, 10))
    _check_parallelism(judge, make_source, positions)
    if grow is not None:
        _check_growth(judge, make_source, grow, positions)
    return judge.checked


def _readable(judge: Judge, make_source: Callable[[], Source]) -> SplitSource:
    """Return a source as the tasks of a job in this process read it."""
    source: Any = judge.asked("make_source()", make_source, "return a new source")
    if isinstance(source, FileSource):
        source = LocalFileReader(source)
    remedy = "derive it from SplitSource, or from LogSource if it grows while the job runs"
    judge.require(isinstance(source, SplitSource), f"make_source() returned {source!r:.100}", remedy)
    return source


def _as_log(judge: Judge, make_source: Callable[[], Source]) -> LogSource:
    source = _readable(judge, make_source)
    judge.require(
        isinstance(source, LogSource), f"make_source() returned {source!r:.100}", "return the same kind always"
    )
    assert isinstance(source, LogSource)
    return source


def _check_splits(judge: Judge, make_source: Callable[[], Source], parallelism: int) -> None:
    source, other = _readable(judge, make_source), _readable(judge, make_source)
    call = f"splits({parallelism})"
    judge.rule(NUMBERED)
    splits = judge.asked(call, lambda: list(source.splits(parallelism)), "return all splits")
    _check_numbers(judge, call, splits)
    judge.rule(STABLE)
    remedy = "make the splits of what the program says, and of nothing that changes from start to start"
    for again in (list(other.splits(parallelism)), list(source.splits(parallelism))):
        judge.require(again == splits, f"{call} returned {splits!r}, then {again!r}", remedy)
    judge.rule(BOUNDED)
    endless = [split.number for split in splits if split.end is None]
    remedy = "return True from is_bounded if, and only if, every split has an end"
    seen = f"is_bounded is {source.is_bounded}, and the splits without an end are {endless}"
    judge.require(source.is_bounded == (not endless), seen, remedy)
    judge.rule(RATE)
    rate = source.rate()
    judge.require(rate is None or rate > 0, f"rate() returned {rate!r}", "return None for as fast as possible")


def _check_numbers(judge: Judge, call: str, splits: Sequence[Any]) -> None:
    are_splits = all(isinstance(each, Split) for each in splits)
    judge.require(are_splits, f"{call} returned {splits!r:.200}", "return a list of Split(number, start, end)")
    numbers = [split.number for split in splits]
    seen = f"{call} has the numbers {numbers}"
    judge.require(sorted(numbers) == list(range(len(numbers))), seen, "number the splits 0, 1, 2, ...")
    for split in splits:
        seen = f"{call} has {split!r}"
        are_whole = isinstance(split.start, int) and (split.end is None or isinstance(split.end, int))
        judge.require(are_whole and split.start >= 0, seen, "give whole numbers, 0 or more, as positions")
        judge.require(split.end is None or split.start <= split.end, seen, "let it end where it begins, or behind")


def _stretches(split: Split, positions: int) -> Iterator[tuple[int, int]]:
    """Yield what to read of a split: its beginning and, if that is not all of it, what is before its end."""
    first = split.start + positions
    if split.end is None or split.end > first:
        yield split.start, first
    if split.end is not None and split.start < split.end:
        yield max(split.start, split.end - positions), split.end


def _check_in_turns(judge: Judge, reader: Reader, splits: Sequence[Split], positions: int) -> None:
    """Read the beginnings of all splits one after the other, and backwards."""
    judge.rule(ANY_ORDER)
    ranges = [(split.number, *stretch) for split in splits for stretch in list(_stretches(split, positions))[:1]]
    alone = [reader.read(*each) for each in ranges]
    for place, whole in zip(reversed(ranges), reversed(alone), strict=True):
        found = reader.read(*place)
        seen = differs(called(*place), whole, "after other splits were read", found)
        judge.require(found == whole, seen, "keep nothing of one split where another is read")


def _check_parallelism(judge: Judge, make_source: Callable[[], Source], positions: int) -> None:
    """See that a source that ends has the same records whatever it was split into."""
    judge.rule(PARALLEL)
    counted: dict[int, Counter[str]] = {}
    for parallelism in PARALLELISMS:
        source = _readable(judge, make_source)
        splits = list(source.splits(parallelism))
        if any(split.end is None or split.end - split.start > 2 * positions for split in splits):
            judge.checked.rules.remove(PARALLEL)  # nobody has read all of it
            return
        reader = Reader(judge, source.read, source.read)
        ranges = [(split.number, split.start, split.end or 0) for split in splits if split.start != split.end]
        records = [record for each in ranges for record in reader.read(*each)]
        counted[parallelism] = Counter(map(repr, records))
    (least, first), *others = counted.items()
    for parallelism, found in others:
        missing, added = first - found, found - first
        seen = (
            f"splits({parallelism}) lacks {show_names(missing)} of splits({least}), and has {show_names(added)} besides"
        )
        judge.require(not missing and not added, seen, "share out the same records among any number of splits")


def _check_growth(judge: Judge, make_source: Callable[[], Source], grow: Callable[[], object], positions: int) -> None:
    """See that a job that starts again when there is more finds its positions where it left them."""

    def look() -> dict[int, tuple[SplitSource, dict[int, Split]]]:
        sources = {parallelism: _readable(judge, make_source) for parallelism in PARALLELISMS}
        return {many: (each, {split.number: split for split in each.splits(many)}) for many, each in sources.items()}

    before = look()
    read = {
        many: [(split.number, *stretch) for split in splits.values() for stretch in _stretches(split, positions)]
        for many, (_, splits) in before.items()
    }
    readers = {many: Reader(judge, source.read, source.read) for many, (source, _) in before.items()}
    records = {many: [readers[many].read(*each) for each in ranges] for many, ranges in read.items()}
    grow()
    after = look()
    judge.rule(GROWN)
    grown = any(after[many][1] != before[many][1] for many in PARALLELISMS)
    judge.require(grown, "nothing more can be read after grow()", "let splits end later, or let there be more of them")
    remedy = "give records positions that stay, and splits beginnings and numbers that stay: positions belong to them"
    for many in PARALLELISMS:
        for number, split in before[many][1].items():
            now = after[many][1].get(number)
            stays = now is not None and now.start == split.start and (now.end is None or now.end >= (split.end or 0))
            judge.require(stays, f"splits({many}) had {split!r}, and after grow() it has {now!r}", remedy)
    judge.rule(AGAIN)
    for many, ranges in read.items():
        source = after[many][0]
        reader = Reader(judge, source.read, source.read)
        for place, whole in zip(ranges, records[many], strict=True):
            found = reader.read(*place)
            judge.require(found == whole, differs(called(*place), whole, "after grow()", found), remedy)
