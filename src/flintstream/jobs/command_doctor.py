"""`flintstream doctor`: shows what was found on this machine, and what to do about it.

Flink: nothing like it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flintstream.jobs.command_cluster import PORT
from flintstream.jobs.command_reach import home_of, manager_if_any
from flintstream.jobs.doctor import MISSING, OFF, OK, WARNING, Finding, examine, is_well
from flintstream.jobs.options import AsJson, Home, Manager
from flintstream.jobs.shown import FAILED, show_json, show_table, telling, waiting

MARKS = {OK: "ok", WARNING: "warning", MISSING: "MISSING", OFF: "-"}


@telling
def doctor(
    folders: Annotated[
        list[str] | None,
        typer.Option("--checkpoint-dir", metavar="DIR", help="A directory where state is to go; may be repeated."),
    ] = None,
    port: Annotated[
        int,
        typer.Option(min=0, max=65535, envvar="FLINTSTREAM_PORT", help="The port that a manager is to listen at."),
    ] = PORT,
    manager: Manager = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Look whether this machine can run jobs, and say how to mend what it lacks; ends with 1 if it cannot."""

    def overview() -> dict[str, Any] | None:
        client = manager_if_any(manager, home)
        return None if client is None else {**client.overview(), "url": client.url}

    with waiting("looking at this machine"):
        findings = examine(home_of(home), [Path(folder) for folder in folders or ()], port, overview)
    if as_json:
        show_json({"well": is_well(findings), "findings": [each.as_dict() for each in findings]})
    else:
        _show(findings)
    if not is_well(findings):
        raise typer.Exit(FAILED)


def _show(findings: list[Finding]) -> None:
    show_table(("", "what", "found"), [(MARKS[each.state], each.name, each.found) for each in findings])
    for each in findings:
        if each.state in (WARNING, MISSING) and each.remedy is not None:
            typer.echo(f"{each.name}: {each.remedy}")
    missing = [each.name for each in findings if each.state == MISSING]
    typer.echo("jobs cannot run without: " + ", ".join(missing) if missing else "jobs can run here")
