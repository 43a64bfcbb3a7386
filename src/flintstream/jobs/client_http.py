"""The wire between a client and a manager: requests in, JSON or an error of ours out.

Separate from the client's methods, which only name paths. Nothing but the standard library, so that the command line
needs no extra to speak to a manager elsewhere.

Flink: RestClient.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

from flintstream.errors import (
    FlintstreamError,
    InvalidArgumentError,
    ManagerError,
    NoManagerError,
    TokenError,
    describe,
)
from flintstream.jobs.security import SIGNATURE, is_loopback

MOST_HOPS = 3
JSON = "application/json"


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows nothing by itself: whether another server may see the token is not for a library to decide."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class Wire:
    """Speaks to one manager, or to the one that leads if that one stands by.

    Args:
        url: Its address.
        token: Its token, if there is one.
        timeout: Seconds that it may take to answer, besides those that a request says it will wait.
    """

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        host = _host_of(url)
        if host is None:
            what = f"{_shown(url)!r} is no address of a manager"
            raise InvalidArgumentError(describe(what, None, "give one such as http://localhost:8081"))
        if token is not None and not (token.isascii() and token.isprintable()):
            raise InvalidArgumentError(describe("the token has characters that no token has", None, "give another"))
        self.url = url.rstrip("/")
        self.token = token
        self.timeout = timeout
        self.is_local = is_loopback(host)
        # A proxy cannot reach what only this machine can.
        proxies = [urllib.request.ProxyHandler({})] if self.is_local else []
        self._opener = urllib.request.build_opener(_Stay(), *proxies)

    def __repr__(self) -> str:
        return f"Wire({self.url!r})"

    def ask(self, method: str, path: str, body: Any = None, wait: float = 0.0) -> Any:
        """Send JSON, if there is any, and return what was answered, None if that is nothing."""
        data = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": JSON}
        return self.told(self.open(method, path, data, headers, wait))

    def told(self, answer: http.client.HTTPResponse) -> Any:
        """Return the JSON of an answer, None if it is empty."""
        with answer:
            try:
                text = answer.read()
                return json.loads(text) if text else None
            except (OSError, http.client.HTTPException) as error:
                raise self._nobody(error) from None
            except ValueError:
                raise self._strange(answer.status) from None

    def open(
        self,
        method: str,
        path: str,
        data: bytes | Callable[[], Iterable[bytes]] | None = None,
        headers: Mapping[str, str] | None = None,
        wait: float = 0.0,
    ) -> http.client.HTTPResponse:
        """Send a request and return the answer, still to be read; go on to the leader if this manager stands by."""
        url = self.url + path
        for _ in range(MOST_HOPS):
            sent = data() if callable(data) else data
            request = urllib.request.Request(url, cast("Any", sent), dict(headers or {}), method=method)
            request.add_header("Accept", "application/json, */*;q=0.5")
            if self.token is not None:
                # Unredirected: it is for this server alone.
                request.add_unredirected_header("Authorization", f"Bearer {self.token}")
            try:
                answer = self._opener.open(request, timeout=self.timeout + wait)
            except urllib.error.HTTPError as error:
                with error:
                    onward = self._onward(url, error)
                    if onward is None or error.headers.get(SIGNATURE) is None:
                        raise self._problem(error) from None
                url = onward
            except (OSError, http.client.HTTPException) as error:
                raise self._nobody(error) from None
            else:
                if answer.headers.get(SIGNATURE) is None:
                    answer.close()
                    raise self._strange(answer.status)
                return answer
        what = f"the managers at {self.url} send each other's clients in a circle"
        raise ManagerError(describe(what, None, "wait until one of them leads"))

    def lines(self, answer: http.client.HTTPResponse) -> Iterator[str]:
        """Yield the lines of an answer as they come."""
        try:
            for line in answer:
                yield line.decode("utf-8", "replace").rstrip("\r\n")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._nobody(error) from None

    def _onward(self, url: str, error: urllib.error.HTTPError) -> str | None:
        """Return where the leader is, if a manager that stands by says so, and the way there is no less safe."""
        target = urljoin(url, error.headers.get("Location", ""))
        is_safe = urlsplit(target).scheme == "https" or urlsplit(url).scheme == "http"
        return target if error.code == 307 and target.startswith("http") and is_safe else None

    def _nobody(self, error: Exception) -> ManagerError:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, TimeoutError):
            what = f"the manager at {self.url} did not answer in time"
            return ManagerError(describe(what, None, "look at its log, or wait longer"))
        if isinstance(reason, ConnectionResetError | BrokenPipeError | http.client.HTTPException):
            what = f"the manager at {self.url} broke the connection ({type(reason).__name__})"
            return ManagerError(describe(what, None, "look at its log; what was sent may be too large"))
        text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        remedy = "start one: flintstream cluster start; or name another: --manager URL"
        return NoManagerError(describe(f"no manager answers at {self.url} ({text})", None, remedy))

    def _problem(self, error: urllib.error.HTTPError) -> FlintstreamError:
        """Return the error that a problem document tells of."""
        try:
            found = json.loads(error.read(1 << 20))
        except (ValueError, OSError, http.client.HTTPException):
            found = None
        if not isinstance(found, dict) or "detail" not in found:
            return self._strange(error.code)
        return error_of(cast("dict[str, Any]", found))

    def _strange(self, status: int) -> ManagerError:
        what = f"{self.url} answered with status {status}, not as a manager does"
        return ManagerError(describe(what, None, "see whether something else listens there"))


def error_of(problem: Mapping[str, Any]) -> FlintstreamError:
    """Return the error that a problem document tells of."""
    message = describe(str(problem.get("detail")), None, problem.get("remedy") or None)
    code, status = problem.get("code"), problem.get("status")
    if status == 401:
        remedy = "set FLINTSTREAM_TOKEN, or give the client token=; it is in the file `token` of the manager's home"
        return TokenError(describe(str(problem.get("detail")), None, remedy))
    if code in ("invalid", "upload"):
        return InvalidArgumentError(message)
    return _errors().get(str(code), ManagerError)(message)


@cache
def _errors() -> dict[str, type[FlintstreamError]]:
    """Return all classes of errors by their codes."""
    found: dict[str, type[FlintstreamError]] = {}
    pending: list[type[FlintstreamError]] = [FlintstreamError]
    while pending:
        kind = pending.pop()
        found.setdefault(kind.code, kind)
        pending += kind.__subclasses__()
    return found


def _host_of(url: str) -> str | None:
    """Return the host in a manager's address, None if that is no address."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        host.encode("idna")
        has_place = bool(host) and (parts.port is None or parts.port > 0)
    except ValueError:
        return None
    is_plain = url.isprintable() and " " not in url and not parts.query and not parts.fragment
    return host if parts.scheme in ("http", "https") and has_place and is_plain and parts.username is None else None


def _shown(url: str) -> str:
    """Return an address without whoever logs in."""
    return url.rpartition("@")[2][:200]
