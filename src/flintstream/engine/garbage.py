"""What may be deleted from a checkpoint directory: files that no retained manifest names.

Two kinds of them exist. Those of manifests that are no longer retained are known by name. Those of attempts that never
committed (a killed driver's, a retried task's) are known to nobody, so now and then the folders are looked through: a
file tells by its name in which epoch it was written, and if that is committed without naming it, nobody ever will.
"""

from __future__ import annotations

import re
from contextlib import suppress

from flintstream.engine import manifest as manifests
from flintstream.engine.manifest import Manifest
from flintstream.state.storage import Storage

SWEEP_EVERY = 100
"""Epochs between two looks for files of dead attempts."""

_EPOCH_IN_NAME = {
    "epochs": re.compile(r"(\d+)-"),
    "state": re.compile(r"\d+-\d+-(\d+)-"),
    "output": re.compile(r"\d+-\d+-(\d+)-"),
}


class Garbage:
    """Keeps the newest manifests of a job with all they name, and deletes the rest."""

    def __init__(self, storage: Storage, retained: int) -> None:
        self._storage = storage
        self._retained = retained
        self._kept: list[Manifest] = []

    def recover(self) -> None:
        """Take over the manifests that are there, and tidy up behind a driver that may have been killed."""
        names = self._storage.list(manifests.FOLDER)
        paths = [f"{manifests.FOLDER}/{name}" for name in names[-self._retained :]]
        self._kept = [Manifest.from_bytes(self._storage.read(path), path) for path in paths]
        for name in names[: -self._retained]:
            self._delete(f"{manifests.FOLDER}/{name}")
        self._sweep()

    def committed(self, new: Manifest) -> None:
        """Delete what only manifests that are too old by now have named."""
        self._kept.append(new)
        while len(self._kept) > self._retained:
            old = self._kept.pop(0)
            for path in old.files() - self._live():
                self._delete(path)
            self._delete(manifests.path_of(old.epoch))
        if new.finished or new.epoch % SWEEP_EVERY == 0:
            self._sweep()

    def _live(self) -> set[str]:
        return set[str]().union(*(manifest.files() for manifest in self._kept))

    def _sweep(self) -> None:
        """Delete the files of dead attempts."""
        live, newest = self._live(), self._kept[-1].epoch
        for folder, pattern in _EPOCH_IN_NAME.items():
            for name in self._storage.list(folder):
                written = pattern.match(name)
                if written is not None and int(written[1]) <= newest and f"{folder}/{name}" not in live:
                    self._delete(f"{folder}/{name}")

    def _delete(self, path: str) -> None:
        # What cannot be deleted today is found by a later sweep; it is no reason to stop a job.
        with suppress(OSError):
            self._storage.delete(path)
