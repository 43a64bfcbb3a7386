"""The door of the server, by requests over a real socket: each that should not come in is refused cleanly."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flintstream.jobs.rest_guard import Guard, Limits
from flintstream.jobs.rest_problems import refusal_of
from flintstream.jobs.security import Access
from tests.jobs.rest.served import Answered, Served, serving

NOBODY = "0" * 32
LIMITS = Limits(
    body_bytes=2_000, upload_bytes=20_000, body_seconds=0.3, upload_seconds=2.0, idle_seconds=0.3, drain_bytes=1 << 20
)


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A manager with little patience that believes to be bound to all addresses."""
    with serving(tmp_path_factory.mktemp("strict") / "home", host="0.0.0.0", limits=LIMITS) as found:
        yield found


def problem(answer: Answered, status: int, code: str) -> None:
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json"), answer.body
    assert answer.json["status"] == status
    assert answer.json["code"] == code
    assert answer.json["type"] == f"urn:flintstream:{code}"
    assert answer.json["detail"]


class TestWithoutToken:
    def test_submission(self, served: Served) -> None:
        body = {"program": "/app.py"}
        problem(served.ask("POST", "/v1/jobs", body), 401, "token")
        problem(served.ask("POST", "/jobs", body), 401, "token")
        wrong = served.ask("POST", "/v1/jobs", body, {"Authorization": f"Bearer {served.token[:-1]}"})
        problem(wrong, 401, "token")
        assert wrong.headers["www-authenticate"] == "Bearer"
        assert served.token not in wrong.body.decode()

    @pytest.mark.parametrize(
        ("method", "path"),
        [("GET", "/v1/overview"), ("GET", "/v1/jobs"), ("GET", "/metrics"), ("GET", "/v1/openapi.json"),
         ("POST", f"/v1/jobs/{NOBODY}/cancel"), ("DELETE", f"/v1/jobs/{NOBODY}"), ("GET", "/v1/events"),
         ("GET", "/v1/nothing"), ("OPTIONS", "/v1/jobs"), ("PUT", "/v1/jobs"), ("GET", "/v1"), ("GET", "/v1/"),
         ("GET", f"/v1/jobs/{NOBODY}/state/a/b/c")],
    )  # fmt: skip
    def test_anything_when_bound_wider(self, strict: Served, method: str, path: str) -> None:
        problem(strict.ask(method, path, {} if method == "POST" else None), 401, "token")

    def test_the_dashboard_is_there_to_ask_for_it(self, strict: Served) -> None:
        assert strict.ask("GET", "/").status == 200

    def test_a_session(self, strict: Served) -> None:
        problem(strict.ask("POST", "/v1/session", {"token": "wrong"}), 401, "token")
        answer = strict.ask("POST", "/v1/session", {"token": strict.token})
        cookie = answer.headers["set-cookie"]
        assert answer.status == 204
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
        assert strict.token not in cookie
        session = {"Cookie": cookie.partition(";")[0]}
        assert strict.ask("GET", "/v1/jobs", headers=session).status == 200
        problem(strict.ask("POST", f"/v1/jobs/{NOBODY}/cancel", {}, session), 401, "token")
        ended = strict.ask("DELETE", "/v1/session", headers=session)
        assert "Max-Age=0" in ended.headers["set-cookie"]

    def test_with_it_everything_works(self, strict: Served) -> None:
        assert strict.ask("GET", "/v1/jobs", token=True).json == {"jobs": []}


