"""`flintstream list`, `show`, `logs`, `stop`, `cancel`, `rescale`, `restart`, `forget`: about jobs that are there.

Those that a job itself can answer (`show`, `stop`, `cancel`) also work without a manager, on its checkpoint directory.

Flink: the actions `list`, `stop` and `cancel` of the command line.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from flintstream.api import savepoints
from flintstream.engine.lease import holder
from flintstream.engine.manifest import newest
from flintstream.engine.requests import CANCEL, ask
from flintstream.errors import InvalidArgumentError, UnknownJobError, describe
from flintstream.jobs.command_follow import ERR, OUT, Link, follow_stream, last_lines
from flintstream.jobs.command_reach import SHORT_ID, Directory, Managed, managed, manager_at, target_of
from flintstream.jobs.command_show import LIST_NAMES, list_row, picture_of, show_directory, show_picture, watch
from flintstream.jobs.options import AsJson, Home, Job, ManagedJob, Manager, Orphans, Patience
from flintstream.jobs.shown import show_json, show_table, telling, waiting
from flintstream.jobs.spec import check_parallelism
from flintstream.jobs.view import JobView
from flintstream.state.storage_remote import storage_at

TAIL_BYTES = 1 << 20
AUTO = "auto"
LATEST = "latest"
_NUMBER = re.compile("[1-9][0-9]{0,8}")


@telling
def list_jobs(
    every: Annotated[bool, typer.Option("-a", "--all", help="Those that have ended as well.")] = False,
    manager: Manager = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """List the manager's jobs, newest first."""
    client = manager_at(manager, home)
    views = [view for view in client.jobs() if every or not view.has_ended]
    if as_json:
        show_json([view.as_dict() for view in views])
        return
    rows = [list_row(view, {} if view.has_ended else client.status(view.id), _now()) for view in views]
    if rows:
        show_table(LIST_NAMES, rows)
    else:
        typer.echo("no jobs" if every else "no running jobs; --all shows those that have ended")


