"""A manager that does what a test says: it answers like the real one, from memory, and remembers what it was asked.

It serves the dashboard's own files with the policy that the real server sends, so that a page that needs more than the
policy allows fails here too.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import flintstream.jobs

FILES = Path(flintstream.jobs.__file__).parent / "dashboard"
POLICY = (
    "default-src 'self'; img-src 'self'; object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass
class FakeJob:
    """All that is known of a job."""

    view: dict[str, Any]
    status: dict[str, Any] = field(default_factory=dict[str, Any])
    plan: dict[str, Any] = field(default_factory=dict[str, Any])
    epochs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    exceptions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    savepoints: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    logs: dict[str, str] = field(default_factory=lambda: {"out": "", "err": ""})
    states: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    values: dict[str, Any] = field(default_factory=dict[str, Any])


class FakeManager:
    """A server on a port of its own; use it as a context."""

    def __init__(self, token: str | None = None) -> None:
        self.token = token
        self.jobs: dict[str, FakeJob] = {}
        self.overview: dict[str, Any] = {
            "version": "0.1.0",
            "slots": {"total": 4, "used": 2, "free": 2},
            "task_managers": [{"id": "this-machine", "host": "this-machine", "slots": 4, "free": 2, "cores": 2}],
            "leader": {"url": "http://127.0.0.1:8081", "since_ms": 1_794_800_000_000},
            "is_leader": True,
            "started_ms": 1_794_800_000_000,
            "roles": {"JobManager": "this process", "TaskManager": "the Spark of each job"},
        }
        self.calls: list[tuple[str, str, Any]] = []
        self.refusals: dict[str, dict[str, Any]] = {}
        self.results: dict[str, Any] = {}
        self.is_away = False
        self.operations: dict[str, dict[str, Any]] = {}
        self.held = threading.Event()
        self.held.set()
        self._changed = threading.Condition()
        self._version = 0
        self._closing = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"manager": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FakeManager:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._closing = True
        self.held.set()
        self.tell()
        self._server.shutdown()
        self._server.server_close()

    def tell(self) -> None:
        """Send what has changed to all who watch."""
        with self._changed:
            self._version += 1
            self._changed.notify_all()

    def go_away(self) -> None:
        """Break all connections, and answer no more."""
        self.is_away = True
        self.tell()

    def posted(self, ending: str) -> list[Any]:
        """The bodies that were sent to paths with this ending."""
        return [body for method, path, body in self.calls if method == "POST" and path.endswith(ending)]

    def news(self, seen: int) -> int:
        """Wait until there is something newer than what was seen; -1 if nothing more will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != seen or self.is_away or self._closing, timeout=60)
            return -1 if self.is_away or self._closing else self._version


