"""Each guarantee of the sinks of Redis, whose driver dies between two steps of a commit."""

from __future__ import annotations

import pytest

from flintstream.datastream.connectors.redis import RedisSink
from tests.delivery.servers import AFTER, BEFORE, at_death_and_end


@pytest.mark.parametrize(
    ("guarantee", "phase", "counted"),
    [
        ("exactly-once", BEFORE, ([2], [6])),
        ("exactly-once", AFTER, ([2], [6])),
        ("at-most-once", BEFORE, ([2], [6])),
        ("at-most-once", AFTER, ([2], [4])),
    ],
)
def test_a_counter_loses_and_doubles_as_promised(server, store, tmp_path, guarantee, phase, counted):
    url = f"redis://localhost:{server.port}/0"
    found = at_death_and_end(
        lambda: RedisSink.increment(url, "counters", "n", "1", password=server.password),
        lambda n: {"n": n},
        lambda: [int(store.hget("counters", "n"))],
        guarantee,
        phase,
        tmp_path,
    )
    assert found == counted


@pytest.mark.parametrize("phase", [BEFORE, AFTER])
def test_what_is_set_comes_right_though_written_again(server, store, tmp_path, phase):
    url = f"redis://localhost:{server.port}/0"
    _, found = at_death_and_end(
        lambda: RedisSink.set(url, "k:{n}", "{n}", password=server.password),
        lambda n: {"n": n},
        lambda: [int(store.get(key)) for key in store.keys("k:*")],
        "at-least-once",
        phase,
        tmp_path,
    )
    assert found == [0, 1, 2, 3, 4, 5]
