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
from flintstream.errors import InvalidArgumentError, describe
from flintstream.jobs.command_jobs import absolute
from flintstream.jobs.command_reach import Managed, target_of
from flintstream.jobs.command_run import run
from flintstream.jobs.launch import PASSING
from flintstream.jobs.options import (
    AsJson,
    Detached,
    Entry,
    Here,
    Home,
    Job,
    Manager,
    Module,
    Orphans,
    Patience,
    Program,
    Savepoint,
    Settings,
    Tags,
)
from flintstream.jobs.shown import moment, show_json, show_table, size, telling, waiting
from flintstream.state.storage_remote import storage_at

app = typer.Typer(help="Takes, shows, compares, restores and disposes of savepoints.", no_args_is_help=True)


@app.command()
@telling
def take(
    job: Job,
    target: Annotated[
        str | None,
        typer.Argument(help="Where the savepoint gets a directory of its own; a manager's job has a place for them."),
    ] = None,
    tags: Tags = None,
    comment: Annotated[str, typer.Option(help="What else is to be remembered of it.")] = "",
    patience: Patience = 60.0,
    manager: Manager = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Take a savepoint of a job, which goes on if it runs; print where it is."""
    found, words = target_of(job, manager, home), tuple(tags or ())
    with waiting("taking a savepoint"):
        if isinstance(found, Managed):
            path = found.client.savepoint(found.view.id, absolute(target), words, comment, timeout=patience)
        else:
            path = _take(found.path, target, words, comment, patience)
    if as_json:
        show_json({"savepoint": path})
    else:
        typer.echo(path)


def _take(job: str, target: str | None, tags: tuple[str, ...], comment: str, patience: float) -> str:
    """Take a savepoint of the job of a checkpoint directory: it does so itself if it runs."""
    if holder(storage_at(job)) is not None:
        return savepoints.trigger(job, target, tags=tags, comment=comment, timeout=patience)
    if target is None:
        what = f"no job runs on {job} that knows where its savepoints go"
        raise InvalidArgumentError(describe(what, None, "name a directory: flintstream savepoint take JOB DIR"))
    return savepoints.take(job, target, tags=tags, comment=comment)


@app.command("list")
@telling
def list_all(
    where: Annotated[
        str, typer.Argument(metavar="DIR|JOB", help="The directory that savepoints were taken to, or a manager's job.")
    ],
    tag: Annotated[str | None, typer.Option(help="Only those with this tag.")] = None,
    manager: Manager = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """List the savepoints in a directory or of a job, oldest first."""
    target = target_of(where, manager, home)
    if isinstance(target, Managed):
        _list_of_job(target, tag, as_json)
        return
    found = savepoints.history(target.path, tag=tag)
    if as_json:
        show_json(found)
        return
    if not found:
        typer.echo(f"no savepoints in {target.path}")
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


def _list_of_job(target: Managed, tag: str | None, as_json: bool) -> None:
    """List what the manager knows of a job's savepoints."""
    entries = sorted(target.client.savepoints(target.view.id), key=lambda each: each["taken_ms"])
    found = [each for each in entries if tag is None or tag in each.get("tags", ())]
    if as_json:
        show_json(found)
        return
    if not found:
        typer.echo(f"job {target.view.name!r} has no savepoints")
        return
    rows = [
        (each["path"], moment(each["taken_ms"]), each["epoch"], size(each["bytes"]), " ".join(each["tags"]) or "-")
        for each in found
    ]
    show_table(("savepoint", "taken (UTC)", "epoch", "size", "tags"), rows)


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
    program: Program,
    is_module: Module = False,
    entry: Entry = None,
    detached: Detached = False,
    here: Here = False,
    settings: Settings = None,
    drops_orphans: Orphans = False,
    manager: Manager = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Run a program from a savepoint, as `flintstream run --from-savepoint` does, which has more options."""
    savepoints.show(path)
    run(
        context,
        program,
        is_module=is_module,
        entry=entry,
        detached=detached,
        here=here,
        settings=settings,
        savepoint=path,
        drops_orphans=drops_orphans,
        manager=manager,
        home=home,
        as_json=as_json,
    )
