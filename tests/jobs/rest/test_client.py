"""The client: the same methods as the manager has, and an error of ours for everything that can go wrong on the way."""

from __future__ import annotations

import inspect
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flintstream.errors import (
    InvalidArgumentError,
    JobStateError,
    ManagerError,
    NoManagerError,
    SavepointError,
    TokenError,
    UnknownJobError,
)
from flintstream.jobs.client import Client, find_manager
from flintstream.jobs.client_http import error_of
from flintstream.jobs.manager import Manager
from flintstream.jobs.spec import JobSpec
from tests.jobs.rest.served import PATIENCE, Served, await_running, program, serving

NOBODY = "0" * 32
SHARED = ("overview", "jobs", "job", "cancel", "stop", "savepoint", "savepoints", "rescale", "rescale_auto", "restart",
          "forget", "status", "plan", "epochs", "exceptions", "history", "configuration", "log")  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_methods_are_those_of_the_manager(name: str) -> None:
    ours, theirs = (inspect.signature(getattr(kind, name)).parameters for kind in (Client, Manager))
    assert [(each.name, each.kind, each.default) for each in ours.values()] == [
        (each.name, each.kind, each.default) for each in theirs.values()
    ]


class TestLooking:
    def test_says_what_the_manager_says(self, served: Served, job: str) -> None:
        client, manager = served.client, served.manager
        assert [view.id for view in client.jobs()] == [job]
        assert client.job(job).spec == manager.job(job).spec
        assert client.overview().keys() == manager.overview().keys()
        assert client.plan(job) == manager.plan(job)
        assert client.status(job)["records_in"] > 0
        assert client.epochs(job)[0]["epoch"] == client.epochs(job, 0)[0]["epoch"]
        assert client.epochs(job, 1)[0]["epoch"] == 2
        assert client.exceptions(job) == []
        assert client.history(job) == manager.history(job)
        assert client.configuration(job) == manager.configuration(job)
        assert client.savepoints(job) == manager.savepoints(job)
        assert client.log(job, "out", 0, 8) == manager.log(job, "out", 0, 8)

    def test_follows_events(self, served: Served, job: str) -> None:
        event, data = next(iter(served.client.events(job)))
        assert (event, data["job"]["id"]) == ("status", job)
        event, data = next(iter(served.client.events()))
        assert (event, data["jobs"][0]["id"]) == ("overview", job)

    def test_follows_a_log_to_its_end(self, tmp_path: Path) -> None:
        script = tmp_path / "app.py"
        script.write_text("for n in range(3): print(n)\n")
        with serving(tmp_path / "home") as own:
            view = own.client.submit(JobSpec(program=str(script)))
            assert "".join(piece.text for piece in own.client.follow_log(view.id, "out")) == "0\n1\n2\n"
            assert "".join(piece.text for piece in own.client.follow_log(view.id, "out", 2)) == "1\n2\n"


