"""The user's file and line that declared something: the first frame outside this package.

In this room because words that the user meets, such as patterns, are refused where they are written.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import TypeVar

from flintstream.errors import DefinitionError, describe

_PACKAGE = str(Path(__file__).resolve().parent.parent)
E = TypeVar("E", bound=DefinitionError)


def users_line() -> str:
    """Return `file:line` of the innermost caller that is not part of Flintstream."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # inspect.stack() reads source files
    while frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _is_ours(frame: FrameType) -> bool:
    """Whether a frame belongs to the package; what `dataclass` writes has no file, but its module's names."""
    name = frame.f_code.co_filename
    return name.startswith(_PACKAGE) or (
        name == "<string>" and str(frame.f_globals.get("__name__")).startswith("flintstream.")
    )


def refused(kind: type[E], what: str, remedy: str) -> E:
    """Return an error that says what is wrong, in which line of the user's, and what to do."""
    line = users_line()
    return kind(describe(what, line, remedy), location=line)
