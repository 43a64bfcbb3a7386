"""The way to Kafka: the client library, its settings, and its failures in our words.

The library is confluent-kafka, over librdkafka: an extra, so it is imported where it is first used. Settings come in by
Kafka's names; the few that only Flink's connector knows are taken out here, and those of Java alone are refused by the
library with their name. Nothing here prints a setting's value: it may be a password.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from flintstream.errors import FlintstreamError, InvalidArgumentError, describe
from flintstream.model.extras import extra

T = TypeVar("T")

TIMEOUT = "default.api.timeout.ms"
DISCOVERY = "partition.discovery.interval.ms"
COMMITS = "commit.offsets.on.checkpoint"
GROUP = "group.id"
ISOLATION = "isolation.level"
_OURS = (TIMEOUT, DISCOVERY, COMMITS)
_GIVEN_BY_US = frozenset(
    {"key.deserializer", "value.deserializer", "key.serializer", "value.serializer", "auto.offset.reset"}
)
DEFAULT_TIMEOUT_MS = 60_000


def library() -> Any:
    """Return the client library."""
    return extra("confluent_kafka", "Kafka needs the package confluent-kafka", "kafka")


def admin_library() -> Any:
    """Return the part of the client library that asks about topics."""
    return extra("confluent_kafka.admin", "Kafka needs the package confluent-kafka", "kafka")


def check_servers(servers: str | None) -> str:
    """Return the brokers' addresses, or raise if they are none."""
    if servers is None:
        what = "no Kafka brokers are named"
        raise InvalidArgumentError(describe(what, remedy='set_bootstrap_servers("host:9092")'))
    if not all(re.fullmatch(r"\s*([a-zA-Z_]+://)?\S+:\d+\s*", each) for each in servers.split(",")):
        what = f"{servers!r} is no list of Kafka brokers"
        raise InvalidArgumentError(describe(what, remedy='write them as "host:9092,other:9092"'))
    return servers


def check_properties(properties: Mapping[str, str], role: str) -> None:
    """Refuse settings that the client does not know; `role` is "Consumer" or "Producer"."""
    for name in properties:
        if name in _GIVEN_BY_US:
            what = f"property {name!r} is not set by hand"
            remedy = "use set_starting_offsets(...)" if name == "auto.offset.reset" else "give a schema"
            raise InvalidArgumentError(describe(what, remedy=remedy))
    for name in (TIMEOUT, DISCOVERY):
        if not re.fullmatch(r"-?\d+", properties.get(name, "0")):
            raise InvalidArgumentError(describe(f"property {name!r} is not a number", remedy="give milliseconds"))
    settings = {"bootstrap.servers": "localhost:1", **client_settings(properties)}
    if role == "Consumer":
        settings[GROUP] = properties.get(GROUP, "flintstream")
    kafka = library()
    try:
        client = getattr(kafka, role)(settings)
    except (kafka.KafkaException, ValueError, TypeError) as error:
        reason = error.args[0].str() if isinstance(error, kafka.KafkaException) else str(error)
        remedy = "use the names of librdkafka's CONFIGURATION.md, which are Kafka's own but for Java's security"
        raise InvalidArgumentError(describe(f"a Kafka property is refused ({reason})", remedy=remedy)) from None
    if role == "Consumer":
        client.close()


def client_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the client library's own settings; it says nothing on stderr unless told to by `log_level`."""
    known = {name: value for name, value in properties.items() if name not in _OURS}
    return {"log_level": "0", **known}


def shared_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return those settings that are the same for consumers, producers and those who only ask."""
    prefixes = ("security.", "ssl.", "sasl.", "client.", "broker.", "socket.", "log_level", "debug")
    return {name: value for name, value in client_settings(properties).items() if name.startswith(prefixes)}


def timeout_of(properties: Mapping[str, str]) -> float:
    """Return after how many seconds without an answer a broker counts as dead."""
    return int(properties.get(TIMEOUT, DEFAULT_TIMEOUT_MS)) / 1000


def code_of(error: Any) -> int | None:
    """Return the number by which Kafka knows a failure."""
    return error.args[0].code() if error.args and hasattr(error.args[0], "code") else None


def is_lasting(error: Any) -> bool:
    """Whether it is of no use to ask again: what is refused by right or by size stays so."""
    codes = library().KafkaError
    return code_of(error) in (
        codes.MSG_SIZE_TOO_LARGE,
        codes.RECORD_LIST_TOO_LARGE,
        codes.TOPIC_AUTHORIZATION_FAILED,
        codes.GROUP_AUTHORIZATION_FAILED,
        codes.CLUSTER_AUTHORIZATION_FAILED,
        codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        codes._AUTHENTICATION,
        codes._INVALID_ARG,
    )


def reason_of(error: Any) -> str:
    """Return what the client says is wrong."""
    inner = error.args[0] if getattr(error, "args", None) else error
    return str(inner.str()) if hasattr(inner, "str") else str(inner)


def asking(question: Callable[[], T], what: str, servers: str, kind: type[FlintstreamError]) -> T:
    """Return the answer to a question to the brokers; a failure becomes an error that says what could not be done."""
    kafka = library()
    codes = kafka.KafkaError
    dead = (codes._TIMED_OUT, codes._TRANSPORT, codes._ALL_BROKERS_DOWN, codes._RESOLVE)
    try:
        return question()
    except kafka.KafkaException as error:
        if code_of(error) in dead:
            problem, remedy = f"{what}: no broker answers at {servers}", "see that Kafka runs and can be reached there"
        else:
            problem, remedy = f"{what}: {reason_of(error)} ({servers})", "see what the broker says about it"
        raise kind(describe(problem, remedy=f"{remedy}; then start the job again: nothing is lost")) from None
