"""The size guard itself: what counts as code, and what the allow-list may and may not do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.check_sizes import FUNCTION_LINES, MODULE_LINES, Size, complaints, measure, read_allowances

SOURCE = '''"""Module."""


def outer(
    a: int,
) -> str:
    """One line.

    Two lines.
    """
    # A comment, then a blank line.

    text = """
    a string over
    three lines"""

    def inner():
        return a

    return text


class Box:
    async def method(self):
        pass
'''


def test_blank_lines_comments_and_docstrings_are_not_code(tmp_path: Path):
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    assert list(measure(path, "m.py")) == [
        Size("m.py", 25, MODULE_LINES),
        Size("m.py:outer", 9, FUNCTION_LINES),
        Size("m.py:outer.inner", 2, FUNCTION_LINES),
        Size("m.py:Box.method", 2, FUNCTION_LINES),
    ]


def test_what_is_over_its_limit_is_named_unless_it_is_allowed():
    sizes = [Size("a.py", 401, 400), Size("b.py", 400, 400), Size("c.py:f", 60, 50)]
    assert complaints(sizes, {}) == [
        "a.py: 401 lines, at most 400; split it",
        "c.py:f: 60 lines, at most 50; split it",
    ]
    assert complaints(sizes, {"a.py": 401, "c.py:f": 60}) == []
    assert complaints(sizes, {"a.py": 401, "c.py:f": 59}) == ["c.py:f: 60 lines, at most 59; split it"]


def test_an_exception_without_a_use_is_named():
    assert complaints([Size("a.py", 100, 400)], {"a.py": 500, "gone.py": 500}) == [
        "a.py: needs no exception any more; take it out of the list",
        "gone.py: needs no exception any more; take it out of the list",
    ]


def test_an_exception_needs_a_reason(tmp_path: Path):
    path = tmp_path / "allow.toml"
    path.write_text('[[allow]]\nname = "a.py"\nlines = 500\nreason = "generated"\n')
    assert read_allowances(path) == {"a.py": 500}
    path.write_text('[[allow]]\nname = "a.py"\nlines = 500\nreason = " "\n')
    with pytest.raises(SystemExit, match="needs name, lines and reason"):
        read_allowances(path)
