"""Rows 76 and 119: campaigns looked up in Redis, and windows of their events flushed to it, though tasks fail."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flintstream import LookupCache, bounded, count, tumbling
from flintstream.datastream.connectors.base import DeliveryGuarantee
from flintstream.datastream.connectors.redis import RedisLookup, RedisSink
from flintstream.errors import UserFunctionError
from tools.servers import Redis


@pytest.mark.row(76, 119)
@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_campaigns_are_looked_up_and_windows_flushed(
    new_env: Any, server: Redis, store: Any, tmp_path: Path, guarantee: DeliveryGuarantee
) -> None:
    store.mset({f"ad:{n}": f"c{n % 3}" for n in range(9)})
    options: dict[str, Any] = {"password": server.password}

    def run(breaks: bool) -> None:
        env = new_env(max_records=50, checkpoint_dir=tmp_path)

        def checked(row: Any) -> Any:
            if breaks and row["window_start"] >= 8000:
                raise ValueError(row)
            return row

        events = env.generate(generator=lambda n: {"ad": n % 10, "at": n * 100}, count=200, splits=1).uid("in")
        timed = events.assign_timestamps_and_watermarks(bounded(0, on="at")).uid("time")
        joined = timed.lookup_join(RedisLookup(server.url, "ad:{}", **options), on="ad").with_cache(LookupCache(100))
        seen = joined.apply(lambda event, campaign: {"campaign": campaign, "at": event["at"]}).uid("join")
        windows = seen.key_by("campaign").window(tumbling("2s")).agg(n=count()).uid("windows")
        key = "{campaign}:{window_start}"
        windows.sink_to(RedisSink.hash(server.url, key, ["n"], delivery_guarantee=guarantee, **options)).uid("out")
        windows.map(checked).uid("check").print()
        env.execute()

    with pytest.raises(UserFunctionError):
        run(True)
    run(False)
    wanted = Counter(f"c{n % 10 % 3}:{n // 20 * 2000}" for n in range(200) if n % 10 != 9)
    assert {key: int(store.hget(key, "n")) for key in store.scan_iter("c*")} == wanted
