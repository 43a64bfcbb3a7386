"""Where durable state lives: a small port with what the commit protocol needs, and its local and in-memory forms.

`create` is the fence of the protocol: it makes a file only if it is absent, so of two drivers one wins. Paths are
relative to the storage's root and never leave it.
"""

from __future__ import annotations

import os
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePosixPath

from flintstream.errors import CorruptStateError, describe


class Storage(ABC):
    """A directory tree of immutable files."""

    def check(self) -> None:
        """Raise if the commit protocol cannot rely on this place."""

    @abstractmethod
    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a file's bytes; a missing file is a CorruptStateError that names it."""

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Write a whole file; a reader sees all of it or nothing."""

    @abstractmethod
    def create(self, path: str, data: bytes) -> bool:
        """Write a file only if it is absent; return whether this call made it."""

    def sync(self, folders: Iterable[str]) -> None:
        """Return when files that anyone wrote into these folders will be found there even after a power cut."""

    def secure(self, paths: Sequence[str]) -> None:
        """Return when files that somebody else wrote will be there even after a power cut."""

    def publish(self, path: str, data: bytes, beside: Mapping[str, bytes], folders: Iterable[str]) -> bool:
        """Create a file that names others, once all those are safe; return whether this call made it.

        Args:
            path: Where the file is to be.
            data: What is in it.
            beside: Files that it names and nobody has written yet, under names that nobody else uses.
            folders: Where the files are that it names, these and those of others.
        """
        for name, content in beside.items():
            self.write(name, content)
        self.sync(folders)
        return self.create(path, data)

    @abstractmethod
    def list(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; an absent folder has none."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file; an absent one is no error."""

    def abandoned(self, folder: str) -> Sequence[str]:
        """Return the names of files in a folder that nobody finished to write, if such files can be."""
        return []

    def prune(self) -> None:
        """Remove folders that have no file in them any more, if there is such a thing as a folder."""


def is_inside(path: str) -> bool:
    """Whether a relative path stays below the directory it is relative to."""
    parts = PurePosixPath(path)
    return not parts.is_absolute() and ".." not in parts.parts and "\\" not in path and "\0" not in path


def inside(path: str, root: str) -> str:
    """Return a path in its shortest spelling, or raise if it would leave the storage's root."""
    parts = PurePosixPath(path)
    if not is_inside(path):
        what = f"state path {path!r} leaves its directory"
        raise CorruptStateError(describe(what, root, "restore another checkpoint or savepoint"))
    return "/".join(parts.parts)


