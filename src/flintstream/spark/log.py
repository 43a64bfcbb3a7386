"""Spark's own log of the streams it reads, which lives in the job's checkpoint directory.

It says up to which offsets a micro-batch goes. The manifest names a batch by a digest of that, so what a manifest names
must be on the disk before it: Spark itself does not wait for that, and a power cut could take it away.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from flintstream.errors import CommitError, CorruptStateError, describe
from flintstream.state.storage import Storage

FOLDER = "spark"
"""Where in the checkpoint directory the log is."""

RENAMED = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}
"""How Spark should write on a local disk: its default way starts several processes for each file."""

UNCHECKED = {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}
"""Without a second file of checksums beside each, which takes as long again; we have a digest of our own."""


LEFT = 8
"""So many entries of a source's log, at most, are taken to be those of a driver that died a moment ago."""


class SparkLog:
    """The log of one job; `folder` is the checkpoint directory as the job was given it."""

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage = storage
        self._is_local = "://" not in folder or folder.startswith("file://")
        self._safe: dict[str, int] = {}
        self.address = f"{_for_hadoop(folder)}/{FOLDER}"

    def settings(self, *, reads_files: bool) -> dict[str, str]:
        """Return what a session should have when a query on this log starts.

        Streams of files are read under the same settings, and their checksums, if they have some, count.
        """
        if not self._is_local:
            return {}
        return RENAMED if reads_files else {**RENAMED, **UNCHECKED}

    def identify(self, batch: int) -> dict[str, Any]:
        """Return what names a batch: the query, its number, and a digest of its offsets."""
        query = json.loads(self._storage.read(f"{FOLDER}/metadata"))["id"]
        return {"query": query, "batch": batch, "offsets": self._digest(batch)}

    def _digest(self, batch: int) -> str:
        return hashlib.sha256(self._storage.read(f"{FOLDER}/offsets/{batch}")).hexdigest()[:32]

    def check(self, known: Mapping[str, Any]) -> None:
        """Raise unless the log says of a manifest's batch what it said when that was committed."""
        if "query" in known and self._digest(known["batch"]) != known["offsets"]:
            raise self.contradiction(known, f"other offsets for batch {known['batch']}")

    def contradiction(self, known: Mapping[str, Any], found: str) -> CorruptStateError:
        """Return the error for a log that does not go with the manifest."""
        what = f"Spark's checkpoint ({found}) and the job's manifest (batch {known['batch']}) contradict each other"
        remedy = "restore the whole checkpoint directory from one copy, or start in an empty one"
        return CorruptStateError(describe(what, self.address, remedy))

    @contextmanager
    def secured(self, batch: int) -> Generator[None]:
        """Bring what the log says of a batch onto the disk, while something else is done that takes longer."""
        if not self._is_local:
            yield
            return
        failures: list[OSError] = []

        def secure() -> None:
            try:
                files, newest = self._written(batch)
                self._storage.secure(files)
                self._safe.update(newest)
            except OSError as error:
                failures.append(error)

        thread = threading.Thread(target=secure, name="flintstream-log")
        try:
            thread.start()
        except RuntimeError:
            secure()  # the interpreter is about to end and starts no threads any more
        try:
            yield
        finally:
            if thread.ident is not None:
                thread.join()
        for error in failures:
            what = f"Spark's log of offsets did not reach the disk ({error})"
            raise CommitError(describe(what, self.address, "free space or mend the directory; nothing is lost"))

    def _written(self, batch: int) -> tuple[list[str], dict[str, int]]:
        """Return the files that a batch needs to be read again and that may be new, and how far each source got."""
        files = [f"{FOLDER}/metadata", f"{FOLDER}/offsets/{batch}"]
        newest: dict[str, int] = {}
        for number in self._storage.list(f"{FOLDER}/sources"):
            folder = f"{FOLDER}/sources/{number}"
            names = {_number_of(name): name for name in self._storage.list(folder) if name[0].isdigit()}
            newest[folder] = max(names, default=-1)
            # A driver that was killed may have left entries that this batch is the first to read.
            safe = self._safe.get(folder, newest[folder] - LEFT)
            files += [f"{folder}/{names[each]}" for each in sorted(names) if each > safe]
        return files, newest


def _number_of(name: str) -> int:
    """Return the number of a file in a source's log; some are called "19.compact"."""
    return int(name.partition(".")[0])


def _for_hadoop(address: str) -> str:
    """Return an address as Hadoop's file systems are named: where fsspec says s3 they say s3a."""
    scheme, separator, rest = address.partition("://")
    return f"s3a://{rest}" if separator and scheme == "s3" else address
