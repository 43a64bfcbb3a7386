"""The driver's side of the epoch protocol: what to read next, and the commit.

One epoch is `begin` (what every task is told) and `complete` (check the ledger, create the manifest, let the sinks
commit). Between the two anything may happen, any number of times: nothing counts until the manifest is there.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from flintstream.engine import manifest as manifests
from flintstream.engine.delivery import Outlets
from flintstream.engine.epoch import EpochContext, NewState, ReadRange, StateHandle, TaskReport
from flintstream.engine.garbage import Garbage
from flintstream.engine.handles import handles_of, next_state
from flintstream.engine.lanes import LaneBook
from flintstream.engine.ledger import check_reports
from flintstream.engine.manifest import SETTLED, Manifest
from flintstream.engine.options import StartFrom
from flintstream.engine.savepoint_program import described
from flintstream.engine.savepoint_restore import start_of
from flintstream.engine.splits import SplitBook
from flintstream.engine.statefiles import uid_of
from flintstream.engine.tally import counters_after, metrics_after, queryable_in
from flintstream.errors import (
    CommitError,
    CorruptStateError,
    FencedError,
    IncompatibleStateError,
    UnknownUidError,
    describe,
)
from flintstream.graph.nodes import late_output
from flintstream.model.connect import Split
from flintstream.model.dead_letters import DEAD_LETTERS
from flintstream.planner.plan import Plan
from flintstream.planner.time_domains import uses_processing_time
from flintstream.state.changelog import checksum
from flintstream.state.classes import adopt_classes
from flintstream.state.judge import judge_texts
from flintstream.state.storage import Storage
from flintstream.state.trust import adopt_modules, restricted

DEFAULT_RETAINED = 3
_LOG = logging.getLogger("flintstream")


class Coordinator:
    """Owns a job's manifest chain. One instance per driver."""

    def __init__(
        self,
        plan: Plan,
        storage: Storage,
        retained: int = DEFAULT_RETAINED,
        drop_orphans: bool = False,
        start: StartFrom | None = None,
        trust: bool = False,
    ) -> None:
        self.plan = plan
        self._drop_orphans = drop_orphans
        self.storage = storage
        self.garbage = Garbage(storage, retained)
        self.incarnation = uuid.uuid4().hex[:16]
        self.manifest: Manifest | None = None
        self.committed: Manifest | None = None
        """The newest manifest of the job's own whose output is published."""
        self.published: int | None = None
        self._uids = {op.id: op.uid for op in plan.operators}
        self._ids = {op.uid: op.id for op in plan.operators}
        self.outlets = Outlets(plan, storage)
        self._pending_timers = 0
        self._synced: set[str] = set()
        self._operators = described(plan)
        self._trust = trust
        self._judged: int | None = None
        self._is_successor = False
        found = manifests.newest(storage)
        self.restored = start_of(plan, start, found, drop_orphans)
        self._splits = SplitBook(plan, found if self.restored is None else self.restored.manifest)
        self.lanes = LaneBook(plan, self._splits.known())

    def recover(self) -> Manifest | None:
        """Start from the newest manifest, if there is one, and finish what its sinks had left to do."""
        found = manifests.newest(self.storage)
        if found is None:
            self._begin_restored()
            self.outlets.roll_back(0)
            return self.manifest
        if found.max_parallelism != self.plan.max_parallelism:
            what = f"the checkpoint has max parallelism {found.max_parallelism}, the job {self.plan.max_parallelism}"
            raise IncompatibleStateError(describe(what, None, f"set_max_parallelism({found.max_parallelism})"))
        self._check_owners(found)
        self.incarnation = found.incarnation
        self.garbage.recover()
        self._follow(found, self._trust)
        self.outlets.roll_back(found.epoch)
        if not self._is_settled(found):
            with restricted(not self._trust):
                self.commit_sinks(found)
            if found.finished:
                self._settle(found)
        self.committed = found
        return found

    def _begin_restored(self) -> None:
        """Begin with a savepoint, if there is one; nothing of it is the job's own before its first epoch is over."""
        if self.restored is not None:
            self.incarnation = self.restored.manifest.incarnation = self.restored.named(self.storage, self.incarnation)
            self._follow(self.restored.manifest, self._trust or self.restored.start.trust)

    def take_over(self, before: Coordinator) -> None:
        """Go on for another attempt of this process: what that published needs no repetition, its files are our own."""
        self.published, self._judged, self._is_successor = before.published, before._judged, True

    def _follow(self, manifest: Manifest, trust: bool) -> None:
        self.manifest = manifest
        self.outlets.know_as(manifest.known_as)
        adopt_classes(self.plan.classes)
        adopt_modules(self.plan.modules)
        if not trust:
            self._judged = self._judged if self._is_successor else manifest.epoch
            judge_texts(time.memory for time in manifest.lanes.values())
        self.lanes.restore(manifest)
        # Whether any timers wait is known when an epoch has looked; a quiet source must not keep it from looking.
        self._pending_timers = int(uses_processing_time(self.plan))
        self._tell_restored(manifest)

    def _is_settled(self, manifest: Manifest) -> bool:
        """Whether a job has ended and its sinks have published everything: then nothing is published again."""
        return f"{manifest.epoch:012d}" in self.storage.list(SETTLED)

    def settle(self) -> None:
        """Leave a mark, when a job ends in good order, that nothing is left to be published."""
        done = self.committed
        if done is not None and done is self.manifest and not done.finished:
            self._settle(done)

    def _settle(self, manifest: Manifest) -> None:
        # Without the mark sinks are only asked to publish once more: no reason to fail a job that has ended.
        with suppress(OSError):
            for older in self.storage.list(SETTLED):
                self.storage.delete(f"{SETTLED}/{older}")
            self.storage.create(f"{SETTLED}/{manifest.epoch:012d}", b"")

    def _tell_restored(self, found: Manifest) -> None:
        kept = {uid: rows for uid, rows in found.entries.items() if rows}
        where = f"epoch {found.epoch} of job {self.plan.name!r}"
        if not kept:
            _LOG.info("resumed after %s, without state", where)
        for uid, rows in kept.items():
            _LOG.info("restored state of operator %r after %s: %s keys", uid, where, f"{rows:,}")

    def _check_owners(self, found: Manifest) -> None:
        """Refuse state that no operator of the program owns: it would be lost without a word."""
        orphans = {uid: rows for uid, rows in found.entries.items() if rows and uid not in self._ids}
        if orphans and not self._drop_orphans:
            names = ", ".join(f"{uid!r} ({rows:,} entries)" for uid, rows in orphans.items())
            known = ", ".join(repr(op.uid) for op in self.plan.operators if op.level)
            what = f"the checkpoint has state of operators that the program does not have: {names}"
            remedy = (
                f"give the operators their old uid(...) (the program has {known}), or drop the state with "
                "'execution.state-recovery.ignore-unclaimed-state': 'true'"
            )
            raise UnknownUidError(describe(what, None, remedy), uid=next(iter(orphans)))

    @property
    def needs_ticks(self) -> bool:
        """Whether epochs must run without input: processing time or idleness may have something to do."""
        return self.lanes.follows_clock or self.lanes.owes_tick or bool(self._pending_timers)

    @property
    def wants_ticks(self) -> bool:
        """Whether the job may come to need epochs without input: it uses idleness or processing time."""
        return self.lanes.follows_clock or uses_processing_time(self.plan)

    @property
    def epoch(self) -> int:
        """The newest committed epoch; 0 before the first."""
        return 0 if self.manifest is None else self.manifest.epoch

    def positions(self) -> dict[int, dict[int, int]]:
        """Return the next position of every split that is read by ranges."""
        return self._splits.positions(self.manifest)

    def splits(self) -> Mapping[int, Sequence[Split]]:
        """Return the splits of every source that is read by ranges."""
        return self._splits.splits

    @property
    def halts(self) -> Mapping[tuple[int, int], int]:
        """Where splits are to be left as they stand, by source and split."""
        return self._splits.halts

    def look_for_splits(self, now: int) -> None:
        """Take in parts of logs that have come up while the job runs."""
        for node, split in self._splits.look(now):
            self.lanes.add_split(node, split.number)

    @property
    def expects_splits(self) -> bool:
        """Whether splits may come up that nobody knows of yet."""
        return self._splits.expects_more

    def available(self) -> Mapping[tuple[int, int], int]:
        """Return up to where the parts of logs can be read now, by source and split."""
        return self._splits.available()

    def begin(self, now: int, ranges: Sequence[ReadRange], finishing: frozenset[int], is_final: bool) -> EpochContext:
        """Return what the tasks of the next epoch are told."""
        if self.manifest is not None:
            now = max(now, self.manifest.now)
        self.garbage.drop_notes(self.manifest)
        watermarks = {} if self.manifest is None else self.manifest.watermarks
        return EpochContext(
            self.plan.name if self.manifest is None else self.manifest.known_as,
            self.incarnation,
            self.epoch + 1,
            now,
            self.lanes.at(now),
            finishing,
            {self._ids[uid]: watermark for uid, watermark in watermarks.items() if uid in self._ids},
            tuple(ranges),
            self._handles(),
            is_final,
            storage=self.storage,
            judged=self._judged,
            trusts=self._trust,
        )

    def _handles(self) -> Mapping[tuple[int, int], tuple[StateHandle, ...]]:
        if self.restored is not None and self.manifest is self.restored.manifest:
            return self.restored.handles()
        return handles_of(self.plan, self.manifest, self.layout())

    def layout(self) -> dict[str, list[int]]:
        """Return which operator is where; state moves if this differs from the manifest's."""
        return {op.uid: [op.level, op.parallelism] for op in self.plan.operators if op.level}

    def complete(self, context: EpochContext, reports: Sequence[TaskReport], spark: Mapping[str, Any]) -> Manifest:
        """Commit an epoch: ledger, manifest, sinks; some sinks show it before."""
        check_reports(self.plan, context, reports)
        inline = InlineFile(f"epochs/{context.epoch:012d}-{uuid.uuid4().hex[:8]}.bin")
        output = self.outlets.take(reports, inline.store)
        new = Manifest(
            self.plan.name,
            self.incarnation,
            context.epoch,
            context.now,
            "" if self.manifest is None else self.manifest.digest(),
            self.plan.max_parallelism,
            layout=self.layout(),
            split_into=self._splits.split_into,
            positions=self._splits.positions_after(self.manifest, context.ranges),
            parts=self._splits.parts(),
            watermarks=self._watermarks(reports),
            state=next_state(context, reports, lambda new: self._stored_state(new, inline)),
            entries=self._entries(reports),
            committables=output.named,
            counters=counters_after(self.manifest, reports, self.plan),
            metrics=metrics_after(self.manifest, reports, self.plan, context.now),
            spark=dict(spark),
            finished=context.is_final,
            operators=self._operators,
            started_from={} if self.manifest is None else self.manifest.started_from,
            queryable=queryable_in(reports),
        )
        self.lanes.advance(context, reports, new)
        self.outlets.show(new.epoch, output)
        self._publish(new, inline)
        self.manifest = new
        self._pending_timers = sum(
            rows for report in reports for name, rows in report.entries.items() if name.endswith("#processing-timers")
        )
        self._tell_late(reports, new)
        self.outlets.publish(new, output)
        self.published = new.epoch
        if new.finished:
            self._settle(new)
        self._splits.tell_committed(new)
        self.garbage.committed(new)
        self.committed = new
        return new

    def _tell_late(self, reports: Sequence[TaskReport], new: Manifest) -> None:
        """Log the late records of an epoch where the program asks for it, and at the end how many were dropped."""
        for report in reports:
            for node, notes in report.notes.items():
                op = self.plan.operator(node)
                for note in notes:
                    _LOG.warning("late record in %r (%s): %s", op.uid, op.node.location, note)
        for op in self.plan.operators if new.finished else ():
            dead = new.counters.get(op.uid, {}).get(DEAD_LETTERS, 0)
            if dead:
                _LOG.warning("%r (%s) could not process %s records", op.uid, op.node.location, f"{dead:,}")
            late = new.counters.get(op.uid, {}).get("late", 0)
            if late and late_output(op.node) is None:
                _LOG.warning("%r (%s) dropped %s late records", op.uid, op.node.location, f"{late:,}")

    def _publish(self, new: Manifest, inline: InlineFile) -> None:
        """Create the manifest, which is the commit; what happens before it does not count, what comes after must."""
        path, data = manifests.path_of(new.epoch), new.to_bytes()
        try:
            small = inline.whole()
            # Tasks made their files durable, but names are in folders: once per epoch, and before the manifest.
            folders = sorted({path.rpartition("/")[0] for path in new.files() - self._synced})
            created = self.storage.publish(path, data, {inline.path: small} if small else {}, folders)
            self._synced = new.files()
        except OSError as error:
            created = self._is_there(path, data)
            if not created:
                what = f"epoch {new.epoch} could not be written ({error})"
                remedy = "free space or mend the checkpoint directory; nothing is lost"
                raise CommitError(describe(what, None, remedy)) from error
        if created and self.is_overtaken(new.epoch):
            # The winner has committed so many epochs since then that its manifest of this one is deleted.
            self.storage.delete(path)
            created = False
        if not created:
            raise self.fenced(new.epoch)

    def _is_there(self, path: str, data: bytes) -> bool:
        """Whether a manifest was made in spite of an error that came afterwards."""
        try:
            return self.storage.read(path) == data
        except (OSError, CorruptStateError):
            return False

    def is_overtaken(self, epoch: int) -> bool:
        """Whether someone has committed a later epoch."""
        names = self.storage.list(manifests.FOLDER)
        return bool(names) and manifests.epoch_of(names[-1]) > epoch

    def fenced(self, epoch: int) -> FencedError:
        """Return the error of a driver that came second."""
        what = f"another driver has committed epoch {epoch} of job {self.plan.name!r}"
        return FencedError(describe(what, None, "stop one of the two; the other goes on"))

    def _watermarks(self, reports: Sequence[TaskReport]) -> dict[str, int]:
        watermarks = dict(self.manifest.watermarks) if self.manifest is not None else {}
        for report in reports:
            for node, watermark in report.watermarks.items():
                watermarks[self._uids[node]] = watermark
        return watermarks

    @staticmethod
    def _stored_state(new: NewState | None, inline: InlineFile) -> NewState | None:
        """Return what a task wrote, with its small file among the epoch's others."""
        if new is None or new.data is None:
            return new
        stored = replace(new.files[-1], path=inline.path, offset=inline.add(new.data))
        return replace(new, files=(*new.files[:-1], stored), data=None)

    def _entries(self, reports: Sequence[TaskReport]) -> dict[str, int]:
        """Return how much state each operator has."""
        entries: dict[str, int] = {}
        for report in reports:
            for name, rows in report.entries.items():
                uid = uid_of(name, self._ids)
                if uid is not None:
                    entries[uid] = entries.get(uid, 0) + rows
        return entries

    def commit_sinks(self, manifest: Manifest) -> None:
        """Let sinks publish once more what a manifest names, unless they did in this process; twice must do no harm."""
        if manifest.epoch != self.published:
            self.outlets.finish(manifest)
            self.published = manifest.epoch


class InlineFile:
    """The small changelogs and committables of an epoch, written by the driver as one file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._parts: dict[int, bytes] = {}
        self._length = 0

    def add(self, data: bytes) -> int:
        """Append bytes and return where they start."""
        offset = self._length
        if data:
            self._parts[offset] = data
        self._length += len(data)
        return offset

    def store(self, data: bytes) -> dict[str, Any]:
        """Append output of a sink, and return what names it."""
        at = {"stored": True, "path": self.path, "offset": self.add(data)}
        return {**at, "length": len(data), "checksum": checksum(data)}

    def whole(self) -> bytes:
        """Return all bytes."""
        return b"".join(self._parts.values())
