"""Every endpoint against a real job in a process of its own: looking, watching, and all that changes something."""

from __future__ import annotations

import http.client
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.rest.served import Answered, Served, await_running, serving, submission, wait_for

NOBODY = "0" * 32


def form(name: str, data: bytes, spec: dict[str, Any] | None) -> tuple[bytes, dict[str, str]]:
    parts = []
    if spec is not None:
        parts.append(b'Content-Disposition: form-data; name="spec"\r\n\r\n' + json.dumps(spec).encode())
    head = f'Content-Disposition: form-data; name="program"; filename="{name}"\r\n\r\n'
    parts.append(head.encode() + data)
    body = b"".join(b"--edge\r\n" + part + b"\r\n" for part in parts) + b"--edge--\r\n"
    return body, {"Content-Type": "multipart/form-data; boundary=edge"}


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    """A manager for one test."""
    with serving(tmp_path / "home") as found:
        yield found


def running(served: Served, answer: Answered) -> str:
    assert answer.status == 201, answer.body
    job = str(answer.json["id"])
    await_running(served, job)
    return job


class TestLooking:
    def test_at_the_manager(self, served: Served, job: str) -> None:
        overview = served.ask("GET", "/v1/overview").json
        assert overview.keys() == served.manager.overview().keys()
        found = served.ask("GET", "/v1/jobs").json["jobs"]
        assert [each["id"] for each in found] == [job]
        assert found[0]["status_now"]["epoch"] >= 1

    def test_at_a_job(self, served: Served, job: str) -> None:
        found = served.ask("GET", f"/v1/jobs/{job}").json
        assert (found["id"], found["name"], found["status"]) == (job, "counting", "RUNNING")

    def test_at_what_its_driver_reports(self, served: Served, job: str) -> None:
        first = served.ask("GET", f"/v1/jobs/{job}/status").json
        assert first["records_in"] > 0
        wait_for(lambda: served.ask("GET", f"/v1/jobs/{job}/status").json["epoch"] > first["epoch"])

    def test_at_its_plan_and_its_picture(self, served: Served, job: str) -> None:
        plan = served.ask("GET", f"/v1/jobs/{job}/plan").json
        assert {"numbers", "counts", "out"} <= {each["uid"] for each in plan["operators"]}
        picture = served.ask("GET", f"/v1/jobs/{job}/graph.svg")
        assert picture.headers["content-type"].startswith("image/svg+xml")
        assert b"<svg" in picture.body
        assert "sandbox" in picture.headers["content-security-policy"]

    def test_at_its_epochs(self, served: Served, job: str) -> None:
        epochs = served.ask("GET", f"/v1/jobs/{job}/epochs").json["epochs"]
        later = served.ask("GET", f"/v1/jobs/{job}/epochs?since={epochs[0]['epoch']}").json["epochs"]
        assert later[0]["epoch"] == epochs[0]["epoch"] + 1

    def test_at_its_failures_and_settings(self, served: Served, job: str) -> None:
        assert served.ask("GET", f"/v1/jobs/{job}/exceptions").json == {"exceptions": []}
        assert served.ask("GET", f"/v1/jobs/{job}/history").json["history"]
        assert isinstance(served.ask("GET", f"/v1/jobs/{job}/configuration").json["configuration"], dict)

    def test_at_its_log(self, served: Served, job: str) -> None:
        whole = served.ask("GET", f"/v1/jobs/{job}/logs/out").json
        assert whole["text"].startswith("counting begins\n")
        piece = served.ask("GET", f"/v1/jobs/{job}/logs/out?offset=9&limit=6").json
        assert (piece["text"], piece["next_offset"]) == ("begins", 15)
        tail = served.ask("GET", f"/v1/jobs/{job}/logs/out?offset=-{whole['size']}").json
        assert tail["text"] == whole["text"]
        beyond = served.ask("GET", f"/v1/jobs/{job}/logs/out?offset=1000000").json
        assert beyond["text"] == ""

    def test_at_metrics(self, served: Served, job: str) -> None:
        text = served.ask("GET", "/v1/metrics").body.decode()
        assert f'job_id="{job}"' in text

    @pytest.mark.parametrize(
        "path", ["", "/status", "/plan", "/graph.svg", "/epochs", "/exceptions", "/history", "/configuration",
                 "/savepoints", "/logs/out", "/logs/err?follow=true", "/events", "/state"],
    )  # fmt: skip
    def test_at_a_job_that_there_is_not(self, served: Served, path: str) -> None:
        answer = served.ask("GET", f"/v1/jobs/{NOBODY}{path}")
        assert (answer.status, answer.json["code"]) == (404, "unknown-job")

    @pytest.mark.parametrize(
        "path", ["epochs?since=-1", "epochs?since=x", "logs/out?limit=0", "logs/out?limit=9999999999",
                 "logs/out?offset=x",
                 "logs/out?offset=99999999999999999999999", "logs/out?follow=perhaps"],
    )  # fmt: skip
    def test_with_parameters_that_do_not_fit(self, served: Served, job: str, path: str) -> None:
        assert served.ask("GET", f"/v1/jobs/{job}/{path}").status == 422

    def test_with_parameters_that_nobody_reads(self, served: Served, job: str) -> None:
        answer = served.ask("GET", f"/v1/jobs/{job}/logs/out?ofset=9&limit=6")
        assert (answer.status, answer.json["detail"]) == (422, "query.ofset: there is no such parameter")
        assert answer.json["remedy"] == "known here: follow, limit, offset"
        assert answer.json["errors"] == [{"where": "query.ofset", "message": "there is no such parameter"}]
        answer = served.ask("POST", "/jobs?wait=1", {"program": "p.py"}, token=True)
        assert (answer.status, answer.json["remedy"]) == (422, "leave it out; none is read here")