class TestBodies:
    @pytest.mark.parametrize(
        "kind",
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "application"],
    )
    def test_of_a_wrong_type(self, served: Served, kind: str) -> None:
        answer = served.ask("POST", f"/v1/jobs/{NOBODY}/cancel", b"{}", {"Content-Type": kind})
        problem(answer, 415, "content-type")

    def test_without_a_type(self, served: Served) -> None:
        problem(served.ask("POST", f"/v1/jobs/{NOBODY}/cancel"), 415, "content-type")

    def test_that_say_they_are_huge(self, served: Served) -> None:
        head = f"POST /v1/jobs/{NOBODY}/cancel HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        answer = served.raw(f"{head}Content-Length: 99999999999\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b'"too-large"' in answer

    def test_that_are_huge(self, strict: Served) -> None:
        answer = strict.ask("POST", "/v1/session", {"token": "x" * 100_000})
        problem(answer, 413, "too-large")

    def test_that_are_huge_without_saying_so(self, strict: Served) -> None:
        head = b"POST /v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        chunk = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
        answer = strict.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 4 + b"0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 413 ")

    def test_an_upload_that_is_huge(self, strict: Served) -> None:
        form = b'--x\r\nContent-Disposition: form-data; name="program"; filename="a.py"\r\n\r\n' + b"#" * 30_000
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        problem(strict.ask("POST", "/v1/jobs", form + b"\r\n--x--\r\n", headers, token=True), 413, "too-large")
        auth = f"Authorization: Bearer {strict.token}\r\n".encode()
        head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n" + auth
        chunked = b"%x\r\n%b\r\n" % (len(form), form)
        answer = strict.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked + b"0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert strict.manager.jobs() == []

    @pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=x"])
    def test_that_come_too_slowly(self, strict: Served, kind: str) -> None:
        auth = f"Authorization: Bearer {strict.token}"
        head = f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{auth}\r\n"
        answer = strict.raw(
            head.encode() + b"Content-Length: 900\r\n\r\n" + b'--x\r\nContent-Disposition: form-data; name="program"'
        )
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"too-slow"' in answer

    def test_whose_sender_leaves(self, strict: Served) -> None:
        head = (
            b"POST /v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900\r\n"
        )
        with socket.create_connection(("127.0.0.1", strict.port)) as connection:
            connection.sendall(head + b'\r\n{"tok')
        assert strict.ask("GET", "/v1/jobs", token=True).status == 200

    @pytest.mark.parametrize("body", [b"{", b"", b"nul", b"[" * 900, b'{"token": NaN}', b"\xff\xfe", b'"\\ud800"'])
    def test_that_are_no_json(self, strict: Served, body: bytes) -> None:
        answer = strict.ask("POST", "/v1/session", body, {"Content-Type": "application/json"})
        assert answer.status in (400, 422)
        assert answer.headers["content-type"] == "application/problem+json"

    def test_deep_json(self, served: Served) -> None:
        body = b'{"arguments":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
        answer = served.ask("POST", "/v1/jobs", body, {"Content-Type": "application/json"}, token=True)
        assert answer.status in (400, 422)


class TestOtherPages:
    @pytest.mark.parametrize(
        "headers",
        [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
         {"Origin": "http://localhost:3000"}, {"Sec-Fetch-Site": "same-site"}],
    )  # fmt: skip
    def test_ask_for_nothing(self, served: Served, headers: dict[str, str]) -> None:
        problem(served.ask("POST", f"/v1/jobs/{NOBODY}/cancel", {}, headers), 403, "origin")
        problem(served.ask("GET", "/v1/jobs", headers=headers), 403, "origin")

    def test_get_no_leave_by_a_preflight(self, served: Served) -> None:
        asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
        answer = served.ask("OPTIONS", "/v1/jobs", headers=asked)
        problem(answer, 403, "origin")
        assert not any(name.startswith("access-control") for name in answer.headers)

    @pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:80", "10.0.0.1"])
    def test_do_not_get_here_by_a_name_of_theirs(self, served: Served, host: str) -> None:
        for path in ("/v1/jobs", "/"):
            problem(served.ask("GET", path, headers={"Host": host}), 421, "host")

    def test_a_form_of_theirs_cannot_be_read_as_json(self, served: Served) -> None:
        """What a form without scripts can send: its three types of content."""
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            assert served.ask("POST", f"/v1/jobs/{NOBODY}/stop", b"{}", {"Content-Type": kind}).status == 415


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        ["/v1/jobs/../../etc/passwd", "/v1/jobs/..%2f..%2fetc%2fpasswd", "/v1/jobs/%2e%2e/%2e%2e/etc/passwd",
         "/v1/jobs/%00", f"/v1/jobs/{NOBODY.upper().replace('0', 'A')}", f"/v1/jobs/{NOBODY}%0d%0aX:%20y",
         f"/v1/jobs/{NOBODY}/logs/..%2f..%2ftoken", f"/v1/jobs/{NOBODY}/logs/token", "/../token", "/%2e%2e/token",
         "/..%2f..%2f..%2f..%2f..%2f..%2fetc/passwd", "//etc/passwd", "/v1/jobs//", "/v1//jobs", f"/v1/jobs/{NOBODY}",
         f"/v1/jobs/{NOBODY}/state", "/v1/operations/..", f"/v1/operations/{NOBODY}", "/manager.py", "/%ff"],
    )  # fmt: skip
    def test_lead_nowhere(self, served: Served, path: str) -> None:
        answer = served.ask("GET", path)
        problem(answer, 404, answer.json["code"])
        assert served.token not in answer.body.decode()

    def test_of_the_newest_version_need_no_number(self, served: Served) -> None:
        assert served.ask("GET", "/jobs").json.keys() == served.ask("GET", "/v1/jobs").json.keys()
        assert served.ask("GET", "/metrics").headers["content-type"].startswith("text/plain; version=0.0.4")

    def test_with_a_wrong_method(self, served: Served) -> None:
        answer = served.ask("GET", f"/v1/jobs/{NOBODY}/cancel")
        problem(answer, 405, "method")
        assert answer.headers["allow"] == "POST"
        answer = served.ask("PUT", "/v1/jobs")
        problem(answer, 405, "method")
        assert answer.json["detail"] == "PUT is not for path '/v1/jobs'"
        assert "/v1/openapi.json" in answer.json["remedy"]

    @pytest.mark.parametrize("path", ["/v1/nothing", "/nothing.js"])
    def test_that_there_are_not_are_named(self, served: Served, path: str) -> None:
        answer = served.ask("GET", path)
        problem(answer, 404, "not-found")
        assert answer.json["detail"] == f"there is no path '{path}'"
        assert "/v1/openapi.json" in answer.json["remedy"]


