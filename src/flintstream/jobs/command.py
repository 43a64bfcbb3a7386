"""The command line: `flintstream run app.py`, `flintstream stop`, `flintstream savepoint ...`.

A job is named by its checkpoint directory: who may write there may ask the job for a savepoint or to stop, and nothing
else has to run. Separate from what the commands do, which is a library's business.

Flink: the command `flink` (CliFrontend).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from flintstream.api import savepoints
from flintstream.engine.requests import CANCEL, ask
from flintstream.jobs import command_savepoint
from flintstream.jobs.launch import PASSING, run_program
from flintstream.jobs.options import AsJson, Job, Module, Orphans, Patience, Settings
from flintstream.jobs.shown import MISUSED, show_json, telling
from flintstream.state.storage_remote import storage_at

app = typer.Typer(
    name="flintstream",
    help="Runs stream-processing jobs, and looks after them and their savepoints.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(command_savepoint.app, name="savepoint")


@app.command(context_settings=PASSING)
@telling
def run(
    context: typer.Context,
    program: Annotated[str, typer.Argument(help="A script, or with -m the name of a module; its arguments follow.")],
    is_module: Module = False,
    settings: Settings = None,
    savepoint: Annotated[str | None, typer.Option("-s", "--from-savepoint", help="Start from this savepoint.")] = None,
    drops_orphans: Orphans = False,
) -> None:
    """Run a program, and start it again when it dies, by its restart strategy."""
    run_program(program, context.args, settings, is_module=is_module, savepoint=savepoint, drops_orphans=drops_orphans)


@app.command()
@telling
def stop(
    job: Job,
    savepoint: Annotated[
        str | None, typer.Option(help="Where its last savepoint goes; else where the program says.")
    ] = None,
    drain: Annotated[bool, typer.Option(help="Let event time end first, so that windows and timers fire.")] = False,
    patience: Patience = 60.0,
    as_json: AsJson = False,
) -> None:
    """Let a running job take a savepoint and stop; print where the savepoint is."""
    path = savepoints.stop(job, savepoint, drain=drain, timeout=patience)
    if as_json:
        show_json({"savepoint": path})
    else:
        typer.echo(path)


@app.command()
@telling
def cancel(job: Job, patience: Patience = 60.0, as_json: AsJson = False) -> None:
    """Let a running job stop behind its last epoch; it goes on from there when it is started again."""
    ask(storage_at(job), CANCEL, timeout=patience)
    if as_json:
        show_json({"canceled": job})
    else:
        typer.echo(f"canceled; started again, it goes on from {job}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status."""
    try:
        app(None if argv is None else list(argv), prog_name="flintstream")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else MISUSED if end.code else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
