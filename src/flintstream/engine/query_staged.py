"""Notes that tasks leave on what they are about to report, for those who may see state before it is committed.

A task has written its state before it reports: large changes as a file under the attempt's own name, small ones not at
all, since they travel with the report. The note names the file, or holds the small changes. It is left only where a
state is marked so; otherwise nothing of this costs anything. Notes are deleted when the next epoch begins, whatever has
become of theirs; a reader believes only those of the epoch that follows the newest manifest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from flintstream.engine.epoch import EpochContext, StateFile, TaskReport
from flintstream.engine.garbage import STAGED
from flintstream.errors import CorruptStateError
from flintstream.state.backend import KeyedBackend
from flintstream.state.storage import Storage


@dataclass(frozen=True)
class Note:
    """What one attempt of one task has made: files behind the first `keep` of its partition's chain.

    `groups` are the key groups that it has of each operator. `data` are the bytes of the last file, if it is small.
    """

    name: str
    level: int
    partition: int
    attempt: int
    keep: int
    files: tuple[StateFile, ...]
    now: int
    watermarks: Mapping[str, int]
    groups: Mapping[str, tuple[int, int]]
    data: bytes
    indexes: dict[str, Any] = field(default_factory=dict[str, Any], compare=False)
    """What was made of `data` so far, by table."""

    def has(self, uid: str, group: int | None) -> bool:
        """Whether it tells of an operator, and of a key group of it if one is named."""
        if uid not in self.groups:
            return False
        start, stop = self.groups[uid]
        return group is None or start <= group < stop


def leave_note(
    epoch: EpochContext,
    report: TaskReport,
    backends: Mapping[str, KeyedBackend],
    storage: Storage,
    nodes: Mapping[str, int],
) -> None:
    """Write the note of a task that is about to report, if others may see what it has changed.

    `nodes` are the numbers by which the report calls the operators.
    """
    marked = {
        uid: (backend.groups.start, backend.groups.stop)
        for uid, backend in backends.items()
        if any(mark["uncommitted"] for mark in backend.queryable.values())
    }
    new = report.state
    if not marked or new is None:
        return
    document = {
        "level": report.level,
        "partition": report.partition,
        "attempt": report.attempt,
        "keep": new.keep,
        "files": [asdict(file) for file in new.files],
        "now": epoch.now,
        "watermarks": {uid: report.watermarks[node] for uid, node in nodes.items() if node in report.watermarks},
        "groups": marked,
    }
    name = f"{epoch.epoch:012d}-{report.level}-{report.partition}-{report.token}"
    storage.write(f"{STAGED}/{name}", json.dumps(document).encode() + b"\n" + (new.data or b""))


def notes_of(storage: Storage, epoch: int, known: Mapping[str, Note]) -> list[Note]:
    """Return the notes of an epoch, the newest attempt's of each task; those that are `known` are not read again."""
    newest: dict[tuple[int, int], Note] = {}
    for name in storage.list(STAGED):
        if name.startswith(f"{epoch:012d}-"):
            note = known.get(name) or _read(storage, name)
            if note is not None:
                place = (note.level, note.partition)
                if place not in newest or note.attempt >= newest[place].attempt:
                    newest[place] = note
    return list(newest.values())


def _read(storage: Storage, name: str) -> Note | None:
    try:
        head, _, data = storage.read(f"{STAGED}/{name}").partition(b"\n")
        told: dict[str, Any] = json.loads(head)
        files: Sequence[dict[str, Any]] = told.pop("files")
        groups = {uid: (start, stop) for uid, (start, stop) in told.pop("groups").items()}
        return Note(name, files=tuple(StateFile(**file) for file in files), groups=groups, data=data, **told)
    except (CorruptStateError, ValueError, KeyError, TypeError):
        return None  # deleted meanwhile, or nothing of ours
