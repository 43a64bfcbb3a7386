"""What may be deleted from a checkpoint directory: files that no retained manifest names.

Two kinds of them exist. Those of manifests that are no longer retained are known by name. Those of attempts that never
committed (a killed driver's, a retried task's) are known to nobody, so now and then the folders are looked through: a
file tells by its name in which epoch it was written, and if that is committed without naming it, nobody ever will.
"""

from __future__ import annotations

import logging
import re
import threading
from contextlib import suppress

from flintstream.engine import manifest as manifests
from flintstream.engine.manifest import Manifest
from flintstream.errors import CorruptStateError
from flintstream.state.storage import Storage

_LOG = logging.getLogger("flintstream")
SWEEP_EVERY = 100
"""Epochs between two looks for files of dead attempts."""

STAGED = "staged"
"""The folder of notes that tasks leave on state which may be looked at before it is committed, see `query_staged`."""

_EPOCH_IN_NAME = {
    STAGED: re.compile(r"(\d+)-"),
    "epochs": re.compile(r"(\d+)-"),
    "state": re.compile(r"\d+-\d+-(\d+)-"),
    "output": re.compile(r"\d+-\d+-(\d+)-"),
    manifests.FOLDER: re.compile(r"(\d+)\.json\."),  # only what was never finished
}


class Garbage:
    """Keeps the newest manifests of a job with all they name, and deletes the rest."""

    def __init__(self, storage: Storage, retained: int) -> None:
        self._storage = storage
        self._retained = retained
        self._kept: list[Manifest] = []
        self._pinned: list[Manifest] = []
        self._released: list[Manifest] = []
        self._lock = threading.Lock()

    def pin(self, manifest: Manifest) -> bool:
        """Keep what a manifest names until it is released, whatever comes after it; False if that is too late."""
        with self._lock:
            if all(manifest.epoch != each.epoch for each in self._kept):
                return False
            self._pinned.append(manifest)
            return True

    def release(self, manifest: Manifest) -> None:
        """Let go of a pinned manifest; what nobody else names is deleted with the next commit."""
        with self._lock:
            self._pinned.remove(manifest)
            self._released.append(manifest)

    def recover(self) -> None:
        """Take over the manifests that are there, and tidy up behind a driver that may have been killed."""
        names = self._storage.list(manifests.FOLDER)
        paths = [f"{manifests.FOLDER}/{name}" for name in names[-self._retained :]]
        for path in paths:
            self._take_over(path, is_newest=path == paths[-1])
        for name in names[: -self._retained]:
            self._delete(f"{manifests.FOLDER}/{name}")
        self._sweep()

    def _take_over(self, path: str, is_newest: bool) -> None:
        try:
            self._kept.append(Manifest.from_bytes(self._storage.read(path), path))
        except CorruptStateError as error:
            if is_newest:
                raise
            # Nobody needs it as long as the newest is whole.
            _LOG.warning("an older checkpoint is lost: %s", error)

    def committed(self, new: Manifest) -> None:
        """Delete what only manifests that are too old by now have named."""
        with self._lock:
            self._kept.append(new)
            old = self._kept[: -self._retained]
            self._kept = self._kept[-self._retained :]
            for each in old:
                self._delete(manifests.path_of(each.epoch))
            for path in set[str]().union(*(each.files() for each in (*old, *self._released))) - self._live():
                self._delete(path)
            self._released.clear()
            if new.finished or new.epoch % SWEEP_EVERY == 0:
                self._sweep()

    def drop_notes(self, before: Manifest | None) -> None:
        """Delete what tasks have noted, when an epoch begins: it is committed by now, or has come to nothing."""
        marks = () if before is None else [mark for each in before.queryable.values() for mark in each.values()]
        if any(mark["uncommitted"] for mark in marks):
            for name in self._storage.list(STAGED):
                self._delete(f"{STAGED}/{name}")

    def _live(self) -> set[str]:
        return set[str]().union(*(manifest.files() for manifest in (*self._kept, *self._pinned)))

    def _sweep(self) -> None:
        """Delete the files of dead attempts."""
        live, newest = self._live(), self._kept[-1].epoch
        for folder, pattern in _EPOCH_IN_NAME.items():
            for name in (*self._storage.list(folder), *self._storage.abandoned(folder)):
                written = pattern.match(name.lstrip("."))
                if written is not None and int(written[1]) <= newest and f"{folder}/{name}" not in live:
                    self._delete(f"{folder}/{name}")

    def _delete(self, path: str) -> None:
        # What cannot be deleted today is found by a later sweep; it is no reason to stop a job.
        with suppress(OSError):
            self._storage.delete(path)
