"""Starting a job from a savepoint, or from a checkpoint of another job: what the program of today takes from it.

The savepoint becomes a manifest that was never written: the job's first epoch follows it, reads its files where they
are, and writes all state anew into the job's own directory. So nothing depends on the savepoint afterwards, and a crash
before that first epoch is over simply begins again. What the savepoint holds is matched with the program by uid.

Flink: StateAssignmentOperation, and recovery without claim. Differs from Flink: watermarks are restored too, so that
windows which have fired do not fire again; and a uid may be mapped to another, or to several.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from flintstream.engine import manifest as manifests
from flintstream.engine.epoch import EVERY_PARTITION, RestoredFile, StateFile, StateHandle
from flintstream.engine.handles import Place, places_of
from flintstream.engine.manifest import Manifest
from flintstream.engine.options import StartFrom
from flintstream.engine.savepoint_format import (
    SavepointDocument,
    TableEntry,
    has_document,
    read_document,
    read_extra,
    savepoint_storage,
)
from flintstream.engine.savepoint_program import source_kinds
from flintstream.engine.savepoint_take import Notes, document_of, published_manifest, spark_files
from flintstream.errors import (
    IncompatibleStateError,
    InvalidArgumentError,
    SavepointError,
    UnknownUidError,
    describe,
)
from flintstream.ops.timestamps import LANE_SHIFT, SOURCE_SHIFT
from flintstream.planner.plan import Plan
from flintstream.state.keygroups import group_range
from flintstream.state.storage import Storage

_SOURCE_MASK = (1 << LANE_SHIFT - SOURCE_SHIFT) - 1
_SPLIT_MASK = (1 << SOURCE_SHIFT) - 1
_BEGUN = "begun"
_LONGEST_NAME = 64
_LOG = logging.getLogger("flintstream")

Uids = Mapping[str, tuple[str, ...]]
"""The uids of today by the former ones."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A savepoint, or a checkpoint of another job, that was opened: what it says, and where its state is."""

    document: SavepointDocument
    storage: Storage
    path: str
    checkpoint: Manifest | None = None

    def rows(self) -> dict[str, int]:
        """Return how many rows of state each operator has."""
        if self.checkpoint is not None:
            return dict(self.checkpoint.entries)
        return {each.uid: sum(table.rows for table in each.tables) for each in self.document.operators}


def _digest(path: str) -> str:
    """Return what tells a path from others without telling it: an address may hold a password."""
    return hashlib.sha256(path.encode()).hexdigest()[:16]


def open_origin(path: str, options: Mapping[str, Any] | None = None) -> Origin:
    """Open a savepoint's directory, a checkpoint directory (its newest checkpoint), or one manifest in such a one."""
    root, epoch = path.rstrip("/"), None
    folder, _, name = root.rpartition("/")
    if name.endswith(".json") and folder.rpartition("/")[2] == manifests.FOLDER and name.partition(".")[0].isdigit():
        root, epoch = folder.rpartition("/")[0] or ".", manifests.epoch_of(name)
    storage = savepoint_storage(root, options)
    if epoch is None and has_document(storage):
        return Origin(read_document(storage, path), storage, path)
    if not storage.list(manifests.FOLDER):
        what = "there is neither a savepoint nor a checkpoint"
        raise SavepointError(describe(what, path, "name a directory with a savepoint.json or with manifests in it"))
    found = published_manifest(storage, epoch)
    document = document_of(found, Notes("checkpoint"), f"{found.incarnation}-{found.epoch}")
    return Origin(document, storage, path, found)


