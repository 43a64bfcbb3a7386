"""Arguments and options that several commands have, so that they mean and say the same everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

Job = Annotated[str, typer.Argument(metavar="JOB", help="The job's checkpoint directory.")]
Savepoint = Annotated[str, typer.Argument(metavar="SAVEPOINT", help="A savepoint's directory.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Module = Annotated[bool, typer.Option("-m", "--module", help="The program is the name of a module.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("-D", metavar="KEY=VALUE", help="A setting by Flink's name; what the program sets itself wins."),
]
Orphans = Annotated[
    bool,
    typer.Option("-n", "--allow-non-restored-state", help="Drop state that no operator of the program has."),
]
Patience = Annotated[float, typer.Option("--timeout", help="How many seconds to wait for the job's answer.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="A word to find it by; may be given again.")]
