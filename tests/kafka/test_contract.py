"""The Kafka source and sink keep the contracts that users' connectors are put to."""

from __future__ import annotations

import itertools

import pytest

from flintstream.testing import check_sink, check_source
from tests.kafka.broker import Cluster
from tests.kafka.job import sink

pytestmark = pytest.mark.kafka


def test_the_source(cluster: Cluster) -> None:
    topic, numbers = cluster.topic(2), itertools.count()

    def grow() -> None:
        for partition in (0, 1):
            cluster.send(topic, [(f"v{next(numbers)}", 1000 * n) for n in range(4)], partition)

    grow()
    assert check_source(lambda: cluster.source(topic, until=None).build(), grow=grow).records == 8


def test_the_sink(cluster: Cluster) -> None:
    topic = cluster.topic(2)
    check_sink(
        lambda: sink(cluster.servers, topic),
        lambda: [each.value for each in cluster.seen(topic)],
        record=lambda n: f"w:{n}",
        crashes=1,
    )
