"""The manager as a process: listens, leads or stands by, and ends when it is told to; its jobs go on without it.

What needs the packages of the extra `manager` is behind `rest_server`, so that every command can ask here whether a
manager runs, and stop it.

Flink: StandaloneSessionClusterEntrypoint, and the scripts `jobmanager.sh` and `flink-daemon.sh`.
"""

from __future__ import annotations

import argparse
import errno
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import IO

from flintstream.errors import EnvironmentSetupError, FlintstreamError, JobStateError, ManagerError, describe
from flintstream.jobs.client import find_manager
from flintstream.jobs.leader import Leader, leader_of
from flintstream.jobs.manager import Manager
from flintstream.jobs.spec import token_of, unusable_home
from flintstream.model.extras import extra

HOST, PORT = "127.0.0.1", 8081
MOST_LOG_BYTES = 10 << 20
ELECTION_SECONDS = 15.0
_PACKAGES = {
    "fastapi": "fastapi",
    "uvicorn": "uvicorn",
    "httptools": "httptools",
    "python_multipart": "python-multipart",
}


def serve(
    home: Path,
    host: str = HOST,
    port: int = PORT,
    *,
    slots: int | None = None,
    allow_paths: Sequence[str] = (),
    allow_hosts: Sequence[str] = (),
    on_ready: Callable[[str], None] | None = None,
) -> int:
    """Run a manager until it is told to end, by Ctrl-C or SIGTERM; return the exit status.

    Args:
        home: Its home.
        host: The address to listen at; others than this machine's own need the token for everything.
        port: The port, 0 for one that is free.
        slots: How many jobs run at once, by default as many as there are cores.
        allow_paths: Directories that savepoints may be written to and read from, besides the home.
        allow_hosts: Names that it goes by, besides this machine's.
        on_ready: Called with its address when it answers.

    Raises:
        EnvironmentSetupError: a package is missing, the port is taken, or nobody can lead.
    """
    for module, package in _PACKAGES.items():
        extra(module, f"a manager needs the package {package}", "manager")
    # These need the packages that were just asked for.
    from flintstream.jobs.rest import create_app  # noqa: PLC0415
    from flintstream.jobs.rest_server import server_for  # noqa: PLC0415

    with closing(_listen(host, port)) as listener:
        bound = (host, int(listener.getsockname()[1]))
        url = _url(*bound)
        token = token_of(home)
        manager = Manager(home, jobs_at_once=slots, url=url)
        manager.start()
        try:
            _wait_for_a_leader(manager)
            app = create_app(manager, token=token, bound_to=bound, allow_paths=allow_paths, allow_hosts=allow_hosts)
            server = server_for(app, lambda: on_ready(url) if on_ready is not None else None)
            server.run([listener])
        finally:
            manager.close()
    return 0


def _wait_for_a_leader(manager: Manager) -> None:
    """Wait a moment until somebody leads, so that whoever was told that a manager is ready finds it so."""
    deadline = time.monotonic() + ELECTION_SECONDS
    while not manager.is_leader and manager.leader() is None:
        if time.monotonic() > deadline:
            if manager.why_not_leader is None:
                return
            what = f"the manager {manager.why_not_leader}"
            raise EnvironmentSetupError(describe(what, str(manager.home), "mend it, or name another home"))
        time.sleep(0.02)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "it cannot be a name"
        what = f"there is no address {host!r} to listen at ({why})"
        raise EnvironmentSetupError(describe(what, None, "give another with --host")) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            what, remedy = f"port {port} of {host} is taken", "give another with --port, 0 for one that is free"
        elif error.errno == errno.EADDRNOTAVAIL:
            what, remedy = f"{host} is no address of this machine", "give another with --host"
        else:
            what, remedy = f"port {port} of {host} cannot be used ({error.strerror})", "give another with --port"
        raise EnvironmentSetupError(describe(what, None, remedy)) from None
    return listener


