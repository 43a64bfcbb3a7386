"""`flintstream savepoint ...`: take, list, show, compare, tag, restore and dispose of savepoints.

Flink: the actions `savepoint` and `savepoint --dispose` of the command line. Differs from Flink: a savepoint can also
be taken of a job that does not run, and savepoints have a history.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated

import typer

from flintstream.api import savepoints
from flintstream.engine.lease import holder
from flintstream.jobs.launch import PASSING, run_program
from flintstream.jobs.options import AsJson, Job, Module, Orphans, Patience, Savepoint, Settings, Tags
from flintstream.jobs.shown import moment, show_json, show_table, size, telling
from flintstream.state.storage_remote import storage_at

app = typer.Typer(help="Takes, shows, compares, restores and disposes of savepoints.", no_args_is_help=True)


@app.command()
@telling
def take(
    job: Job,
    target: Annotated[str, typer.Argument(help="Where the savepoint gets a directory of its own.")],
    tags: Tags = None,
    comment: Annotated[str, typer.Option(help="What else is to be remembered of it.")] = "",
    patience: Patience = 60.0,
    as_json: AsJson = False,
) -> None:
    """Take a savepoint of a job, which goes on if it runs; print where it is."""
    if holder(storage_at(job)) is None:
        path = savepoints.take(job, target, tags=tags or (), comment=comment)
    else:
        path = savepoints.trigger(job, target, tags=tags or (), comment=comment, timeout=patience)
    if as_json:
        show_json({"savepoint": path})
    else:
        typer.echo(path)


@app.command("list")
@telling
def list_all(
    directory: Annotated[str, typer.Argument(help="The directory that savepoints were taken to.")],
    tag: Annotated[str | None, typer.Option(help="Only those with this tag.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the savepoints in a directory, oldest first."""
    found = savepoints.history(directory, tag=tag)
    if as_json:
        show_json(found)
        return
    names = ("savepoint", "taken (UTC)", "job", "epoch", "release", "parent", "rows", "size", "tags")
    show_table(
        names,
        [
            (
                PurePath(each.path).name, moment(each.created), each.job, each.epoch, each.version,
                (each.parent or "-")[:12], each.rows, size(each.bytes), " ".join(each.tags) or "-",
            )
            for each in found
        ],
    )  # fmt: skip


@app.command()
@telling
def show(path: Savepoint, as_json: AsJson = False) -> None:
    """Show what is in a savepoint: operators and their state, and how far sources were read."""
    document = savepoints.show(path)
    if as_json:
        show_json(document)
        return
    typer.echo(f"savepoint {document.id} of job {document.job!r} behind epoch {document.epoch}")
    typer.echo(f"taken {moment(document.created)} UTC ({document.kind}) by release {document.version}")
    if document.parent:
        typer.echo(f"its job was started from {document.parent}")
    if document.tags or document.comment:
        typer.echo(" ".join([*(f"[{tag}]" for tag in document.tags), document.comment]).strip())
    rows = [
        (op.uid, op.name, table.name.removeprefix(f"{op.uid}/"), table.what,
         sum(part.rows for part in table.parts), size(sum(part.bytes for part in table.parts)))
        for op in document.operators
        for table in op.tables
    ]  # fmt: skip
    typer.echo()
    show_table(("uid", "operator", "state", "kind", "rows", "size"), rows)
    positions = [
        (source.uid, source.kind, str(split), position)
        for source in document.sources
        for split, position in source.positions.items()
    ]
    if positions:
        typer.echo()
        show_table(("source", "kind", "split", "next position"), positions)


@app.command()
@telling
def diff(first: Savepoint, second: Savepoint, as_json: AsJson = False) -> None:
    """Compare two savepoints: how much of each state was added, removed and changed."""
    found = savepoints.diff(first, second)
    if as_json:
        show_json(found)
        return
    names = ("uid", "state", "added", "removed", "changed", "same")
    show_table(names, [(each.uid, each.state, each.added, each.removed, each.changed, each.same) for each in found])


@app.command()
@telling
def tag(
    path: Savepoint,
    tags: Annotated[list[str] | None, typer.Argument(help="The words; without any it has none.")] = None,
    comment: Annotated[str | None, typer.Option(help="Another comment.")] = None,
    as_json: AsJson = False,
) -> None:
    """Give a savepoint these tags instead of those it has."""
    found = savepoints.tag(path, *(tags or ()), comment=comment)
    if as_json:
        show_json(found)
    else:
        typer.echo(" ".join(found.tags) or "no tags")


@app.command()
@telling
def check(path: Savepoint, as_json: AsJson = False) -> None:
    """Read all of a savepoint and compare it with its checksums."""
    document = savepoints.check(path)
    if as_json:
        show_json({"id": document.id, "is_whole": True})
    else:
        typer.echo(f"savepoint {document.id} is whole")


@app.command()
@telling
def dispose(
    path: Savepoint,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a savepoint, and nothing else."""
    document = savepoints.show(path)
    if not yes:
        typer.confirm(f"delete savepoint {document.id} of job {document.job!r} at {path}?", abort=True, err=True)
    savepoints.dispose(path)
    if as_json:
        show_json({"disposed": document.id})
    else:
        typer.echo(f"disposed of savepoint {document.id}")


@app.command(context_settings=PASSING)
@telling
def restore(
    context: typer.Context,
    path: Savepoint,
    program: Annotated[str, typer.Argument(help="A script, or with -m the name of a module; its arguments follow.")],
    is_module: Module = False,
    settings: Settings = None,
    drops_orphans: Orphans = False,
) -> None:
    """Run a program from a savepoint; the same as `flintstream run --from-savepoint`."""
    savepoints.show(path)
    run_program(program, context.args, settings, is_module=is_module, savepoint=path, drops_orphans=drops_orphans)
