"""Row 88 on Redis, which is not asked what it holds: the user reads it, or the wrong program says it."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream import repair
from flintstream.datastream.connectors.redis import RedisSink
from tests.capabilities.support import Lists
from tools.servers import Redis

MOVES = [("pens", 10), ("cups", 8), ("pens", -3), ("test", 1)]


def stock(server: Redis, mended: bool) -> Any:
    def declare(env: Any) -> None:
        moves = (
            env.from_source(Lists(MOVES)).uid("moves").filter(lambda move: not mended or move[0] != "test").uid("real")
        )
        changes = moves.map(lambda move: move if mended else (move[0], abs(move[1]))).uid("changes")
        rows = changes.key_by(0).sum(1).uid("sums").map(lambda row: {"item": row[0], "pieces": row[1]}).uid("rows")
        rows.sink_to(RedisSink.hash(server.url, "stock:{item}", password=server.password)).uid("out")

    return declare


@pytest.mark.row(88)
def test_what_redis_holds_is_mended(make_env: Any, server: Redis, store: Any) -> None:
    env = make_env("local")
    stock(server, mended=False)(env)
    env.execute()

    def held() -> dict[str, int]:
        return {store.hget(key, "item"): int(store.hget(key, "pieces")) for key in store.keys("stock:*")}

    assert held() == {"pens": 13, "cups": 8, "test": 1}

    def asked(**options: Any) -> Any:
        return repair(make_env("local"), stock(server, mended=True), key="item", **options)

    shown = asked(wrong=stock(server, mended=False))
    assert [(each.kind, each.key[0]) for each in shown.corrections] == [("update", "pens"), ("delete", "test")]
    rows = [{"item": item, "pieces": pieces} for item, pieces in held().items()]
    assert asked(holds=rows, covers=lambda row: True).corrections == shown.corrections
    shown.apply()
    assert held() == {"pens": 7, "cups": 8}
