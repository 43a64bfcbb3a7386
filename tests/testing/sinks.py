"""A sink that keeps its contract, and for each rule one that breaks it. Their target is a folder of text files."""

from __future__ import annotations

import copy
import json
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flintstream import Committer, Sink, SinkWriter, WriterContext
from flintstream.model.delivery import EAGER, EXACTLY_ONCE, Delivery
from flintstream.testing import log_contract, sink_job, sink_trial


def visible(folder: Path) -> list[str]:
    """Return what a reader of the folder sees: all lines of all files, in the order of their names."""
    return [line for path in sorted(folder.glob("*.txt")) for line in path.read_text().splitlines()]


class Writer(SinkWriter):
    def __init__(self, folder: Path, context: WriterContext) -> None:
        self.context = context
        self.folder = folder
        self.name = f"{context.incarnation}-{context.epoch:06d}-{context.subtask:03d}"
        self.staged = folder / f"{context.attempt}-{context.subtask}.staged"
        self.lines: list[str] = []

    def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        self.lines += values

    def prepare_commit(self) -> Any:
        self.staged.write_text("".join(f"{line}\n" for line in self.lines))
        return {"staged": self.staged.name, "name": f"{self.context.job}-{self.name}.txt"}

    def abort(self) -> None:
        self.staged.unlink(missing_ok=True)


class Publisher(Committer):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        for part in committables:
            staged = self.folder / part["staged"]
            if staged.exists():
                staged.rename(self.folder / part["name"])


class Files(Sink):
    """Writers write a file aside, and the committer gives it its name."""

    writer = Writer
    publisher = Publisher

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return type(self).writer(self.folder, context)

    def create_committer(self) -> Committer:
        return type(self).publisher(self.folder)


class NoSink:
    def __init__(self, folder: Path) -> None:
        """Nothing more."""


class WithALock(Files):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lock = threading.Lock()


class Eager(Files):
    """Writes where everybody looks."""

    class writer(Writer):
        def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
            with (self.folder / f"{self.name}-eager.txt").open("a") as file:
                file.writelines(f"{value}\n" for value in values)


class LosesTheLast(Files):
    class writer(Writer):
        def prepare_commit(self) -> Any:
            self.lines.pop()
            return super().prepare_commit()


class Backwards(Files):
    class writer(Writer):
        def prepare_commit(self) -> Any:
            self.lines.reverse()
            return super().prepare_commit()


class Appends(Files):
    """Adds the same lines each time it is asked."""

    class writer(Writer):
        def prepare_commit(self) -> Any:
            return {"lines": self.lines}

    class publisher(Publisher):
        remembers = False

        def __init__(self, folder: Path) -> None:
            super().__init__(folder)
            self.done: dict[str, int] = {}

        def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
            if type(self).remembers and self.done.get(job, 0) >= epoch:
                return
            with (self.folder / "all.txt").open("a") as file:
                file.writelines(f"{line}\n" for part in committables for line in part["lines"])
            self.done[job] = epoch


class AppendsAndRemembers(Appends):
    """Remembers what it has added, but only for as long as it lives."""

    class publisher(Appends.publisher):
        remembers = True


class NamedByAnObject(Files):
    class writer(Writer):
        def prepare_commit(self) -> Any:
            return {**super().prepare_commit(), "path": self.staged}


class OnePlaceForAll(Files):
    """Staged lines of an epoch go to one place, whoever wrote them; nothing takes them back."""

    class writer(Writer):
        def __init__(self, folder: Path, context: WriterContext) -> None:
            super().__init__(folder, context)
            self.staged = folder / f"{context.job}-{context.epoch}-{context.subtask}.staged"

        def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
            with self.staged.open("a") as file:
                file.writelines(f"{value}\n" for value in values)

        def prepare_commit(self) -> Any:
            return {"staged": self.staged.name, "name": f"{self.context.job}-{self.name}.txt"}

        def abort(self) -> None:
            """Leave everything where it is."""


class UndoesOnAbort(OnePlaceForAll):
    class writer(OnePlaceForAll.writer):
        def abort(self) -> None:
            self.staged.unlink(missing_ok=True)


class PublishesAllThereIs(Files):
    """Publishes every staged file of the epoch, and not those that are named."""

    class writer(Writer):
        def __init__(self, folder: Path, context: WriterContext) -> None:
            super().__init__(folder, context)
            for old in folder.glob(f"{context.job}-{context.epoch}-{context.subtask}-*.staged"):
                old.unlink()  # those of attempts that have died
            self.staged = folder / f"{context.job}-{context.epoch}-{context.subtask}-{uuid.uuid4().hex}.staged"

        def prepare_commit(self) -> Any:
            return super().prepare_commit() and {"by": self.context.attempt}

    class publisher(Publisher):
        def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
            for staged in self.folder.glob(f"{job}-*.staged"):
                if int(staged.name.removeprefix(f"{job}-").split("-")[0]) <= epoch:
                    staged.rename(self.folder / f"{staged.stem}.txt")


class OneNameForAll(Files):
    """Subtasks of an epoch have one name."""

    class writer(Writer):
        def __init__(self, folder: Path, context: WriterContext) -> None:
            super().__init__(folder, context)
            self.name = f"{context.incarnation}-{context.epoch}"


