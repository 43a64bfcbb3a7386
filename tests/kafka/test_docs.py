"""The page about Kafka, run against a real broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.test_concepts import blocks, namespace, run
from tests.kafka.broker import Cluster

pytestmark = pytest.mark.kafka

__all__ = ["namespace"]


def test_the_job_of_the_page_sums_orders_into_another_topic(
    cluster: Cluster, namespace: dict[str, object], tmp_path: Path
) -> None:
    cluster.topic(2, name="orders")
    cluster.topic(name="totals")
    orders = [("a", 1.0, 1_000), ("a", 2.0, 59_999), ("a", 4.0, 60_000)]
    cluster.send("orders", [(json.dumps({"shop": shop, "price": price}), at) for shop, price, at in orders])
    page = ROOT / "docs" / "how-to" / "kafka.md"
    for block in blocks(page.read_text()):
        run(page, block._replace(code=block.code.replace("localhost:9092", cluster.servers)), namespace)
    namespace["env"].execute("totals")  # type: ignore[attr-defined]
    found = [json.loads(value) for value in cluster.values("totals")]
    assert [(row["shop"], row["window_start"], row["total"]) for row in found] == [("a", 0, 3.0), ("a", 60_000, 4.0)]
