"""The epoch loop of a job whose positions are all in its manifest: choose ranges, run, commit, until all has been read.

How an epoch's tasks are executed is a function handed in: Spark's, or a plain loop in this process.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from flintstream.engine.coordinator import Coordinator
from flintstream.engine.epoch import EpochContext, ReadRange, TaskReport
from flintstream.engine.manifest import Manifest
from flintstream.engine.options import JobOptions
from flintstream.engine.pacing import Pacer
from flintstream.engine.replay_catchup import CatchUp
from flintstream.engine.report import JobWatch
from flintstream.engine.restraint import Restraint, SplitName
from flintstream.engine.savepoint_desk import SavepointDesk
from flintstream.engine.source_rate import SourceRate
from flintstream.errors import CommitError, FlintstreamError, LedgerError, describe

_LOG = logging.getLogger("flintstream")
RunEpoch = Callable[[EpochContext], Sequence[TaskReport]]
LEDGER_TRIES = 4
IDLE_SECONDS = 0.01
TARGET_MS = 2000
"""How long epochs shall take where nobody asked for an interval: their fixed cost is then a small part."""


class Listener(Protocol):
    """Is told of every committed epoch."""

    def __call__(self, manifest: Manifest, reports: Sequence[TaskReport], seconds: float) -> None: ...


class EpochLoop:
    """Runs epochs until the sources end or someone stops it."""

    def __init__(
        self,
        coordinator: Coordinator,
        options: JobOptions,
        run: RunEpoch,
        listener: Listener | None,
        catch_up: CatchUp | None = None,
        desk: SavepointDesk | None = None,
        watch: JobWatch | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._options = options
        self._run = run
        self._listener = listener
        self._catch_up = catch_up or CatchUp(coordinator.plan)
        self._desk = desk or SavepointDesk(coordinator.storage)
        self._watch = watch or JobWatch(coordinator.plan, options)
        coordinator.outlets.on_visible = self._watch.visible
        self._overrun: frozenset[int] | None = None
        self._stop = threading.Event()
        self._failures = 0
        target = options.interval_ms or TARGET_MS
        self._restraint = Restraint(coordinator.plan)
        imposed = None if options.source_rate is None else SourceRate(options.source_rate)
        self._pacer = Pacer(coordinator.plan, coordinator.splits(), options.max_records, target, imposed)

    def _now(self) -> int:
        return int(self._watch.clock())

    def use(self, run: RunEpoch) -> None:
        """Execute epochs in another way from now on."""
        self._run = run

    def stop(self) -> None:
        """Ask for an end between two epochs."""
        self._stop.set()

    @property
    def stopping(self) -> bool:
        """Whether someone asked for an end."""
        return self._stop.is_set()

    @property
    def waits_for_spark(self) -> bool:
        """Whether it is not known yet that streams which Spark reads have nothing more for now."""
        return self._catch_up.waits_for_spark

    def spark_waits(self) -> None:
        """Take in that they have nothing more for now."""
        self._catch_up.spark_waits(self._coordinator.epoch)

    @property
    def _is_finished(self) -> bool:
        manifest = self._coordinator.manifest
        return manifest is not None and manifest.finished

    def run(self) -> bool:
        """Run until the end; return whether the sources were read to their end."""
        while not self._stop.is_set():
            self.attend()
            if self._desk.wants_stop and self.conclude():
                return not self._desk.is_cancelled
            if self._is_finished or self.has_halted():
                return True
            started = time.monotonic()
            if not self._step():
                self._stop.wait(IDLE_SECONDS)
                continue
            pause = self._options.interval_ms / 1000 - (time.monotonic() - started)
            if pause > 0 and not self._is_finished:
                self._stop.wait(pause)
        return False

    def attend(self) -> None:
        """Let savepoints be taken that were asked for."""
        self._desk.attend(self._coordinator)
        if self._desk.has_work and not self._desk.wants_stop:
            self._begin_at_all()
            self._desk.attend(self._coordinator)

    def attend_beside(self) -> None:
        """Let savepoints be taken while an epoch may be at work: of the one before it."""
        self._desk.attend(self._coordinator)

    @property
    def is_cancelled(self) -> bool:
        """Whether another process has cancelled the job."""
        return self._desk.is_cancelled

    @property
    def wants_stop(self) -> bool:
        """Whether the job is to end with a savepoint."""
        return self._desk.wants_stop

    def conclude(self, drain: Callable[[], None] | None = None) -> bool:
        """Take the savepoint with which the job is to end; return whether it ends now."""
        self._begin_at_all()
        return self._desk.conclude(self._coordinator, drain or (lambda: self.close_with({})))

    def _begin_at_all(self) -> None:
        """Run an epoch without input if there is no checkpoint yet of which a savepoint could be taken."""
        if self._coordinator.committed is None:
            self.run_epoch(self._coordinator.begin(self._now(), (), frozenset(), False), {})

    def has_halted(self) -> bool:
        """Whether every split was read to where the job is to leave it as it stands, if there is such a place."""
        halts = self._coordinator.halts
        if not halts:
            return False
        positions = self._coordinator.positions()
        closed, _ = self._restrained(positions, self._now())
        limits = {
            (node, split.number): halts.get((node, split.number), split.end)
            for node, splits in self._coordinator.splits().items()
            for split in splits
        }
        return all(
            name in closed or (limit is not None and positions[name[0]][name[1]] >= limit)
            for name, limit in limits.items()
        )

    def _step(self) -> bool:
        """Run one epoch; return False if there is nothing to do yet."""
        now, ranges, ended = self._plan_epoch()
        if not ranges and not ended and not self._coordinator.needs_ticks:
            self._catch_up.committed(self._coordinator.epoch)
            return False
        self.run_epoch(self._coordinator.begin(now, ranges, self._ending(ranges), ended), {})
        return True

    def step_with(self, spark: dict[str, Any], closing: bool, ending: Iterable[int] = ()) -> bool:
        """Run one epoch on input that Spark has handed over; return whether the job's input ended with it.

        `ending` are the sources among it that have been read to their end.
        """
        now, ranges, ended = self._plan_epoch()
        final = closing and ended
        finishing = self._ending(ranges).union(*map(self._coordinator.lanes.known_of, ending))
        self.run_epoch(self._coordinator.begin(now, ranges, finishing, final), spark)
        return final

    def close_with(self, spark: dict[str, Any]) -> None:
        """Run the last epoch: every lane ends."""
        lanes = self._coordinator.lanes.unfinished()
        self.run_epoch(self._coordinator.begin(self._now(), (), lanes, True), spark)

    def _ending(self, ranges: Sequence[ReadRange]) -> frozenset[int]:
        """Return the lanes that end with these ranges, whether or not any of their records gets as far as a level."""
        lanes = self._coordinator.lanes
        ending = frozenset(lane for piece in ranges if piece.last for lane in lanes.lanes_of(piece.source, piece.split))
        if self._overrun is None:
            self._overrun = self._ended_before()
        return ending | self._overrun & lanes.unfinished() if self._overrun else ending

    def _ended_before(self) -> frozenset[int]:
        """Return the lanes of splits that were read beyond their end before there was one: nothing comes of them."""
        lanes, positions = self._coordinator.lanes, self._coordinator.positions()
        return frozenset(
            lane
            for node, splits in self._coordinator.splits().items()
            for split in splits
            if split.end is not None and split.start < split.end <= positions[node][split.number]
            for lane in lanes.lanes_of(node, split.number)
        )

    def _plan_epoch(self) -> tuple[int, list[ReadRange], bool]:
        now = self._now()
        self._coordinator.look_for_splits(now)
        positions = self._coordinator.positions()
        closed, paused = self._restrained(positions, now)
        available = self._coordinator.available()
        ranges = self._pacer.next_ranges(positions, now, closed | paused, available)
        self._catch_up.planned(self._coordinator.splits(), positions, ranges, available, closed)
        self._watch.planned(now, ranges, positions, available, self._pacer)
        return now, ranges, self._all_read(positions, ranges, closed)

    def _restrained(
        self, positions: Mapping[int, Mapping[int, int]], now: int
    ) -> tuple[frozenset[SplitName], frozenset[SplitName]]:
        """Return the splits that are over before their end, and those that wait for others."""
        if not self._restraint.is_needed:
            return frozenset(), frozenset()
        lanes = self._coordinator.lanes.at(now)
        splits = [(node, split) for node, each in self._coordinator.splits().items() for split in each]
        names = [(node, split.number) for node, split in splits]
        closed = self._restraint.closed(lanes, names)
        unread = [
            (node, split.number)
            for node, split in splits
            if (node, split.number) not in closed and positions[node][split.number] != split.end
        ]
        return closed, self._restraint.paused(lanes, unread)

    def is_over(self) -> bool:
        """Whether no sink will see another record, though the sources may go on."""
        if not self._restraint.is_needed:
            return False
        lanes = self._coordinator.lanes
        sources = lanes.sources_and_splits()
        return len(self._restraint.closed(lanes.at(0), sources)) == len(sources)

    def _all_read(self, positions: Any, ranges: Any, closed: frozenset[SplitName]) -> bool:
        """Whether every split has ended once these ranges are read."""
        last = {(piece.source, piece.split) for piece in ranges if piece.last} | closed
        return not self._coordinator.expects_splits and all(
            (node, split.number) in last or (split.end is not None and positions[node][split.number] >= split.end)
            for node, splits in self._coordinator.splits().items()
            for split in splits
        )

    def run_epoch(self, context: EpochContext, spark: dict[str, Any]) -> Manifest:
        """Run one epoch and commit it; if its ledger does not balance, or it cannot be written, it runs again."""
        started = time.monotonic()
        limit, measures = self._options.state_entries_in_memory, self._options.metrics
        context = replace(context, entries_in_memory=limit, measures=measures)
        self._watch.begin_epoch(context)
        ledger_failures = 0
        while True:
            try:
                reports = self._run_tasks(context)
                ran = time.monotonic()
                manifest = self._coordinator.complete(context, reports, spark)
                break
            except LedgerError as error:
                ledger_failures += 1
                if ledger_failures == LEDGER_TRIES:
                    raise
                _LOG.warning("epoch %d runs again: %s", context.epoch, error)
            except CommitError as error:
                self._tolerate(error, context.epoch)
        self._failures = 0
        ended = time.monotonic()
        seconds = ended - started
        self._watch.committed(manifest, reports, seconds, ended - ran)
        self._pacer.took(sum(piece.end - piece.start for piece in context.ranges), seconds)
        if self._listener is not None:
            self._listener(manifest, reports, seconds)
        self._catch_up.committed(manifest.epoch)
        return manifest

    def _tolerate(self, error: CommitError, epoch: int) -> None:
        """Wait a little before an epoch that could not be made durable runs again, unless that was once too often."""
        self._failures += 1
        most = self._options.tolerable_failures
        if self._failures > most or self._coordinator.epoch == epoch:
            error.add_note(f"{self._failures} failures in a row to write epoch {epoch}; {most} are tolerable")
            raise error
        _LOG.warning("failure %d of %d tolerable ones: %s; the epoch runs again", self._failures, most, error)
        self._stop.wait(0.2 * self._failures)

    def _run_tasks(self, context: EpochContext) -> Sequence[TaskReport]:
        try:
            return self._run(context)
        except OSError as error:
            what = f"epoch {context.epoch} could not read or write its files ({error})"
            remedy = "free space or mend the directory; nothing is lost"
            raise CommitError(describe(what, None, remedy)) from error
        except FlintstreamError:
            # The driver that came first deletes what it no longer needs, state and staged output.
            if self._coordinator.is_overtaken(context.epoch - 1):
                raise self._coordinator.fenced(context.epoch) from None
            raise
