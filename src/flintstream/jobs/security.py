"""Who may ask the manager for what: names it goes by, the token, sessions of the dashboard, paths it will write to.

Pure decisions, apart from the server that asks for them, so that each can be tested by itself. A manager runs programs
as the user who started it, so whoever may submit one may do all that this user may; everything here serves to know
that it is that user, and not a page in their browser or somebody else on the machine.

Flink: `security.ssl.rest.authentication-enabled`. Differs from Flink: there is a token, and it is demanded whenever
programs are submitted or the manager can be reached from elsewhere.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from posixpath import normpath
from urllib.parse import SplitResult, unquote, urlsplit

from flintstream.errors import InvalidArgumentError, describe

SESSION_SECONDS = 12 * 3600
SUBMISSIONS = frozenset({("POST", "/v1/jobs"), ("POST", "/v1/explain")})
SESSION_PATH = "/v1/session"
SIGNATURE = "Flintstream-Version"
"""A header of all answers, by which a client knows that it speaks to a manager."""
_HOST = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::([0-9]{1,5}))?")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_OWN_SITES = (b"same-origin", b"none")


@dataclass(frozen=True)
class Verdict:
    """Why a request is refused: the status, a stable code, what is wrong, what to do."""

    status: int
    code: str
    what: str
    remedy: str


_FOREIGN = Verdict(403, "origin", "a page of another origin asks", "open the dashboard of this manager itself")


@dataclass(frozen=True)
class Access:
    """The rules of one server.

    Attributes:
        token: What submitting programs demands, and everything if the server can be reached from elsewhere.
        host: The address it is bound to.
        port: Its port; sessions of two managers on one machine are told apart by it.
        names: Further names that it goes by.
    """

    token: str
    host: str = "127.0.0.1"
    port: int = 0
    names: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"Access(host={self.host!r}, port={self.port})"

    @property
    def is_wide(self) -> bool:
        """Whether others than this machine reach the server."""
        return not is_loopback(self.host)

    @property
    def cookie(self) -> str:
        """The name of the session's cookie."""
        return f"flintstream-{self.port}"

    def refuses(self, method: str, path: str, headers: Mapping[bytes, bytes], is_api: bool) -> Verdict | None:
        """Return why a request is refused before anybody reads it; None if it is not."""
        return (
            self._misdirected(headers)
            or _from_another_page(method, headers, is_api)
            or (self._without_token(method, path, headers) if is_api else None)
        )

    def _misdirected(self, headers: Mapping[bytes, bytes]) -> Verdict | None:
        """A name of somebody else that leads here (DNS rebinding) would make a foreign page look like our own."""
        name = host_name(headers.get(b"host", b""))
        if name is not None and self._is_own(name):
            return None
        what = f"this server does not go by the name {name!r}" if name else "the request names no host"
        return Verdict(421, "host", what, "use localhost, or start the manager with --allow-host NAME")

    def _is_own(self, name: str) -> bool:
        # An address cannot be rebound; only names can.
        is_known = name in self.names or name == self.host.lower() or (self.is_wide and _is_address(name))
        return is_known or is_loopback(name)

    def _without_token(self, method: str, path: str, headers: Mapping[bytes, bytes]) -> Verdict | None:
        remedy = "send it as `Authorization: Bearer TOKEN`; it is in the file `token` of the manager's home"
        given = headers.get(b"authorization")
        if given is not None:
            # A wrong one is refused also where none is needed: whoever sends one wants to be known.
            return None if self.knows(given) else Verdict(401, "token", "the token is wrong", remedy)
        if path == SESSION_PATH or not (self.is_wide or (method, path) in SUBMISSIONS):
            return None
        if method in ("GET", "HEAD") and self._has_session(headers.get(b"cookie", b"")):
            return None
        return Verdict(401, "token", "this needs the manager's token", remedy)

    def knows(self, authorization: bytes) -> bool:
        """Return whether an Authorization header carries the token."""
        scheme, _, given = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and self.is_token(given.strip())

    def is_token(self, given: bytes) -> bool:
        """Return whether this is the token, in a time that does not tell how much of it is right."""
        # Digests have one length, so that not even the token's length shows.
        digests = (hashlib.sha256(each).digest() for each in (given, self.token.encode()))
        return bool(self.token) and hmac.compare_digest(*digests)

    def new_session(self) -> str:
        """Return a cookie's value that stands for the token for a while, and only where nothing changes."""
        until = str(int(time.time()) + SESSION_SECONDS)
        return f"{until}.{self._signed(until)}"

    def _signed(self, until: str) -> str:
        return hmac.new(self.token.encode(), f"session {self.port} {until}".encode(), hashlib.sha256).hexdigest()

    def _has_session(self, cookies: bytes) -> bool:
        for pair in cookies.decode("latin-1").split(";"):
            name, _, value = pair.strip().partition("=")
            until, _, signature = value.partition(".")
            if name != self.cookie or not until.isascii() or not until.isdigit() or len(until) > 15:
                continue
            is_signed = hmac.compare_digest(signature.encode("latin-1"), self._signed(until).encode())
            if is_signed and int(until) > time.time():
                return True
        return False


