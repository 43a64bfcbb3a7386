from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres.database import Database
from tools.servers import NoServerError, Postgres


def started() -> Iterator[Postgres]:
    try:
        server = Postgres()
    except NoServerError as error:
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The server that all tests share."""
    yield from started()


@pytest.fixture
def mortal_postgres() -> Iterator[Postgres]:
    """A server of the test's own, to be killed."""
    yield from started()


@pytest.fixture
def database(postgres: Postgres) -> Database:
    """An empty schema of the test's own."""
    return Database.fresh(postgres)
