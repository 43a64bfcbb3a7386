"""A savepoint that release 0.1 has made is read by every release after it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from flintstream import CollectSink, StreamExecutionEnvironment, savepoints
from tests.savepoints.release_0_1 import FOLDER, declare, shown

EXPECTED = json.loads((FOLDER / "expected.json").read_text())


@pytest.mark.row(83)
def test_a_job_goes_on_from_it(new_env: Callable[..., StreamExecutionEnvironment]):
    sinks: dict[str, CollectSink] = {}
    env = new_env(3).start_from_savepoint(str(FOLDER / "savepoint"))
    declare(env, sinks)
    env.execute("job")
    assert shown(sinks) == EXPECTED


def test_it_is_whole_and_tells_what_it_is():
    document = savepoints.check(FOLDER / "savepoint")
    assert (document.version, document.job, document.tags) == ("0.1.0", "job", ("fixture",))
    words: set[Any] = {table.what for each in document.operators for table in each.tables}
    assert words >= {"value", "list", "map", "timers", "window", "broadcast", "waiting", "pattern"}
