"""The command line: `flintstream run app.py`, `flintstream list`, `flintstream savepoint ...`, all in one place.

A job is named by its id or its name in a manager, or by its checkpoint directory: who may write there may ask the job
for a savepoint or to stop, and nothing else has to run. Separate from what the commands do, which the modules
`command_*` have.

Flink: the command `flink` (CliFrontend), and the scripts that start a cluster.
"""

from __future__ import annotations

import importlib.metadata
import io
import json
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from flintstream.jobs import (
    command_bench,
    command_cluster,
    command_doctor,
    command_jobs,
    command_run,
    command_savepoint,
    command_state,
)
from flintstream.jobs.launch import PASSING
from flintstream.jobs.shown import FAILED, INTERRUPTED, MISUSED

app = typer.Typer(
    name="flintstream",
    help="Runs stream-processing jobs, and looks after them and their savepoints.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
JOBS, PROGRAMS, MACHINE = "Jobs", "Programs", "This machine"
app.command(context_settings=PASSING, rich_help_panel=PROGRAMS)(command_run.run)
app.command(context_settings=PASSING, rich_help_panel=PROGRAMS)(command_run.explain)
app.command(context_settings=command_bench.MIXED, rich_help_panel=PROGRAMS)(command_bench.bench)
app.command(context_settings=PASSING, rich_help_panel=PROGRAMS)(command_run.demo)
app.command("list", rich_help_panel=JOBS)(command_jobs.list_jobs)
app.command(rich_help_panel=JOBS)(command_jobs.show)
app.command(rich_help_panel=JOBS)(command_jobs.logs)
app.command(rich_help_panel=JOBS)(command_jobs.stop)
app.command(rich_help_panel=JOBS)(command_jobs.cancel)
app.command(rich_help_panel=JOBS)(command_jobs.rescale)
app.command(rich_help_panel=JOBS)(command_jobs.restart)
app.command(rich_help_panel=JOBS)(command_jobs.forget)
app.add_typer(command_savepoint.app, name="savepoint", rich_help_panel=JOBS)
app.add_typer(command_state.app, name="state", rich_help_panel=JOBS)
app.add_typer(command_cluster.app, name="cluster", rich_help_panel=MACHINE)
app.command("open", rich_help_panel=MACHINE)(command_cluster.open_dashboard)
app.command(rich_help_panel=MACHINE)(command_doctor.doctor)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(importlib.metadata.version("flintstream"))
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the release and leave.")
    ] = False,
) -> None:
    """Runs stream-processing jobs, and looks after them and their savepoints."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status."""
    words = _completed(list(sys.argv[1:] if argv is None else argv))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names of jobs may have letters that a terminal does not know.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        if "--json" in words[: words.index("--") if "--" in words else None]:
            return _for_a_program(words)
        app(words, prog_name="flintstream")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else MISUSED if end.code else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _completed(words: list[str]) -> list[str]:
    """Let `stop JOB --savepoint` do without a place, which the parser knows no option for."""
    if words[:1] != ["stop"]:
        return words
    following = [*words[1:], "-"]
    return [
        f"{word}=" if word == "--savepoint" and after.startswith("-") else word
        for word, after in zip(words, following, strict=True)
    ]


def _for_a_program(words: list[str]) -> int:
    """Run a command whose caller reads JSON: that it was called in a wrong way is told so, too."""
    try:
        status = app(words, prog_name="flintstream", standalone_mode=False)
    except typer.Abort:
        what, code, status = "nobody said yes", "aborted", FAILED
    except Exception as error:
        # All errors of the parser have this method; their classes depend on its release.
        told: Callable[[], str] | None = getattr(error, "format_message", None)
        if told is None:
            raise
        what, code, status = told(), "usage", MISUSED
    else:
        return status if isinstance(status, int) else 0
    sys.stderr.write(json.dumps({"error": what, "code": code}) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
