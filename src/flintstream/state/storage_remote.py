"""Durable state on an object store, or on any other file system that has an address, through fsspec.

Separate from `storage` because it needs a package that local jobs do not. An object store has no rename and no folders;
it needs neither here: a file is put whole, and the fence of the protocol is a conditional put, which fsspec calls
creating. A store that cannot do that would let two drivers commit the same epoch, so it is tried before it is trusted.

Flink: the file systems behind `state.checkpoints.dir`. Differs from Flink: by fsspec's names (`s3://`, `gs://`,
`abfs://`, `webhdfs://`), with the package for each.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from flintstream.errors import CorruptStateError, EnvironmentSetupError, FlintstreamError, describe
from flintstream.model.extras import extra
from flintstream.state.storage import LocalStorage, Storage, inside

T = TypeVar("T")
StorageOptions = Mapping[str, Any] | None
"""What a file system with an address must know besides, such as a password."""


def file_system(address: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the file system of an address and the path there; what it lists is never remembered."""
    scheme = urlsplit(address).scheme
    fsspec = extra("fsspec", f"{scheme}:// needs the package fsspec", "remote")
    try:
        found, path = fsspec.url_to_fs(address, use_listings_cache=False, **options)
    except ImportError as error:
        raise EnvironmentSetupError(describe(f"{scheme}:// needs a package ({error})", remedy="install it")) from None
    except ValueError as error:
        what = f"there is no file system for {scheme}:// ({error})"
        raise EnvironmentSetupError(describe(what, remedy="use a scheme that fsspec knows")) from None
    return found, str(path).rstrip("/")


class RemoteStorage(Storage):
    """A place on a file system that driver and workers reach by its address."""

    def __init__(self, address: str, options: Mapping[str, Any] | None = None) -> None:
        self.root = address
        self._options = dict(options or {})
        self._opened: tuple[Any, str] | None = None

    def __repr__(self) -> str:
        return f"RemoteStorage({self.root!r})"

    def __getstate__(self) -> dict[str, Any]:
        # Connections belong to the process that made them.
        return {**self.__dict__, "_opened": None}

    def check(self) -> None:
        """Raise unless a file can be created here only once."""
        probe = f".flintstream-probe-{uuid.uuid4().hex}"
        try:
            made = self._create(probe, b"1"), self._create(probe, b"2")
            self.delete(probe)
        except OSError as error:
            what = f"no checkpoint can be written to {self.root} ({error})"
            remedy = "see that the store can be reached and lets us in"
            raise EnvironmentSetupError(describe(what, remedy=remedy)) from error
        if made != (True, False):
            what = f"{self.root} cannot create a file only if it is absent, so two drivers could commit one epoch"
            raise EnvironmentSetupError(describe(what, remedy="keep checkpoints on another file system"))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        def cat(files: Any, at: str) -> bytes:
            if length == 0:
                return b""
            if offset == 0 and length is None:
                return files.cat_file(at)
            return files.cat_file(at, start=offset, end=None if length is None else offset + length)

        try:
            return self._do(path, cat)
        except FileNotFoundError:
            what = f"state file {path!r} is missing"
            raise CorruptStateError(describe(what, self.root, "restore another checkpoint or savepoint")) from None

    def write(self, path: str, data: bytes) -> None:
        self._do(path, lambda files, at: files.pipe_file(at, data))

    def create(self, path: str, data: bytes) -> bool:
        # A client repeats a request whose answer was lost, and is then told of its own file.
        return self._create(path, data) or self.read(path) == data

    def _create(self, path: str, data: bytes) -> bool:
        try:
            self._do(path, lambda files, at: files.pipe_file(at, data, mode="create"))
        except FileExistsError:
            return False
        return True

    def list(self, folder: str) -> list[str]:
        def names(files: Any, at: str) -> list[str]:
            found: list[str] = files.ls(at, detail=False)
            return sorted(name.rstrip("/").rpartition("/")[2] for name in found if name.rstrip("/") != at)

        try:
            return [name for name in self._do(folder, names) if not name.startswith(".")]
        except FileNotFoundError:
            return []

    def delete(self, path: str) -> None:
        try:
            self._do(path, lambda files, at: files.rm_file(at))
        except FileNotFoundError:
            return

    def _do(self, path: str, act: Callable[[Any, str], T]) -> T:
        """Let a file system act on a path; whatever it raises is an OSError, after which an epoch is tried again."""
        relative = inside(path, self.root)
        if self._opened is None:
            self._opened = file_system(self.root, self._options)
        files, root = self._opened
        try:
            return act(files, f"{root}/{relative}" if relative else root)
        except (OSError, FlintstreamError):
            raise
        except Exception as error:
            msg = f"{self.root}: {type(error).__name__}: {error}"
            raise OSError(msg) from error


def storage_at(address: str, options: StorageOptions = None, durable: bool = True) -> Storage:
    """Return the storage at a path of this machine, a `file:` address or another file system's."""
    parts = urlsplit(address)
    if "://" not in address and parts.scheme != "file":
        return LocalStorage(address, durable)
    if parts.scheme == "file":
        return LocalStorage(unquote(parts.path), durable)
    return RemoteStorage(address, options)
