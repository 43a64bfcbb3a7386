"""What is damaged in a checkpoint directory, and which older checkpoint in it is whole.

Only looked for when a job has found damage: then it is worth reading everything, to name all that is lost at once and
to tell the user from where the job can start again. Separate from recovery, which must not read files it does not need.

Differs from Flink: which falls back to an older checkpoint by itself in some cases. Here sinks may have published what
came after it, so that going back is the user's decision.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from flintstream.engine import manifest as manifests
from flintstream.engine.manifest import Manifest
from flintstream.errors import CorruptStateError, describe
from flintstream.state.changelog import checksum
from flintstream.state.storage import Storage

Piece = tuple[str, int, int, int]
"""A stretch of a file as a manifest names it: path, offset, length, checksum."""
NAMED = 5
"""How many damaged files a message lists."""


def with_intact(error: CorruptStateError, storage: Storage) -> CorruptStateError:
    """Return the error with all that is damaged, and with the newest older checkpoint that is not."""
    try:
        names = storage.list(manifests.FOLDER)
        if not names:
            return error  # what is damaged is the savepoint that the job was to start from, and the error says so
        checked = Checked(storage)
        damaged = checked.damaged(names[-1])
        whole = next((name for name in reversed(names[:-1]) if not checked.damaged(name)), None)
    except OSError:
        return error  # the directory as a whole cannot be read: no more is known than that
    what = str(error).partition("; ")[0]
    others = [path for path in damaged if f"'{path}'" not in what]
    told = ", ".join(map(repr, others[:NAMED])) + (f" and {len(others) - NAMED} more" if len(others) > NAMED else "")
    root = str(getattr(storage, "root", "memory"))
    where = f"{root}, where {told} cannot be read either" if others else root
    remedy = "no older checkpoint there is whole: put the files back, or start from a savepoint"
    if whole is not None:
        path = f"{root.rstrip('/')}/{manifests.FOLDER}/{whole}"
        remedy = (
            f"epoch {manifests.epoch_of(whole)} is whole: start from it in a new checkpoint directory, with "
            f"'execution.state-recovery.path': {path!r} (output of later epochs comes again), or put the files back"
        )
    return CorruptStateError(describe(what, where, remedy), uid=error.uid, location=error.location)


class Checked:
    """Checks what manifests name; a stretch that several of them name is read once."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._known: dict[Piece, bool] = {}

    def damaged(self, name: str) -> list[str]:
        """Return the paths that a manifest cannot do without and that are damaged; its own, if it is."""
        path = f"{manifests.FOLDER}/{name}"
        try:
            found = Manifest.from_bytes(self._storage.read(path), path)
        except CorruptStateError:
            return [path]
        return sorted({piece[0] for piece in pieces_of(found) if not self._is_whole(piece)})

    def _is_whole(self, piece: Piece) -> bool:
        if piece not in self._known:
            path, offset, length, expected = piece
            try:
                data = self._storage.read(path, offset, length)
                self._known[piece] = len(data) == length and checksum(data) == expected
            except CorruptStateError:
                self._known[piece] = False
        return self._known[piece]


def pieces_of(manifest: Manifest) -> Iterator[Piece]:
    """Yield every stretch of a file that a manifest names."""
    for handle in manifest.state.values():
        for file in handle.files:
            yield file.path, file.offset, file.length, file.checksum
    for parts in manifest.committables.values():
        for part in parts:
            yield from _stored(part)


def _stored(part: Any) -> Iterator[Piece]:
    if not isinstance(part, dict):
        return
    document = cast("dict[str, Any]", part)
    if document.get("stored") is True:
        yield document["path"], document["offset"], document["length"], document["checksum"]
    for piece in document.get("pieces") or ():
        yield from _stored(piece)
