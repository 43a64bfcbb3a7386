"""Arguments and options that several commands have, so that they mean and say the same everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

from flintstream.jobs.command_reach import HOME_VARIABLE, MANAGER_VARIABLE, job_words


def complete_job(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the jobs of the manager that a word may become."""
    words = job_words(context.params.get("manager"), context.params.get("home"))
    return [(word, help) for word, help in words if word.startswith(incomplete)]


_JOB = "A job of the manager (its id, the start of it, or its name), or a checkpoint directory."
Job = Annotated[str, typer.Argument(metavar="JOB", help=_JOB, autocompletion=complete_job)]
ManagedJob = Annotated[
    str,
    typer.Argument(metavar="JOB", help="A job: its id, the start of it, or its name.", autocompletion=complete_job),
]
Manager = Annotated[
    str | None,
    typer.Option(
        "--manager", metavar="URL", envvar=MANAGER_VARIABLE, help="The manager's address; else the one of the home."
    ),
]
Home = Annotated[
    str | None,
    typer.Option(
        "--home", metavar="DIR", envvar=HOME_VARIABLE, help="The manager's directory on this machine (~/.flintstream)."
    ),
]
Savepoint = Annotated[str, typer.Argument(metavar="SAVEPOINT", help="A savepoint's directory.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Program = Annotated[str, typer.Argument(help="A script, or with -m the name of a module; its arguments follow.")]
Module = Annotated[bool, typer.Option("-m", "--module", help="The program is the name of a module.")]
Entry = Annotated[
    str | None,
    typer.Option("-c", "--class", metavar="ENTRY", help="The class, function or module of the program that runs."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("-D", metavar="KEY=VALUE", help="A setting by Flink's name; what the program sets itself wins."),
]
Orphans = Annotated[
    bool,
    typer.Option("-n", "--allow-non-restored-state", help="Drop state that no operator of the program has."),
]
Patience = Annotated[float, typer.Option("--timeout", min=0.0, help="How many seconds to wait for the job's answer.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="A word to find it by; may be given again.")]
Detached = Annotated[
    bool, typer.Option("-d", "--detached", help="Let the manager run it; print the job's id and leave.")
]
Here = Annotated[bool, typer.Option("--here", help="Run it in this terminal, even if there is a manager.")]
