"""The command line: `flintstream run app.py`, `flintstream list`, `flintstream savepoint ...`, all in one place.

A job is named by its id or its name in a manager, or by its checkpoint directory: who may write there may ask the job
for a savepoint or to stop, and nothing else has to run. Separate from what the commands do, which the modules
`command_*` have.

Flink: the command `flink` (CliFrontend), and the scripts that start a cluster.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Sequence
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
from flintstream.jobs.shown import INTERRUPTED, MISUSED

app = typer.Typer(
    name="flintstream",
    help="Runs stream-processing jobs, and looks after them and their savepoints.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
JOBS, PROGRAMS, MACHINE = "Jobs", "Programs", "This machine"
app.command(context_settings=PASSING, rich_help_panel=PROGRAMS)(command_run.run)
app.command(context_settings=PASSING, rich_help_panel=PROGRAMS)(command_run.explain)
app.command(context_settings=PASSING, rich_help_panel=PROGRAMS)(command_bench.bench)
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
    try:
        app(None if argv is None else list(argv), prog_name="flintstream")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else MISUSED if end.code else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
