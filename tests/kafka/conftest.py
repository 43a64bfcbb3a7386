from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka.broker import Cluster
from tools.kafka_broker import Broker, NoBrokerError, jars


@pytest.fixture(scope="session")
def broker_jars() -> None:
    try:
        jars()
    except NoBrokerError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def cluster(broker_jars: None) -> Iterator[Cluster]:
    """The broker that all tests share."""
    with Broker() as broker:
        yield Cluster(broker.servers)


@pytest.fixture
def mortal(broker_jars: None) -> Iterator[Broker]:
    """A broker of the test's own, to be killed."""
    with Broker() as broker:
        yield broker
