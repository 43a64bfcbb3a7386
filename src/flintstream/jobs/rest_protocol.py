"""One connection to the manager: what uvicorn reads and writes, with the limits that neither it nor its parser has.

The parser (httptools) takes heads of any length, waits for them for ever, and knows nothing of what a request means; so
a head has a limit of bytes and of time here, and whatever two readers might read in two ways is refused: no or several
names of a host, a body whose coding is not known. A fault behind requests that are still to be answered is told after
their answers, or the sender would take it for one of them. Trailers are dropped, since nobody here asks for any.

A look-up that can be answered at once is, before anything is made for it (`rest_lookups`).

Flink: the HttpServerCodec of RestServerEndpoint's pipeline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from flintstream.jobs.rest_guard import API_HEADERS
from flintstream.jobs.rest_problems import Refused

HEAD_SECONDS = 15.0
LONGEST_HEAD = 64 << 10
# What is read at once may be the end of one request and the beginning of the next. The parser does not say where one
# begins, so that a head may be longer by this much.
_PIECE = 8 << 10
_MOST_AT_ONCE = 16
"""Look-ups of one connection that are answered before others get their turn."""
_MOST_DISCARDED = 8 << 20
_DISCARDING_SECONDS = 2.0
AtOnce = Callable[[bytes, Sequence[tuple[bytes, bytes]]], tuple[bytes, bytes] | None]
"""Takes the target of a GET and its headers; returns the answer's head but for the end, and its body."""


class _Unreadable(Exception):
    """A head that the parser takes, but not we."""


