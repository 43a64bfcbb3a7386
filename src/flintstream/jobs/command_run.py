"""`flintstream run`, `explain` and `demo`: commands that start a program.

With a manager, `run` gives the program to it and shows what it prints; without one, or with `--here`, the program runs
below this terminal. Separate from the commands that look after jobs which run already.

Flink: the actions `run` and `info` of the command line.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from flintstream.api.environment import RUNTIME_VARIABLE
from flintstream.errors import InvalidArgumentError, describe
from flintstream.jobs.client import Client
from flintstream.jobs.command_follow import Link, follow
from flintstream.jobs.command_reach import SHORT_ID, home_of, is_here, manager_at, manager_if_any
from flintstream.jobs.launch import Given, explained, own_arguments, run_here, spec_of
from flintstream.jobs.options import AsJson, Detached, Entry, Here, Home, Manager, Module, Orphans, Program, Settings
from flintstream.jobs.shown import show_json, tell, telling, waiting
from flintstream.jobs.spec import JobSpec
from flintstream.jobs.view import JobView

DEMO, DEMO_NAME = "flintstream.demo", "AverageSensorReadings"
SECONDS_FOR_SLOT, SECONDS_TO_BEGIN = 5.0, 60.0
Master = Annotated[
    str | None, typer.Option("--master", help="Spark's master, such as spark://host:7077; else this machine.")
]
Parallelism = Annotated[
    int | None, typer.Option("-p", "--parallelism", min=1, help="The parallelism of operators that name none.")
]


@telling
def run(
    context: typer.Context,
    program: Program,
    is_module: Module = False,
    entry: Entry = None,
    detached: Detached = False,
    here: Here = False,
    name: Annotated[
        str | None, typer.Option(help="What the manager calls the job; without one, its name if it has none.")
    ] = None,
    master: Master = None,
    parallelism: Parallelism = None,
    settings: Settings = None,
    variables: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME=VALUE", help="A variable of the program's environment; may be repeated."),
    ] = None,
    savepoint: Annotated[str | None, typer.Option("-s", "--from-savepoint", help="Start from this savepoint.")] = None,
    drops_orphans: Orphans = False,
    manager: Manager = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Run a program, and start it again when it dies, by its restart strategy.

    With a manager it is the manager that runs it, while this command shows its output; Ctrl-C cancels it then.
    """
    given = Given(
        program=program,
        arguments=own_arguments(context.args),
        is_module=is_module,
        entry=entry,
        settings=tuple(settings or ()),
        variables=tuple(variables or ()),
        name=name,
        master=master,
        parallelism=parallelism,
        savepoint=savepoint,
        drops_orphans=drops_orphans,
    )
    client = _manager_for(detached, here, manager, home)
    if client is None:
        run_here(given, as_json=as_json)
    view = submit(client, spec_of(given), home)
    if detached:
        if as_json:
            show_json(view.as_dict())
        else:
            typer.echo(view.id)
        return
    tell(f"job {view.id} runs in the manager at {client.url}; Ctrl-C cancels it")
    raise typer.Exit(follow(Link(lambda: manager_at(manager, home)), view.id, as_json=as_json))


def _manager_for(detached: bool, here: bool, manager: str | None, home: str | None) -> Client | None:
    """Return the manager that is to run a program, None if it runs here."""
    if detached and here:
        msg = "--detached needs the manager that --here does without"
        raise typer.BadParameter(msg)
    if detached:
        return manager_at(manager, home)
    return None if here else manager_if_any(manager, home)


def submit(client: Client, spec: JobSpec, home: str | None) -> JobView:
    """Give a program to a manager; one on another machine gets the file itself, and knows no directory of this one."""
    upload = None
    if not is_here(client.url, home_of(home)):
        upload = None if spec.program is None else Path(spec.program)
        program = None if upload is None else upload.name
        spec = replace(spec, program=program, working_directory=None, python_path=())
    with waiting("submitting"):
        return client.submit(spec, upload=upload)


@telling
def explain(
    context: typer.Context,
    program: Program,
    is_module: Module = False,
    entry: Entry = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show how a program would run: it runs up to its first execute(), and no further."""
    given = Given(
        program=program,
        arguments=own_arguments(context.args),
        is_module=is_module,
        entry=entry,
        settings=tuple(settings or ()),
    )
    with waiting("reading the program"):
        document = explained(given)
    if as_json:
        show_json(document)
    else:
        typer.echo(document["text"])


@telling
def demo(
    context: typer.Context,
    runtime: Annotated[
        str | None, typer.Option(envvar=RUNTIME_VARIABLE, help="Where it runs: spark, or local for one process alone.")
    ] = None,
    rate: Annotated[float | None, typer.Option(min=1.0, help="In a manager: readings per second (1000).")] = None,
    here: Here = False,
    manager: Manager = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Run the demo: average sensor readings over event-time windows.

    In a manager it never ends, to be looked at and played with; without one it is over in a minute.
    """
    client = None if here else manager_if_any(manager, home)
    where = () if runtime is None else ("--runtime", runtime)
    if client is None:
        if rate is not None:
            what = "--rate is for the demo in a manager, and none runs"
            raise InvalidArgumentError(describe(what, None, "flintstream cluster start, or leave it out"))
        run_here(Given(program=DEMO, arguments=(*where, *context.args), is_module=True), as_json=as_json)
    # The time of the first reading is an argument, so that it stays what it is when the job starts again.
    since = str(int(time.time() * 1000))
    arguments = ("--endless", "--rate", f"{rate or 1000:g}", "--since", since, *where, *context.args)
    view = submit(client, JobSpec(module=DEMO, arguments=arguments, name=DEMO_NAME), home)
    view = _begun(client, view)
    if as_json:
        show_json({**view.as_dict(), "url": f"{client.url}/#/jobs/{view.id}"})
        return
    typer.echo(view.id)
    short = view.id[:SHORT_ID]
    state = "runs" if view.status == "RUNNING" else f"is {view.status}"
    tell(f"the demo {state}; look at {client.url}/#/jobs/{view.id}")
    tell(f"try: flintstream show {short} --watch, logs -f {short}, savepoint take {short}, cancel {short}")


def _begun(client: Client, view: JobView) -> JobView:
    """Wait until a job runs, so that whatever is asked of it next has an answer; not for a slot, if all are taken."""
    began = time.monotonic()
    with waiting("the demo starts"):
        while not view.has_ended and view.status != "RUNNING":
            patience = SECONDS_FOR_SLOT if view.status == "CREATED" else SECONDS_TO_BEGIN
            if time.monotonic() - began > patience:
                break
            time.sleep(0.2)
            view = client.job(view.id)
    return view