class TestSteering:
    def test_a_life(self, tmp_path: Path) -> None:
        with serving(tmp_path / "home") as own:
            client = own.client
            script = program(tmp_path / "there")
            spec = JobSpec(program=str(script), arguments=(str(tmp_path), "300"), working_directory="/no/such/place")
            job = client.submit(spec, upload=script).id
            await_running(own, job)
            path = client.savepoint(job, tags=["one"], comment="first")
            assert [each["path"] for each in client.savepoints(job)] == [path]
            assert client.rescale(job, 1).id == job
            assert client.rescale_auto(job, 1, 2).scaling == "auto 1..2"
            assert client.stop(job, str(own.manager.home / "mine")).startswith(str(own.manager.home / "mine"))
            assert client.restart(job, path).id == job
            await_running(own, job)
            assert client.cancel(job).status == "CANCELED"
            client.forget(job)
            with pytest.raises(UnknownJobError):
                client.job(job)

    def test_an_operation_of_many_rounds(self, served: Served, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """The manager takes longer than one request waits."""
        monkeypatch.setattr("flintstream.jobs.client.WAIT_SECONDS", 1)
        begun = threading.Event()

        def slow(*_args: object, **_kwargs: object) -> str:
            begun.set()
            threading.Event().wait(1.6)
            return "/a/savepoint"

        monkeypatch.setattr(served.manager, "savepoint", slow)
        assert served.client.savepoint(job) == "/a/savepoint"
        assert begun.is_set()

    def test_a_manager_that_never_finishes(self, served: Served, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
        over = threading.Event()
        monkeypatch.setattr(served.manager, "savepoint", lambda *_, **__: over.wait(PATIENCE) and "")
        monkeypatch.setattr("flintstream.jobs.client.WAIT_SECONDS", 1)
        try:
            with pytest.raises(JobStateError, match="not finished within 1 s"):
                Client(served.url, timeout=0.5).savepoint(job, timeout=0.5)
        finally:
            over.set()


class TestErrors:
    def test_a_job_that_there_is_not(self, served: Served) -> None:
        with pytest.raises(UnknownJobError, match=NOBODY):
            served.client.job(NOBODY)
        with pytest.raises(UnknownJobError):
            served.client.cancel(NOBODY)

    @pytest.mark.parametrize("name", ["../../overview", "a/b", "%2e%2e", "", "?x", "#", "a b", "\n"])
    def test_an_id_that_is_none(self, served: Served, name: str) -> None:
        with pytest.raises(ManagerError):
            served.client.job(name)

    def test_the_wrong_moment(self, served: Served, job: str) -> None:
        with pytest.raises(JobStateError, match="cancel it first"):
            served.client.forget(job)

    def test_a_place_where_it_may_not_go(self, served: Served, job: str) -> None:
        with pytest.raises(ManagerError, match="--allow-path"):
            served.client.savepoint(job, "/etc")

    def test_a_savepoint_that_is_none(self, served: Served, job: str) -> None:
        with pytest.raises(SavepointError):
            served.client.restart(job, str(served.manager.home / "none"))

    def test_a_parallelism_that_is_none(self, served: Served, job: str) -> None:
        with pytest.raises(InvalidArgumentError):
            served.client.rescale(job, 0)

    @pytest.mark.parametrize("token", [None, "wrong"])
    def test_no_token(self, served: Served, token: str | None) -> None:
        with pytest.raises(TokenError, match="file `token`"):
            Client(served.url, token).submit(JobSpec(module="this"))

    def test_nobody_there(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            client = Client(f"http://127.0.0.1:{free.getsockname()[1]}")
            with pytest.raises(NoManagerError, match="flintstream cluster start"):
                client.jobs()

    def test_no_such_host(self) -> None:
        with pytest.raises(NoManagerError):
            Client("http://no-such-host.invalid:1", timeout=5).jobs()

    @pytest.mark.parametrize(
        "url", ["", "localhost:8081", "ftp://localhost", "file:///etc/passwd", "http://", "http://a:b@c"]
    )
    def test_no_address(self, url: str) -> None:
        with pytest.raises(InvalidArgumentError):
            Client(url)

    def test_no_token_that_could_be_sent(self) -> None:
        with pytest.raises(InvalidArgumentError):
            Client("http://localhost:1", "a\r\nX-Evil: b")

    def test_no_file_to_upload(self, served: Served, tmp_path: Path) -> None:
        with pytest.raises(InvalidArgumentError, match="no file"):
            served.client.submit(JobSpec(program="a.py"), upload=tmp_path / "a.py")

    def test_an_upload_that_is_refused(self, served: Served, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("")
        with pytest.raises(InvalidArgumentError, match=r"\.py, a \.zip"):
            served.client.submit(JobSpec(program="a.txt"), upload=tmp_path / "a.txt")

    def test_secrets_are_not_in_words(self, served: Served) -> None:
        assert served.token not in repr(served.client)
        with pytest.raises(InvalidArgumentError) as refused:
            Client("ftp://me:hush@host")
        assert "hush" not in str(refused.value)


@contextmanager
def speaking(answer: bytes | None) -> Iterator[str]:
    """Something that listens, and says that to whoever asks; None says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        over = threading.Event()

        def speak() -> None:
            connection, _ = listener.accept()
            with connection:
                if answer is not None:
                    connection.recv(65536)
                    connection.sendall(answer)
                else:
                    over.wait(PATIENCE)

        thread = threading.Thread(target=speak)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize(
    ("answer", "said"),
    [(b"SSH-2.0-OpenSSH\r\n", "broke the connection"), (b"", "broke the connection"),
     (b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello", "not as a manager does"),
     (b"HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n", "not as a manager does"),
     (b"HTTP/1.1 200 OK\r\nFlintstream-Version: v1\r\nContent-Length: 9\r\n\r\n{", "broke the connection"),
     (b"HTTP/1.1 200 OK\r\nFlintstream-Version: v1\r\nContent-Length: 1\r\n\r\n{", "not as a manager does"),
     (b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "not as a manager does"),
     (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "not as a manager does"),
     (None, "did not answer in time")],
)  # fmt: skip
def test_something_else_that_listens_there(answer: bytes | None, said: str) -> None:
    with speaking(answer) as url, pytest.raises(ManagerError, match=said):
        Client(url, "token", timeout=0.5).overview()


def test_a_problem_becomes_the_error_that_it_was() -> None:
    problem = {"status": 409, "code": "corrupt-state", "detail": "it is damaged", "remedy": "take another"}
    error = error_of(problem)
    assert (type(error).__name__, str(error)) == ("CorruptStateError", "it is damaged; take another")
    assert type(error_of({"status": 418, "code": "teapot", "detail": "x", "remedy": None})) is ManagerError


class TestFinding:
    def test_the_manager_of_a_home(self, tmp_path: Path) -> None:
        with serving(tmp_path / "home") as own:
            found = find_manager(tmp_path / "home")
            assert (found.url, found.token) == (own.url, own.token)
            assert found.jobs() == []
        with pytest.raises(NoManagerError, match="cluster start"):
            find_manager(tmp_path / "home")

    def test_without_a_token(self, tmp_path: Path) -> None:
        with serving(tmp_path / "home"):
            (tmp_path / "home" / "token").unlink()
            with pytest.raises(TokenError):
                find_manager(tmp_path / "home")
