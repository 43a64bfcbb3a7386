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


def name_of(value: object) -> str:
    """Return a test's name by what it is about, the same in every process: no addresses, sets in order."""
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value) if not isinstance(value, str) else value)
    return re.sub(r"(?<=set\(\{)(.*?)(?=\}\))", lambda found: ", ".join(sorted(found[0].split(", "))), text)