class TestHeaders:
    @pytest.mark.parametrize(
        ("path", "allowed"), [("/", "default-src 'self'"), ("/v1/jobs", "default-src 'none'"), ("/v1/nothing", "")]
    )
    def test_keep_browsers_strict(self, served: Served, path: str, allowed: str) -> None:
        headers = served.ask("GET", path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        policy = headers["content-security-policy"]
        assert allowed in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "server" not in headers
        assert not any(name.startswith("access-control") for name in headers)

    def test_of_pages_forbid_frames(self, served: Served) -> None:
        headers = served.ask("GET", "/").headers
        assert (headers["x-frame-options"], headers["referrer-policy"]) == ("DENY", "no-referrer")
        assert headers["cross-origin-opener-policy"] == "same-origin"

    def test_forbid_to_keep_answers(self, served: Served) -> None:
        assert served.ask("GET", "/v1/jobs").headers["cache-control"] == "no-store"
        assert served.ask("GET", "/").headers["cache-control"] == "no-cache"

    def test_scripts_of_the_dashboard_are_scripts(self, served: Served) -> None:
        for file in (Path(__file__).parents[3] / "src/flintstream/jobs/dashboard").glob("*.js"):
            assert served.ask("GET", f"/{file.name}").headers["content-type"].startswith("text/javascript")

    def test_never_carry_a_line_break(self) -> None:
        """The protocol writes headers as they are, so that one would begin a header of the caller's."""

        async def answers(scope: Any, receive: Any, send: Any) -> None:
            headers = [(b"location", b"/jobs\r\nset-cookie: a=b")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def nothing() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def take(message: Any) -> None:
            sent.append(message)

        sent: list[Any] = []
        guard = Guard(answers, dashboard=answers, access=Access("x"), leader=lambda: None, limits=Limits())
        for path in ("/v1/jobs", "/"):
            sent.clear()
            scope = {"type": "http", "method": "GET", "path": path, "headers": [(b"host", b"localhost")]}
            asyncio.run(guard(scope, nothing, take))
            assert [each.get("status") for each in sent] == [500, None]
            assert b"set-cookie" not in b"".join(value for _, value in sent[0]["headers"])


def test_garbage_is_no_request(served: Served) -> None:
    for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"):
        answer = served.raw(data)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"application/problem+json" in answer
    problem(served.ask("GET", "/v1/jobs?x=" + "y" * 1_000_000), 400, "request")
    assert served.ask("GET", "/v1/jobs").status == 200


def test_a_head_that_never_ends_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flintstream.jobs.rest_protocol.HEAD_SECONDS", 0.2)
    assert served.raw(b"GET / HTTP/1.1\r\nX-Slow: ") == b""
    assert served.raw(b"") == b""


def test_a_connection_that_is_kept_gets_a_deadline_for_each_request(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flintstream.jobs.rest_protocol.HEAD_SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
        connection.sendall(b"GET /v1/jobs/x HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 404 ")
        connection.sendall(b"GET / HT")
        while connection.recv(65536):  # less than the server's own deadline for connections that are idle
            pass


def test_a_problem_is_a_document(served: Served) -> None:
    answer = served.ask("POST", f"/v1/jobs/{NOBODY}/rescale", {"parallelism": "many", "x": 1})
    problem(answer, 422, "invalid")
    assert {each["where"].partition(".")[0] for each in answer.json["errors"]} == {"body"}
    assert json.loads(answer.body)["title"] == "Unprocessable Content" or answer.json["title"].startswith("Unproc")


def test_a_store_that_lets_nobody_in_is_told_with_the_reason_and_without_a_secret() -> None:
    error = OSError("s3://user:secret@bucket: PermissionError: secret")
    error.__cause__ = PermissionError("secret")
    assert refusal_of(error).detail == "the manager could not do that (PermissionError)"
