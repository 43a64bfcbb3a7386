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


@pytest.fixture(scope="session")
def victim(broker_jars: None) -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def mortal(victim: Broker) -> Broker:
    """A broker that nobody else uses at the moment, to be killed."""
    if not victim.is_running:
        victim.start()
    return victim