class Protocol(HttpToolsProtocol):
    """A connection; what answers look-ups at once is set by a subclass."""

    at_once: AtOnce = staticmethod(lambda target, headers: None)
    parser: httptools.HttpRequestParser
    _due: float | None = None
    """When the connection is closed if nothing comes."""
    _timer: asyncio.TimerHandle | None = None
    _is_expecting = False
    _unread = 0
    """Bytes since the last thing that the parser made of them."""
    _is_in_head = False
    _is_in_body = False
    _hosts = 0
    _may_have_body = False
    _is_chunked = False
    _answered = 0
    _is_answered = False
    _fault: str | None = None
    _discarded = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; a head that has begun must end in time."""
        self._unset_keepalive_if_required()
        if self._fault is not None:
            self._discard(len(data))
            return
        self._answered = 0
        try:
            if len(data) <= _PIECE:
                self._read(data)
            else:
                whole = memoryview(data)
                for start in range(0, len(data), _PIECE):
                    self._read(whole[start : start + _PIECE])
        except (httptools.HttpParserError, _Unreadable) as error:
            # What a callback raises, the parser wraps.
            cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else error
            self.send_400_response(str(cause) if isinstance(cause, _Unreadable) else "it is no request of HTTP")
            return
        if self._is_answering:
            self._due, self._is_expecting = None, False
        elif (self._is_in_head or not self._answered) and not self._is_expecting:
            self._expect()

    def _read(self, data: bytes | memoryview) -> None:
        self._unread += len(data)
        while data:
            try:
                self.parser.feed_data(data)
                break
            except httptools.HttpParserUpgrade as upgrade:
                # There is nothing to change to; what follows is the next request.
                data = data[upgrade.args[0] :]
        if self._unread > LONGEST_HEAD:
            msg = f"the head of the request has more than {LONGEST_HEAD} bytes"
            raise _Unreadable(msg)

    def on_message_begin(self) -> None:
        """Begin with a request."""
        super().on_message_begin()
        self._is_in_head = True
        self._may_have_body = self._is_chunked = False
        self._hosts = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header of the head; one behind the body is none."""
        if not self._is_in_head:
            return
        name = name.lower()
        self.headers.append((name, value))
        if name == b"host":
            self._hosts += 1
        elif name == b"content-length":
            self._may_have_body = True
        elif name == b"transfer-encoding":
            if self._may_have_body or value.lower() != b"chunked":
                msg = "its body is coded in a way that is not read here"
                raise _Unreadable(msg)
            self._may_have_body = self._is_chunked = True
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True

    def on_headers_complete(self) -> None:
        """Answer at once what can be, and let the rest go its way."""
        self._unread = 0
        self._is_in_head = False
        version = self.parser.get_http_version()
        self._check(version)
        if version == "1.1" and self._is_answered_at_once():
            self._is_answered = True
            return
        self._is_in_body = True
        super().on_headers_complete()

    def _check(self, version: str) -> None:
        """Refuse a head that could be read in two ways."""
        if version not in ("1.1", "1.0"):
            msg = "it is of a version of HTTP that is not spoken here"
            raise _Unreadable(msg)
        if self._hosts > 1 or (not self._hosts and version == "1.1"):
            msg = "it does not name one host"
            raise _Unreadable(msg)
        if self._is_chunked and version == "1.0":
            msg = "a body in chunks is nothing that HTTP/1.0 has"
            raise _Unreadable(msg)
        if self._may_have_body and self.parser.should_upgrade():
            # The parser would take the body for the next request.
            msg = "it has a body, and asks for another protocol"
            raise _Unreadable(msg)

    def _is_answered_at_once(self) -> bool:
        """Answer a look-up, unless it has to wait for anything."""
        has_to_wait = self._is_answering or self.flow.write_paused or self._answered >= _MOST_AT_ONCE
        if has_to_wait or self._may_have_body or self.parser.get_method() != b"GET":
            return False
        is_full = self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency
        if is_full or not self.parser.should_keep_alive():
            return False
        answer = self.at_once(self.url, self.headers)
        if answer is None:
            return False
        every = [b"%b: %b\r\n" % header for header in self.server_state.default_headers]
        self.transport.write(b"".join((answer[0], *every, b"\r\n", answer[1])))
        self._answered += 1
        self.server_state.total_requests += 1
        return True

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End with a request."""
        self._unread = 0
        self._is_in_body = False
        if self._is_answered:
            self._is_answered = self._is_expecting = False
            self._close_in(self.timeout_keep_alive)
        else:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request, or tell what is wrong with it."""
        is_next_wrong = not self.pipeline or (self._is_in_body and len(self.pipeline) == 1)
        if self._fault is not None and is_next_wrong and not self.transport.is_closing():
            self._refuse(self._fault)
        else:
            super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, as everything else is refused: behind the answers to those before it."""
        self._fault = msg
        if self._is_answering and (self.pipeline or not self._is_in_body):
            self._due = None
            self.flow.pause_reading()
        else:
            self._refuse(msg)

    def _refuse(self, msg: str) -> None:
        if self._is_answering:
            # Nobody goes on with a request whose body is broken off.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self.transport.close()
                return
        answer = Refused(400, "request", msg, "send a request of HTTP, with a shorter head").as_answer()
        headers = [*answer.raw_headers, *API_HEADERS, *self.server_state.default_headers, (b"connection", b"close")]
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n%b\r\n%b" % (lines, answer.body))
        # Closed while more comes, the connection would be reset, and the sender never see the answer.
        self.transport.write_eof()
        self.flow.resume_reading()
        self._close_in(_DISCARDING_SECONDS)

    def _discard(self, size: int) -> None:
        self._discarded += size
        if self._discarded > _MOST_DISCARDED:
            self.transport.close()

    @property
    def _is_answering(self) -> bool:
        # Before the first request there is none, whatever its type says.
        cycle = getattr(self, "cycle", None)
        return cycle is not None and not cycle.response_complete

    def _expect(self) -> None:
        self._is_expecting = True
        self._close_in(HEAD_SECONDS)

    def _close_in(self, seconds: float) -> None:
        """Close the connection then; one timer serves many requests, since making one takes as long as a look-up."""
        self._due = self.loop.time() + seconds
        if self._timer is not None and self._timer.when() > self._due:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self.loop.call_at(self._due, self._look_at_the_time)

    def _look_at_the_time(self) -> None:
        self._timer = None
        if self._due is None:
            return
        if self._due <= self.loop.time():
            self.transport.close()
        else:
            self._timer = self.loop.call_at(self._due, self._look_at_the_time)
