"""Queryable state through a manager's REST interface, with what Python's own library has for that.

Flink: the network part of QueryableStateClient.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from http.client import HTTPException
from typing import Any, NoReturn, cast
from urllib.parse import quote, urlencode

from flintstream.engine.query import StateAnswer, StatePage
from flintstream.engine.query_forms import form_of
from flintstream.engine.query_names import KeyText, WindowName, page_length, prefix_of
from flintstream.engine.query_watch import EVERYTHING
from flintstream.errors import (
    FlintstreamError,
    InvalidArgumentError,
    ManagerError,
    NoManagerError,
    TokenError,
    UnknownJobError,
    UnknownStateError,
    describe,
)

_SECONDS = 60.0
"""A manager that says nothing this long is gone: those who watch get a beat every few seconds."""
_KINDS: dict[str, type[FlintstreamError]] = {
    "unknown-job": UnknownJobError,
    "unknown-state": UnknownStateError,
    "token": TokenError,
}
_BY_STATUS: dict[int, type[FlintstreamError]] = {401: TokenError, 403: TokenError, 422: InvalidArgumentError}


class RemoteStates:
    """The queryable state of one job at a manager."""

    def __init__(self, url: str, job: str, token: str | None) -> None:
        self._url = url.rstrip("/")
        self._base = f"{self._url}/v1/jobs/{quote(job, safe='')}/state"
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def states(self) -> list[dict[str, Any]]:
        """Return which states can be looked up."""
        return self._json(self._base)["states"]

    def get(
        self, name: str, keys: Sequence[Any], operator: str | None, window: Any, consistency: str
    ) -> list[StateAnswer]:
        """Return what some keys have."""
        named = _window(window)
        if any(isinstance(key, KeyText) for key in keys):
            return [self._get_text(name, key, operator, named, consistency) for key in keys]
        body: dict[str, Any] = {"keys": [form_of(key) for key in keys], "consistency": consistency}
        if named is not None:
            body["window"] = named
        answers = self._json(self._state(name, operator), body)["answers"]
        return [StateAnswer(**answer) for answer in answers]

    def _get_text(self, name: str, key: Any, operator: str | None, window: str | None, consistency: str) -> StateAnswer:
        asked = {"consistency": consistency, **({} if window is None else {"window": window})}
        where = f"{self._state(name, operator)}/{quote(_text(key), safe='')}?{urlencode(asked)}"
        return StateAnswer(**self._json(where, keep_missing=True))

    def scan(self, name: str, prefix: Any, limit: int, after: str | None, operator: str | None) -> StatePage:
        """Return a page of entries."""
        prefix_of(prefix)
        asked: dict[str, Any] = {"limit": page_length(limit)}
        if prefix is not None:
            asked["prefix"] = _text(prefix)
        if after is not None:
            asked["after"] = after
        found = self._json(f"{self._state(name, operator)}?{urlencode(asked)}")
        return StatePage([StateAnswer(**each) for each in found["entries"]], found["epoch"], found["after"])

    def watch(
        self, name: str, key: Any, prefix: Any, operator: str | None, window: Any, since: int | None
    ) -> Iterator[StateAnswer]:
        """Yield what changes; a connection that breaks is made anew, and goes on behind what was told last."""
        named = _window(window)
        if key is EVERYTHING and named is not None:
            what = "a window is named, but no key"
            raise InvalidArgumentError(describe(what, remedy="name a key, or leave the window out"))
        asked = {} if named is None else {"window": named}
        if key is EVERYTHING:
            prefix_of(prefix)
            asked = {"watch": "true", **({} if prefix is None else {"prefix": _text(prefix)})}
            where = f"{self._state(name, operator)}?{urlencode(asked)}"
        else:
            where = f"{self._state(name, operator)}/{quote(_text(key), safe='')}/watch?{urlencode(asked)}"
        return self._watched(where, since)

    def _watched(self, where: str, since: int | None) -> Iterator[StateAnswer]:
        failures = 0
        while True:
            headers = {"Accept": "text/event-stream"}
            if since is not None:
                headers["Last-Event-ID"] = str(since)
            try:
                with self._open(where, None, headers) as answer:
                    for epoch, changes in _events(answer):
                        failures, since = 0, epoch
                        yield from changes
            except (OSError, HTTPException) as error:
                failures += 1
                if failures > 1:
                    self._gone(error)

    def _state(self, name: str, operator: str | None) -> str:
        return f"{self._base}/{quote('-' if operator is None else operator, safe='')}/{quote(name, safe='')}"

    def _json(self, where: str, body: Any = None, keep_missing: bool = False) -> Any:
        try:
            with self._open(where, body, {}) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return self._refused(error, keep_missing)
        except (OSError, HTTPException) as error:
            self._gone(error)

    def _open(self, where: str, body: Any, headers: dict[str, str]) -> Any:
        data = None if body is None else json.dumps(body).encode()
        typed = {} if body is None else {"Content-Type": "application/json"}
        request = urllib.request.Request(where, data, {**self._headers, **typed, **headers})  # http only
        try:
            return urllib.request.urlopen(request, timeout=_SECONDS)
        except urllib.error.HTTPError as error:
            if headers:
                self._refused(error, False)
            raise

    def _refused(self, error: urllib.error.HTTPError, keep_missing: bool) -> Any:
        try:
            problem = cast("dict[str, Any]", json.load(error))
        except ValueError:
            problem = {}
        if keep_missing and "answer" in problem:
            return problem["answer"]
        kind = _KINDS.get(problem.get("code", "")) or _BY_STATUS.get(error.code, ManagerError)
        told = describe(problem.get("detail", f"it answers {error.code}"), self._url, problem.get("remedy"))
        raise kind(told) from None

    def _gone(self, error: Exception) -> NoReturn:
        what = f"no manager answers ({getattr(error, 'reason', None) or error})"
        raise NoManagerError(describe(what, self._url, "start one with 'flintstream cluster start'")) from None


def _text(key: Any) -> str:
    """Return a key as a URL has it: text as it is, anything else as JSON."""
    if isinstance(key, KeyText):
        return key.text
    form = form_of(key)
    return form if isinstance(form, str) else json.dumps(form)


def _window(window: Any) -> str | None:
    named = WindowName.of(window)
    if named is None:
        return None
    return str(named.start) if named.end is None else f"{named.start},{named.end}"


def _events(lines: Any) -> Iterator[tuple[int, list[StateAnswer]]]:
    """Yield the events of a stream: the epoch, and what has changed in it."""
    event, epoch = "", 0
    for line in lines:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "event":
            event = value
        elif name == "id":
            epoch = int(value)
        elif name == "data" and event == "state":
            changes = json.loads(value)["changes"]
            yield epoch, [StateAnswer(**each) for each in changes]
        elif name == "data" and event == "problem":
            problem = json.loads(value)
            kind = _KINDS.get(problem["code"], ManagerError)
            raise kind(describe(problem["detail"], None, problem["remedy"]))