class WantsEveryEpoch(Files):
    class publisher(Publisher):
        def __init__(self, folder: Path) -> None:
            super().__init__(folder)
            self.last: int | None = None

        def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
            if self.last is not None and epoch > self.last + 1:
                raise ValueError(f"epoch {epoch} after {self.last}")
            self.last = epoch
            super().commit(job, uid, epoch, committables)


class LosesColumns(Files):
    class writer(Writer):
        def write_column(self, array: Any, kind: Any, timestamps: Any) -> bool:
            return True


class CleansForAll(Files):
    """Removes all that is staged, whoever it belongs to."""

    class publisher(Publisher):
        def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
            super().commit(job, uid, epoch, committables)
            for staged in self.folder.glob("*.staged"):
                staged.unlink()


class Ledger(Files):
    """Remembers in a file which epochs of a job are done, whatever life of it they are of."""

    class publisher(Publisher):
        def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
            ledger = self.folder / f"{job}.json"
            done = json.loads(ledger.read_text()) if ledger.exists() else 0
            if epoch > done:
                super().commit(job, uid, epoch, committables)
                ledger.write_text(json.dumps(epoch))


class ShowsAStretch(Files):
    """Opens its file under the final name, and moves it away when it is told what comes of it."""

    class writer(Writer):
        def prepare_commit(self) -> Any:
            shown = self.folder / f"{self.context.attempt}-{self.context.subtask}.txt"
            shown.write_text("".join(f"{line}\n" for line in self.lines))
            shown.rename(self.staged)
            return {"staged": self.staged.name, "name": f"{self.context.job}-{self.name}.txt"}


class LedgerFirst(Files):
    """Writes down that an epoch is done before it is."""

    class writer(Writer):
        def __init__(self, folder: Path, context: WriterContext) -> None:
            super().__init__(folder, context)
            self.name = f"{context.incarnation}-{self.name}"

        def prepare_commit(self) -> Any:
            return {**super().prepare_commit(), "life": self.context.incarnation}

    class publisher(Publisher):
        def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
            done = self.folder / f"{job}-{committables[0]['life']}-{epoch}.done"
            if not done.exists():
                done.touch()
                super().commit(job, uid, epoch, committables)


class EarlyPublisher(Publisher):
    """Shows files before their commit, with a note of each for as long as they may have to go again."""

    def show(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        for part in committables:
            (self.folder / f"{job}@{epoch}@{part['staged']}.note").touch()
            (self.folder / part["staged"]).rename(self.folder / f"{part['staged']}.txt")

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        kept = {part["staged"] for part in committables}
        for number, staged, note in self.notes(job):
            if number <= epoch:
                self.settle(note, staged, staged in kept)

    def roll_back(self, job: str, uid: str, epoch: int) -> None:
        for number, staged, note in self.notes(job):
            if number > epoch:
                self.settle(note, staged, False)

    def notes(self, job: str) -> list[tuple[int, str, Path]]:
        parts = [(note.name.removesuffix(".note").split("@"), note) for note in self.folder.glob(f"{job}@*.note")]
        return [(int(number), staged, note) for (_, number, staged), note in parts]

    def settle(self, note: Path, staged: str, stays: bool) -> None:
        if not stays:
            (self.folder / f"{staged}.txt").unlink(missing_ok=True)
        note.unlink()


class EarlyFiles(Files):
    """Can show its output before it is committed, too."""

    early = EarlyPublisher
    is_early = False

    def deliveries(self) -> tuple[Delivery, ...]:
        return EXACTLY_ONCE, EAGER

    def delivering(self, delivery: Delivery) -> Sink:
        other = copy.copy(self)
        other.is_early = delivery == EAGER
        return other

    def create_committer(self) -> Committer:
        return type(self).early(self.folder) if self.is_early else super().create_committer()


class NotEarlyAtAll(EarlyFiles):
    early = Publisher


class StaysForEver(EarlyFiles):
    class early(EarlyPublisher):
        def roll_back(self, job: str, uid: str, epoch: int) -> None:
            """Leave everything where it is."""


BROKEN: list[tuple[str, Callable[[Path], Any]]] = [
    (sink_trial.IS_SINK, NoSink),
    (log_contract.TRAVELS, WithALock),
    (sink_trial.INVISIBLE, Eager),
    (sink_trial.SHOWS, LosesTheLast),
    (sink_trial.ORDER, Backwards),
    (sink_trial.TWICE, Appends),
    (sink_trial.REPLAY, AppendsAndRemembers),
    (sink_job.NAMED, NamedByAnObject),
    (sink_trial.ABORTED, OnePlaceForAll),
    (sink_trial.DEAD, UndoesOnAbort),
    (sink_trial.ZOMBIE, PublishesAllThereIs),
    (sink_trial.PARALLEL, OneNameForAll),
    (sink_trial.EMPTY, WantsEveryEpoch),
    (sink_trial.COLUMNS, LosesColumns),
    (sink_trial.APART, CleansForAll),
    (sink_trial.ANEW, Ledger),
    (sink_trial.WRITER_DIES, ShowsAStretch),
    (sink_trial.COMMITTER_DIES, LedgerFirst),
    (sink_trial.SHOWN, NotEarlyAtAll),
    (sink_trial.TAKEN_BACK, StaysForEver),
]
