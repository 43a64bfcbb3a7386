from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import fsspec
import pytest

from tools.servers import NoServerError, ObjectStore


@pytest.fixture(scope="session")
def store() -> Iterator[ObjectStore]:
    """A server that speaks S3, with the bucket `flint`."""
    try:
        server = ObjectStore()
    except NoServerError as error:
        pytest.skip(str(error))
    with server:
        fsspec.filesystem("s3", **server.options).mkdir("flint")
        yield server


@pytest.fixture
def files(store: ObjectStore) -> Any:
    """The same as a file system, to look at what is there."""
    return fsspec.filesystem("s3", use_listings_cache=False, **store.options)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> str:
    """An address that no other test uses."""
    return f"s3://flint/{request.node.name.replace('[', '-').replace(']', '')}"
