from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tools.servers import NoServerError, Redis


def started() -> Iterator[Redis]:
    try:
        server = Redis()
    except NoServerError as error:
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture(scope="session")
def server() -> Iterator[Redis]:
    """The server that all tests share."""
    yield from started()


@pytest.fixture
def mortal_redis() -> Iterator[Redis]:
    """A server of the test's own, to be killed."""
    yield from started()


@pytest.fixture
def store(server: Redis) -> Iterator[Any]:
    """A client of the server, which is empty."""
    with client_of(server) as client:
        client.flushall()
        yield client


def client_of(server: Redis) -> Any:
    return redis.Redis(port=server.port, password=server.password, decode_responses=True)
