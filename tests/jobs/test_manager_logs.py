"""A job's logs: bounded, cut at ends of lines, and positions that stay valid while files are exchanged."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from flintstream.jobs.logs import LogWriter, read_log
from tests.jobs.managed import until


@given(
    pieces=st.lists(st.text(alphabet="ab\näß🙂", max_size=40), max_size=30),
    part=st.integers(8, 64),
    limit=st.integers(1, 50),
)
def test_whoever_reads_on_gets_every_byte_once(
    tmp_path_factory: object, pieces: list[str], part: int, limit: int
) -> None:
    folder = Path(tmp_path_factory.mktemp("log"))  # type: ignore[attr-defined]
    path, written, found, at = folder / "driver.out", b"", b"", 0
    writer = LogWriter(path, part_bytes=part, parts=1_000)
    for piece in pieces:
        data = piece.encode()
        writer.write(data)
        written += data
        got = read_log(path, at, limit)
        assert got.offset == at
        assert got.size == len(written)
        found, at = found + got.text.encode(), got.next_offset
    for _ in range(len(written) + 1):
        got = read_log(path, at, max(limit, 4))
        found, at = found + got.text.encode(), got.next_offset
    writer.close()
    if limit >= 4:
        assert found == written
    assert at == len(written)
    for each in folder.glob("driver.out.*"):
        assert each.read_bytes().endswith(b"\n") or len(each.read_bytes()) > part


def test_files_end_with_a_line_and_only_some_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "log" / "driver.out"
    writer = LogWriter(path, part_bytes=100, parts=2)
    lines = [f"line number {number}\n" for number in range(100)]
    for line in lines:
        writer.write(line.encode())
    writer.close()
    parts = sorted(path.parent.glob("driver.out.*"))
    assert len(parts) == 2
    assert all(part.read_text().endswith("\n") for part in parts)
    whole = "".join(lines)
    first = read_log(path)
    assert first.first == first.offset == len(whole) - sum(len(each.read_bytes()) for each in [*parts, path])
    assert first.size == len(whole)
    assert whole[first.offset : first.next_offset] == first.text
    # A position is what it was when everything was still there.
    assert read_log(path, first.size - 10).text == whole[-10:]
    assert read_log(path, -10).text == whole[-10:]
    assert read_log(path, -10_000).offset == first.first
    assert read_log(path, first.size + 5).text == ""
    assert read_log(path, first.size + 5).next_offset == first.size
    again = LogWriter(path, part_bytes=100, parts=2)
    again.write(b"more\n")
    again.close()
    assert read_log(path, first.size).text == "more\n"


def test_a_line_without_an_end_does_not_fill_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "driver.out"
    writer = LogWriter(path, part_bytes=100, parts=3)
    for _ in range(500):
        writer.write(b"x" * 10)
    writer.close()
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) < 1_500
    assert read_log(path, -5).text == "xxxxx"


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    piece = read_log(tmp_path / "driver.out", 7)
    assert (piece.text, piece.next_offset, piece.size) == ("", 0, 0)


def test_bytes_that_are_no_text_are_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "driver.out"
    path.write_bytes(b"\xff\xfe\n" + "ä".encode() * 3 + b"\xc3")
    piece = read_log(path, 0, 100)
    assert piece.text.startswith("\ufffd\ufffd\nääää"[:5])
    assert read_log(path, piece.next_offset).next_offset == piece.size


def test_what_is_pumped_is_read_while_files_are_exchanged(tmp_path: Path) -> None:
    path = tmp_path / "driver.out"
    near, far = os.pipe()
    writer = LogWriter(path, part_bytes=1_000, parts=1_000)
    pump = writer.pump(near)
    lines = b"".join(b"line %d\n" % number for number in range(5_000))

    def print_all() -> None:
        with os.fdopen(far, "wb") as pipe:
            pipe.write(lines)

    printer = threading.Thread(target=print_all)
    printer.start()
    found: list[str] = []
    at = 0

    def read_on() -> bool:
        nonlocal at
        piece = read_log(path, at, 700)
        found.append(piece.text)
        at = piece.next_offset
        return at == len(lines)

    until(read_on, "everything was read")
    printer.join()
    pump.join()
    writer.close()
    assert "".join(found).encode() == lines