def _from_another_page(method: str, headers: Mapping[bytes, bytes], is_api: bool) -> Verdict | None:
    """Whether a page of another origin asks, by what browsers say of themselves."""
    origin = headers.get(b"origin")
    if origin is not None:
        scheme, separator, place = origin.partition(b"://")
        is_own = separator and scheme in (b"http", b"https") and place.lower() == headers.get(b"host", b"").lower()
        return None if is_own else _FOREIGN
    if headers.get(b"sec-fetch-site", b"none") in _OWN_SITES:
        return None
    # A link from elsewhere may lead to the dashboard; nothing else may come from there.
    is_link = headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
    return None if is_link and method == "GET" and not is_api else _FOREIGN


def host_name(header: bytes) -> str | None:
    """Return the name in a Host header, without its port; None if it is none.

    >>> host_name(b"LocalHost:8081"), host_name(b"[::1]:8081"), host_name(b"a b")
    ('localhost', '::1', None)
    """
    found = _HOST.fullmatch(header.decode("latin-1"))
    return found[1].strip("[]").lower() if found else None


@lru_cache(64)
def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, seen from itself.

    >>> is_loopback("localhost"), is_loopback("127.0.0.2"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_printable(text: str) -> bool:
    """Return whether a text can stand in a line: no line breaks, no control characters.

    >>> is_printable("orders 2"), is_printable(f"a{chr(13)}{chr(10)}Set-Cookie: b")
    (True, False)
    """
    return _UNPRINTABLE.search(text) is None


class Roots:
    """The directories below which savepoints may be written and read when REST names them."""

    def __init__(self, roots: Iterable[str]) -> None:
        self._roots = tuple(roots)

    def resolved(self, path: str, own: Iterable[str] = ()) -> str | None:
        """Return a path as it is to be used if it is a root or below one, else None; `own` are further roots.

        What is returned has no links and no steps upwards, so that nobody reads it another way than it was judged.

        Raises:
            InvalidArgumentError: it is no path, or one that depends on a working directory.
        """
        system, place = _placed(path)
        for root in (*self._roots, *own):
            try:
                root_system, root_place = _placed(root)
            except InvalidArgumentError:  # a job's own that depends on its working directory
                continue
            if system == root_system and f"{place.rstrip('/')}/".startswith(f"{root_place.rstrip('/')}/"):
                return f"{system}{place}"
        return None


def _placed(path: str) -> tuple[str, str]:
    """Return a path's file system, empty for this machine's, and its place there."""
    try:
        parts = urlsplit(path)
        if "://" in path and parts.scheme != "file":
            found = _on_a_store(path, parts)
        else:
            found = _on_this_machine(unquote(parts.path) if parts.scheme == "file" else path)
    except (ValueError, OSError, RuntimeError):  # no address at all, a name that is too long, links in a circle
        found = None
    if found is None:
        remedy = "give one that begins with /, or an address without .., %, ? and #"
        raise InvalidArgumentError(describe(f"{path[:200]!r} is no absolute path", None, remedy))
    return found


def _on_a_store(path: str, parts: SplitResult) -> tuple[str, str] | None:
    place = f"/{parts.path.strip('/')}"
    is_plain = is_printable(path) and "%" not in path and not parts.query and not parts.fragment
    return (f"{parts.scheme}://{parts.netloc}", place) if is_plain and normpath(place) == place else None


def _on_this_machine(path: str) -> tuple[str, str] | None:
    return ("", str(Path(path).resolve())) if path.startswith("/") and is_printable(path) else None
