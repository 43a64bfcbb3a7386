"""A client library that dies on command: each step of a transaction can be the last thing that a process does.

No hook in the product: the tests put this in the place of the library that the publisher asks for.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import confluent_kafka

from flintstream.connectors import kafka_publish

STEPS = ["init", "init done", "begin", "produce", "offsets", "offsets done", "commit", "commit done"]


def faulty_library(reach: Callable[[str], None]) -> Any:
    """Return the client library with a producer that calls `reach` before and after each step."""

    class FaultyProducer(confluent_kafka.Producer):
        def init_transactions(self, *arguments: Any) -> Any:
            reach("init")
            super().init_transactions(*arguments)
            reach("init done")

        def begin_transaction(self) -> Any:
            reach("begin")
            return super().begin_transaction()

        def produce(self, *arguments: Any, **named: Any) -> Any:
            reach("produce")
            return super().produce(*arguments, **named)

        def send_offsets_to_transaction(self, *arguments: Any) -> Any:
            reach("offsets")
            super().send_offsets_to_transaction(*arguments)
            reach("offsets done")

        def commit_transaction(self, *arguments: Any) -> Any:
            reach("commit")
            super().commit_transaction(*arguments)
            reach("commit done")

    names = {name: getattr(confluent_kafka, name) for name in dir(confluent_kafka) if not name.startswith("__")}
    return SimpleNamespace(**{**names, "Producer": FaultyProducer})


def die_at(step: str, nth: int) -> None:
    """Let this process kill itself when a step is reached for the nth time."""
    left = nth

    def reach(reached: str) -> None:
        nonlocal left
        left -= reached == step
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    library = faulty_library(reach)
    kafka_publish.library = lambda: library
