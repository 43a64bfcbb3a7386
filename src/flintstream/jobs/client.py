"""A manager from afar: the same methods as `Manager` has, over REST; what takes long is waited for.

Flink: RestClusterClient.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from flintstream.errors import InvalidArgumentError, JobStateError, ManagerError, NoManagerError, TokenError, describe
from flintstream.jobs.client_http import Wire, error_of
from flintstream.jobs.leader import leader_of
from flintstream.jobs.logs import LogPiece
from flintstream.jobs.spec import JobSpec
from flintstream.jobs.view import JobView

WAIT_SECONDS = 20
_PIECE = 1 << 16


class Client:
    """A client of a manager.

    Args:
        url: The manager's address.
        token: Its token; without one, what needs none works.
        timeout: Seconds that it may take to answer.

    Raises:
        InvalidArgumentError: that is no address, or no token.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 30.0) -> None:
        self._wire = Wire(url, token, timeout)

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    @property
    def url(self) -> str:
        """The manager's address."""
        return self._wire.url

    @property
    def token(self) -> str | None:
        """The token that it was made with."""
        return self._wire.token

    @property
    def is_local(self) -> bool:
        """Whether the manager is on this machine, and sees the same files."""
        return self._wire.is_local

    def overview(self) -> dict[str, Any]:
        """Return what there is: who leads, slots, jobs by status."""
        return self.get_json("/overview")

    def jobs(self) -> list[JobView]:
        """Return all jobs, the newest first."""
        return [JobView.from_dict(each) for each in self.get_json("/jobs")["jobs"]]

    def job(self, job: str) -> JobView:
        """Return a job.

        Raises:
            UnknownJobError: there is none.
        """
        return JobView.from_dict(self.get_json(_at(job)))

    def submit(self, spec: JobSpec, upload: Path | None = None) -> JobView:
        """Let a job run.

        Args:
            spec: The job. Its paths are the manager's, except for those of an upload.
            upload: A script or an archive of this machine that is sent along. Of a script, its name is the program;
                of an archive, `spec` names what is in it. What `spec` says of directories here is left out.
        """
        return JobView.from_dict(self._send("/v1/jobs", spec, upload))

    def explain(self, spec: JobSpec, upload: Path | None = None) -> dict[str, Any]:
        """Return how a job would run: its name, its plan in words (`text`) and as a document (`plan`)."""
        return self._send("/v1/explain", spec, upload)

    def _send(self, path: str, spec: JobSpec, upload: Path | None) -> dict[str, Any]:
        if upload is None:
            return self._wire.ask("POST", path, spec.to_json(), wait=300.0)
        if not upload.is_file():
            raise InvalidArgumentError(describe(f"there is no file {upload}", None, "give a .py, a .zip or a .whl"))
        named = upload.name if upload.suffix == ".py" and spec.module is None else spec.program
        spec = replace(spec, program=named, working_directory=None, python_path=())
        boundary = uuid.uuid4().hex
        head, tail = _form(spec, upload.name, boundary)
        length = len(head) + upload.stat().st_size + len(tail)
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}", "Content-Length": str(length)}
        answer = self._wire.open("POST", path, lambda: _pieces(head, upload, tail), headers, wait=300.0)
        return self._wire.told(answer)

    def cancel(self, job: str, *, timeout: float = 60.0) -> JobView:
        """Let a job end behind its last epoch."""
        return JobView.from_dict(self._operate(job, "cancel", {}, timeout)["job"])

    def stop(self, job: str, savepoint_dir: str | None = None, drain: bool = False, *, timeout: float = 60.0) -> str:
        """Let a job take a last savepoint and end; return where that is."""
        return self._operate(job, "stop", {"directory": savepoint_dir, "drain": drain}, timeout)["path"]

    def savepoint(
        self,
        job: str,
        savepoint_dir: str | None = None,
        tags: Sequence[str] = (),
        comment: str = "",
        *,
        timeout: float = 60.0,
    ) -> str:
        """Take a savepoint of a job; return where that is."""
        body = {"directory": savepoint_dir, "tags": list(tags), "comment": comment}
        return self._operate(job, "savepoints", body, timeout)["path"]

    def savepoints(self, job: str) -> list[dict[str, Any]]:
        """Return the savepoints that were taken of a job."""
        return self.get_json(_at(job, "savepoints"))["savepoints"]

    def show_savepoint(self, job: str, name: str) -> dict[str, Any]:
        """Return what is in a savepoint of a job; `name` is the last part of its path."""
        return self.get_json(_savepoint_at(job, name))

    def diff_savepoints(self, job: str, first: str, second: str) -> list[dict[str, Any]]:
        """Return how much of each state the second savepoint has added, removed and changed."""
        return self.get_json(_savepoint_at(job, first, f"diff/{quote(second, safe='')}"))["tables"]

    def check_savepoint(self, job: str, name: str) -> None:
        """Let all of a savepoint be read and compared with its checksums."""
        self._wire.ask("POST", f"/v1{_savepoint_at(job, name, 'check')}", {}, wait=300.0)

    def tag_savepoint(self, job: str, name: str, tags: Sequence[str], comment: str | None = None) -> dict[str, Any]:
        """Give a savepoint these tags instead of those it has."""
        body = {"tags": list(tags), "comment": comment}
        return self._wire.ask("POST", f"/v1{_savepoint_at(job, name, 'tags')}", body)

    def dispose_savepoint(self, job: str, name: str) -> None:
        """Delete a savepoint, and nothing beside it."""
        self._wire.ask("DELETE", f"/v1{_savepoint_at(job, name)}")

    def rescale(self, job: str, parallelism: int, *, timeout: float = 60.0) -> JobView:
        """Let a job go on with another parallelism."""
        return JobView.from_dict(self._operate(job, "rescale", {"parallelism": parallelism}, timeout)["job"])

    def rescale_auto(self, job: str, least: int, most: int | None) -> JobView:
        """Let a job's parallelism follow its backlog between bounds, up to the manager's slots if no other is given."""
        body = {"parallelism": "auto", "least": least, "most": most}
        return JobView.from_dict(self._operate(job, "rescale", body, 60.0)["job"])

    def restart(
        self, job: str, savepoint: str | None = None, allow_non_restored: bool = False, *, timeout: float = 60.0
    ) -> JobView:
        """Start a job again, where it stood or from a savepoint."""
        body = {"savepoint": savepoint, "allow_non_restored": allow_non_restored}
        return JobView.from_dict(self._operate(job, "restart", body, timeout)["job"])

    def forget(self, job: str) -> None:
        """Forget a job that has ended."""
        self._wire.ask("DELETE", f"/v1{_at(job)}")

    def status(self, job: str) -> dict[str, Any]:
        """Return what a job's driver reported last."""
        return self.get_json(_at(job, "status"))

    def plan(self, job: str) -> dict[str, Any]:
        """Return the dataflow that a job runs."""
        return self.get_json(_at(job, "plan"))

    def epochs(self, job: str, since_epoch: int = 0) -> list[dict[str, Any]]:
        """Return the epochs that a job has committed behind one."""
        return self.get_json(_at(job, "epochs"), since=since_epoch)["epochs"]

    def exceptions(self, job: str) -> list[dict[str, Any]]:
        """Return what failed in a job."""
        return self.get_json(_at(job, "exceptions"))["exceptions"]

    def history(self, job: str) -> list[dict[str, Any]]:
        """Return the states that a job went through."""
        return self.get_json(_at(job, "history"))["history"]

    def configuration(self, job: str) -> dict[str, Any]:
        """Return the settings that a job runs with; secrets are stars."""
        return self.get_json(_at(job, "configuration"))["configuration"]

    def log(self, job: str, stream: str, offset: int = 0, limit: int = _PIECE) -> LogPiece:
        """Return a piece of what a job printed; a negative offset counts from the end."""
        return _piece(self.get_json(_log_at(job, stream), offset=offset, limit=limit))

    def follow_log(self, job: str, stream: str, offset: int = 0) -> Iterator[LogPiece]:
        """Yield what a job prints from a position on, as it comes, until the job has ended."""
        query = urlencode({"offset": offset, "follow": "true"})
        for event, data in self._events(f"{_log_at(job, stream)}?{query}"):
            if event == "log":
                yield _piece(data)

    def events(self, job: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what changes, of a job or of all, as pairs of the event's name and its data."""
        return self._events("/events" if job is None else _at(job, "events"))

    def get_json(self, path: str, **query: Any) -> Any:
        """Return what a path below `/v1` answers."""
        return self._wire.ask("GET", f"/v1{path}" + (f"?{urlencode(query)}" if query else ""))

    def _events(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        with closing(self._wire.open("GET", f"/v1{path}")) as answer:
            event = ""
            for line in self._wire.lines(answer):
                name, _, value = line.partition(": ")
                if name == "event":
                    event = value
                elif name == "data":
                    if event == "problem":
                        raise error_of(json.loads(value))
                    yield event, json.loads(value)
                    if event in ("end", "gone"):
                        return

    def _operate(self, job: str, what: str, body: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Begin an operation and wait until it has ended; return what came of it."""
        seconds = max(1, math.ceil(timeout))
        wait = min(seconds, WAIT_SECONDS)
        path = f"/v1{_at(job, what)}?{urlencode({'wait': wait, 'timeout': seconds})}"
        found = self._wire.ask("POST", path, body, wait)
        # The manager gives up by itself; this is for one that forgets to.
        deadline = time.monotonic() + seconds + self._wire.timeout
        while found["status"] == "running":
            if time.monotonic() > deadline:
                what = f"the manager has not finished within {seconds} s"
                raise JobStateError(describe(what, None, "look at the job, and ask again"))
            found = self._wire.ask("GET", f"/v1/operations/{quote(found['id'])}?wait={wait}", wait=wait)
        if found["problem"] is not None:
            raise error_of(found["problem"])
        return found["result"]


def find_manager(home: Path, *, timeout: float = 30.0) -> Client:
    """Return a client of the manager that leads over a home, with the home's token.

    Raises:
        NoManagerError: there is none.
        TokenError: the token cannot be read.
    """
    leader = leader_of(home)
    if leader is None or leader.url is None:
        remedy = "start one: flintstream cluster start; or name one: --manager URL"
        raise NoManagerError(describe("no manager runs on this machine", f"looked in {home}", remedy))
    try:
        token = (home / "token").read_text().strip()
    except OSError as error:
        what = f"the manager's token cannot be read ({error.strerror})"
        raise TokenError(describe(what, str(home), "ask as the user who started it")) from None
    return Client(leader.url, token, timeout=timeout)


def _at(job: str, rest: str = "") -> str:
    return f"/jobs/{quote(job, safe='')}" + (f"/{rest}" if rest else "")


def _savepoint_at(job: str, name: str, rest: str = "") -> str:
    return _at(job, f"savepoints/{quote(name, safe='')}" + (f"/{rest}" if rest else ""))


def _log_at(job: str, stream: str) -> str:
    return _at(job, f"logs/{quote(stream, safe='')}")


def _piece(document: dict[str, Any]) -> LogPiece:
    return LogPiece(**{each.name: document[each.name] for each in fields(LogPiece)})


def _form(spec: JobSpec, name: str, boundary: str) -> tuple[bytes, bytes]:
    """Return what stands before and behind the file in a form."""
    if '"' in name or not name.isprintable():
        raise InvalidArgumentError(describe(f"{name!r} cannot be uploaded", None, "give it a plain name"))
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="spec"\r\nContent-Type: application/json\r\n\r\n'
        f"{json.dumps(spec.to_json())}\r\n"
        f'--{boundary}\r\nContent-Disposition: form-data; name="program"; filename="{name}"\r\n'
        f"Content-Type: application/octet-stream\r\n\r\n"
    )
    return head.encode(), f"\r\n--{boundary}--\r\n".encode()


def _pieces(head: bytes, upload: Path, tail: bytes) -> Iterator[bytes]:
    yield head
    try:
        with upload.open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece
    except OSError as error:
        raise ManagerError(describe(f"{upload} cannot be read ({error.strerror})", None, "look at the file")) from None
    yield tail
