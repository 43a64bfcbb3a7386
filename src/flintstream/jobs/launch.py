"""Starts a user's program for a command: what the command line was given reaches it as its environment's settings."""

from __future__ import annotations

import json
from collections.abc import Sequence

import typer

from flintstream.api.environment import SETTINGS_VARIABLE
from flintstream.errors import InvalidArgumentError, describe
from flintstream.jobs.supervise import supervise

# What comes behind the program is the program's own.
PASSING = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}


def run_program(
    program: str,
    arguments: Sequence[str],
    settings: Sequence[str] | None,
    *,
    is_module: bool,
    savepoint: str | None,
    drops_orphans: bool,
) -> None:
    """Run a program under a supervisor and leave with its exit status."""
    given = dict(_pair(text) for text in settings or ())
    if savepoint is not None:
        given["execution.state-recovery.path"] = savepoint
    if drops_orphans:
        given["execution.state-recovery.ignore-unclaimed-state"] = "true"
    restart = {key: value for key, value in given.items() if key.startswith("restart-strategy")}
    rest = {key: value for key, value in given.items() if key not in restart}
    environment = {SETTINGS_VARIABLE: json.dumps(rest)} if rest else {}
    arguments = arguments[1:] if arguments[:1] == ["--"] else arguments
    raise typer.Exit(supervise(program, arguments, restart, is_module=is_module, environment=environment))


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise InvalidArgumentError(describe(f"-D {text} has no value", None, "write -D key=value"))
    return key.strip(), value.strip()