class _Handler(BaseHTTPRequestHandler):
    manager: FakeManager
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def _answer(self) -> None:
        if self.manager.is_away:
            self.close_connection = True
            return
        target = urlsplit(self.path)
        parts = [unquote(part) for part in target.path.split("/") if part]
        query = {name: values[0] for name, values in parse_qs(target.query).items()}
        if parts[:1] == ["v1"]:
            self._api(parts[1:], query)
        else:
            self._file(target.path)

    def _file(self, path: str) -> None:
        file = (FILES / (path.lstrip("/") or "index.html")).resolve()
        if not file.is_relative_to(FILES) or not file.is_file():
            self._send(404, b"", "text/plain")
            return
        self._send(200, file.read_bytes(), TYPES[file.suffix])

    def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Length", str(len(body)))
        if status == 204 and self.path.endswith("/session"):
            self.send_header("Set-Cookie", f"session={self.manager.token}; HttpOnly; SameSite=Strict; Path=/")
        self.end_headers()
        self.wfile.write(body)

    def _json(self, document: Any, status: int = 200) -> None:
        self._send(status, json.dumps(document).encode())

    def _problem(self, status: int, title: str, detail: str = "", remedy: str = "") -> None:
        self._json({"title": title, "detail": detail, "remedy": remedy, "status": status}, status)

    def _api(self, parts: list[str], query: dict[str, str]) -> None:
        manager = self.manager
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "null")
        path = "/".join(parts)
        manager.calls.append((self.command, path, body))
        if parts == ["session"]:
            if body.get("token") != manager.token:
                return self._problem(401, "This is not the token", "It differs.", "Look into the file named token.")
            return self._send(204, b"")
        if manager.token is not None and not self._is_known():
            return self._problem(401, "A token is needed")
        for ending, problem in manager.refusals.items():
            if path.endswith(ending) and self.command != "GET":
                return self._json(problem, problem["status"])
        if parts[0] == "operations":
            return self._json(self._operation(parts[1]))
        if parts[0] == "overview":
            return self._json(manager.overview)
        if parts[0] == "events":
            return self._events("overview", lambda: {"overview": manager.overview, "jobs": self._listed()})
        if parts == ["jobs"]:
            return self._json({"jobs": self._listed()})
        job = manager.jobs.get(parts[1])
        if job is None:
            return self._problem(404, "No such job", f"There is no job {parts[1]}.", "See flintstream list.")
        if self.command == "DELETE":
            del manager.jobs[parts[1]]
            return self._send(204, b"")
        if self.command == "POST":
            operation = {"id": f"op{len(manager.operations)}", "status": "running", "result": None, "problem": None}
            manager.operations[operation["id"]] = {**operation, "action": parts[2]}
            return self._json(operation, 202)
        return self._of_job(job, parts[2:], query)

    def _is_known(self) -> bool:
        token = self.manager.token
        return self.headers.get("Authorization") == f"Bearer {token}" or f"session={token}" in (
            self.headers.get("Cookie") or ""
        )

    def _operation(self, name: str) -> dict[str, Any]:
        operation = self.manager.operations[name]
        if not self.manager.held.is_set():
            return operation
        result = self.manager.results.get(operation["action"])
        if isinstance(result, dict) and "detail" in result:
            return {**operation, "status": "failed", "problem": result}
        return {**operation, "status": "done", "result": result}

    def _listed(self) -> list[dict[str, Any]]:
        fields = ("records_in_per_second", "records_out_per_second", "watermark_lag_ms", "epoch")
        return [
            {**job.view, "status_now": {name: job.status[name] for name in fields if name in job.status}}
            for job in list(self.manager.jobs.values())
        ]

    def _of_job(self, job: FakeJob, parts: list[str], query: dict[str, str]) -> None:
        match parts:
            case []:
                self._json(job.view)
            case ["events"]:
                self._events("status", lambda: {"job": job.view, "status": job.status})
            case ["plan" | "status" as name]:
                self._json(getattr(job, name))
            case ["epochs"]:
                self._json({"epochs": [each for each in job.epochs if each["epoch"] > int(query.get("since", 0))]})
            case ["exceptions" | "savepoints" as name]:
                self._json({name: getattr(job, name)})
            case ["configuration"]:
                self._json({"configuration": job.plan.get("configuration", {})})
            case ["logs", stream]:
                text = job.logs[stream].encode()
                offset = int(query.get("offset", 0))
                offset = max(0, len(text) + offset) if offset < 0 else offset
                piece = text[offset : offset + int(query.get("limit", 65536))]
                self._json({"text": piece.decode(), "next_offset": offset + len(piece), "size": len(text)})
            case ["state"]:
                self._json({"states": job.states})
            case ["state", _, _]:
                keys = sorted(key for key in job.values if key.startswith(query.get("prefix", "")))
                entries = [{"key": key, "found": True, "value": job.values[key], "epoch": 120} for key in keys]
                self._json({"entries": entries, "epoch": 120, "after": None})
            case ["state", _, _, key]:
                answer = _value(job, key, query.get("consistency") != "uncommitted")
                if answer["found"]:
                    self._json(answer)
                else:
                    self._json({"title": "Unknown key", "detail": "nothing", "status": 404, "answer": answer}, 404)
            case ["state", _, _, key, "watch"]:
                self._events("state", lambda: {"epoch": 120, "changes": [_value(job, key, True)]})
            case _:
                self._problem(404, "No such path")

    def _events(self, name: str, data: Any) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.close_connection = True
        seen, sent = 0, ""
        try:
            while seen >= 0:
                text = json.dumps(data())
                if text != sent:
                    self.wfile.write(f"event: {name}\ndata: {text}\n\n".encode())
                    self.wfile.flush()
                sent = text
                seen = self.manager.news(seen)
        except OSError:
            pass  # the page has gone


def _value(job: FakeJob, key: str, committed: bool) -> dict[str, Any]:
    return {"key": key, "found": key in job.values, "value": job.values.get(key), "epoch": 120, "committed": committed}
