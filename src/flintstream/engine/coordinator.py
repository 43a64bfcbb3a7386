"""The driver's side of the epoch protocol: what to read next, and the commit.

One epoch is `begin` (what every task is told) and `complete` (check the ledger, create the manifest, let the sinks
commit). Between the two anything may happen, any number of times: nothing counts until the manifest is there.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from flintstream.connectors.frames import FrameSource
from flintstream.engine import manifest as manifests
from flintstream.engine.epoch import EpochContext, ReadRange, StateHandle, TaskReport
from flintstream.engine.garbage import Garbage
from flintstream.engine.lanes import LaneBook
from flintstream.engine.ledger import check_reports
from flintstream.engine.manifest import Manifest
from flintstream.engine.statefiles import next_handle, uid_of
from flintstream.errors import (
    CommitError,
    CorruptStateError,
    FencedError,
    FlintstreamError,
    IncompatibleStateError,
    SinkError,
    UnknownUidError,
    describe,
)
from flintstream.graph.nodes import SinkNode, SourceNode, late_output
from flintstream.model.connect import Committer, Split, SplitSource
from flintstream.ops.timestamps import NO_SPLIT
from flintstream.planner.plan import Plan
from flintstream.planner.time_domains import uses_processing_time
from flintstream.state.changelog import checksum
from flintstream.state.storage import Storage

DEFAULT_RETAINED = 3
SETTLED = "settled"
"""The folder of a mark that a job which has ended leaves when all its output is published."""
_LOG = logging.getLogger("flintstream")


class Coordinator:
    """Owns a job's manifest chain. One instance per driver."""

    def __init__(
        self, plan: Plan, storage: Storage, retained: int = DEFAULT_RETAINED, drop_orphans: bool = False
    ) -> None:
        self.plan = plan
        self._drop_orphans = drop_orphans
        self.storage = storage
        self._garbage = Garbage(storage, retained)
        self.incarnation = uuid.uuid4().hex[:16]
        self.manifest: Manifest | None = None
        self._uids = {op.id: op.uid for op in plan.operators}
        self._ids = {op.uid: op.id for op in plan.operators}
        self._committers: dict[int, Committer] = {
            op.id: op.node.sink.create_committer()
            for op in plan.operators
            if isinstance(op.node, SinkNode) and op.node.sink is not None
        }
        self._pending_timers = 0
        self._synced: set[str] = set()
        found = manifests.newest(storage)
        # Splits are made once in the life of a job's state: positions belong to them, whatever the parallelism is now.
        self._split_into = {} if found is None else dict(found.split_into)
        self._splits: dict[int, list[Split]] = {}
        for op in plan.operators:
            if isinstance(op.node, SourceNode) and isinstance(op.node.source, SplitSource):
                into = self._split_into.setdefault(op.uid, op.parallelism)
                try:
                    self._splits[op.id] = list(op.node.source.splits(into))
                except FlintstreamError as error:
                    raise error.at(op.node.location, op.uid) from None
        self.lanes = LaneBook(plan, self._known_splits())

    def _known_splits(self) -> dict[int, list[int]]:
        """Return the splits that each source has from the start: event time waits for them all."""
        known = {node: [split.number for split in splits] for node, splits in self._splits.items()}
        for op in self.plan.operators:
            if isinstance(op.node, SourceNode) and op.id not in known:
                is_named = isinstance(op.node.source, FrameSource) and op.node.source.split_by
                known[op.id] = [NO_SPLIT if is_named else 0]
        return known

    def recover(self) -> Manifest | None:
        """Start from the newest manifest, if there is one, and finish what its sinks had left to do."""
        found = manifests.newest(self.storage)
        if found is None:
            return None
        if found.max_parallelism != self.plan.max_parallelism:
            what = f"the checkpoint has max parallelism {found.max_parallelism}, the job {self.plan.max_parallelism}"
            raise IncompatibleStateError(describe(what, None, f"set_max_parallelism({found.max_parallelism})"))
        self._check_owners(found)
        self.manifest = found
        self.incarnation = found.incarnation
        self._garbage.recover()
        self.lanes.restore(found)
        # Whether any timers wait is known when an epoch has looked; a quiet source must not keep it from looking.
        self._pending_timers = int(uses_processing_time(self.plan))
        self._tell_restored(found)
        if not self._is_settled(found):
            self.commit_sinks(found)
            self._settle(found)
        return found

    def _is_settled(self, manifest: Manifest) -> bool:
        """Whether a job has ended and its sinks have published everything: then nothing is published again."""
        return manifest.finished and f"{manifest.epoch:012d}" in self.storage.list(SETTLED)

    def _settle(self, manifest: Manifest) -> None:
        if manifest.finished:
            # Without the mark sinks are only asked to publish once more: no reason to fail a job that has ended.
            with suppress(OSError):
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
        stored = {} if self.manifest is None else self.manifest.positions
        return {
            node: {s.number: stored.get(self._uids[node], {}).get(s.number, s.start) for s in splits}
            for node, splits in self._splits.items()
        }

    def splits(self) -> Mapping[int, Sequence[Split]]:
        """Return the splits of every source that is read by ranges."""
        return self._splits

    def begin(self, now: int, ranges: Sequence[ReadRange], finishing: frozenset[int], is_final: bool) -> EpochContext:
        """Return what the tasks of the next epoch are told."""
        if self.manifest is not None:
            now = max(now, self.manifest.now)
        watermarks = {} if self.manifest is None else self.manifest.watermarks
        return EpochContext(
            self.plan.name,
            self.incarnation,
            self.epoch + 1,
            now,
            self.lanes.at(now),
            finishing,
            {self._ids[uid]: watermark for uid, watermark in watermarks.items() if uid in self._ids},
            tuple(ranges),
            self._handles(),
            is_final,
        )

    def layout(self) -> dict[str, list[int]]:
        """Return which operator is where; state moves if this differs from the manifest's."""
        return {op.uid: [op.level, op.parallelism] for op in self.plan.operators if op.level}

    def _handles(self) -> dict[tuple[int, int], tuple[StateHandle, ...]]:
        places = [
            (level, partition)
            for level in range(1, self.plan.levels)
            for partition in range(self.plan.partitions(level))
        ]
        if self.manifest is None:
            return {place: (StateHandle(),) for place in places}
        if self.manifest.layout != self.layout():
            # Rescaled or changed code: every partition takes its key groups out of all files, once.
            everything = tuple(self.manifest.state.values())
            return {place: everything if len(everything) != 1 else (*everything, StateHandle()) for place in places}
        state = self.manifest.state
        return {(level, part): (state.get(f"{level}/{part}", StateHandle()),) for level, part in places}

    def complete(self, context: EpochContext, reports: Sequence[TaskReport], spark: Mapping[str, Any]) -> Manifest:
        """Commit an epoch: ledger, manifest, sinks."""
        check_reports(self.plan, context, reports)
        inline = InlineFile(f"epochs/{context.epoch:012d}-{uuid.uuid4().hex[:8]}.bin")
        new = Manifest(
            self.plan.name,
            self.incarnation,
            context.epoch,
            context.now,
            "" if self.manifest is None else self.manifest.digest(),
            self.plan.max_parallelism,
            layout=self.layout(),
            split_into=self._split_into,
            positions=self._next_positions(context),
            watermarks=self._watermarks(reports),
            state=self._next_state(context, reports, inline),
            entries=self._entries(reports),
            committables=self._committables(reports, inline),
            counters=self._counters(reports),
            spark=dict(spark),
            finished=context.is_final,
        )
        self.lanes.advance(context, reports, new)
        self._publish(new, inline)
        self.manifest = new
        self._pending_timers = sum(
            rows for report in reports for name, rows in report.entries.items() if name.endswith("#processing-timers")
        )
        self._tell_late(reports, new)
        self.commit_sinks(new, inline)
        self._settle(new)
        self._garbage.committed(new)
        return new

    def _tell_late(self, reports: Sequence[TaskReport], new: Manifest) -> None:
        """Log the late records of an epoch where the program asks for it, and at the end how many were dropped."""
        for report in reports:
            for node, notes in report.notes.items():
                op = self.plan.operator(node)
                for note in notes:
                    _LOG.warning("late record in %r (%s): %s", op.uid, op.node.location, note)
        for op in self.plan.operators if new.finished else ():
            late = new.counters.get(op.uid, {}).get("late", 0)
            if late and late_output(op.node) is None:
                _LOG.warning("%r (%s) dropped %s late records", op.uid, op.node.location, f"{late:,}")

    def _publish(self, new: Manifest, inline: InlineFile) -> None:
        """Create the manifest, which is the commit; what happens before it does not count, what comes after must."""
        path, data = manifests.path_of(new.epoch), new.to_bytes()
        try:
            if inline.parts:
                self.storage.write(inline.path, b"".join(inline.parts))
            # Tasks made their files durable, but names are in folders: once per epoch, and before the manifest.
            self.storage.sync(sorted({path.rpartition("/")[0] for path in new.files() - self._synced}))
            self._synced = new.files()
            created = self.storage.create(path, data)
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

    def _next_positions(self, context: EpochContext) -> dict[str, dict[int, int]]:
        positions = self.positions()
        for piece in context.ranges:
            positions[piece.source][piece.split] = piece.end
        return {self._uids[node]: by_split for node, by_split in positions.items()}

    def _watermarks(self, reports: Sequence[TaskReport]) -> dict[str, int]:
        watermarks = dict(self.manifest.watermarks) if self.manifest is not None else {}
        for report in reports:
            for node, watermark in report.watermarks.items():
                watermarks[self._uids[node]] = watermark
        return watermarks

    def _next_state(
        self, context: EpochContext, reports: Sequence[TaskReport], inline: InlineFile
    ) -> dict[str, StateHandle]:
        state: dict[str, StateHandle] = {}
        for report in reports:
            if not report.level:
                continue
            new = report.state
            if new is not None and new.data is not None:
                stored = replace(new.files[-1], path=inline.path, offset=inline.add(new.data))
                new = replace(new, files=(*new.files[:-1], stored), data=None)
            handles = context.handles[report.level, report.partition]
            state[f"{report.level}/{report.partition}"] = next_handle(handles, new, context.epoch, report.token)
        return state

    def _committables(self, reports: Sequence[TaskReport], inline: InlineFile) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for report in sorted(reports, key=lambda r: (r.level, r.partition)):
            for node, committable in report.committables.items():
                if isinstance(committable, bytes):
                    at = {"stored": True, "path": inline.path, "offset": inline.add(committable)}
                    committable = {**at, "length": len(committable), "checksum": checksum(committable)}
                else:
                    json.dumps(committable)
                found.setdefault(self._uids[node], []).append(committable)
        return found

    def _entries(self, reports: Sequence[TaskReport]) -> dict[str, int]:
        """Return how much state each operator has."""
        entries: dict[str, int] = {}
        for report in reports:
            for name, rows in report.entries.items():
                uid = uid_of(name, self._ids)
                if uid is not None:
                    entries[uid] = entries.get(uid, 0) + rows
        return entries

    def _counters(self, reports: Sequence[TaskReport]) -> dict[str, dict[str, int]]:
        totals = {uid: dict(counts) for uid, counts in (self.manifest.counters if self.manifest else {}).items()}
        for report in reports:
            for node, counts in report.counters.items():
                mine = totals.setdefault(self._uids[node], {})
                for name, amount in counts.items():
                    mine[name] = mine.get(name, 0) + amount
        return totals

    def commit_sinks(self, manifest: Manifest, inline: InlineFile | None = None) -> None:
        """Let every sink make visible what the manifest names; doing so twice must do no harm."""
        for uid, committables in manifest.committables.items():
            node = self._ids.get(uid)
            committer = self._committers.get(node) if node is not None else None
            if committer is not None:
                parts = [self._stored(part, inline) for part in committables]
                try:
                    committer.commit(manifest.job, uid, manifest.epoch, parts)
                except FlintstreamError:
                    raise
                except Exception as error:
                    what = f"sink {uid!r} could not publish epoch {manifest.epoch} ({type(error).__name__}: {error})"
                    raise SinkError(
                        describe(what, None, "start the job again: it begins with that"), uid=uid
                    ) from error

    def _stored(self, part: Any, inline: InlineFile | None) -> Any:
        if not (isinstance(part, dict) and part.get("stored") is True):
            return part
        if inline is not None:
            return inline.slice(part["offset"], part["length"])
        data = self.storage.read(part["path"], part["offset"], part["length"])
        if checksum(data) != part["checksum"]:
            what = f"output of the last epoch in {part['path']!r} is damaged"
            raise CorruptStateError(describe(what, None, "restore another checkpoint or savepoint"))
        return data


class InlineFile:
    """The small changelogs and committables of an epoch, written by the driver as one file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.parts: list[bytes] = []
        self._length = 0

    def add(self, data: bytes) -> int:
        """Append bytes and return where they start."""
        offset = self._length
        self.parts.append(data)
        self._length += len(data)
        return offset

    def slice(self, offset: int, length: int) -> bytes:
        """Return bytes that were added."""
        return b"".join(self.parts)[offset : offset + length]
