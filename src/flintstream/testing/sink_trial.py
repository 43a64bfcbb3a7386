"""The target of a sink under test, what was committed to it so far, and the rules by which that is judged.

Apart from the scenarios, which only say what happens to the sink and when its target is looked at.
"""

from __future__ import annotations

import itertools
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from flintstream.model.connect import Sink
from flintstream.testing.contract import Judge, show_names
from flintstream.testing.sink_job import SinkJob

IS_SINK = "it is a sink"
INVISIBLE = "nothing is visible before its epoch is committed"
SHOWS = "a commit makes everything visible"
ORDER = "records of one subtask keep their order"
TWICE = "committing twice is committing once"
REPLAY = "a driver that starts again can repeat the last commit"
ABORTED = "an attempt that was aborted never shows"
DEAD = "an attempt that died never shows"
ZOMBIE = "an attempt that comes too late never shows"
PARALLEL = "subtasks do not disturb each other"
EMPTY = "an epoch without records is no trouble"
COLUMNS = "a column is written as its records are"
APART = "another sink on the same target is left alone"
ANEW = "a job that starts anew is not taken for its former life"
WRITER_DIES = "a writer can die at any step"
COMMITTER_DIES = "a committer can die at any step"
SHOWN = "output that is to show early does"
TAKEN_BACK = "output that has shown early and is never committed is taken back"

_REMEDIES = {
    INVISIBLE: "put records aside, where readers do not look, until commit(...) is called",
    SHOWS: "make visible in commit(...) all that the committables name",
    ORDER: "write records in the order in which they come",
    TWICE: "let commit(...) find out what it has published already, and publish only the rest",
    REPLAY: "let commit(...) find out on the target itself what was published already: memory ends with the process",
    ABORTED: "name what is put aside by context.attempt, and publish only what committables name",
    DEAD: "name what is put aside by context.attempt, and publish only what committables name",
    ZOMBIE: "name what is put aside by context.attempt, and publish only what committables name",
    PARALLEL: "name what is put aside, and what it becomes, by context.subtask too",
    EMPTY: "take a writer without records for what it is, and epochs as they come",
    COLUMNS: "write a column as its records, or return False from write_column(...)",
    APART: "clean up only what is of the same job and uid",
    ANEW: "tell the lives of a job apart by context.incarnation",
    WRITER_DIES: "let nothing that a writer does be visible, not even for a moment",
    COMMITTER_DIES: "publish in one atomic step, or in steps of which each can be repeated",
    SHOWN: "make records visible in the writer or in show(...)",
    TAKEN_BACK: "note what has shown, and take back in commit(...) what no committable names, in roll_back(...) all",
}
_SHARE = 4


def _name(record: Any) -> str:
    """Return a record's name, by which it is counted."""
    if isinstance(record, dict):
        return repr(sorted(cast("dict[Any, Any]", record).items(), key=repr))
    return repr(record)


class Trial:
    """A target, and what readers of it should see."""

    def __init__(
        self,
        judge: Judge,
        make_sink: Callable[[], Sink],
        read_back: Callable[[], Iterable[Any]],
        record: Callable[[int], Any],
        ordered: bool,
        exactly: bool,
    ) -> None:
        self.judge = judge
        self.make_sink = make_sink
        self._read_back = read_back
        self._record = record
        self._ordered = ordered
        self.exactly = exactly
        self._numbers = itertools.count()
        self._before = Counter(map(_name, self._seen()))
        self._committed: Counter[str] = Counter()
        self._given: set[str] = set()
        self._ran = uuid.uuid4().hex[:8]

    def _seen(self) -> list[Any]:
        return self.judge.asked("read_back()", lambda: list(self._read_back()), "return the visible records")

    def job(self, make_sink: Callable[[], Sink] | None = None) -> SinkJob:
        """Return a new job with the sink, which is another than any before."""
        return SinkJob(self.judge, make_sink or self.make_sink, f"contract-{self._ran}-{next(self._numbers)}")

    def records(self, count: int = _SHARE) -> list[Any]:
        """Return records that nobody has had before."""
        self.judge.checked.records += count
        share = [self._record(next(self._numbers)) for _ in range(count)]
        self._given.update(map(_name, share))
        return share

    def expect(self, shares: Iterable[Sequence[Any]] = ()) -> None:
        """Compare what is visible with all that was committed, now with these shares too."""
        for share in shares:
            self._committed.update(map(_name, share))
        expected = self._before + self._committed
        found = Counter(map(_name, self._seen()))
        missing, added = expected - found, found - expected
        if not self.exactly:
            # What was written may be seen at any time, and again.
            added = Counter({name: count for name, count in added.items() if name not in self._given})
        said = [f"readers miss {show_names(missing.elements())}"] if missing else []
        said += [f"readers see {show_names(added.elements())} too often"] if added else []
        self.judge.require(not said, " and ".join(said), _REMEDIES[self.judge.current])

    def invisible(self) -> None:
        """See that nothing has become visible, if the sink promises that."""
        if self.exactly:
            self.expect()

    def in_order(self, share: Sequence[Any]) -> None:
        """See that the records of one subtask are in their order, if the target has one."""
        if not self._ordered:
            return
        self.judge.rule(ORDER)
        names = list(map(_name, share))
        found = [name for name in map(_name, self._seen()) if name in names]
        kept = list(dict.fromkeys(found)) == names
        self.judge.require(kept, f"{show_names(names)} came out as {show_names(found)}", _REMEDIES[ORDER])