class Stream:
    """Events as they come over the wire."""

    def __init__(self, served: Served, path: str, headers: dict[str, str] | None = None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
        self._connection.request("GET", path, headers=headers or {})
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200
        assert self._answer.headers["content-type"].startswith("text/event-stream")

    def next(self) -> tuple[str, Any]:
        event = ""
        for line in self._answer:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                event = value
            elif name == "data":
                return event, json.loads(value)
        return "", None

    def until(self, condition: Callable[[Any], bool]) -> Any:
        while True:
            event, data = self.next()
            assert event, "the stream has ended"
            if condition(data):
                return data

    def close(self) -> None:
        self._connection.close()
        self._answer.close()


class TestWatching:
    def test_a_job(self, served: Served, job: str) -> None:
        stream = Stream(served, f"/v1/jobs/{job}/events")
        event, first = stream.next()
        assert (event, first["job"]["id"]) == ("status", job)
        stream.until(lambda data: data["status"]["epoch"] > first["status"]["epoch"])
        stream.close()

    def test_all_jobs(self, served: Served, job: str) -> None:
        stream = Stream(served, "/v1/events")
        event, first = stream.next()
        assert event == "overview"
        assert first["overview"].keys() == served.manager.overview().keys()
        assert [each["id"] for each in first["jobs"]] == [job]
        before = first["jobs"][0]["status_now"]["epoch"]
        stream.until(lambda data: data["jobs"][0]["status_now"]["epoch"] > before)
        stream.close()

    def test_many_at_once_cost_one_look(self, served: Served, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
        looks: list[str] = []
        true_status = served.manager.status
        monkeypatch.setattr(served.manager, "status", lambda name: looks.append(name) or true_status(name))
        streams = [Stream(served, f"/v1/jobs/{job}/events") for _ in range(8)]
        firsts = [stream.next()[1]["status"]["epoch"] for stream in streams]
        for stream, first in zip(streams, firsts, strict=True):
            stream.until(lambda data, first=first: data["status"]["epoch"] >= first + 10)
            stream.close()
        seen = {each["epoch"] for each in served.manager.epochs(job)}
        # One look each half second at the most, not one for each of the eight.
        assert len(looks) <= len([epoch for epoch in seen if epoch >= min(firsts)]) + 8

    def test_a_log(self, served: Served, job: str) -> None:
        stream = Stream(served, f"/v1/jobs/{job}/logs/out?follow=true")
        event, data = stream.next()
        assert (event, data["offset"]) == ("log", 0)
        stream.close()
        resumed = Stream(served, f"/v1/jobs/{job}/logs/out?follow=true", {"Last-Event-ID": "9"})
        assert resumed.next()[1]["text"].startswith("begins")
        resumed.close()


class TestSubmitting:
    def test_an_upload_of_a_script(self, own: Served, tmp_path: Path) -> None:
        script = b"import sys\nprint('uploaded', sys.argv[1:])\n"
        body, headers = form("app.py", script, {"arguments": ["a b"], "name": "mine"})
        answer = own.ask("POST", "/v1/jobs", body, headers, token=True)
        assert (answer.status, answer.json["name"]) == (201, "mine")
        job = answer.json["id"]
        wait_for(lambda: own.manager.job(job).has_ended)
        assert own.ask("GET", f"/v1/jobs/{job}/logs/out").json["text"] == "uploaded ['a b']\n"
        assert own.ask("GET", f"/v1/jobs/{job}").json["status"] == "FINISHED"
        assert list((own.manager.home / "uploads").iterdir()) == []

    def test_an_upload_of_modules(self, own: Served) -> None:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("pkg/__init__.py", "")
            archive.writestr("pkg/words.py", "WORD = 'from a module'")
            archive.writestr("pkg/main.py", "from pkg.words import WORD\nprint(WORD)\n")
        body, headers = form("pkg.zip", file.getvalue(), {"module": "pkg.main"})
        answer = own.ask("POST", "/v1/jobs", body, headers, token=True)
        assert answer.status == 201, answer.body
        job = answer.json["id"]
        wait_for(lambda: own.manager.job(job).has_ended)
        assert own.ask("GET", f"/v1/jobs/{job}/logs/out").json["text"] == "from a module\n"

    @pytest.mark.parametrize(
        ("name", "data", "spec"),
        [("app.txt", b"", {}), ("../app.py", b"", {}), ("app.zip", b"no zip", {"module": "a"}), ("app.zip", b"", {}),
         ("app.py", b"", {"program": "other.py"}), ("app.py", b"", {"program": "/etc/passwd"}), ("app.py", b"", []),
         ("app.py", b"", {"wrong": 1})],
    )  # fmt: skip
    def test_an_upload_that_is_none(self, served: Served, job: str, name: str, data: bytes, spec: Any) -> None:
        body, headers = form(name, data, spec)
        answer = served.ask("POST", "/v1/jobs", body, headers, token=True)
        assert answer.status == 422, answer.body
        assert len(served.manager.jobs()) == 1
        assert list((served.manager.home / "uploads").iterdir()) == []

    def test_a_form_that_is_none(self, served: Served) -> None:
        headers = {"Content-Type": "multipart/form-data; boundary=edge"}
        for body in (b"", b"--edge--\r\n", b"garbage", b"--edge\r\n\r\n\r\n--edge--\r\n"):
            assert served.ask("POST", "/v1/jobs", body, headers, token=True).status in (400, 422)
        no_edge = served.ask("POST", "/v1/jobs", b"x", {"Content-Type": "multipart/form-data"}, token=True)
        assert no_edge.status in (400, 422)

    @pytest.mark.parametrize(
        "spec",
        [{}, {"program": "/no/such/file.py"}, {"program": "/a.py", "module": "b"}, {"program": 1}, {"program": None},
         {"program": "/a.py", "name": "a\r\nSet-Cookie: b"}, {"program": "/a.py", "parallelism": 0}, "text", [], None,
         {"program": "/a.py", "parallelism": True}, {"program": "/a.py", "environment": {"FLINTSTREAM_REPORT": "/x"}},
         {"program": "/a.py", "arguments": ["\u0000"]}, {"module": "a b"}, {"program": "/a.py", "unknown": 1},
         {"program": "/a.py", "settings": {"restart-strategy.type": "nonsense"}}],
    )  # fmt: skip
    def test_a_job_that_is_none(self, served: Served, job: str, spec: Any) -> None:
        answer = served.ask(
            "POST", "/v1/jobs", json.dumps(spec).encode(), {"Content-Type": "application/json"}, token=True
        )
        assert answer.status == 422, answer.body
        assert len(served.manager.jobs()) == 1

    def test_secrets_are_shown_to_nobody(self, own: Served, tmp_path: Path) -> None:
        spec = {"module": "this", "settings": {"redis.password": "hush"}, "arguments": ["--token=hush"]}
        answer = own.ask("POST", "/v1/jobs", {**spec, "environment": {"API_KEY_SECRET": "hush"}}, token=True)
        job = answer.json["id"]
        wait_for(lambda: own.manager.job(job).has_ended)
        for path in ("/v1/jobs", f"/v1/jobs/{job}", f"/v1/jobs/{job}/configuration", "/v1/metrics", "/v1/overview"):
            assert b"hush" not in own.ask("GET", path).body
        assert b"hush" not in answer.body


class TestSteering:
    def test_a_life(self, own: Served, tmp_path: Path) -> None:
        """Savepoint, rescale, stop, restart from the history, cancel, forget: one job through all of it."""
        job = running(own, own.ask("POST", "/v1/jobs", submission(tmp_path / "app"), token=True))
        at = f"/v1/jobs/{job}"

        taken = own.ask("POST", f"{at}/savepoints?wait=60", {"tags": ["nightly"], "comment": "a\nb"})
        assert taken.status == 200, taken.body
        assert (taken.json["status"], taken.json["kind"]) == ("done", "savepoint")
        path = taken.json["result"]["path"]
        assert Path(path).is_relative_to(own.manager.home)
        history = own.ask("GET", f"{at}/savepoints").json["savepoints"]
        assert [(each["path"], each["tags"], each["comment"]) for each in history] == [(path, ["nightly"], "a\nb")]

        begun = own.ask("POST", f"{at}/rescale", {"parallelism": 1})
        assert begun.status == 202
        assert begun.headers["location"] == f"/v1/operations/{begun.json['id']}"
        assert own.ask("GET", f"{begun.headers['location']}?wait=60").json["status"] == "done"
        wait_for(lambda: own.manager.job(job).parallelism == 1)

        auto = own.ask("POST", f"{at}/rescale?wait=60", {"parallelism": "auto", "least": 1, "most": 2})
        assert auto.json["result"]["job"]["scaling"] == "auto 1..2"

        stopped = own.ask("POST", f"{at}/stop?wait=60", {"directory": str(own.manager.home / "mine"), "drain": True})
        assert stopped.status == 200, stopped.body
        assert Path(stopped.json["result"]["path"]).parent == own.manager.home / "mine"
        assert own.manager.job(job).has_ended
        too_late = own.ask("POST", f"{at}/cancel?wait=10", {})
        assert (too_late.status, too_late.json["code"]) == (409, "job-state")

        again = own.ask("POST", f"{at}/restart?wait=60", {"savepoint": path})
        assert again.status == 200, again.body
        await_running(own, job)
        not_yet = own.ask("DELETE", at)
        assert (not_yet.status, not_yet.json["code"]) == (409, "job-state")

        canceled = own.ask("POST", f"{at}/cancel?wait=60", {})
        assert canceled.json["result"]["job"]["status"] == "CANCELED"
        assert own.ask("DELETE", at).status == 204
        assert own.ask("GET", at).status == 404

    def test_an_operation_that_fails_says_why(self, served: Served, job: str) -> None:
        body = {"parallelism": 30_000}
        at_once = served.ask("POST", f"/v1/jobs/{job}/rescale?wait=30", body)
        assert at_once.status == 422, at_once.body
        begun = served.ask("POST", f"/v1/jobs/{job}/rescale", body)
        found = served.ask("GET", f"/v1/operations/{begun.json['id']}?wait=30").json
        assert (found["status"], found["problem"]["status"]) == ("failed", 422)
        assert found["problem"]["detail"] == at_once.json["detail"]

    @pytest.mark.parametrize("kind", ["cancel", "stop", "savepoints", "rescale", "restart"])
    def test_a_job_that_there_is_not(self, served: Served, kind: str) -> None:
        answer = served.ask("POST", f"/v1/jobs/{NOBODY}/{kind}", {"parallelism": 1} if kind == "rescale" else {})
        assert (answer.status, answer.json["code"]) == (404, "unknown-job")

    @pytest.mark.parametrize(
        ("kind", "body"),
        [("cancel", {"now": True}), ("stop", {"drain": "yes"}), ("savepoints", {"tags": "a"}),
         ("savepoints", {"tags": [""]}),
         ("savepoints", {"tags": ["a\nb"]}), ("rescale", {}), ("rescale", {"parallelism": 0}), ("cancel", []),
         ("rescale", {"parallelism": 2, "most": 3}), ("rescale", {"parallelism": "auto", "least": 3, "most": 2}),
         ("rescale", {"parallelism": True}), ("restart", {"savepoint": 5}), ("restart", {"savepoint": ""})],
    )  # fmt: skip
    def test_a_wish_that_is_none(self, served: Served, job: str, kind: str, body: Any) -> None:
        assert served.ask("POST", f"/v1/jobs/{job}/{kind}", body).status == 422
        assert served.manager.job(job).status == "RUNNING"

    @pytest.mark.parametrize("wait", ["-1", "61", "x", "1.5"])
    def test_waiting_has_bounds(self, served: Served, job: str, wait: str) -> None:
        assert served.ask("POST", f"/v1/jobs/{job}/savepoints?wait={wait}", {}).status == 422

    @pytest.mark.parametrize("directory", ["/etc", "/tmp/../etc", "file:///etc", "s3://bucket/x"])
    @pytest.mark.parametrize(
        ("kind", "field"), [("savepoints", "directory"), ("stop", "directory"), ("restart", "savepoint")]
    )
    def test_paths_that_lead_out(self, served: Served, job: str, kind: str, field: str, directory: str) -> None:
        for token in (False, True):
            answer = served.ask("POST", f"/v1/jobs/{job}/{kind}", {field: directory}, token=token)
            assert (answer.status, answer.json["code"]) == (403, "path")
        assert served.manager.job(job).status == "RUNNING"

    def test_a_path_by_a_link(self, served: Served, job: str, tmp_path: Path) -> None:
        link = served.manager.home / "link"
        link.symlink_to(tmp_path)
        answer = served.ask("POST", f"/v1/jobs/{job}/savepoints", {"directory": str(link / "x")})
        assert answer.status == 403

    def test_a_path_that_is_none(self, served: Served, job: str) -> None:
        assert served.ask("POST", f"/v1/jobs/{job}/savepoints", {"directory": "relative"}).status == 422

    def test_paths_that_the_manager_or_the_job_allows(self, tmp_path: Path) -> None:
        allowed, mine = tmp_path / "allowed", tmp_path / "mine"
        with serving(tmp_path / "home", allow_paths=[str(allowed)]) as own:
            spec = {**submission(tmp_path / "app"), "settings": {"execution.checkpointing.savepoint-dir": str(mine)}}
            job = running(own, own.ask("POST", "/v1/jobs", spec, token=True))
            for directory in (allowed / "deep", mine):
                answer = own.ask("POST", f"/v1/jobs/{job}/savepoints?wait=60", {"directory": str(directory)})
                assert answer.status == 200, answer.body
                assert Path(answer.json["result"]["path"]).parent == directory
            default = own.ask("POST", f"/v1/jobs/{job}/savepoints?wait=60", {})
            assert Path(default.json["result"]["path"]).parent == mine


def test_a_server_ends_while_somebody_watches(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as own:
        stream = Stream(own, "/v1/events")
        assert stream.next()[0] == "overview"
    # What was on its way still comes; then the stream has an end.
    while stream.next()[0]:
        pass
    stream.close()
