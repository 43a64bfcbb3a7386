from __future__ import annotations

import pytest

from flintstream import StreamExecutionEnvironment
from flintstream.api import no_effect


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    """An environment of two instances that runs in this process."""
    return StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(2)


@pytest.fixture(autouse=True)
def fresh_warnings():
    """Every warning without effect comes once per process; here once per test."""
    no_effect._warned.clear()
