"""The Redis sink keeps the contract that users' connectors are put to."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream.datastream.connectors.base import DeliveryGuarantee
from flintstream.datastream.connectors.redis import RedisSink
from flintstream.testing import check_sink
from tools.servers import Redis


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_the_sink(server: Redis, store: Any, guarantee: DeliveryGuarantee) -> None:
    def make() -> RedisSink:
        options: dict[str, Any] = {"password": server.password, "delivery_guarantee": guarantee}
        return RedisSink.set(server.url, "w:{f0}", "{f1}", **options)

    check_sink(
        make,
        lambda: [(key[2:], int(store.get(key))) for key in store.scan_iter("w:*")],
        record=lambda n: (f"k{n}", n),
        ordered=False,
        crashes=4,
    )