class Restored:
    """What a program takes from a savepoint: a manifest to follow, and files of state to read once."""

    def __init__(self, origin: Origin, start: StartFrom, plan: Plan, drop_orphans: bool = False) -> None:
        self.origin = origin
        self.start = start
        self._plan = plan
        self._known = {op.uid for op in plan.operators}
        self._check_groups()
        self.uids = self._mapped(start)
        self._check_orphans(start.allow_non_restored_state or drop_orphans)
        self.manifest = self._manifest()

    @property
    def id(self) -> str:
        """The id of the savepoint."""
        return self.origin.document.id

    def _check_groups(self) -> None:
        groups, wanted = self.origin.document.max_parallelism, self._plan.max_parallelism
        if groups != wanted:
            what = f"the savepoint has max parallelism {groups}, the job {wanted}"
            raise IncompatibleStateError(describe(what, self.origin.path, f"set_max_parallelism({groups})"))

    def _mapped(self, start: StartFrom) -> dict[str, tuple[str, ...]]:
        """Return the uids of today by those of the savepoint, after checking what the user says of them."""
        there = [each.uid for each in self.origin.document.operators]
        for old, new in start.rename.items():
            if old not in there:
                names = ", ".join(map(repr, there))
                what, remedy = f"the savepoint has no operator {old!r} to rename", f"it has {names}"
                raise UnknownUidError(describe(what, start.location, remedy), uid=old, location=start.location)
            for uid in new:
                if uid not in self._known:
                    names = ", ".join(map(repr, sorted(self._known)))
                    what, remedy = f"the program has no operator {uid!r} to rename {old!r} to", f"it has {names}"
                    raise UnknownUidError(describe(what, start.location, remedy), uid=uid, location=start.location)
        uids = {uid: start.rename.get(uid, (uid,)) for uid in there}
        targets = [new for each in uids.values() for new in each if new in self._known]
        for uid in targets:
            if targets.count(uid) > 1:
                what = f"two operators of the savepoint would become {uid!r}"
                remedy = "rename only one of them, and map the other elsewhere"
                raise UnknownUidError(describe(what, start.location, remedy), uid=uid, location=start.location)
        return {uid: tuple(each for each in new if each in self._known) for uid, new in uids.items()}

    def _check_orphans(self, allowed: bool) -> None:
        """Refuse state that no operator of the program owns, unless its loss is wanted."""
        orphans = {uid: rows for uid, rows in self.origin.rows().items() if rows and not self.uids.get(uid)}
        if not orphans:
            return
        names = ", ".join(f"{uid!r} ({rows:,} entries)" for uid, rows in orphans.items())
        if allowed:
            _LOG.warning("state of operators that the program does not have is left behind: %s", names)
            return
        known = ", ".join(repr(op.uid) for op in self._plan.operators if op.level)
        what = f"the savepoint has state of operators that the program does not have: {names}"
        remedy = (
            f"give the operators their old uid(...) (the program has {known}), tell their new ones with rename=, "
            "or leave the state behind with allow_non_restored_state=True"
        )
        where = self.start.location or self.origin.path
        raise UnknownUidError(describe(what, where, remedy), uid=next(iter(orphans)), location=self.start.location)

    def _manifest(self) -> Manifest:
        document = self.origin.document
        sources = self._sources()
        manifest = Manifest(
            self._plan.name,
            "",
            document.epoch,
            document.now,
            max_parallelism=document.max_parallelism,
            spark=dict(document.spark) if self.reads_the_same_frames else {},
            started_from={"savepoint": self.id, "path": _digest(self.start.path)},
            entries=self._renamed(self.origin.rows()),
        )
        for each in document.sources:
            for uid in sources.get(each.uid, ()):
                manifest.positions[uid] = dict(each.positions)
                manifest.split_into[uid] = each.split_into
                if each.parts is not None:
                    manifest.parts[uid] = list(each.parts)
        if not document.finished:
            # Event time that has come to its end would let nothing happen any more: then it begins anew.
            told = {each.uid: each.watermark for each in document.operators if each.watermark is not None}
            manifest.watermarks = self._renamed(told)
            self._add_lanes(manifest, sources)
        return manifest

    def _renamed(self, numbers: Mapping[str, int]) -> dict[str, int]:
        return {new: number for uid, number in numbers.items() for new in self.uids.get(uid, ())}

    def _sources(self) -> dict[str, tuple[str, ...]]:
        """Return the sources that go on where they were, by their former uids."""
        kinds = source_kinds(self._plan)
        found: dict[str, tuple[str, ...]] = {}
        for each in self.origin.document.sources:
            same = [uid for uid in self.uids.get(each.uid, ()) if kinds.get(uid) == each.kind]
            found[each.uid] = tuple(same)
            if not same:
                _LOG.warning("the program does not read source %r (%s) of the savepoint", each.uid, each.kind)
        going_on = {uid for each in found.values() for uid in each}
        for uid, kind in kinds.items():
            if uid not in going_on:
                _LOG.warning("source %r (%s) is not in the savepoint and begins anew", uid, kind)
        return found

    @property
    def reads_the_same_frames(self) -> bool:
        """Whether the streams that Spark reads are those of the savepoint."""
        kinds = source_kinds(self._plan)
        mine = [uid for uid, kind in kinds.items() if kind in _BY_SPARK]
        theirs = [new for each in self.origin.document.sources if each.kind in _BY_SPARK for new in self.uids[each.uid]]
        if mine and theirs and mine != theirs and set(mine) & set(theirs):
            what = f"the savepoint has offsets of Spark's streams {theirs}, but the program reads {mine}"
            remedy = "read the same streams, or give all of them other uids so that they begin anew"
            raise IncompatibleStateError(describe(what, self.start.location or self.origin.path, remedy))
        return mine == theirs

    def _add_lanes(self, manifest: Manifest, sources: Uids) -> None:
        """Give the manifest the lanes of sources that go on; a strategy that has become several has as many lanes."""
        document = self.origin.document
        numbers: dict[str, int] = {}

        def numbered(uid: str) -> int:
            return numbers.setdefault(uid, len(numbers))

        for lane, time in document.lanes.items():
            owner = document.lane_owners.get(lane >> LANE_SHIFT, "")
            behind = lane >> SOURCE_SHIFT & _SOURCE_MASK
            source = document.lane_owners.get(behind - 1, "") if behind else ""
            from_sources: Iterable[str | None] = sources.get(source, ()) if behind else (None,)
            for new_owner in self.uids.get(owner, ()):
                for new_source in from_sources:
                    number = 0 if new_source is None else numbered(new_source) + 1
                    new = numbered(new_owner) << LANE_SHIFT | number << SOURCE_SHIFT | lane & _SPLIT_MASK
                    manifest.lanes[new] = replace(time)
        manifest.lane_owners = {number: uid for uid, number in numbers.items()}

    def named(self, storage: Storage, incarnation: str) -> str:
        """Return the name of the life that begins here in a job's directory, the same if it has to begin again.

        Sinks may know something of it already, though none of its epochs was committed.
        """
        path = f"{_BEGUN}/{self.id}"
        if storage.create(path, incarnation.encode()):
            return incarnation
        known = storage.read(path, 0, _LONGEST_NAME).decode("ascii", "replace")
        return known if known.isalnum() else incarnation

    def seed(self, storage: Storage) -> None:
        """Give Spark's own checkpoint the offsets of the savepoint, before a stream is started from it."""
        if self.origin.checkpoint is not None and self.manifest.spark:
            found = spark_files(self.origin.storage, self.origin.checkpoint)
            files = {f"spark/{name}": data for name, data in found.items()}
        else:
            files = {each.file: read_extra(self.origin.storage, each) for each in self.origin.document.extra}
        for name, data in files.items() if self.manifest.spark else ():
            storage.write(name, data)

    def handles(self) -> dict[Place, tuple[StateHandle, ...]]:
        """Return from which files each place takes its state; always as several, since it is of another layout."""
        if self.origin.checkpoint is not None:
            return self._handles_of_checkpoint(self.origin.checkpoint)
        return {place: (self._handle_of(place), StateHandle()) for place in places_of(self._plan)}

    def _handles_of_checkpoint(self, manifest: Manifest) -> dict[Place, tuple[StateHandle, ...]]:
        shared: list[StateHandle] = []
        others: list[StateHandle] = []
        for name, handle in manifest.state.items():
            files = tuple(self._elsewhere(file) for file in handle.files)
            (shared if name.endswith("/all") else others).append(replace(handle, files=files, tokens=()))
        none = (StateHandle(), StateHandle())
        return {place: (*(shared if place[1] == EVERY_PARTITION else others), *none) for place in places_of(self._plan)}

    def _elsewhere(self, file: StateFile) -> RestoredFile:
        values = [getattr(file, name) for name in StateFile.__dataclass_fields__]
        return RestoredFile(*values, storage=self.origin.storage, uids=self.uids)

    def _handle_of(self, place: Place) -> StateHandle:
        """Return the parts that hold something of a place's operators and key groups."""
        level, partition = place
        here = {op.uid: op for op in self._plan.operators if op.level == level}
        files: list[RestoredFile] = []
        entries = 0
        for each in self.origin.document.operators:
            uids = {each.uid: tuple(uid for uid in self.uids[each.uid] if uid in here)}
            spans = [
                group_range(partition, here[uid].parallelism, self._plan.max_parallelism)
                for uid in uids[each.uid]
                if partition != EVERY_PARTITION and partition < here[uid].parallelism
            ]
            for table in each.tables if uids[each.uid] else ():
                if table.shared != (partition == EVERY_PARTITION):
                    continue
                entries += 0 if _is_resident(table) else table.rows * len(uids[each.uid])
                for part in table.parts:
                    first, last = part.groups
                    if table.shared or any(first < span.stop and last >= span.start for span in spans):
                        files.append(self._part(part.file, part.bytes, part.rows, table.name, part.sha256, uids))
        return StateHandle(tuple(files), entries=entries)

    def _part(self, path: str, size: int, rows: int, table: str, sha256: str, uids: Uids) -> RestoredFile:
        epoch = self.origin.document.epoch
        return RestoredFile(
            path,
            0,
            size,
            0,
            rows,
            epoch,
            epoch,
            True,
            storage=self.origin.storage,
            uids=uids,
            table=table,
            sha256=sha256,
        )


