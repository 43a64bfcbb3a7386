"""What a job's program prints, kept in files of bounded size that can be read while they grow.

The newest part is always the file itself (`driver.out`, so `tail -F` works); when it is full, the position of its first
byte is put behind its name (`driver.out.00000000000010485760`) and a new one begins, at the end of a line. A position
counts from the first byte that the job ever printed and stays valid whatever is renamed meanwhile; only the oldest
parts are deleted. The newest file begins where the part before it ends, so nothing else has to be written down.

Flink: the files `log/*.out` and `log/*.log` of a task manager, and the dashboard's view of them.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

PART_BYTES = 10 << 20
PARTS = 5
"""How many full files are kept besides the newest."""
PIECE = 64 << 10
_DIGITS = 20


@dataclass(frozen=True)
class LogPiece:
    """A piece of what a job printed.

    Attributes:
        text: The piece.
        offset: The position of its first byte; later than what was asked for if older parts are deleted.
        next_offset: Where to go on.
        size: The position behind the last byte.
        first: The position of the oldest byte that is still there.
    """

    text: str
    offset: int
    next_offset: int
    size: int
    first: int


class LogWriter:
    """Appends to a log; one for each, whatever the number of threads that write."""

    def __init__(self, path: Path, part_bytes: int = PART_BYTES, parts: int = PARTS) -> None:
        self._path = path
        self._part_bytes = part_bytes
        self._parts = parts
        self._lock = threading.Lock()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = _append_to(path)
        self._size = os.fstat(self._file).st_size

    def write(self, data: bytes) -> None:
        """Append bytes; a full file is exchanged behind its last whole line."""
        with self._lock:
            if self._size + len(data) > self._part_bytes:
                end = data.find(b"\n", max(0, self._part_bytes - self._size)) + 1
                # A line without an end must not fill the disk either.
                if not end and self._size + len(data) > 2 * self._part_bytes:
                    end = len(data)
                self._append(data[:end])
                data = data[end:]
                if end:
                    self._exchange()
            self._append(data)

    def _append(self, data: bytes) -> None:
        self._size += len(data)
        while data:
            data = data[os.write(self._file, data) :]

    def _exchange(self) -> None:
        start = _parts(self._path)[-1:]
        position = start[0][0] + start[0][1] if start else 0
        os.close(self._file)
        self._path.rename(self._path.with_name(f"{self._path.name}.{position:0{_DIGITS}d}"))
        self._file, self._size = _append_to(self._path), 0
        for old, _, path in _parts(self._path)[: -self._parts]:
            if old != position:
                path.unlink(missing_ok=True)

    def pump(self, descriptor: int) -> threading.Thread:
        """Append what comes out of a pipe until it ends, in a thread of its own, and close it."""

        def run() -> None:
            with os.fdopen(descriptor, "rb", buffering=0) as pipe:
                while data := pipe.read(PIECE):
                    try:
                        self.write(data)
                    except OSError:
                        continue  # a full disk costs lines of the log, and not the job

        thread = threading.Thread(target=run, name="flintstream-log", daemon=True)
        thread.start()
        return thread

    def close(self) -> None:
        """Write no more."""
        with self._lock:
            os.close(self._file)


def read_log(path: Path, offset: int = 0, limit: int = PIECE) -> LogPiece:
    """Return what a log has from a position on, `limit` bytes at most; a negative position counts from the end."""
    while True:
        newest = _open(path)
        try:
            parts = _parts(path)
            start = parts[-1][0] + parts[-1][1] if parts else 0
            length = 0 if newest is None else os.fstat(newest).st_size
            if not _is_still(path, newest):
                continue  # exchanged between the two looks
            size, first = start + length, parts[0][0] if parts else 0
            begin = min(max(first, size + offset if offset < 0 else offset), size)
            if begin >= start:
                data = b"" if newest is None else os.pread(newest, limit, begin - start)
            else:
                data = _of_parts(parts, begin, limit)
                if data is None:
                    continue  # deleted between the two looks
        finally:
            if newest is not None:
                os.close(newest)
        data = _whole_characters(data)
        return LogPiece(data.decode("utf-8", "replace"), begin, begin + len(data), size, first)


def _of_parts(parts: list[tuple[int, int, Path]], begin: int, limit: int) -> bytes | None:
    start, _, path = next(part for part in parts if part[0] <= begin < part[0] + part[1])
    descriptor = _open(path)
    if descriptor is None:
        return None
    try:
        return os.pread(descriptor, limit, begin - start)
    finally:
        os.close(descriptor)


def _whole_characters(data: bytes) -> bytes:
    """Return bytes without a character at their end of which some bytes are missing."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            needs = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return data[:-back] if needs > back and len(data) > back else data
    return data


def _parts(path: Path) -> list[tuple[int, int, Path]]:
    """Return the full files of a log with the position of their first byte and their length, oldest first."""
    found: list[tuple[int, int, Path]] = []
    for each in path.parent.glob(f"{path.name}.*"):
        digits = each.name.removeprefix(f"{path.name}.")
        if len(digits) == _DIGITS and digits.isdigit():
            try:
                found.append((int(digits), each.stat().st_size, each))
            except OSError:
                continue
    return sorted(found)


def _append_to(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def _open(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None


def _is_still(path: Path, descriptor: int | None) -> bool:
    """Whether a path still leads to the file that was opened by it."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return descriptor is None
    return descriptor is not None and os.path.samestat(found, os.fstat(descriptor))