def _url(host: str, port: int) -> str:
    """Return the address that clients use, those on other machines among them if they can."""
    name = host
    if host in ("0.0.0.0", "::", ""):
        name = socket.gethostname()
        try:
            socket.getaddrinfo(name, port)
        except OSError:
            name = HOST
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def start_detached(
    home: Path,
    host: str = HOST,
    port: int = PORT,
    *,
    slots: int | None = None,
    allow_paths: Sequence[str] = (),
    allow_hosts: Sequence[str] = (),
    timeout: float = 60.0,
) -> str:
    """Start a manager that outlives this process; return its address when it answers.

    Raises:
        EnvironmentSetupError: it did not start; the message says why.
    """
    _check_writable(home)
    command = [
        sys.executable,
        "-m",
        "flintstream.jobs.server",
        "--home",
        str(home),
        "--host",
        host,
        "--port",
        str(port),
    ]
    command += [] if slots is None else ["--slots", str(slots)]
    command += [f"--allow-path={each}" for each in allow_paths] + [f"--allow-host={each}" for each in allow_hosts]
    reading, writing = os.pipe()
    try:
        with _log_of(home) as log, os.fdopen(writing, "wb"):
            began = log.seek(0, os.SEEK_END)
            process = subprocess.Popen(
                [*command, "--ready", str(writing)], cwd=home, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=[writing], start_new_session=True,
            )  # fmt: skip
        ready, _, _ = select.select([reading], [], [], timeout)
        said = os.read(reading, 4096) if ready else b""
    finally:
        os.close(reading)
    told: dict[str, str] = json.loads(said) if said else {}
    if "url" in told:
        return told["url"]
    if not ready:
        process.kill()
    status = process.wait()
    last = told.get("error") or _since(home, began)
    last = last or (f"it ended with status {status}" if ready else f"it did not answer within {timeout:g} s")
    raise EnvironmentSetupError(describe("the manager did not start", last, f"see {_log_path(home)}"))


def _check_writable(home: Path) -> None:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        _log_of(home).close()
    except OSError as error:
        raise unusable_home(home, error) from None


def _log_path(home: Path) -> Path:
    return home / "log" / "manager.log"


def _log_of(home: Path) -> IO[bytes]:
    path = _log_path(home)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(OSError):
        if path.stat().st_size > MOST_LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
    return path.open("ab")


def _since(home: Path, began: int) -> str:
    """Return the last line that the manager has written since it was started."""
    with _log_path(home).open("rb") as file:
        file.seek(began)
        lines = file.read(1 << 20).decode("utf-8", "replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return said[-1].removeprefix("flintstream: ") if said else ""


def stop_running(home: Path, *, cancel_jobs: bool = False, timeout: float = 30.0) -> bool:
    """Let the manager that leads over a home end; return whether there was one. Its jobs go on, unless they are to end.

    Raises:
        ManagerError: it is on another machine, or does not end.
    """
    leader = leader_of(home)
    if leader is None:
        return False
    if leader.host != socket.gethostname():
        what = f"the manager runs on {leader.host}, not here"
        raise ManagerError(describe(what, None, "stop it there"))
    if cancel_jobs:
        _cancel_all(home)
    with suppress(ProcessLookupError):
        os.kill(leader.pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while _still_leads(home, leader):
        if time.monotonic() > deadline:
            what = f"the manager (process {leader.pid}) did not end within {timeout:g} s"
            raise ManagerError(describe(what, None, "look at its log, or end the process"))
        time.sleep(0.05)
    return True


def _cancel_all(home: Path) -> None:
    client = find_manager(home)
    for view in client.jobs():
        if not view.has_ended:
            with suppress(JobStateError):  # it ends by itself
                client.cancel(view.id)


def _still_leads(home: Path, leader: Leader) -> bool:
    found = leader_of(home)
    return found is not None and (found.pid, found.term) == (leader.pid, leader.term)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a manager as a process of its own; `--ready` names a pipe that is told its address."""
    parser = argparse.ArgumentParser(prog="python -m flintstream.jobs.server", description="Runs a job manager.")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--host", default=HOST)
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--slots", type=int)
    parser.add_argument("--allow-path", action="append", default=[])
    parser.add_argument("--allow-host", action="append", default=[])
    parser.add_argument("--ready", type=int)
    given = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)

    def tell_starter(**said: str) -> None:
        if given.ready is not None:
            os.write(given.ready, json.dumps(said).encode())
            os.close(given.ready)

    def ready(url: str) -> None:
        logging.getLogger("flintstream").info("the manager answers at %s", url)
        tell_starter(url=url)

    try:
        return serve(
            given.home.absolute(), given.host, given.port, slots=given.slots, allow_paths=given.allow_path,
            allow_hosts=given.allow_host, on_ready=ready,
        )  # fmt: skip
    except (FlintstreamError, OSError) as error:
        with suppress(OSError):  # whoever started it may be gone, or have heard from it long ago
            tell_starter(error=str(error))
        sys.stderr.write(f"flintstream: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
