"""The manager as a process: it starts, says where it is, refuses a port that is taken, and ends when it is told to."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from flintstream.errors import EnvironmentSetupError, ManagerError
from flintstream.jobs.client import Client, find_manager
from flintstream.jobs.leader import leader_of
from flintstream.jobs.server import _url, main, start_detached, stop_running
from flintstream.jobs.spec import JobSpec
from flintstream.jobs.store import Store
from tests.jobs.rest.served import program, wait_for


def test_a_life(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert not stop_running(home)
    url = start_detached(home, port=0, slots=3, allow_paths=[str(tmp_path / "a")], allow_hosts=["manager.example"])
    try:
        client = find_manager(home)
        assert client.url == url
        assert (home / "token").stat().st_mode & 0o777 == 0o600
        view = client.submit(JobSpec(program=str(program(tmp_path)), arguments=(str(tmp_path), "100")))
        wait_for(lambda: client.job(view.id).status == "RUNNING")
        assert client.savepoint(view.id, str(tmp_path / "a" / "b")).startswith(str(tmp_path / "a" / "b"))
    finally:
        assert stop_running(home, cancel_jobs=True)
    assert leader_of(home) is None
    with pytest.raises(ManagerError):
        client.jobs()
    again = start_detached(home, port=0)
    try:
        assert Client(again).job(view.id).status == "CANCELED"
    finally:
        assert stop_running(home)


def test_a_port_that_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(EnvironmentSetupError, match=f"port {port} of 127.0.0.1 is taken; give another with --port"):
            start_detached(tmp_path / "home", port=port)
        assert main(["--home", str(tmp_path / "home"), "--port", str(port)]) == 1
        assert capsys.readouterr().err.startswith(f"flintstream: port {port} of 127.0.0.1 is taken")


def test_an_address_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for host in ("no-such-host.invalid", "203.0.113.7"):
        assert main(["--home", str(tmp_path), "--host", host, "--port", "0"]) == 1
        error = capsys.readouterr().err
        assert error.startswith("flintstream: ")
        assert error.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_while_somebody_watches(tmp_path: Path, number: signal.Signals) -> None:
    url = start_detached(tmp_path / "home", port=0)
    leader = leader_of(tmp_path / "home")
    assert leader is not None
    try:
        events = Client(url).events()
        assert next(events)[0] == "overview"
        os.kill(leader.pid, number)
        with pytest.raises(ManagerError):  # the stream is over, or broken if that was quicker
            for _ in events:
                pass
            Client(url).overview()
    finally:
        wait_for(lambda: leader_of(tmp_path / "home") is None)


def test_a_home_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "manager.db").mkdir()
    with pytest.raises(EnvironmentSetupError, match="did not start"):
        start_detached(tmp_path / "home", port=0)


def test_a_manager_that_cannot_lead_does_not_say_that_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lead(_store: Store) -> int:
        raise ManagerError("the database cannot be written (disk full)")

    monkeypatch.setattr(Store, "lead", lead)
    monkeypatch.setattr("flintstream.jobs.server.ELECTION_SECONDS", 0.2)
    reading, writing = os.pipe()
    with os.fdopen(reading) as told:
        assert main(["--home", str(tmp_path), "--port", "0", "--ready", str(writing)]) == 1
        error = json.loads(told.read())["error"]
    assert error.startswith("the manager cannot lead: the database cannot be written (disk full); ")
    assert capsys.readouterr().err == f"flintstream: {error}\n"


def test_addresses() -> None:
    assert _url("127.0.0.1", 1) == "http://127.0.0.1:1"
    assert _url("::1", 1) == "http://[::1]:1"
    assert _url("0.0.0.0", 1).endswith(":1")
    assert "0.0.0.0" not in _url("0.0.0.0", 1)


def test_a_leader_elsewhere_is_not_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = start_detached(tmp_path / "home", port=0)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(socket, "gethostname", lambda: "another")
            with pytest.raises(ManagerError, match="stop it there"):
                stop_running(tmp_path / "home")
        assert Client(url).jobs() == []
    finally:
        assert stop_running(tmp_path / "home")
