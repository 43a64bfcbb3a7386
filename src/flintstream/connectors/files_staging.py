"""Where a file sink's files are before and after the commit, and the commit itself.

A file is written under `.flintstream/staging`, which readers skip, and becomes visible by one atomic rename. The commit
can be repeated: a staged file that is gone and a final one that is there mean that it was done.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from flintstream.errors import CorruptStateError, InvalidArgumentError, SinkError, describe
from flintstream.model.connect import Committer
from flintstream.state.storage import is_inside

STAGING = ".flintstream/staging"
_REMEDIES = {
    errno.ENOSPC: "free space on that disk and start the job again; it goes on behind its last epoch",
    errno.EDQUOT: "raise the quota and start the job again; it goes on behind its last epoch",
    errno.EROFS: "mount it for writing, or give another directory",
}
_REMEDY = "give a directory that the driver and all workers can write to"


@dataclass(frozen=True)
class StagedFile:
    """A file that waits for its commit; paths are relative to the sink's directory."""

    staged: str
    final: str
    rows: int
    bytes: int
    checksum: int | None = None

    def __post_init__(self) -> None:
        for path in (self.staged, self.final):
            if not is_inside(path):
                what = f"output file {path!r} leaves the sink's directory"
                raise CorruptStateError(describe(what, remedy="restore another checkpoint or savepoint"))

    def to_json(self) -> dict[str, Any]:
        """Return the committable."""
        return asdict(self)


def local_directory(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a directory given as a path or a `file:` address."""
    text = os.fspath(path)
    scheme = urlsplit(text).scheme
    if scheme == "file":
        text = unquote(urlsplit(text).path)
    if not text:
        raise InvalidArgumentError(describe("the directory of a file sink is empty", remedy="give its path"))
    # Workers may have another working directory.
    return str(Path(text).absolute())


def file_name(text: str) -> str:
    """Return a job's or an operator's name as part of a file's name; different names stay different."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", text)[:60]
    return plain if plain == text else f"{plain}-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def staging_folder(job: str, uid: str) -> str:
    """Return the folder of all staged files of one sink; the digest keeps ("a-b", "c") and ("a", "b-c") apart."""
    return f"{STAGING}/{file_name(job)}-{file_name(uid)}-{_digest(f'{len(job)}:{job}{uid}')}"


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Turn what the file system refuses into an error that names the path and says what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = _REMEDIES.get(error.errno or 0, _REMEDY)
        raise SinkError(describe(f"cannot write {path}: {reason}", remedy=remedy)) from error


def make_durable(path: Path) -> None:
    """Return when a file's content, or a directory's entries, would survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_checksum(path: Path) -> int:
    """Return the CRC-32 of a file's content."""
    found = 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            found = zlib.crc32(piece, found)
    return found


class FileCommitter(Committer):
    """Renames staged files to their final names, and removes what dead attempts left behind.

    Files of its first commit may have waited since a crash, so those are read and compared with what was written.
    """

    def __init__(self, base_path: str, is_durable: bool = True) -> None:
        self._base = Path(base_path)
        self._is_durable = is_durable
        self._is_first = True

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        folders: set[Path] = set()
        for part in committables:
            for file in part if isinstance(part, list) else [part]:
                folders |= self._publish(StagedFile(**file))
        self._is_first = False
        for folder in folders if self._is_durable else ():
            with writing(folder):
                make_durable(folder)
        self._clean(job, uid, epoch)

    def _publish(self, file: StagedFile) -> set[Path]:
        staged, final = self._base / file.staged, self._base / file.final
        # An earlier run of the job, without a checkpoint, may have left a file of the same name: both are kept.
        beside = final.with_name(f"{final.stem}-{staged.stem}{final.suffix}")
        # A driver that slept while another took over finds that published which it was about to publish.
        with writing(final), suppress(FileNotFoundError):
            if staged.exists():
                self._check(staged, file)
                final.parent.mkdir(parents=True, exist_ok=True)
                staged.rename(beside if final.exists() else final)
                return {final.parent, staged.parent}
        if beside.exists() or (final.exists() and final.stat().st_size == file.bytes):
            return set()
        what = f"output is lost: neither the staged file {staged} nor the final file {final} is there"
        remedy = "put the file back (it may have been moved away), or restart the job from a savepoint"
        raise SinkError(describe(what, remedy=remedy))

    def _check(self, staged: Path, file: StagedFile) -> None:
        """Refuse to publish what is not what was written."""
        size = staged.stat().st_size
        is_whole = size == file.bytes
        if is_whole and self._is_first and file.checksum is not None:
            is_whole = file_checksum(staged) == file.checksum
        if not is_whole:
            what = f"the staged output file {str(staged)!r} is damaged ({size} of {file.bytes} bytes)"
            raise CorruptStateError(describe(what, remedy="put the file back, or restart the job from a savepoint"))

    def _clean(self, job: str, uid: str, epoch: int) -> None:
        folder = self._base / staging_folder(job, uid)
        for path in folder.iterdir() if folder.is_dir() else ():
            number = path.name.split("-")[0]
            if number.isdigit() and int(number) <= epoch:
                path.unlink(missing_ok=True)
