"""A user's program as a command line names it: how it is run here, described to a manager, or only explained.

What the command line was given reaches the program as its environment's settings. Separate from the commands, because
several of them start programs.

Flink: ProgramOptions and ProgramDeployer of the command line.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import typer

from flintstream.api.environment import IMPOSED_VARIABLE, SETTINGS_VARIABLE
from flintstream.api.explain_only import VARIABLE as EXPLAIN_VARIABLE
from flintstream.errors import InvalidArgumentError, JobError, describe
from flintstream.jobs.shown import show_json
from flintstream.jobs.spec import JobSpec
from flintstream.jobs.supervise import child_command, no_program, supervise

# What comes behind the program is the program's own.
PASSING = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
STDERR = 2
PASSED_ON = ("FLINTSTREAM_RUNTIME",)
"""Variables of this shell that belong to a program wherever it runs."""


@dataclass(frozen=True)
class Given:
    """What the command line says of a program."""

    program: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False
    entry: str | None = None
    settings: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    name: str | None = None
    master: str | None = None
    parallelism: int | None = None
    savepoint: str | None = None
    drops_orphans: bool = False

    def pairs(self) -> dict[str, str]:
        """Return its settings by their keys."""
        return dict(_pair(text, "-D") for text in self.settings)

    def environment(self) -> dict[str, str]:
        """Return the variables it is given."""
        return dict(_pair(text, "--env") for text in self.variables)


def own_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return what the program finds in `sys.argv[1:]`: what follows it, without the `--` that may stand between."""
    return tuple(arguments[1:] if arguments[:1] == ["--"] else arguments)


def run_here(given: Given, *, as_json: bool = False) -> NoReturn:
    """Run a program under a supervisor and leave with its exit status; for JSON, its stdout makes way."""
    pairs = given.pairs()
    if given.savepoint is not None:
        pairs["execution.state-recovery.path"] = given.savepoint
    if given.drops_orphans:
        pairs["execution.state-recovery.ignore-unclaimed-state"] = "true"
    if given.name is not None:
        pairs["pipeline.name"] = given.name
    if given.master is not None:
        pairs["spark.master"] = given.master
    restart = {key: value for key, value in pairs.items() if key.startswith("restart-strategy")}
    rest = {key: value for key, value in pairs.items() if key not in restart}
    environment = {**given.environment(), **({SETTINGS_VARIABLE: json.dumps(rest)} if rest else {})}
    if given.parallelism is not None:
        environment[IMPOSED_VARIABLE] = json.dumps({"parallelism.default": str(given.parallelism)})
    status = supervise(
        given.program,
        given.arguments,
        restart,
        is_module=given.is_module,
        entry=given.entry,
        environment=environment,
        stdout=STDERR if as_json else None,
    )
    if as_json:
        show_json({"exit_status": status})
    raise typer.Exit(status)


def spec_of(given: Given) -> JobSpec:
    """Return what a manager is told of a program: it runs where this command was typed, and imports from there.

    Raises:
        InvalidArgumentError: there is no such program.
    """
    try:
        here = Path.cwd()
    except FileNotFoundError:
        what = "the directory in which this command was typed is gone"
        raise InvalidArgumentError(describe(what, None, "go to another one")) from None
    program = None
    if not given.is_module:
        path = here / given.program
        if not path.exists():
            raise no_program(given.program)
        program = str(path)
    inherited = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    importable = [
        str(Path(folder).absolute()) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder
    ]
    return JobSpec(
        program=program,
        module=given.program if given.is_module else None,
        entry=given.entry,
        arguments=given.arguments,
        settings=given.pairs(),
        name=given.name,
        master=given.master,
        parallelism=given.parallelism,
        savepoint=None if given.savepoint is None else _absolute(given.savepoint),
        allow_non_restored=given.drops_orphans,
        working_directory=str(here),
        environment={**inherited, **given.environment()},
        python_path=tuple(importable),
    )


def explained(given: Given) -> dict[str, Any]:
    """Return the plan of a program that runs as far as its first `execute()`.

    Raises:
        JobError: it failed before, or it has none.
    """
    if not given.is_module and not Path(given.program).exists():
        raise no_program(given.program)
    command = child_command(given.program, given.arguments, is_module=given.is_module, entry=given.entry)
    with tempfile.TemporaryDirectory(prefix="flintstream-explain-") as folder:
        told = Path(folder) / "plan.json"
        variables = {**os.environ, SETTINGS_VARIABLE: json.dumps(given.pairs()), EXPLAIN_VARIABLE: str(told)}
        # What the program prints itself is not part of the plan.
        status = subprocess.run(command, env=variables, stdout=STDERR, check=False).returncode
        if told.exists():
            return json.loads(told.read_text())
    what = f"the program {'ended' if status == 0 else 'failed'} before it came to an execute()"
    remedy = "call execute() in what the program runs" if status == 0 else "its own error is above"
    raise JobError(describe(what, given.program, remedy))


def _absolute(path: str) -> str:
    return path if "://" in path else str(Path(path).absolute())


def _pair(text: str, option: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        hidden = key if separator else text
        wanted = "key=value" if option == "-D" else "NAME=VALUE"
        raise InvalidArgumentError(describe(f"{option} {hidden} has no value", None, f"write {option} {wanted}"))
    return key.strip(), value.strip() if option == "-D" else value
