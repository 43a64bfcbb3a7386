"""`flintstream state ...`: look into the queryable state of a job, whether a manager runs it or not.

Flink: QueryableStateClient. Differs from Flink: a command as well as a library, and it needs no running job.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from flintstream.api.queryable import KeyText, QueryableStateClient
from flintstream.jobs.command_reach import Managed, target_of
from flintstream.jobs.options import AsJson, Home, Job, Manager
from flintstream.jobs.shown import FAILED, show_json, show_table, telling

app = typer.Typer(help="Looks into the queryable state of jobs.", no_args_is_help=True)
Operator = Annotated[str, typer.Argument(metavar="OPERATOR", help="The operator's uid or name; - if only one has it.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name under which the state is queryable.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help='A key: text, or JSON such as 42 or ["de", 7].')]
Window = Annotated[
    str | None, typer.Option(metavar="START[,END]", help="The window whose content is asked for, in ms.")
]
Prefix = Annotated[str | None, typer.Option(help="Only keys that begin with this.")]


def _client(job: str, manager: str | None, home: str | None) -> QueryableStateClient:
    target = target_of(job, manager, home)
    if isinstance(target, Managed):
        return QueryableStateClient(target.client.url, job=target.view.id, token=target.client.token)
    return QueryableStateClient(target.path)


def _operator(name: str) -> str | None:
    return None if name == "-" else name


@app.command("list")
@telling
def list_states(job: Job, manager: Manager = None, home: Home = None, as_json: AsJson = False) -> None:
    """List the states of a job that can be queried."""
    found = _client(job, manager, home).states()
    if as_json:
        show_json(found)
        return
    names = ("operator", "operator_name", "name", "kind")
    show_table(("operator", "its name", "state", "kind"), [tuple(each[name] for name in names) for each in found])


@app.command()
@telling
def get(
    job: Job,
    operator: Operator,
    name: Name,
    key: Key,
    window: Window = None,
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="What the running epoch has staged already, too.")
    ] = False,
    manager: Manager = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Print the value of a key; ends with 1 if there is none."""
    client = _client(job, manager, home)
    consistency = "uncommitted" if uncommitted else "committed"
    answer = client.get(name, KeyText(key), operator=_operator(operator), window=window, consistency=consistency)
    if as_json:
        show_json(answer.as_dict())
    elif answer.found:
        typer.echo(_text(answer.value))
    else:
        sys.stderr.write(f"flintstream: {name} has no key {key} as of epoch {answer.epoch}\n")
    if not answer.found:
        raise typer.Exit(FAILED)


@app.command()
@telling
def scan(
    job: Job,
    operator: Operator,
    name: Name,
    prefix: Prefix = None,
    limit: Annotated[int, typer.Option(min=1, help="How many keys at most.")] = 100,
    after: Annotated[str | None, typer.Option(help="Go on behind this, from the answer before.")] = None,
    manager: Manager = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """List keys with their values, in the order of the keys."""
    client = _client(job, manager, home)
    begins = None if prefix is None else KeyText(prefix)
    page = client.scan(name, prefix=begins, limit=limit, after=after, operator=_operator(operator))
    if as_json:
        show_json(page.as_dict())
        return
    show_table(("key", "value"), [(_text(each.key), _text(each.value)) for each in page.entries])
    if page.after is not None:
        sys.stderr.write(f"there is more: --after {page.after}\n")


@app.command()
@telling
def watch(
    job: Job,
    operator: Operator,
    name: Name,
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="A key; or give --prefix.")] = None,
    prefix: Prefix = None,
    window: Window = None,
    manager: Manager = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Print the value of a key, or of all keys with a prefix, whenever it changes; Ctrl-C ends it."""
    if (key is None) == (prefix is None):
        msg = "give either a key or --prefix"
        raise typer.BadParameter(msg)
    client = _client(job, manager, home)
    which: dict[str, Any] = {"key": KeyText(key)} if key is not None else {"prefix": KeyText(prefix or "")}
    for answer in client.watch(name, operator=_operator(operator), window=window, **which):
        if as_json:
            line = json.dumps(answer.as_dict(), default=str)
        else:
            line = f"epoch {answer.epoch}  {_text(answer.key)}  {_text(answer.value) if answer.found else '(removed)'}"
        typer.echo(line)
        sys.stdout.flush()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
