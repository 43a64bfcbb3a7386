"""A sink driven as the engine drives it: copies of it write in tasks, one committer publishes, epoch after epoch.

It is the engine's side of the contract of sinks, without an engine, so that each step can be left out, repeated or come
late.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from flintstream.engine.staging import Staging
from flintstream.model.connect import Committer, Sink, SinkWriter, WriterContext
from flintstream.state.codec import encode
from flintstream.state.storage import MemoryStorage
from flintstream.testing.contract import Judge, as_json

NAMED = "a committable is bytes or JSON"
_BROKEN = "raise only if the output cannot be written"


class SinkJob:
    """One sink of one job; epochs are counted from 1."""

    def __init__(self, judge: Judge, make_sink: Callable[[], Sink], job: str, uid: str = "out") -> None:
        self._judge = judge
        self._make_sink = make_sink
        self._job, self._uid = job, uid
        self._incarnation = uuid.uuid4().hex[:16]
        self._storage = MemoryStorage()
        self._attempts = 0
        self.epoch = 0
        self.sink = make_sink()
        self.committer = self._new_committer()

    def _new_committer(self) -> Committer:
        return self._judge.asked("create_committer()", self.sink.create_committer, "return a Committer")

    def restart(self) -> None:
        """Begin again as after a crash: with a new sink, and nothing in memory."""
        self.sink = self._make_sink()
        self.committer = self._new_committer()

    def start_anew(self) -> SinkJob:
        """Return the same job as it is without its checkpoints: it begins from the beginning."""
        return SinkJob(self._judge, self._make_sink, self._job, self._uid)

    def writer(self, subtask: int = 0, parallelism: int = 1) -> SinkWriter:
        """Return the writer of a new attempt at the next epoch."""
        self._attempts += 1
        attempt = f"{self.epoch + 1}-{self._attempts}-{uuid.uuid4().hex[:8]}"
        stage = Staging(self._storage, f"1-{subtask}-{attempt}-1")
        where = (self._job, self._uid, self.epoch + 1, subtask, attempt, parallelism, self._incarnation, stage)
        copy = self._judge.copied(self.sink, "sink")
        return self._judge.asked("create_writer(...)", lambda: copy.create_writer(WriterContext(*where)), _BROKEN)

    def write(self, writer: SinkWriter, records: Sequence[Any]) -> None:
        """Hand records to a writer."""
        times = [1000 * number for number in range(len(records))]
        self._judge.asked("write(...)", lambda: writer.write(list(records), times), _BROKEN)

    def write_column(self, writer: SinkWriter, records: Sequence[Any]) -> bool:
        """Hand records to a writer as an Arrow column, and one by one if it does not take it; return whether it did."""
        array, kind = encode(records)
        times = np.arange(len(records), dtype=np.int64) * 1000
        if self._judge.asked("write_column(...)", lambda: writer.write_column(array, kind, times), _BROKEN):
            return True
        self.write(writer, records)
        return False

    def prepare(self, writer: SinkWriter) -> list[Any]:
        """End a writer; return its committable, if it has one."""
        committable = self._judge.asked("prepare_commit()", writer.prepare_commit, _BROKEN)
        if committable is None:
            return []
        if not isinstance(committable, bytes):
            rule = self._judge.current
            self._judge.rule(NAMED)
            remedy = "return bytes, or a value of dicts, lists, texts and numbers that names what was staged"
            what = f"writing the committable {committable!r:.100} as JSON"
            self._judge.asked(what, lambda: as_json(committable), remedy)
            self._judge.rule(rule)
        return [committable]

    def stage(self, *shares: Sequence[Any]) -> list[Any]:
        """Write each share by a subtask of its own, in turns; return the committables."""
        writers = [self.writer(subtask, len(shares)) for subtask in range(len(shares))]
        for turn in range(2):
            for writer, share in zip(writers, shares, strict=True):
                half = len(share) // 2
                part = share[half:] if turn else share[:half]
                if part:
                    self.write(writer, part)
        return [part for writer in writers for part in self.prepare(writer)]

    def commit(self, committables: Sequence[Any], *, stored: bool = False) -> None:
        """Publish the next epoch; `stored` committables are as a driver that starts again reads them."""
        self.publish(committables, self.epoch + 1, stored)
        self.epoch += 1

    def publish(self, committables: Sequence[Any], epoch: int, stored: bool = True) -> None:
        """Publish an epoch, for the first time or once more."""
        parts = [self._handed(each, stored) for each in committables]
        remedy = "publish what the committables name, if it has not been published yet"
        self._judge.asked(
            f"commit(..., epoch {epoch}, {parts!r:.200})",
            lambda: self.committer.commit(self._job, self._uid, epoch, parts),
            remedy,
        )

    def show(self, committables: Sequence[Any]) -> None:
        """Let the next epoch be seen before its commit."""
        parts = [self._handed(each, False) for each in committables]
        show = partial(self.committer.show, self._job, self._uid, self.epoch + 1, parts)
        self._judge.asked("show(...)", show, _BROKEN)

    def roll_back(self) -> None:
        """Take back what was shown of epochs that were not committed."""
        back = partial(self.committer.roll_back, self._job, self._uid, self.epoch)
        self._judge.asked(f"roll_back(..., epoch {self.epoch})", back, _BROKEN)

    def _handed(self, committable: Any, stored: bool) -> Any:
        """Return a committable as a committer is given it."""
        if isinstance(committable, bytes):
            return committable
        value = as_json(committable) if stored else committable
        if isinstance(value, dict) and "pieces" in value:
            document = cast("dict[str, Any]", value)
            pieces: list[dict[str, Any]] = document["pieces"]
            return {**document, "pieces": [partial(self._read, piece) for piece in pieces]}
        return value

    def _read(self, piece: dict[str, Any]) -> bytes:
        return self._storage.read(piece["path"], piece["offset"], piece["length"])
