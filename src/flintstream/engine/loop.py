"""The epoch loop of a job whose positions are all in its manifest: choose ranges, run, commit, until all has been read.

How an epoch's tasks are executed is a function handed in: Spark's, or a plain loop in this process.
"""

from __future__ import annotations

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
from flintstream.engine.restraint import Restraint, SplitName
from flintstream.errors import CommitError, CorruptStateError, LedgerError, describe

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

    def __init__(self, coordinator: Coordinator, options: JobOptions, run: RunEpoch, listener: Listener | None) -> None:
        self._coordinator = coordinator
        self._options = options
        self._run = run
        self._listener = listener
        self._stop = threading.Event()
        self._failures = 0
        target = options.interval_ms or TARGET_MS
        self._restraint = Restraint(coordinator.plan)
        self._pacer = Pacer(coordinator.plan, coordinator.splits(), options.max_records, target)

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
    def _is_finished(self) -> bool:
        manifest = self._coordinator.manifest
        return manifest is not None and manifest.finished

    def run(self) -> bool:
        """Run until the end; return whether the sources were read to their end."""
        while not self._stop.is_set():
            if self._is_finished:
                return True
            started = time.monotonic()
            if not self._step():
                self._stop.wait(IDLE_SECONDS)
                continue
            pause = self._options.interval_ms / 1000 - (time.monotonic() - started)
            if pause > 0 and not self._is_finished:
                self._stop.wait(pause)
        return False

    def _step(self) -> bool:
        """Run one epoch; return False if there is nothing to do yet."""
        now, ranges, ended = self._plan_epoch()
        if not ranges and not ended and not self._coordinator.needs_ticks:
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
        self.run_epoch(self._coordinator.begin(int(time.time() * 1000), (), lanes, True), spark)

    def _ending(self, ranges: Sequence[ReadRange]) -> frozenset[int]:
        """Return the lanes that end with these ranges, whether or not any of their records gets as far as a level."""
        lanes = self._coordinator.lanes
        return frozenset(lane for piece in ranges if piece.last for lane in lanes.lanes_of(piece.source, piece.split))

    def _plan_epoch(self) -> tuple[int, list[ReadRange], bool]:
        now = int(time.time() * 1000)
        self._coordinator.look_for_splits(now)
        positions = self._coordinator.positions()
        closed, paused = self._restrained(positions, now)
        ranges = self._pacer.next_ranges(positions, now, closed | paused, self._coordinator.available())
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
        context = replace(context, entries_in_memory=self._options.state_entries_in_memory)
        ledger_failures = 0
        while True:
            try:
                reports = self._run_tasks(context)
                manifest = self._coordinator.complete(context, reports, spark)
                break
            except LedgerError:
                ledger_failures += 1
                if ledger_failures == LEDGER_TRIES:
                    raise
            except CommitError:
                self._failures += 1
                if self._failures > self._options.tolerable_failures or self._coordinator.epoch == context.epoch:
                    raise
                self._stop.wait(0.2 * self._failures)
        self._failures = 0
        seconds = time.monotonic() - started
        self._pacer.took(sum(piece.end - piece.start for piece in context.ranges), seconds)
        if self._listener is not None:
            self._listener(manifest, reports, seconds)
        return manifest

    def _run_tasks(self, context: EpochContext) -> Sequence[TaskReport]:
        try:
            return self._run(context)
        except OSError as error:
            what = f"epoch {context.epoch} could not read or write its files ({error})"
            remedy = "free space or mend the directory; nothing is lost"
            raise CommitError(describe(what, None, remedy)) from error
        except CorruptStateError:
            # The driver that came first deletes what it no longer needs.
            if self._coordinator.is_overtaken(context.epoch - 1):
                raise self._coordinator.fenced(context.epoch) from None
            raise
