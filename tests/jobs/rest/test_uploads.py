"""Uploads: what is unpacked stays inside, and what is not a plain program is refused."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.jobs.rest_problems import Refused
from flintstream.jobs.rest_uploads import FOLDER, ArchiveLimits, inside, staged, store


def archive(*entries: tuple[str | zipfile.ZipInfo, bytes], packing: int = zipfile.ZIP_DEFLATED) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing) as made:
        for name, data in entries:
            made.writestr(name, data)
    file.seek(0)
    return file


def test_a_script(tmp_path: Path) -> None:
    assert store("app.py", io.BytesIO(b"print(1)"), tmp_path) == "app.py"
    assert (tmp_path / "app.py").read_bytes() == b"print(1)"


@pytest.mark.parametrize("name", ["app.zip", "app-1.0-py3-none-any.whl"])
def test_an_archive(tmp_path: Path, name: str) -> None:
    assert store(name, archive(("pkg/__init__.py", b""), ("pkg/app.py", b"x = 1"), ("empty/", b"")), tmp_path) is None
    assert (tmp_path / "pkg" / "app.py").read_bytes() == b"x = 1"
    assert (tmp_path / "empty").is_dir()
    assert inside(tmp_path, "pkg/app.py") == "pkg/app.py"


@pytest.mark.parametrize(
    "name", ["", "app", "app.txt", "../app.py", "/app.py", "a/b.py", ".py", "a\r\nb.py", "-rf.py", "app.py\x00.zip",
             "é.py", "x" * 300 + ".py"],
)  # fmt: skip
def test_names_that_no_program_has(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused) as refused:
        store(name, io.BytesIO(b""), tmp_path)
    assert refused.value.status == 422
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["../evil.py", "/etc/evil.py", "a/../../evil.py", "a\\..\\evil.py", "C:/evil.py", "a\nb.py", "x" * 300,
             "a/" * 600 + "b"],
)  # fmt: skip
def test_names_that_lead_out(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "upload"
    folder.mkdir()
    with pytest.raises(Refused):
        store("app.zip", archive(("good.py", b""), (name, b"evil")), folder)
    assert {path.name for path in tmp_path.rglob("*")} <= {"upload", "good.py"}


def link(name: str, kind: int) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.external_attr = (kind | 0o777) << 16
    return made


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_links_and_devices(tmp_path: Path, kind: int) -> None:
    with pytest.raises(Refused, match="link or a device"):
        store("app.zip", archive((link("x", kind), b"/etc/passwd")), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_bomb_is_stopped_by_what_comes_out_of_it(tmp_path: Path) -> None:
    bomb = archive(("zeros", b"\0" * 3_000_000))
    with pytest.raises(Refused, match="too large"):
        store("app.zip", bomb, tmp_path, ArchiveLimits(unpacked_bytes=1_000_000))
    assert (tmp_path / "zeros").stat().st_size <= 1_000_000


def test_a_bomb_is_stopped_by_its_ratio(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="too large"):
        store("app.zip", archive(("zeros", b"\0" * 20_000_000)), tmp_path, ArchiveLimits(ratio=10))


def test_a_size_that_lies_helps_nobody(tmp_path: Path) -> None:
    """The directory of the archive says 10 bytes, what is packed is a million."""
    data = bytearray(archive(("zeros", b"\0" * 1_000_000)).getvalue())
    true_size, lie = (1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little")
    assert data.count(true_size) == 2
    with pytest.raises(Refused):
        store("app.zip", io.BytesIO(bytes(data.replace(true_size, lie))), tmp_path, ArchiveLimits(unpacked_bytes=100))
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= 100


def test_too_many_entries(tmp_path: Path) -> None:
    entries = [(f"f{n}", b"") for n in range(20)]
    with pytest.raises(Refused, match="20 entries"):
        store("app.zip", archive(*entries), tmp_path, ArchiveLimits(entries=10))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_the_same_name_twice(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="twice"):
        store("app.zip", archive(("a.py", b"1"), ("./a.py", b"2")), tmp_path)


@pytest.mark.parametrize("names", [("a", "a/b"), ("a/b", "a")])
def test_a_file_that_is_a_folder(tmp_path: Path, names: tuple[str, str]) -> None:
    with pytest.raises(Refused):
        store("app.zip", archive(*((name, b"1") for name in names)), tmp_path)


def test_unusual_packing(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="unusual"):
        store("app.zip", archive(("a.py", b"1"), packing=zipfile.ZIP_LZMA), tmp_path)


@given(cut=st.integers(0, 400), flip=st.integers(0, 400))
def test_a_damaged_archive_is_refused_or_whole(cut: int, flip: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    data = bytearray(archive(("pkg/app.py", b"x = 1\n" * 20), ("b.py", b"")).getvalue())
    if flip < len(data):
        data[flip] ^= 0xFF
    folder = tmp_path_factory.mktemp("upload") / "in"
    folder.mkdir()
    try:
        store("app.zip", io.BytesIO(bytes(data[: len(data) - cut])), folder)
    except Refused as refused:
        assert refused.status == 422
    assert {path.name for path in folder.parent.iterdir()} == {"in"}


@pytest.mark.parametrize("program", ["missing.py", "../app.py", "/etc/passwd", "", ".", "pkg"])
def test_a_program_that_the_upload_does_not_have(tmp_path: Path, program: str) -> None:
    (tmp_path / "pkg").mkdir()
    with pytest.raises(Refused):
        inside(tmp_path, program)


class TestStaged:
    def test_what_is_left_is_removed(self, tmp_path: Path) -> None:
        with staged(tmp_path) as folder:
            (folder / "a").write_text("1")
            assert folder.parent == tmp_path / FOLDER
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert list((tmp_path / FOLDER).iterdir()) == []

    def test_what_was_taken_away_is_not_missed(self, tmp_path: Path) -> None:
        with staged(tmp_path) as folder:
            folder.rename(tmp_path / "job")
        assert (tmp_path / "job").is_dir()

    def test_what_a_dead_manager_left(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("old", "new"):
            (tmp_path / FOLDER / name).mkdir(parents=True)
        os.utime(tmp_path / FOLDER / "old", (0, 0))
        with staged(tmp_path):
            pass
        assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["new"]


def test_a_copy_is_nobody_elses(tmp_path: Path) -> None:
    store("app.py", io.BytesIO(b""), tmp_path)
    assert stat.S_IMODE((tmp_path / "app.py").stat().st_mode) == 0o600


def test_an_upload_never_follows_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "app.py").symlink_to(tmp_path / "other")
    with pytest.raises(FileExistsError):
        store("app.py", io.BytesIO(b"1"), tmp_path)
    assert not (tmp_path / "other").exists()