_BY_SPARK = frozenset({"FrameSource", "FileSource"})


def _is_resident(table: TableEntry) -> bool:
    """Whether a table is in memory always, however large it is."""
    names = {column.name for schema in table.schemas for column in schema}
    return "flintstream.table" in table.metadata or "value" not in names


def start_of(plan: Plan, start: StartFrom | None, own: Manifest | None, drop_orphans: bool) -> Restored | None:
    """Return what a job starts from, if its own directory has nothing yet; refuse one of another descent.

    A job that has checkpoints of its own since it was started from the savepoint goes on from those.
    """
    if start is None:
        return None
    if plan.batch_mode:
        what = "a job in BATCH mode keeps no state, so it cannot begin with any"
        raise InvalidArgumentError(
            describe(what, start.location, "use RuntimeExecutionMode.STREAMING"), location=start.location
        )
    if own is None:
        return Restored(open_origin(start.path, start.storage_options), start, plan, drop_orphans)
    if own.started_from.get("path") != _digest(start.path):
        # It may have been moved since.
        found = open_origin(start.path, start.storage_options)
        if own.started_from.get("savepoint") != found.document.id:
            what = f"the checkpoint directory has checkpoints (epoch {own.epoch}) that do not descend from {start.path}"
            remedy = "start from the savepoint in a new checkpoint directory, or without a savepoint in this one"
            raise SavepointError(describe(what, start.location, remedy), location=start.location)
    _LOG.info("job %r goes on from its own checkpoint of epoch %s, not from %s", plan.name, own.epoch, start.path)
    return None
