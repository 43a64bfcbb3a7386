"""Output that waits in the checkpoint directory for its sink to publish it.

A sink that has no place of its own to stage records hands them over piece by piece while the epoch runs. Pieces are
files that the manifest names, so they live as long as it does, and those of dead attempts are swept like any others.
"""

from __future__ import annotations

from typing import Any

from flintstream.state.changelog import checksum
from flintstream.state.storage import Storage

FOLDER = "output"


class Staging:
    """Writes the pieces of one sink's output in one task, under names that no other attempt has."""

    def __init__(self, storage: Storage, stem: str) -> None:
        self._storage = storage
        self._stem = stem
        self._count = 0

    def __call__(self, data: bytes) -> dict[str, Any]:
        """Write a piece; return what names it."""
        path = f"{FOLDER}/{self._stem}-{self._count}.bin"
        self._count += 1
        self._storage.write(path, data)
        return {"stored": True, "path": path, "offset": 0, "length": len(data), "checksum": checksum(data)}