class LocalStorage(Storage):
    """A directory that driver and workers share; a `strict` one has no use for links that lead out of it."""

    def __init__(self, root: str, durable: bool = True, strict: bool = False) -> None:
        self.root = root
        self._durable = durable
        self._strict = strict
        self._made: set[str] = set()

    def _resolve(self, path: str) -> Path:
        found = Path(self.root) / inside(path, self.root)
        if self._strict and not found.resolve().is_relative_to(Path(self.root).resolve()):
            what = f"state path {path!r} is a link that leaves its directory"
            raise CorruptStateError(describe(what, self.root, "restore another checkpoint or savepoint"))
        return found

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        try:
            with self._resolve(path).open("rb") as file:
                file.seek(offset)
                # Whoever wrote the length need not be who wrote the file: no more memory is taken than there are bytes.
                there = max(0, os.fstat(file.fileno()).st_size - offset)
                return file.read(there if length is None else min(max(0, length), there))
        except FileNotFoundError:
            what = f"state file {path!r} is missing"
            raise CorruptStateError(describe(what, self.root, "restore another checkpoint or savepoint")) from None

    def write(self, path: str, data: bytes) -> None:
        target = self._resolve(path)
        self._stage(target, data).replace(target)

    def create(self, path: str, data: bytes) -> bool:
        target = self._resolve(path)
        return self._link(self._stage(target, data), target)

    def publish(self, path: str, data: bytes, beside: Mapping[str, bytes], folders: Iterable[str]) -> bool:
        # A journal writes down once what several wait for, and what has its last name needs no second time: so all
        # this takes two turns of the disk, where to write, sync and create one after the other takes four.
        target = self._resolve(path)
        staged = _staged_name(target)
        files = {self._resolve(name): content for name, content in beside.items()}
        try:
            for file, content in (*files.items(), (staged, data)):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            self._sync_together([*files, staged])
            self.sync(folders)
        except BaseException:
            for file in (*files, staged):
                file.unlink(missing_ok=True)
            raise
        return self._link(staged, target)

    def _sync_together(self, files: Sequence[Path]) -> None:
        """Return when the bytes of some files are on the disk."""
        if not self._durable:
            return
        *others, last = files
        with ThreadPoolExecutor(max(1, len(others))) as pool:
            try:
                waiting = [pool.submit(_sync, file) for file in others]
            except RuntimeError:
                # The interpreter is about to end and starts no threads any more.
                waiting = []
                for file in others:
                    _sync(file)
            _sync(last)
            for each in waiting:
                each.result()

    def _link(self, staged: Path, target: Path) -> bool:
        """Give a file its name if nobody has it; the staged one is gone in any case."""
        try:
            os.link(staged, target)
        except FileExistsError:
            return False
        finally:
            staged.unlink()
        self._sync_folder(target.parent)
        return True

    def sync(self, folders: Iterable[str]) -> None:
        for folder in folders:
            self._sync_folder(self._resolve(folder))
            if folder not in self._made:
                self._made.add(folder)  # the folder itself must be found, too, but that is made once
                self._sync_folder(Path(self.root))

    def secure(self, paths: Sequence[str]) -> None:
        if paths:
            self._sync_together([self._resolve(path) for path in paths])
            folders = {path.rpartition("/")[0] for path in paths}
            above = {str(each) for folder in folders for each in PurePosixPath(folder).parents} - {".", *self._made}
            self.sync(sorted(folders | above, reverse=True))

    def _stage(self, target: Path, data: bytes) -> Path:
        target.parent.mkdir(parents=True, exist_ok=True)
        staged = _staged_name(target)
        with staged.open("wb") as file:
            file.write(data)
            if self._durable:
                file.flush()
                os.fsync(file.fileno())
        return staged

    def _sync_folder(self, folder: Path) -> None:
        if self._durable:
            _sync(folder)

    def list(self, folder: str) -> list[str]:
        return sorted(name for name in self._names(folder) if not name.startswith("."))

    def abandoned(self, folder: str) -> Sequence[str]:
        # Whoever is about to finish one will find it, or else write it again.
        return sorted(name for name in self._names(folder) if name.startswith("."))

    def _names(self, folder: str) -> Iterator[str]:
        path = self._resolve(folder)
        return (p.name for p in path.iterdir()) if path.is_dir() else iter(())

    def delete(self, path: str) -> None:
        self._resolve(path).unlink(missing_ok=True)

    def prune(self) -> None:
        for folder, _, _ in os.walk(self.root, topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()


def _staged_name(target: Path) -> Path:
    return target.with_name(f".{target.name}.{uuid.uuid4().hex}")


def _sync(path: Path) -> None:
    """Return when a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_CREATING = threading.Lock()


class MemoryStorage(Storage):
    """A dict; for tests and for jobs in one process."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        data = self.files.get(inside(path, "memory"))
        if data is None:
            what = f"state file {path!r} is missing"
            raise CorruptStateError(describe(what, "memory", "restore another checkpoint or savepoint"))
        return data[offset:] if length is None else data[offset : offset + length]

    def write(self, path: str, data: bytes) -> None:
        self.files[inside(path, "memory")] = data

    def create(self, path: str, data: bytes) -> bool:
        path = inside(path, "memory")
        with _CREATING:
            if path in self.files:
                return False
            self.files[path] = data
            return True

    def list(self, folder: str) -> list[str]:
        folder = inside(folder, "memory")
        prefix = f"{folder}/" if folder else ""
        return sorted({path[len(prefix) :].split("/")[0] for path in list(self.files) if path.startswith(prefix)})

    def delete(self, path: str) -> None:
        self.files.pop(inside(path, "memory"), None)
