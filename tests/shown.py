"""Compares what a program prints with what its documentation shows."""

from __future__ import annotations

import re


def assert_shown(shown: str, printed: str, where: str) -> None:
    """Fail unless `printed` is `shown`, where a line `...` stands for any lines and `...` within one for any text."""
    pattern = ""
    for line in shown.strip().splitlines():
        if line.strip() == "...":
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += r"[^\n]*".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ ]*\n"
    found = printed.rstrip() + "\n" if printed.strip() else ""
    assert re.fullmatch(pattern, found), f"{where} prints\n{printed}\nand shows\n{shown}"
