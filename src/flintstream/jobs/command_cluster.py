"""`flintstream cluster ...` and `flintstream open`: start, stop and look at the manager.

Flink: `start-cluster.sh` and `stop-cluster.sh`. Differs from Flink: a second start over the same home stands by and
takes over when the first one dies, and jobs outlive a manager that is stopped.
"""

from __future__ import annotations

import ipaddress
import sys
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from flintstream.jobs.command_reach import check_readable, home_of, manager_at
from flintstream.jobs.leader import leader_of
from flintstream.jobs.options import AsJson, Home, Manager
from flintstream.jobs.server import PORT, serve, start_detached, stop_running
from flintstream.jobs.shown import number, show_json, show_table, span, tell, telling, waiting

LOOPBACK = "127.0.0.1"
app = typer.Typer(help="Starts, stops and shows the manager, which runs jobs.", no_args_is_help=True)


@app.command()
@telling
def start(
    host: Annotated[
        str, typer.Option(help="The address to listen at; others than this machine need the token.")
    ] = LOOPBACK,
    port: Annotated[
        int, typer.Option(min=0, max=65535, envvar="FLINTSTREAM_PORT", help="The port; 0 takes one that is free.")
    ] = PORT,
    slots: Annotated[
        int | None, typer.Option(min=1, help="How many jobs run at once; the cores of this machine without it.")
    ] = None,
    allow_path: Annotated[
        list[str] | None,
        typer.Option("--allow-path", metavar="DIR", help="Savepoints may go here and come from here; may be repeated."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Another name of this machine that browsers may use."),
    ] = None,
    foreground: Annotated[bool, typer.Option("--foreground", help="Run in this terminal until Ctrl-C.")] = False,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Start a manager; over a home that has one already, it stands by and takes over when that one dies."""
    folder = home_of(home)
    leader = leader_of(folder)
    paths, hosts = [str(Path(path).absolute()) for path in allow_path or ()], list(allow_host or ())
    if foreground:
        status = serve(
            folder, host, port, slots=slots, allow_paths=paths, allow_hosts=hosts,
            on_ready=lambda url: _say_started(url, folder, leader is not None, as_json),
        )  # fmt: skip
        raise typer.Exit(status)
    with waiting("starting the manager"):
        url = start_detached(folder, host, port, slots=slots, allow_paths=paths, allow_hosts=hosts)
    _say_started(url, folder, leader is not None, as_json)
    if not as_json and not _is_loopback(host):
        tell(f"it is open to other machines: they need the token in {folder / 'token'}")


def _say_started(url: str, home: Path, is_standby: bool, as_json: bool) -> None:
    if as_json:
        show_json({"url": url, "home": str(home), "standby": is_standby})
    else:
        typer.echo(f"manager {'stands by' if is_standby else 'runs'} at {url}")
    sys.stdout.flush()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@app.command()
@telling
def stop(
    cancel_jobs: Annotated[
        bool, typer.Option("--cancel-jobs", help="Cancel its jobs first, which go on else.")
    ] = False,
    patience: Annotated[float, typer.Option("--timeout", min=0.0, help="How many seconds to wait for its end.")] = 30.0,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Stop the manager of the home; its jobs run on, and the next manager takes them up."""
    folder = home_of(home)
    check_readable(folder)
    with waiting("stopping the manager"):
        was_there = stop_running(folder, cancel_jobs=cancel_jobs, timeout=patience)
    if as_json:
        show_json({"stopped": was_there})
    elif was_there:
        typer.echo("manager stopped" + ("" if cancel_jobs else "; its jobs run on"))
    else:
        typer.echo(f"no manager runs in {folder}")


@app.command()
@telling
def status(manager: Manager = None, home: Home = None, as_json: AsJson = False) -> None:
    """Show the manager: where it is, its slots and jobs; ends with 3 if there is none."""
    client = manager_at(manager, home)
    overview = client.overview()
    if as_json:
        show_json(overview)
        return
    show_table(("", "manager"), overview_rows(client.url, overview))


def overview_rows(url: str, overview: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines that show a manager."""
    slots, jobs = overview.get("slots"), overview.get("jobs")
    rows = [("url", url), ("version", str(overview.get("version", "-")))]
    if isinstance(slots, dict):
        rows.append(("slots", ", ".join(f"{value} {name}" for name, value in slots.items())))
    elif slots is not None:
        rows.append(("slots", str(slots)))
    if isinstance(jobs, dict):
        counts = {name: count for name, count in jobs.items() if count}
        rows.append(("jobs", ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"))
    if overview.get("records_per_second") is not None:
        rows.append(("records/s", number(overview["records_per_second"])))
    if overview.get("uptime_ms") is not None:
        rows.append(("up", span(overview["uptime_ms"])))
    return rows


@telling
def open_dashboard(
    browser: Annotated[bool, typer.Option(help="Open it in a browser, if there is one.")] = True,
    manager: Manager = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Print the dashboard's address, and open it."""
    client = manager_at(manager, home)
    client.overview()
    if as_json:
        show_json({"url": client.url})
    else:
        typer.echo(client.url)
    if browser and sys.stdout.isatty():
        webbrowser.open(client.url)
