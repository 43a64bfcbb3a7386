"""The manifest: one JSON document per epoch that names everything the job is at that moment.

Creating it is the commit. It is a value: what it says can be copied, listed, compared and restored elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, cast

from flintstream.engine.epoch import StateFile, StateHandle
from flintstream.errors import CorruptStateError, describe
from flintstream.ops.clock import LaneTime
from flintstream.state.changelog import checksum
from flintstream.state.storage import Storage

FOLDER = "manifests"
FORMAT = 1
SETTLED = "settled"
"""The folder of a mark that a job leaves when it has ended and all its output is published."""


@dataclass(slots=True)
class Manifest:
    """A job after one epoch."""

    job: str
    incarnation: str
    epoch: int
    now: int
    predecessor: str = ""
    max_parallelism: int = 128
    layout: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    split_into: dict[str, int] = field(default_factory=dict[str, int])
    positions: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])
    parts: dict[str, list[tuple[int, str, int, int | None]]] = field(
        default_factory=dict[str, list[tuple[int, str, int, int | None]]]
    )
    lanes: dict[int, LaneTime] = field(default_factory=dict[int, LaneTime])
    lane_owners: dict[int, str] = field(default_factory=dict[int, str])
    watermarks: dict[str, int] = field(default_factory=dict[str, int])
    state: dict[str, StateHandle] = field(default_factory=dict[str, StateHandle])
    entries: dict[str, int] = field(default_factory=dict[str, int])
    committables: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    counters: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    spark: dict[str, Any] = field(default_factory=dict[str, Any])
    finished: bool = False
    operators: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    started_from: dict[str, str] = field(default_factory=dict[str, str])
    queryable: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def to_bytes(self) -> bytes:
        """Return the document."""
        body = _as_text({"format": FORMAT, **_attributes(self)})
        return f'{body[:-1]},"checksum":{checksum(body.encode())}}}'.encode()

    def digest(self) -> str:
        """Return the document's digest, by which its successor names it."""
        return hashlib.sha256(self.to_bytes()).hexdigest()[:32]

    @property
    def known_as(self) -> str:
        """The name by which sinks know the job: epochs of a job that began with a savepoint have been there before."""
        return f"{self.job}@{self.incarnation}" if self.started_from else self.job

    def files(self) -> set[str]:
        """Return the paths of all files it names."""
        paths = {file.path for handle in self.state.values() for file in handle.files}
        paths |= {path for parts in self.committables.values() for part in parts for path in stored_paths(part)}
        return paths

    @staticmethod
    def from_bytes(data: bytes, where: str) -> Manifest:
        """Read a document."""
        try:
            document = json.loads(data)
            expected = document.pop("checksum")
            if checksum(_as_text(document).encode()) != expected:
                what = f"manifest {where!r} is damaged"
                raise CorruptStateError(describe(what, None, "restore another checkpoint or savepoint"))
            if document.pop("format") != FORMAT:
                what = f"manifest {where!r} has another format"
                raise CorruptStateError(describe(what, None, "use a matching release"))
            document["positions"] = {
                uid: {int(k): v for k, v in by_split.items()} for uid, by_split in document["positions"].items()
            }
            document["lanes"] = {int(k): lane_from(v) for k, v in document["lanes"].items()}
            document["lane_owners"] = {int(k): v for k, v in document["lane_owners"].items()}
            document["state"] = {k: _handle(v, document["epoch"]) for k, v in document["state"].items()}
            return Manifest(**document)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"manifest {where!r} cannot be read ({error})"
            raise CorruptStateError(describe(what, None, "restore another checkpoint or savepoint")) from error


def _as_text(document: dict[str, Any]) -> str:
    """Return a document as JSON; reading it and writing it again gives the same text."""
    return json.dumps(document, separators=(",", ":"), default=_attributes)


def _attributes(value: Any) -> dict[str, Any]:
    """Return what a dataclass holds; `asdict` would copy everything inside as well."""
    if not is_dataclass(value):
        msg = f"{value!r:.100} cannot be written as JSON"
        raise TypeError(msg)
    return {each.name: getattr(value, each.name) for each in fields(value)}


def stored_paths(part: Any) -> list[str]:
    """Return the files in the checkpoint directory that a committable names: its own, or those of its pieces."""
    if not isinstance(part, dict):
        return []
    document = cast("dict[str, Any]", part)
    if document.get("stored") is True and "path" in document:
        return [document["path"]]
    pieces = document.get("pieces")
    return [path for piece in cast("list[Any]", pieces) for path in stored_paths(piece)] if pieces else []


def lane_from(document: dict[str, Any]) -> LaneTime:
    """Return a lane as JSON has it."""
    values = dict(document)
    positions, watermarks = values["pending"]
    values["pending"] = (tuple(positions), tuple(watermarks))
    values["estimates"] = tuple((watermark, share) for watermark, share in values["estimates"])
    return LaneTime(**values)


def _handle(document: dict[str, Any], epoch: int) -> StateHandle:
    files = tuple(StateFile(**file) for file in document["files"])
    for file in files:
        numbers = (file.offset, file.length, file.checksum, file.rows, file.first_epoch, file.last_epoch)
        # Whoever made the manifest decides by these which files are believed, see `state.judge`.
        if not all(type(number) is int for number in numbers) or file.last_epoch > epoch:
            msg = f"state file {file.path!r:.100} has impossible numbers"
            raise ValueError(msg)
    tokens = tuple((epoch, token) for epoch, token in document["tokens"])
    return StateHandle(files, tokens, tuple(document["groups"]), document["entries"])


def path_of(epoch: int) -> str:
    """Return where an epoch's manifest is."""
    return f"{FOLDER}/{epoch:012d}.json"


def epoch_of(name: str) -> int:
    """Return the epoch of a manifest's file name."""
    return int(name.partition(".")[0])


def newest(storage: Storage) -> Manifest | None:
    """Return the newest manifest, or None if the job has never committed."""
    names = storage.list(FOLDER)
    if not names:
        return None
    path = f"{FOLDER}/{names[-1]}"
    return Manifest.from_bytes(storage.read(path), path)
