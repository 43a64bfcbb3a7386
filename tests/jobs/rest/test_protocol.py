"""What a connection makes of bytes that two readers could read in two ways, or that never end: it refuses them."""

from __future__ import annotations

import json
import re
import socket

import pytest

from flintstream.jobs import rest_protocol
from tests.jobs.rest.served import Served

HOST = b"Host: localhost\r\n"
GET = b"GET /v1/jobs HTTP/1.1\r\n" + HOST
POST = b"POST /v1/session HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
UPGRADE = b"Upgrade: h2c\r\nConnection: Upgrade\r\n"
LAST = b"GET /v1/overview HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


def statuses(answer: bytes) -> list[int]:
    return [int(each) for each in STATUS.findall(answer)]


AMBIGUOUS = {
    "a length and chunks": POST + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n" + LAST,
    "chunks and a length": POST + CHUNKED + b"Content-Length: 5\r\n\r\n0\r\n\r\n" + LAST,
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}" + LAST,
    "one length twice": POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}" + LAST,
    "a list of lengths": POST + b"Content-Length: 2, 2\r\n\r\n{}" + LAST,
    "a length with a sign": POST + b"Content-Length: +2\r\n\r\n{}" + LAST,
    "a length below zero": POST + b"Content-Length: -2\r\n\r\n{}" + LAST,
    "a length beyond 64 bits": POST + b"Content-Length: 18446744073709551618\r\n\r\n{}" + LAST,
    "a chunk of no size": POST + CHUNKED + b"\r\nzz\r\n{}\r\n0\r\n\r\n" + LAST,
    "a chunk of a size below zero": POST + CHUNKED + b"\r\n-2\r\n{}\r\n0\r\n\r\n" + LAST,
    "a chunk of a size with a prefix": POST + CHUNKED + b"\r\n0x2\r\n{}\r\n0\r\n\r\n" + LAST,
    "a chunk of a size beyond 64 bits": POST + CHUNKED + b"\r\n10000000000000002\r\n{}\r\n0\r\n\r\n" + LAST,
    "a chunk that is longer than it says": POST + CHUNKED + b"\r\n1\r\n{}\r\n0\r\n\r\n" + LAST,
    "half a line break behind a size": POST + CHUNKED + b"\r\n2\n{}\r\n0\r\n\r\n" + LAST,
    "half a line break behind an extension": POST + CHUNKED + b"\r\n2;a\n{}\r\n0\r\n\r\n" + LAST,
    "chunks twice": POST + CHUNKED + CHUNKED + b"\r\n0\r\n\r\n" + LAST,
    "chunks of something": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + LAST,
    "no chunks": POST + b"Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}" + LAST,
    "almost chunks": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + LAST,
    "a space behind a name": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + LAST,
    "chunks before there were any": POST.replace(b"/1.1", b"/1.0") + CHUNKED + b"\r\n0\r\n\r\n",
    "another protocol, and a body": POST + UPGRADE + b"Content-Length: %d\r\n\r\n%b" % (len(LAST), LAST),
    "another protocol, and chunks": POST + UPGRADE + CHUNKED + b"\r\n0\r\n\r\n" + LAST,
    "a header on two lines": GET + b"X: a\r\n b\r\n\r\n",
    "a line that begins with a space": b"GET /v1/jobs HTTP/1.1\r\n X: a\r\n" + HOST + b"\r\n",
    "a zero byte in a value": GET + b"X: a\0b\r\n\r\n",
    "a zero byte in a name": GET + b"X\0: a\r\n\r\n",
    "a space in a name": GET + b"X Y: a\r\n\r\n",
    "no name": GET + b": a\r\n\r\n",
    "half a line break in a value": GET + b"X: a\rHost: evil.example\r\n\r\n",
    "half line breaks": b"GET /v1/jobs HTTP/1.1\nHost: localhost\n\n",
    "two hosts": GET + b"Host: evil.example\r\n\r\n",
    "no host": b"GET /v1/jobs HTTP/1.1\r\n\r\n",
    "a control character in a path": b"GET /v1/\x01jobs HTTP/1.1\r\n" + HOST + b"\r\n",
    "a byte that is no ASCII in a path": b"GET /v1/\xff HTTP/1.1\r\n" + HOST + b"\r\n",
    "no version": b"GET /v1/jobs\r\n\r\n",
    "an old version": b"GET /v1/jobs HTTP/0.9\r\n" + HOST + b"\r\n",
    "a new version": b"GET /v1/jobs HTTP/2.0\r\n" + HOST + b"\r\n",
    "the beginning of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a tunnel": b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n",
}
ENDLESS = {
    "a path": b"GET /v1/jobs?" + b"x" * 100_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "a header": GET + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
    "a name of a header": GET + b"X" * 100_000 + b": y\r\n\r\n",
    "headers": GET + b"X: y\r\n" * 20_000 + b"\r\n",
    "an extension": POST + CHUNKED + b"\r\n2;" + b"x" * 100_000 + b"\r\n{}\r\n0\r\n\r\n",
    "trailers": POST + CHUNKED + b"\r\n2\r\n{}\r\n0\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    "line breaks": b"\r\n" * 50_000,
    "the head behind another one": GET + b"\r\n" + GET + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
}


