"""The way to Redis: the client library, connections, and failures in our words.

The library is redis-py: an extra, so it is imported where it is first used. Messages never hold a password.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, TypeVar
from urllib.parse import unquote

from flintstream.connectors.fields import fields_of
from flintstream.errors import InvalidArgumentError, SinkError, describe
from flintstream.model.extras import extra
from flintstream.model.location import refused

T = TypeVar("T")
_URL = re.compile(r"(rediss?)://(?:([^:@/]*)(?::([^@/]*))?@)?([^:/?@]*)(?::(\d+))?(?:/(\d+)?)?")
_CLIENTS: dict[RedisServer, Any] = {}
_RETRY_SECONDS = 1.0
_TIMEOUT_SECONDS = 10


def library() -> Any:
    """Return the client library."""
    return extra("redis", "Redis needs the package redis", "redis")


@dataclass(frozen=True)
class RedisServer:
    """Where a Redis is and who asks."""

    host: str
    port: int
    db: int
    user: str | None
    password: str | None = field(repr=False)
    is_encrypted: bool

    @staticmethod
    def of(url: str, password: str | None) -> RedisServer:
        """Return the server that a URL names: "redis://user:password@host:6379/0", "rediss://..." if encrypted."""
        found = _URL.fullmatch(str(url))
        if found is None:
            # The URL itself is not shown: a password may be in it.
            raise refused(InvalidArgumentError, "this is no URL of a Redis", 'write "redis://host:6379/0"')
        library()
        scheme, user, secret, host, port, db = found.groups()
        given = password if password is not None else unquote(secret) if secret else None
        return RedisServer(
            host or "localhost",
            int(port or 6379),
            int(db or 0),
            unquote(user) if user else None,
            given,
            scheme == "rediss",
        )

    @property
    def place(self) -> str:
        """Its address without secrets."""
        return f"{self.host}:{self.port}/{self.db}"

    def client(self) -> Any:
        """Return this process's client, which may be used by all threads."""
        if self not in _CLIENTS:
            _CLIENTS[self] = library().Redis(
                host=self.host,
                port=self.port,
                db=self.db,
                username=self.user,
                password=self.password,
                ssl=self.is_encrypted,
                socket_timeout=_TIMEOUT_SECONDS,
                socket_connect_timeout=_TIMEOUT_SECONDS,
                # Whether to ask again is for us to say: a command may have been done.
                retry=None,
                health_check_interval=1,
            )
        return _CLIENTS[self]

    def reason_of(self, error: Exception) -> str:
        """Return what the server, or the client, says is wrong."""
        text = " ".join(str(error).split()) or type(error).__name__
        return text.replace(self.password, "***") if self.password else text


def is_passing(error: Exception) -> bool:
    """Whether it may go better another time."""
    redis = library()
    passing = (redis.ConnectionError, redis.TimeoutError, redis.exceptions.BusyLoadingError)
    return isinstance(error, passing) and not isinstance(error, redis.AuthenticationError)


def retrying(work: Callable[[], T], retries: int) -> T:
    """Return what a piece of work gives; what may go better another time is tried again, later and later."""
    tried = 0
    while True:
        try:
            return work()
        except Exception as error:
            if tried == retries or not is_passing(error):
                raise
        tried += 1
        time.sleep(_RETRY_SECONDS * tried)


def failed(what: str, error: Exception, server: RedisServer) -> SinkError:
    """Return an error for what the server did not do."""
    is_dead = isinstance(error, library().ConnectionError | library().TimeoutError)
    verb = "does not answer" if is_dead else "refuses it"
    remedy = "see that it runs and lets us in, then start the job again: nothing is lost"
    return SinkError(describe(f"{what}: Redis at {server.place} {verb} ({server.reason_of(error)})", remedy=remedy))


class Template:
    """A text made of a record: "campaign:{id}:{start}" with its fields in braces, or the user's function.

    A text without braces is the same for all records, which is a mistake unless `may_be_constant`.
    """

    def __init__(self, name: str, given: str | Callable[[Any], Any], may_be_constant: bool = False) -> None:
        self._given = given
        self._name = name
        if callable(given):
            return
        try:
            fields = [field for _, field, _, _ in Formatter().parse(given) if field is not None]
        except (ValueError, TypeError):
            fields = [""]
        if (
            not given
            or not (fields or may_be_constant)
            or not all(re.match(r"[A-Za-z_]\w*", field) for field in fields)
        ):
            remedy = 'write the record\'s fields in braces, as in "user:{id}", or give a function'
            raise refused(InvalidArgumentError, f"{name} is {given!r:.100}", remedy)

    def __call__(self, record: Any) -> str | bytes:
        """Return the text of a record; bytes and numbers of the user's function stay what they are."""
        if callable(self._given):
            made = self._given(record)
        else:
            try:
                made = self._given.format_map(fields_of(record))
            except KeyError as error:
                what = f"a record has no field {error} for {self._name} {self._given!r}: {record!r:.200}"
                raise SinkError(describe(what, remedy="name fields that every record has")) from None
        return as_text(self._name, made)


def as_text(name: str, value: Any) -> str | bytes:
    """Return a value as Redis keeps it: text, or bytes."""
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    what = f"{name} is {value!r:.100}, but Redis holds texts, bytes and numbers"
    raise SinkError(describe(what, remedy="make one of it before the sink, by json.dumps(...) say"))
