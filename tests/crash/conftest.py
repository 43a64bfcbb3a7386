from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.harness import Folders, JobProcess


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


@pytest.fixture
def start(folders: Folders) -> Iterator[Callable[..., JobProcess]]:
    """Start the job on the test's folders; whatever still runs when the test ends is killed."""
    started: list[JobProcess] = []

    def start_job(events: int, **options: Any) -> JobProcess:
        started.append(JobProcess(folders, events, **options))
        return started[-1]

    yield start_job
    for process in started:
        process.close()
