"""Look-ups that the protocol answers by itself: they are what the endpoint would answer, to those whom it would."""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from flintstream import Types
from flintstream.jobs import rest_protocol
from flintstream.testing.stepped import InProcess, Line, ScriptedSource, SteppedJob
from tests.queryable.serving import JOB, app_of, keeping, serving_app

KEYS: list[Any] = ["ann", "an/ne", "bob?", "42", 7, ("de", 7), 'a "quoted" ä']
ADDRESS = f"/v1/jobs/{JOB}/state/keep/newest/"
TEXTS = ["ann", "an%2Fne", "bob%3F", "42", "7", "%5B%22de%22%2C7%5D", "a%20%22quoted%22%20%C3%A4", "nobody", "%FF%00"]
HOST = [(b"host", b"localhost")]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[SteppedJob]:
    with keeping(KEYS, tmp_path) as made:
        yield made


def app_for(folder: Path, is_open: bool = False) -> FastAPI:
    return app_of(folder, {JOB: str(folder / "checkpoint")}, is_open)


class Counted:
    """Tells how many answers were given at once."""

    def __init__(self, app: FastAPI) -> None:
        self._at_once = app.state.at_once
        self.answers = 0
        app.state.at_once = self

    def __call__(self, target: bytes, headers: Any) -> Any:
        found = self._at_once(target, headers)
        self.answers += found is not None
        return found


class Kept:
    """A connection that is kept, as those who look up often have one."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address.partition("//")[2], timeout=30)

    def ask(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
        self._connection.request("GET", path, headers=headers or {})
        answer = self._connection.getresponse()
        told = {name.lower(): value for name, value in answer.getheaders()}
        assert told.pop("date")
        return answer.status, told, answer.read()

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()


@pytest.mark.parametrize("root", [ADDRESS, ADDRESS.removeprefix("/v1"), ADDRESS.replace("/keep/", "/-/")])
def test_both_ways_answer_the_same(job: SteppedJob, tmp_path: Path, root: str) -> None:
    app = app_for(tmp_path)
    counted = Counted(app)
    with serving_app(app) as address, Kept(address) as kept:
        kept.ask(f"{root}ann")
        before = counted.answers
        for text in TEXTS:
            long = kept.ask(f"{root}{text}?")  # a query, even an empty one, is read elsewhere
            assert counted.answers == before
            assert kept.ask(f"{root}{text}") == long
            before += 1
            assert counted.answers == before
        assert long[0] == 404
        assert json.loads(long[2])["code"] == "unknown-key"


def test_text_is_looked_for_where_all_keys_are_numbers_as_a_number(tmp_path: Path) -> None:
    def numbers(env: Any, folder: Path) -> dict[str, Any]:
        stream = env.from_source(ScriptedSource(folder, "in", 1)).uid("in")
        stream.key_by(lambda row: row["key"], key_type=Types.LONG()).as_queryable_state("newest").uid("keep")
        return {}

    job = SteppedJob(numbers, tmp_path, InProcess(), 2)
    job.epoch([Line("in", 0, {"key": number, "n": number}) for number in range(50)])
    with serving_app(app_for(tmp_path)) as address, Kept(address) as kept:
        for _ in range(2):
            for text, key in (("7", 7), ("7.0", 7), ("49", 49)):
                status, _, body = kept.ask(f"{ADDRESS}{text}")
                assert (status, json.loads(body)["value"]["n"]) == (200, key)
            assert [kept.ask(f"{ADDRESS}{text}")[0] for text in ("50", "%227%22", "seven")] == [404, 404, 404]
    job.stop()


def test_what_is_committed_is_told_from_then_on(job: SteppedJob, tmp_path: Path) -> None:
    with serving_app(app_for(tmp_path)) as address, Kept(address) as kept:
        for number in range(2, 12):
            job.epoch([Line("in", 0, {"key": 0, "n": number})])
            for _ in range(3):
                found = json.loads(kept.ask(f"{ADDRESS}ann")[2])
                assert (found["value"]["n"], found["epoch"], found["committed"]) == (number, number, True)


def test_what_is_not_a_look_up_or_not_known_yet_goes_the_long_way(job: SteppedJob, tmp_path: Path) -> None:
    app = app_for(tmp_path)
    at_once = app.state.at_once
    assert at_once(f"{ADDRESS}ann".encode(), HOST) is None
    with serving_app(app) as address, Kept(address) as kept:
        assert kept.ask(f"{ADDRESS}ann")[0] == 200
        assert at_once(f"{ADDRESS}ann".encode(), HOST) is not None
        for path in (ADDRESS, f"{ADDRESS}ann/watch", f"{ADDRESS}ann?window=1", f"http://localhost{ADDRESS}ann",
                     f"{ADDRESS}ann#x", f"{ADDRESS}ä", ADDRESS.replace("newest", "other") + "ann",
                     ADDRESS.replace(JOB, JOB.upper()) + "ann", "/v1/jobs"):  # fmt: skip
            assert at_once(path.encode(), HOST) is None, path
        job.epoch([])
        assert at_once(f"{ADDRESS}ann".encode(), HOST) is None


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({"Authorization": "Bearer wrong"}, 401), ({"Authorization": "Bearer t0ken"}, 200),
     ({"Authorization": "Bearer t0ken", "Host": "evil.example"}, 421),
     ({"Authorization": "Bearer t0ken", "Origin": "http://evil.example"}, 403)],
)  # fmt: skip
def test_who_may_not_ask_is_refused(job: SteppedJob, tmp_path: Path, headers: dict[str, str], status: int) -> None:
    with serving_app(app_for(tmp_path, is_open=True)) as address, Kept(address) as kept:
        assert kept.ask(f"{ADDRESS}ann", {"Authorization": "Bearer t0ken"})[0] == 200
        assert kept.ask(f"{ADDRESS}ann", headers)[0] == status


def test_many_at_a_time_are_answered_in_their_order(job: SteppedJob, tmp_path: Path) -> None:
    texts = [TEXTS[number % 4] for number in range(100)]
    # Some have to wait, as does all that comes behind them.
    paths = [f"{ADDRESS}{text}{'?' * (number % 7 == 3)}" for number, text in enumerate(texts)]
    requests = "".join(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n" for path in paths[:-1])
    requests += f"GET {paths[-1]} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with serving_app(app_for(tmp_path)) as address, Kept(address) as kept:
        expected = [kept.ask(path)[2] for path in paths]
        host, _, port = address.rpartition("//")[2].partition(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(requests.encode())
            found = b"".join(iter(lambda: connection.recv(65536), b""))
    assert [body for _, body in re.findall(rb"\r\n(\r\n)(\{.*?\})(?=HTTP/1.1 |$)", found)] == expected


def test_a_connection_that_is_idle_behind_a_look_up_is_closed(
    job: SteppedJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving_app(app_for(tmp_path)) as address, Kept(address) as kept:
        kept.ask(f"{ADDRESS}ann")
        monkeypatch.setattr(rest_protocol, "HEAD_SECONDS", 0.3)
        host, _, port = address.rpartition("//")[2].partition(":")
        request = f"GET {ADDRESS}ann HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        # A head that has begun, and mere line breaks, end the server's patience as well.
        for rest in (b"GET /v1", b"\r\n"):
            with socket.create_connection((host, int(port)), timeout=10) as connection:
                connection.sendall(request + (rest if rest.strip() else b""))
                found = connection.recv(65536)
                connection.sendall(b"" if rest.strip() else rest)
                while piece := connection.recv(65536):  # less than the server's own deadline for idle connections
                    found += piece
            assert found.count(b"HTTP/1.1 200 OK") == 1
