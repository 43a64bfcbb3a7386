"""The epoch loop of a job whose positions are all in its manifest: choose ranges, run, commit, until all has been read.

How an epoch's tasks are executed is a function handed in: Spark's, or a plain loop in this process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from flintstream.engine.coordinator import Coordinator
from flintstream.engine.epoch import EpochContext, ReadRange, TaskReport
from flintstream.engine.manifest import Manifest
from flintstream.engine.options import JobOptions
from flintstream.engine.pacing import Pacer
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

    def run(self) -> bool:
        """Run until the end; return whether the sources were read to their end."""
        while not self._stop.is_set():
            if self._coordinator.manifest is not None and self._coordinator.manifest.finished:
                return True
            started = time.monotonic()
            if not self._step():
                self._stop.wait(IDLE_SECONDS)
                continue
            pause = self._options.interval_ms / 1000 - (time.monotonic() - started)
            if pause > 0:
                self._stop.wait(pause)
        return False

    def _step(self) -> bool:
        """Run one epoch; return False if there is nothing to do yet."""
        now, ranges, ended = self._plan_epoch()
        if not ranges and not ended and not self._coordinator.needs_ticks:
            return False
        self.run_epoch(self._coordinator.begin(now, ranges, self._ending(ranges), ended), {})
        return True

    def step_with(self, spark: dict[str, Any], closing: bool) -> bool:
        """Run one epoch on input that Spark has handed over; return whether the job's input ended with it."""
        now, ranges, ended = self._plan_epoch()
        final = closing and ended
        self.run_epoch(self._coordinator.begin(now, ranges, self._ending(ranges), final), spark)
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
        positions = self._coordinator.positions()
        ranges = self._pacer.next_ranges(positions, now)
        return now, ranges, self._all_read(positions, ranges)

    def _all_read(self, positions: Any, ranges: Any) -> bool:
        """Whether every split has ended once these ranges are read."""
        last = {(piece.source, piece.split) for piece in ranges if piece.last}
        return all(
            split.end is not None and (positions[node][split.number] >= split.end or (node, split.number) in last)
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