@pytest.mark.parametrize("data", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_what_could_be_read_in_two_ways_is_refused(served: Served, data: bytes) -> None:
    answer = served.raw(data)
    assert statuses(answer) == [400], answer
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head
    assert b"connection: close" in head
    assert json.loads(body)["code"] == "request"


@pytest.mark.parametrize("data", ENDLESS.values(), ids=ENDLESS)
def test_what_does_not_end_is_refused(served: Served, data: bytes) -> None:
    answer = served.raw(data)
    assert statuses(answer)[-1] == 400, answer
    assert b"has more than 65536 bytes" in answer


def test_a_head_that_is_long_but_not_too_long_is_read(served: Served) -> None:
    assert statuses(served.raw(b"\r\n" + LAST.replace(HOST, HOST + b"X: " + b"y" * 65_000 + b"\r\n"))) == [200]


def test_a_long_body_behind_a_short_head_is_read(served: Served) -> None:
    body = json.dumps({"token": "x" * 500_000}).encode()
    chunks = b"".join(
        b"%x\r\n%b\r\n" % (len(body[at : at + 999]), body[at : at + 999]) for at in range(0, len(body), 999)
    )
    for rest in (b"Content-Length: %d\r\n\r\n%b" % (len(body), body), CHUNKED + b"\r\n" + chunks + b"0\r\n\r\n"):
        answer = served.raw(POST + b"Connection: close\r\n" + rest)
        assert statuses(answer)[-1] in (401, 422)
        assert b"has more than" not in answer


def test_the_sender_of_a_long_head_gets_to_see_the_answer(served: Served) -> None:
    # All of it is sent before anything is read: a connection that was reset would have lost the answer by then.
    answer = served.raw(GET + b"X: " + b"y" * 6_000_000 + b"\r\n\r\n")
    assert statuses(answer) == [400]


def test_who_never_stops_is_cut_off(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        connection.sendall(b"\0\r\n\r\n")
        with pytest.raises(OSError, match=r"reset|pipe"):
            for _ in range(10_000):
                connection.sendall(b"x" * 65_536)


class TestOneBehindTheOther:
    def test_are_answered_in_their_order(self, served: Served) -> None:
        one = b"GET /v1/nothing HTTP/1.1\r\n" + HOST + b"\r\n"
        assert statuses(served.raw(GET + b"\r\n" + one + GET + b"\r\n" + one + LAST)) == [200, 404, 200, 404, 200]

    def test_what_is_none_is_told_behind_the_answers(self, served: Served) -> None:
        assert statuses(served.raw((GET + b"\r\n") * 3 + b"nonsense\r\n\r\n")) == [200, 200, 200, 400]
        assert statuses(served.raw(POST + b"Content-Length: 2\r\n\r\n{}nonsense\r\n\r\n")) == [422, 400]

    def test_a_broken_body_is_told_behind_the_answers(self, served: Served) -> None:
        assert statuses(served.raw(GET + b"\r\n" + POST + CHUNKED + b"\r\nzz\r\n\r\n")) == [200, 400]

    def test_a_broken_body_ends_a_request_that_waits_for_it(self, served: Served) -> None:
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
            connection.sendall(POST + CHUNKED + b"Expect: 100-continue\r\n\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")  # somebody reads now
            connection.sendall(b"1\r\n{\r\nzz\r\n")
            found = b"".join(iter(lambda: connection.recv(65536), b""))
        assert statuses(found) == [400]

    def test_nothing_is_answered_behind_the_last_one(self, served: Served) -> None:
        assert statuses(served.raw(LAST + GET + b"\r\n")) == [200]
        assert statuses(served.raw(LAST + b"nonsense")) == [200]

    def test_what_would_change_the_protocol_does_not(self, served: Served) -> None:
        assert statuses(served.raw(GET + UPGRADE + b"\r\n" + LAST)) == [200, 200]

    def test_a_body_that_nobody_wanted_is_no_request(self, served: Served) -> None:
        hidden = GET + b"\r\n"
        assert statuses(served.raw(GET + b"Content-Length: %d\r\n\r\n%b" % (len(hidden), hidden) + LAST)) == [200, 200]


def test_trailers_are_no_headers(served: Served) -> None:
    # A wrong token is refused everywhere, so that it would show.
    trailer = b"0\r\nAuthorization: Bearer wrong\r\nHost: evil.example\r\n\r\n"
    answer = served.raw(POST + CHUNKED + b"\r\n2\r\n{}\r\n" + trailer + LAST)
    assert statuses(answer) == [422, 200]


def test_a_body_that_comes_byte_by_byte_behind_its_answer_is_cut_off(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_protocol, "HEAD_SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", served.port), timeout=1) as connection:
        connection.sendall(GET + b"Content-Length: 1000000\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        connection.settimeout(0.05)
        with pytest.raises(OSError, match=r"reset|pipe|closed"):
            for _ in range(400):
                connection.sendall(b"x")
                try:
                    if connection.recv(65536) == b"":
                        raise ConnectionResetError("closed")
                except TimeoutError:
                    pass
