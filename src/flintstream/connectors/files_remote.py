"""A file sink's directory on an object store: staged and final files are objects, and publishing one is a copy.

Separate from `files_staging`, since nothing of a local directory holds here: there is no rename, no folder and no
appending. A file is made on the worker's own disk and put as one object when it is complete; the commit copies it to
its final name, which shows all of it or nothing, and then deletes the staged one. So the commit can be repeated.

Flink: RecoverableWriter of a file system. Differs from Flink: no multipart upload is left open between two epochs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flintstream.connectors.files_staging import StagedFile, staging_folder
from flintstream.errors import FlintstreamError, SinkError, describe
from flintstream.model.connect import Committer
from flintstream.state.storage_remote import file_system

_TARGET = ".target"
_REMEDY = "see that the store can be reached and lets us in; the job goes on behind its last epoch"


def is_remote(path: str) -> bool:
    """Whether a directory is an address of another file system than this machine's."""
    return "://" in path and urlsplit(path).scheme != "file"


class RemoteFolder:
    """Objects below an address; a connection is made where it is needed, never sent along."""

    def __init__(self, address: str, options: Mapping[str, Any]) -> None:
        self.address = address.rstrip("/")
        self._options = dict(options)
        self._opened: tuple[Any, str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def __repr__(self) -> str:
        return f"RemoteFolder({self.address!r})"

    @contextmanager
    def at(self, name: str) -> Generator[tuple[Any, str]]:
        """Give the file system and the path of an object; what it refuses is an error that names the object."""
        try:
            if self._opened is None:
                self._opened = file_system(self.address, self._options)
            files, root = self._opened
            yield files, f"{root}/{name}"
        except FlintstreamError:
            raise
        except Exception as error:
            what = f"cannot write {self.address}/{name}: {type(error).__name__}: {error}"
            raise SinkError(describe(what, remedy=_REMEDY)) from error

    def put(self, file: Path, name: str) -> None:
        """Make an object of a complete file, and give its place on this disk back."""
        with self.at(name) as (files, path):
            files.put_file(str(file), path)
        file.unlink()

    def write(self, name: str, text: str) -> None:
        """Put a small object."""
        with self.at(name) as (files, path):
            files.pipe_file(path, text.encode())

    def text(self, name: str) -> str | None:
        """Return a small object's text, None if it is not there."""
        with self.at(name) as (files, path):
            try:
                return files.cat_file(path).decode()
            except FileNotFoundError:
                return None

    def size(self, name: str) -> int | None:
        """Return an object's length, None if it is not there."""
        with self.at(name) as (files, path):
            try:
                return int(files.info(path)["size"])
            except FileNotFoundError:
                return None

    def move(self, name: str, target: str) -> None:
        """Show an object under another name, all of it at once."""
        with self.at(target) as (files, path):
            files.cp_file(path.removesuffix(target) + name, path)
        self.remove(name)

    def remove(self, name: str) -> None:
        """Delete an object, if it is there."""
        with self.at(name) as (files, path):
            try:
                files.rm_file(path)
            except FileNotFoundError:
                return

    def names(self, folder: str) -> list[str]:
        """Return the names of the objects below a folder."""
        with self.at(folder) as (files, path):
            try:
                found: list[str] = files.ls(path, detail=False)
            except FileNotFoundError:
                return []
            return [name.rpartition("/")[2] for name in found if name.rstrip("/") != path]


def scratch_directory() -> Path:
    """Return a directory on this machine's disk for files that are not complete yet."""
    return Path(tempfile.mkdtemp(prefix="flintstream-files-"))


class RemoteFileCommitter(Committer):
    """Copies staged objects to their final names, and removes what dead attempts left behind."""

    def __init__(self, folder: RemoteFolder) -> None:
        self._folder = folder

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        for part in committables:
            for file in part if isinstance(part, list) else [part]:
                self._publish(StagedFile(**file))
        folder = staging_folder(job, uid)
        for name in self._folder.names(folder):
            number = name.split("-")[0]
            if number.isdigit() and int(number) <= epoch:
                self._folder.remove(f"{folder}/{name}")

    def _publish(self, file: StagedFile) -> None:
        note = f"{file.staged}{_TARGET}"
        final = Path(file.final)
        # An earlier run of the job, without a checkpoint, may have left an object of the same name: both are kept.
        beside = str(final.with_name(f"{final.stem}-{Path(file.staged).stem}{final.suffix}"))
        if self._folder.size(file.staged) is not None:
            target = self._folder.text(note)
            if target is None:
                # Once the copy is there, nobody could tell it from another's: the choice is kept until it is done.
                target = file.final if self._folder.size(file.final) is None else beside
                self._folder.write(note, target)
            self._folder.move(file.staged, target)
            self._folder.remove(note)
        elif self._folder.size(beside) is None and self._folder.size(file.final) != file.bytes:
            what = f"output is lost: neither {file.staged} nor {file.final} is in {self._folder.address}"
            remedy = "put the object back (it may have been moved away), or restart the job from a savepoint"
            raise SinkError(describe(what, remedy=remedy))
