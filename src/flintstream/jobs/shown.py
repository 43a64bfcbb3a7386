"""What commands print: tables for people, JSON for programs, errors in one line each.

Separate from the commands, so that none of them decides twice how a size or a time is written.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from flintstream.errors import DefinitionError, FlintstreamError

FAILED, MISUSED = 1, 2
PIPE_WIDTH = 1_000
P = ParamSpec("P")
T = TypeVar("T")


def telling(command: Callable[P, T]) -> Callable[P, T]:
    """Return a command that says in one line why it failed, instead of in a traceback."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return command(*args, **kwargs)
        except (FlintstreamError, OSError) as error:
            as_json = bool(kwargs.get("as_json"))
            code = error.code if isinstance(error, FlintstreamError) else "os"
            text = json.dumps({"error": str(error), "code": code}) if as_json else f"flintstream: {error}"
            sys.stderr.write(text + "\n")
            raise typer.Exit(MISUSED if isinstance(error, DefinitionError) else FAILED) from None

    return run


def show_json(value: Any) -> None:
    """Print a value as JSON."""
    sys.stdout.write(json.dumps(value, indent=2, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return str(value)


def show_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows below their names; numbers stand on the right, and nothing is cut where it is not a terminal."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    cells = [tuple(row) for row in rows]
    for index, name in enumerate(names):
        is_number = bool(cells) and all(isinstance(row[index], int) for row in cells)
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True)
    for row in cells:
        table.add_row(*(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row))
    # Whoever reads from a pipe wants whole lines.
    Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else PIPE_WIDTH).print(table)


def size(count: int) -> str:
    """Return a number of bytes as people read it.

    >>> size(900), size(1_500_000)
    ('900 B', '1.4 MiB')
    """
    number, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if number < 1024:
            break
        number, unit = number / 1024, larger
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"


def moment(millis: int) -> str:
    """Return a time as people read it, in UTC.

    >>> moment(0)
    '1970-01-01 00:00:00'
    """
    return datetime.datetime.fromtimestamp(millis / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
