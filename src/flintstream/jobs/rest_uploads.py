"""Programs that come over the network: one script, or an archive of modules, checked before anything of it is used.

A name in an archive is a request to write a file, so none is trusted: no path leads out, none is a link, and what an
archive says of its sizes counts for nothing, only what comes out of it. Whoever may upload may run code here, so this
is not about what the code does; it is about an upload staying inside its folder and the disk staying usable.

Flink: `POST /jars/upload` (JarUploadHandler).
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
import uuid
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from flintstream.jobs.rest_problems import Refused
from flintstream.jobs.security import is_printable

FOLDER = "uploads"
STALE_SECONDS = 3600.0
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,150}\.(py|zip|whl)")
_PIECE = 1 << 16


@dataclass(frozen=True)
class ArchiveLimits:
    """How large an archive may become.

    Attributes:
        entries: Files and folders.
        unpacked_bytes: All files together.
        ratio: How many times larger than the archive, beyond the first MiB.
    """

    entries: int = 10_000
    unpacked_bytes: int = 256 << 20
    ratio: int = 100


@contextmanager
def staged(home: Path) -> Generator[Path]:
    """Yield an empty folder for one upload; whatever is still there afterwards is removed."""
    uploads = home / FOLDER
    uploads.mkdir(mode=0o700, parents=True, exist_ok=True)
    _sweep(uploads)
    folder = uploads / uuid.uuid4().hex
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(uploads: Path) -> None:
    """Remove what a manager left that died in the middle."""
    for each in uploads.iterdir():
        try:
            is_stale = time.time() - each.stat().st_mtime > STALE_SECONDS
        except OSError:
            continue
        if is_stale:
            shutil.rmtree(each, ignore_errors=True)


def store(name: str, file: IO[bytes], folder: Path, limits: ArchiveLimits | None = None) -> str | None:
    """Put an upload into a folder; return the program's name there, None if it is an archive.

    Raises:
        Refused: it is not what may be uploaded.
    """
    if not _NAME.fullmatch(name):
        what = f"{name[:100]!r} cannot be the name of a program"
        raise _refused(what, "upload a .py, a .zip or a .whl with a plain name")
    if name.endswith(".py"):
        with _new_file(folder / name) as target:
            shutil.copyfileobj(file, target, _PIECE)
        return name
    try:
        with zipfile.ZipFile(file) as archive:
            _unpack(archive, _size(file), folder, limits or ArchiveLimits())
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        what = f"{name} is no archive that can be read ({error})"
        raise _refused(what, "make it anew with zip") from None
    return None


def inside(folder: Path, program: str) -> str:
    """Return a program's name inside of an upload, or refuse it."""
    parts = _parts(program)
    if not folder.joinpath(*parts).is_file():
        what = f"the upload has no file {program[:200]!r}"
        raise _refused(what, "name a file by its path inside the archive")
    return "/".join(parts)


def _size(file: IO[bytes]) -> int:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


def _unpack(archive: zipfile.ZipFile, size: int, folder: Path, limits: ArchiveLimits) -> None:
    entries = archive.infolist()
    if len(entries) > limits.entries:
        what = f"the archive has {len(entries)} entries"
        raise _refused(what, f"give {limits.entries} or less")
    left = min(limits.unpacked_bytes, (1 << 20) + size * limits.ratio)
    seen: set[str] = set()
    for entry in entries:
        parts = _parts(entry.filename)
        mode = entry.external_attr >> 16
        if mode and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_IFMT(mode) == 0):
            what = f"{entry.filename[:200]!r} in the archive is a link or a device"
            raise _refused(what, "give plain files")
        if entry.flag_bits & 0x1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            what = "the archive is encrypted, or packed in an unusual way"
            raise _refused(what, "make it anew with zip")
        target = folder.joinpath(*parts)
        try:
            if entry.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            if "/".join(parts) in seen:
                what = f"the archive has {entry.filename[:200]!r} twice"
                raise _refused(what, "give each file once")
            seen.add("/".join(parts))
            target.parent.mkdir(parents=True, exist_ok=True)
            left = _extract(archive, entry, target, left)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            what = f"{entry.filename[:200]!r} is a file and a folder in the archive"
            raise _refused(what, "give each name once") from None


def _extract(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path, left: int) -> int:
    with archive.open(entry) as source, _new_file(target) as file:
        while piece := source.read(_PIECE):
            left -= len(piece)
            if left < 0:
                what = "the archive becomes too large when it is unpacked"
                raise _refused(what, "leave out what is not needed")
            file.write(piece)
    return left


def _parts(name: str) -> tuple[str, ...]:
    """Return the parts of a name that stays where it is put, or refuse it."""
    path = PurePosixPath(name)
    is_plain = (
        bool(path.parts)
        and not path.is_absolute()
        and is_printable(name)
        and not set(name) & set("\\:")
        and all(part != ".." and len(part.encode()) <= 200 for part in path.parts)
        and len(name) <= 1_000
    )
    if not is_plain:
        what = f"{name[:200]!r} leads out of the upload, or is no name"
        raise _refused(what, "give plain relative names")
    return path.parts


def _new_file(path: Path) -> IO[bytes]:
    """Open a file that was not there, and is no link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(path, flags, 0o600), "wb")


def _refused(what: str, remedy: str) -> Refused:
    return Refused(422, "upload", what, remedy)
