"""A manager with one job that runs, for all tests that only look; and managers of their own for those that need one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.rest.served import Served, await_running, serving, submission


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A manager on loopback."""
    with serving(tmp_path_factory.mktemp("manager") / "home") as found:
        yield found


@pytest.fixture(scope="session")
def job(served: Served, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The id of a job that runs and has reported an epoch."""
    folder: Path = tmp_path_factory.mktemp("counting")
    answer = served.ask("POST", "/v1/jobs", submission(folder), token=True)
    assert answer.status == 201, answer.body
    name = str(answer.json["id"])
    assert answer.headers["location"] == f"/v1/jobs/{name}"
    await_running(served, name)
    return name
