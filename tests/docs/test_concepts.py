"""The documentation cannot lie: every Python block is run, what it shows is compared, every link leads somewhere.

A page is one program: its blocks share a namespace. A block of `text` behind one of Python shows what that prints, in
which a line `...` stands for any lines. Blocks run in this process, on the runtime `local`.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.shown import assert_shown
from tools import draw_concepts

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "adr" not in page.relative_to(ROOT).parts),
]
CONCEPTS = ("time-and-watermarks", "windows", "triggers-and-panes", "late-data")

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$(?:\s*^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
_ON_SPARK = "StreamExecutionEnvironment.get_execution_environment()"
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


class Block(NamedTuple):
    """A piece of Python on a page: the line it begins at, its text, and what it shows as its output."""

    line: int
    code: str
    output: str


def blocks(text: str) -> Iterator[Block]:
    for found in _BLOCK.finditer(text):
        if found[1] == "python":
            yield Block(text.count("\n", 0, found.start()) + 2, found[2], found[3] or "")


def run(page: Path, block: Block, namespace: dict[str, object]) -> str:
    """Run a block where a traceback finds its line, and return what it prints."""
    code = block.code.replace(_ON_SPARK, f'{_ON_SPARK[:-1]}runtime="local")')
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * (block.line - 1) + code, str(page), "exec"), namespace)
    return printed.getvalue()


@pytest.fixture
def namespace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, object]:
    """The globals of a module that can be imported, as functions and classes of a program need."""
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    monkeypatch.chdir(tmp_path)
    return vars(module)


def relative(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page.read_text()))], ids=relative)
def test_every_block_runs_and_prints_what_it_shows(page, namespace, caplog):
    caplog.set_level(logging.ERROR)
    for block in blocks(page.read_text()):
        printed = run(page, block, namespace)
        if block.output:
            assert_shown(block.output, printed, f"{page.name}:{block.line}")


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_link_and_picture_is_there(page):
    targets = [target.partition("#") for target in _LINK.findall(_BLOCK.sub("", page.read_text()))]
    broken = []
    for path, _, heading in targets:
        if "://" in path:
            continue
        target = page.parent / path if path else page
        if not target.exists() or (heading and heading not in anchors(target)):
            broken.append(f"{path}#{heading}")
    assert not broken


def anchors(page: Path) -> set[str]:
    """Return the names by which links reach a page's headings."""
    headings = re.findall(r"^#+ (.+)$", _BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", CONCEPTS)
def test_every_concept_has_a_picture_and_code(name):
    text = (ROOT / "docs" / "concepts" / f"{name}.md").read_text()
    assert "](pictures/" in text
    assert len(list(blocks(text))) > 3


def test_every_picture_is_shown_and_small():
    pages = "".join(page.read_text() for page in PAGES)
    for picture in (ROOT / "docs" / "concepts" / "pictures").iterdir():
        assert picture.name in pages
        assert picture.stat().st_size < 60_000, picture.name


def test_the_pictures_can_be_drawn_again_and_are_the_same_files(tmp_path):
    committed = {picture.name for picture in (ROOT / "docs" / "concepts" / "pictures").iterdir()}
    for folder in ("once", "twice"):
        draw_concepts.main(tmp_path / folder)
    assert {picture.name for picture in (tmp_path / "once").iterdir()} == committed
    for name in committed:
        assert (tmp_path / "once" / name).read_bytes() == (tmp_path / "twice" / name).read_bytes()


def test_a_block_that_prints_something_else_is_noticed():
    with pytest.raises(AssertionError, match="page:3"):
        assert_shown("1\n...\n4\n", "1\n2\n3\n", "page:3")
    assert_shown("1\n...\n4\n", "1\n2\n3\n4\n", "page:3")