@telling
def show(
    job: Job,
    watches: Annotated[bool, typer.Option("-w", "--watch", help="Go on showing it, live, until it ends.")] = False,
    manager: Manager = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Show a job: status, throughput, operators, latency, checkpoints."""
    if watches and as_json:
        what = "--json prints one document, and --watch goes on"
        raise InvalidArgumentError(describe(what, None, "leave one of them out"))
    target = target_of(job, manager, home)
    if isinstance(target, Directory):
        if watches:
            what = "--watch is for jobs of a manager; a directory only tells of its last epoch"
            raise InvalidArgumentError(describe(what, None, "leave it out"))
        document = directory_document(target.path)
        show_json(document) if as_json else show_directory(document)
        return
    client, found = target.client, target.view.id

    def look() -> tuple[Any, bool]:
        view = client.job(found)
        return picture_of(view, client.status(found), client.plan(found), _now()), view.has_ended

    if as_json:
        plan = {key: value for key, value in client.plan(found).items() if key != "picture"}
        show_json({"job": client.job(found).as_dict(), "status": client.status(found), "plan": plan})
    elif watches:
        watch(look)
    else:
        show_picture(look()[0])


def directory_document(path: str) -> dict[str, Any]:
    """Return what a checkpoint directory says of its job.

    Raises:
        UnknownJobError: there is no job's state.
    """
    storage = storage_at(path)
    manifest, held = newest(storage), holder(storage)
    if manifest is None and held is None:
        what = f"{path} is neither a job of a manager nor a checkpoint directory"
        raise UnknownJobError(describe(what, None, "flintstream list shows the manager's jobs"))
    epoch, finished = (0, False) if manifest is None else (manifest.epoch, manifest.finished)
    return {
        "name": held.job if manifest is None and held is not None else manifest and manifest.job,
        "status": "RUNNING" if held is not None else "FINISHED" if finished else "CANCELED",
        "process": None if held is None else f"{held.pid} on {held.host} since {held.since}",
        "epoch": epoch,
        "committed_ms": manifest and manifest.now,
        "state_entries": manifest and sum(manifest.entries.values()),
        "operators": {} if manifest is None else manifest.counters,
    }


@telling
def logs(
    job: ManagedJob,
    follows: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job ends, or Ctrl-C.")] = False,
    errors: Annotated[bool, typer.Option("--err", help="What the program wrote to stderr, instead of stdout.")] = False,
    lines: Annotated[
        int | None, typer.Option("-n", "--lines", min=0, help="Only the last lines of what is there already.")
    ] = None,
    manager: Manager = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Show what a job has printed."""
    target = managed(job, manager, home)
    found, stream = target.view.id, ERR if errors else OUT
    if as_json and follows:
        what = "--json prints one document, and --follow never ends"
        raise InvalidArgumentError(describe(what, None, "leave one of them out"))
    offset, text = _logged(target, stream, None if lines is None else -TAIL_BYTES)
    if lines is not None:
        text = last_lines(text, lines)
    if as_json:
        show_json({"job": found, "stream": stream, "text": text, "next_offset": offset})
        return
    typer.echo(text, nl=False)
    if follows:
        follow_stream(Link(lambda: manager_at(manager, home)), found, stream, offset)


def _logged(target: Managed, stream: str, start: int | None) -> tuple[int, str]:
    """Return all that is there, from a position on, and where it ends."""
    texts: list[str] = []
    piece = target.client.log(target.view.id, stream, start or 0, TAIL_BYTES)
    texts.append(piece.text)
    while piece.text and piece.next_offset < piece.size:
        piece = target.client.log(target.view.id, stream, piece.next_offset, TAIL_BYTES)
        texts.append(piece.text)
    return piece.next_offset, "".join(texts)


@telling
def stop(
    job: Job,
    savepoint: Annotated[
        str, typer.Option(help="Where its last savepoint goes; if not said, where the program or the manager says.")
    ] = "",
    drain: Annotated[bool, typer.Option(help="Let event time end first, so that windows and timers fire.")] = False,
    patience: Patience = 60.0,
    manager: Manager = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Let a running job take a savepoint and stop; print where the savepoint is."""
    target = target_of(job, manager, home)
    with waiting("the job takes its last savepoint"):
        if isinstance(target, Managed):
            path = target.client.stop(target.view.id, absolute(savepoint or None), drain, timeout=patience)
        else:
            path = savepoints.stop(target.path, savepoint or None, drain=drain, timeout=patience)
    if as_json:
        show_json({"savepoint": path})
    else:
        typer.echo(path)


@telling
def cancel(
    job: Job, patience: Patience = 60.0, manager: Manager = None, home: Home = None, as_json: AsJson = False
) -> None:
    """Let a running job stop behind its last epoch; it goes on from there when it is started again."""
    target = target_of(job, manager, home)
    with waiting("the job ends behind its epoch"):
        if isinstance(target, Managed):
            name = target.client.cancel(target.view.id, timeout=patience).id
            hint = f"`flintstream restart {name[:SHORT_ID]}` goes on from its last epoch"
        else:
            ask(storage_at(target.path), CANCEL, timeout=patience)
            name, hint = target.path, f"started again, it goes on from {target.path}"
    if as_json:
        show_json({"canceled": name})
    else:
        typer.echo(f"canceled; {hint}")


@telling
def rescale(
    job: ManagedJob,
    parallelism: Annotated[str, typer.Option("-p", "--parallelism", help="A number, or auto: by the backlog.")],
    least: Annotated[int, typer.Option(min=1, help="With auto: never below this.")] = 1,
    most: Annotated[
        int | None, typer.Option(min=1, help="With auto: never above this; the manager's slots without it.")
    ] = None,
    patience: Patience = 120.0,
    manager: Manager = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Run a job on with another parallelism, from its last epoch; or let it follow its backlog."""
    wanted = _parallelism(parallelism, least, most)
    target = managed(job, manager, home)
    with waiting("the job goes on with another parallelism"):
        if wanted is None:
            view = target.client.rescale_auto(target.view.id, least, most)
        else:
            view = target.client.rescale(target.view.id, wanted, timeout=patience)
    if as_json:
        show_json(view.as_dict())
    elif wanted is None:
        typer.echo(f"parallelism follows the backlog, {view.scaling}")
    else:
        typer.echo(f"parallelism {wanted}")


def _parallelism(text: str, least: int, most: int | None) -> int | None:
    """Return a parallelism, None for one that follows the backlog."""
    if text == AUTO:
        if most is not None and least > most:
            what = f"--parallelism auto goes from {least} to {most}"
            raise InvalidArgumentError(describe(what, None, "give the least first"))
        return None
    if most is not None or least != 1:
        what = "--least and --most are for --parallelism auto"
        raise InvalidArgumentError(describe(what, None, "leave them out, or write --parallelism auto"))
    if not _NUMBER.fullmatch(text):
        raise InvalidArgumentError(describe(f"--parallelism is {text[:100]!r}", None, "give 1 or more, or auto"))
    return check_parallelism(int(text))


@telling
def restart(
    job: ManagedJob,
    savepoint: Annotated[
        str | None,
        typer.Option("-s", "--from-savepoint", help="Begin with this savepoint (latest: the newest); else go on."),
    ] = None,
    drops_orphans: Orphans = False,
    patience: Patience = 120.0,
    manager: Manager = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Start a job again, whether it runs or has ended: from its last epoch, or from a savepoint."""
    target = managed(job, manager, home)
    chosen = _newest_savepoint(target) if savepoint == LATEST else absolute(savepoint)
    with waiting("the job starts again"):
        view = target.client.restart(target.view.id, chosen, drops_orphans, timeout=patience)
    _say(view, f"job {view.id} starts again" + ("" if chosen is None else f" from {chosen}"), as_json)


def _newest_savepoint(target: Managed) -> str:
    found = target.client.savepoints(target.view.id)
    if not found:
        what = f"job {target.view.name!r} has no savepoints"
        raise InvalidArgumentError(describe(what, None, "name the path of one, or leave --from-savepoint out"))
    return str(max(found, key=lambda each: each["taken_ms"])["path"])


@telling
def forget(job: ManagedJob, manager: Manager = None, home: Home = None, as_json: AsJson = False) -> None:
    """Remove a job that has ended from the manager's history, with its logs and the state the manager kept for it."""
    target = managed(job, manager, home)
    target.client.forget(target.view.id)
    if as_json:
        show_json({"forgotten": target.view.id})
    else:
        typer.echo(f"forgot job {target.view.id}")


def _say(view: JobView, text: str, as_json: bool) -> None:
    if as_json:
        show_json(view.as_dict())
    else:
        typer.echo(text)


def absolute(path: str | None) -> str | None:
    """Return a path as the manager sees it, which runs in a directory of its own."""
    return path if path is None or "://" in path else str(Path(path).absolute())


def _now() -> int:
    return int(time.time() * 1000)
