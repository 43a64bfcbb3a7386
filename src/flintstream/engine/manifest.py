"""The manifest: one JSON document per epoch that names everything the job is at that moment.

Creating it is the commit. It is a value: what it says can be copied, listed, compared and restored elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from flintstream.engine.epoch import StateFile, StateHandle
from flintstream.errors import CorruptStateError, describe
from flintstream.ops.clock import LaneTime
from flintstream.state.storage import Storage

FOLDER = "manifests"
FORMAT = 1


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
    lanes: dict[int, LaneTime] = field(default_factory=dict[int, LaneTime])
    lane_owners: dict[int, str] = field(default_factory=dict[int, str])
    watermarks: dict[str, int] = field(default_factory=dict[str, int])
    state: dict[str, StateHandle] = field(default_factory=dict[str, StateHandle])
    committables: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    counters: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    spark: dict[str, Any] = field(default_factory=dict[str, Any])
    finished: bool = False

    def to_bytes(self) -> bytes:
        """Return the document."""
        document = {"format": FORMAT, **asdict(self)}
        return json.dumps(document, separators=(",", ":")).encode()

    def digest(self) -> str:
        """Return the document's digest, by which its successor names it."""
        return hashlib.sha256(self.to_bytes()).hexdigest()[:32]

    def files(self) -> set[str]:
        """Return the paths of all files it names."""
        paths = {file.path for handle in self.state.values() for file in handle.files}
        paths |= {part["path"] for parts in self.committables.values() for part in parts if _is_stored(part)}
        return paths

    @staticmethod
    def from_bytes(data: bytes, where: str) -> Manifest:
        """Read a document."""
        try:
            document = json.loads(data)
            if document.pop("format") != FORMAT:
                raise CorruptStateError(describe(f"manifest {where!r} has another format", None, "use a matching release"))
            document["positions"] = {
                uid: {int(k): v for k, v in by_split.items()} for uid, by_split in document["positions"].items()
            }
            document["lanes"] = {int(k): LaneTime(**{**v, "pending": tuple(v["pending"])}) for k, v in document["lanes"].items()}
            document["lane_owners"] = {int(k): v for k, v in document["lane_owners"].items()}
            document["state"] = {k: _handle(v) for k, v in document["state"].items()}
            return Manifest(**document)
        except (ValueError, KeyError, TypeError) as error:
            what = f"manifest {where!r} cannot be read ({error})"
            raise CorruptStateError(describe(what, None, "restore another checkpoint or savepoint")) from error


def _is_stored(part: Any) -> bool:
    return isinstance(part, dict) and "path" in part and part.get("stored") is True


def _handle(document: dict[str, Any]) -> StateHandle:
    files = tuple(StateFile(**file) for file in document["files"])
    tokens = tuple((epoch, token) for epoch, token in document["tokens"])
    return StateHandle(files, tokens, tuple(document["groups"]))  # type: ignore[arg-type]


def path_of(epoch: int) -> str:
    """Return where an epoch's manifest is."""
    return f"{FOLDER}/{epoch:012d}.json"


def newest(storage: Storage) -> Manifest | None:
    """Return the newest manifest, or None if the job has never committed."""
    names = storage.list(FOLDER)
    if not names:
        return None
    path = f"{FOLDER}/{names[-1]}"
    return Manifest.from_bytes(storage.read(path), path)
