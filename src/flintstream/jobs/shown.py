"""What commands print: tables for people, JSON for programs, errors in one line each; and how they end.

Separate from the commands, so that none of them decides twice how a size or a time is written.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import os
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from flintstream.errors import DefinitionError, FlintstreamError

FAILED, MISUSED, NO_MANAGER, NO_JOB, WRONG_STATE, INTERRUPTED = 1, 2, 3, 4, 5, 130
"""Exit statuses; docs/how-to/command-line.md has the table."""
_STATUSES = {"no-manager": NO_MANAGER, "unknown-job": NO_JOB, "job-state": WRONG_STATE}
PIPE_WIDTH = 1_000
P = ParamSpec("P")
T = TypeVar("T")


def telling(command: Callable[P, T]) -> Callable[P, T]:
    """Return a command that says in one line why it failed, instead of in a traceback."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # Whoever read our output has seen enough (`flintstream list | head`).
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(FAILED) from None
        except (FlintstreamError, OSError) as error:
            as_json = bool(kwargs.get("as_json"))
            code = error.code if isinstance(error, FlintstreamError) else "os"
            notes: list[str] = getattr(error, "__notes__", [])
            document = {"error": str(error), "code": code, **({"notes": notes} if notes else {})}
            text = json.dumps(document) if as_json else "\n".join([f"flintstream: {error}", *notes])
            sys.stderr.write(text + "\n")
            raise typer.Exit(exit_status(error)) from None

    return run


def exit_status(error: BaseException) -> int:
    """Return the status that a command ends with after an error."""
    if isinstance(error, DefinitionError):
        return MISUSED
    return _STATUSES.get(error.code, FAILED) if isinstance(error, FlintstreamError) else FAILED


def tell(text: str) -> None:
    """Say something to whoever sits before the terminal; what programs read is on stdout."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


@contextmanager
def waiting(text: str) -> Generator[None]:
    """Show that something takes long, on a terminal."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield
        return
    with console.status(escape(text)):
        yield


def show_json(value: Any) -> None:
    """Print a value as JSON."""
    sys.stdout.write(json.dumps(value, indent=2, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return str(value)


def show_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows below their names; numbers stand on the right, and nothing is cut where it is not a terminal."""
    console().print(table_of(names, rows))


def console() -> Console:
    """Return what prints to stdout: in colours on a terminal, and in whole lines for whoever reads from a pipe."""
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def table_of(names: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return rows below their names as a table."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    cells = [tuple(row) for row in rows]
    for index, name in enumerate(names):
        is_number = bool(cells) and all(isinstance(row[index], int) for row in cells)
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True)
    for row in cells:
        table.add_row(*(Text(f"{cell:,}" if isinstance(cell, int) else str(cell)) for cell in row))
    return table


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


def span(millis: float | None) -> str:
    """Return a length of time as people read it.

    >>> span(None), span(850), span(2_500), span(90_000), span(7_260_000), span(200_000_000)
    ('-', '850 ms', '2.5 s', '1 min 30 s', '2 h 1 min', '2 d 7 h')
    """
    if millis is None:
        return "-"
    if millis < 1000:
        return f"{millis:.0f} ms"
    seconds = int(millis // 1000)
    if seconds < 60:
        return f"{millis / 1000:.1f} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    if seconds < 86_400:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{seconds // 86_400} d {seconds % 86_400 // 3600} h"


def number(value: float | None) -> str:
    """Return a count or a rate as people read it.

    >>> number(None), number(0), number(0.25), number(950), number(12_345), number(3_400_000)
    ('-', '0', '0.25', '950', '12.3 k', '3.4 M')
    """
    if value is None:
        return "-"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / {'G': 1e9, 'M': 1e6, 'k': 1e3}[unit]:.1f} {unit}"
    return f"{value:.0f}" if value == int(value) or abs(value) >= 10 else f"{value:.2f}"
