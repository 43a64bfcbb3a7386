"""Starts a PostgreSQL, a Redis or an object store for tests: one process, its data in a folder that can be thrown away.

``python tools/servers.py postgres`` (or ``redis``, ``s3``) prints the server's address and runs until Ctrl-C. Tests use
the classes, whose servers can also die and come back with the same data and address. The programs are those of the
machine; `tools/setup.sh` installs them where it may.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Any, Self

START_SECONDS = 30.0


class NoServerError(Exception):
    """The program of a server is not on this machine."""


def _program(name: str, *places: str) -> str:
    found = shutil.which(name) or next(
        (str(path) for place in places for path in sorted(Path("/").glob(place), reverse=True)), None
    )
    if found is None:
        msg = f"there is no {name} on this machine; `sh tools/setup.sh` as root installs it"
        raise NoServerError(msg)
    return found


def free_port() -> int:
    """Return a port that nobody listens to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server(ABC):
    """A server process; `with` starts it and ends it, and throws its data away."""

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="flintstream-server-"))
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command that runs it."""

    def prepare(self) -> None:
        """Called once before the first start."""

    user: str | None = None

    def start(self) -> None:
        """Start it, and return when it answers."""
        out = (self.folder / "log").open("ab")
        with out:
            self._process = subprocess.Popen(self.command(), stdout=out, stderr=out, user=self.user, cwd="/")
        deadline = time.monotonic() + START_SECONDS
        while not self.is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                msg = f"{self.command()[0]} did not start:\n{(self.folder / 'log').read_text()}"
                raise RuntimeError(msg)
            time.sleep(0.05)

    def is_ready(self) -> bool:
        """Whether it takes connections."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1):
                return True
        except OSError:
            return False

    def kill(self) -> None:
        """End it as a crash would, and return when it is gone."""
        if self._process is not None:
            self._process.send_signal(self.signal)
            self._process.wait()
            self._process = None

    signal = signal.SIGKILL

    def __enter__(self) -> Self:
        self.prepare()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Postgres(Server):
    """A PostgreSQL server with the user `flint`, whose password is in `password`."""

    # What SIGQUIT does is what its manual calls a crash; a killed parent would leave children behind.
    signal = signal.SIGQUIT
    password = "s3cret-flint"

    def __init__(self) -> None:
        self._initdb = _program("initdb", "usr/lib/postgresql/*/bin/initdb")
        super().__init__()
        # PostgreSQL does not run as root.
        names = {entry.pw_name for entry in pwd.getpwall()}
        self.user = None if os.getuid() else next(name for name in ("postgres", "nobody") if name in names)

    def prepare(self) -> None:
        words = self.folder / "password"
        words.write_text(self.password)
        if self.user is not None:
            for path in (self.folder, words):
                shutil.chown(path, self.user)
        options = ["-U", "flint", "-A", "scram-sha-256", "--no-sync", "-E", "UTF8", "--locale=C"]
        subprocess.run(
            [self._initdb, "-D", self.folder / "data", "--pwfile", words, *options],
            check=True,
            stdout=subprocess.DEVNULL,
            user=self.user,
            cwd="/",
        )

    def command(self) -> list[str]:
        binary = Path(self._initdb).resolve().with_name("postgres")
        settings = ["fsync=off", "listen_addresses=127.0.0.1", f"unix_socket_directories={self.folder}"]
        options = [word for setting in settings for word in ("-c", setting)]
        return [str(binary), "-D", str(self.folder / "data"), "-p", str(self.port), *options]

    @property
    def url(self) -> str:
        """Its address, as JDBC writes it."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def is_ready(self) -> bool:
        # It listens a while before it answers.
        ready = Path(self._initdb).resolve().with_name("pg_isready")
        return not subprocess.run([ready, "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False).returncode


class Redis(Server):
    """A Redis server that wants a password, and writes what it is told to a log at once."""

    password = "s3cret-redis"

    def __init__(self) -> None:
        self._binary = _program("redis-server")
        super().__init__()

    def command(self) -> list[str]:
        settings = ["--bind", "127.0.0.1", "--port", str(self.port), "--requirepass", self.password]
        return [self._binary, *settings, "--dir", str(self.folder), "--save", "", "--appendonly", "yes"]

    @property
    def url(self) -> str:
        """Its address, without the password."""
        return f"redis://127.0.0.1:{self.port}/0"


class ObjectStore(Server):
    """A server that speaks S3, moto; what is in it is gone when it ends."""

    password = "s3cret-store"

    def __init__(self) -> None:
        if importlib.util.find_spec("moto") is None:
            msg = "there is no moto in this environment; `pip install 'moto[server]'`"
            raise NoServerError(msg)
        super().__init__()

    def command(self) -> list[str]:
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, Any]:
        """What fsspec must know to find it."""
        return {"key": "flint", "secret": self.password, "client_kwargs": {"endpoint_url": self.url}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", choices=["postgres", "redis", "s3"])
    server = {"postgres": Postgres, "redis": Redis, "s3": ObjectStore}[parser.parse_args().server]
    try:
        with server() as running:
            print(running.url, f"password {running.password}", flush=True)
            signal.pause()
    except NoServerError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
