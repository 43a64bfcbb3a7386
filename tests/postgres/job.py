"""The job that the tests kill: it reads orders from one table and writes counts of their items to two others."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from flintstream import (
    Configuration,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)
from flintstream.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink, JdbcSource
from tests.crash.ports import Fault
from tests.postgres.faults import faulty


class Count(KeyedProcessFunction):
    """Emits (item, how often it came so far) for every order."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[str, int]]:
        number = (self._count.value() or 0) + 1
        self._count.update(number)
        yield value.item, number


def declare(env: StreamExecutionEnvironment, options: JdbcConnectionOptions) -> None:
    orders = env.from_source(JdbcSource("orders", "id", options)).uid("in")
    counts = orders.key_by("item").process(Count()).uid("count")
    counts.sink_to(JdbcSink.append("history", options)).uid("history")
    counts.sink_to(JdbcSink.upsert("latest", "item", options)).uid("latest")


class Deadly(Fault):
    """A fault that no process survives."""

    def reach(self, step: str) -> None:
        self.steps[step] = self.steps.get(step, 0) + 1
        if step == self.step and self.steps[step] == self.nth:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("url", "password", "checkpoints", "runtime"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--die", nargs=2, default=None)
    given = parser.parse_args()
    if given.die is not None:
        faulty(pytest.MonkeyPatch(), Deadly(given.die[0], int(given.die[1])))
    settings = Configuration.from_dict({"flintstream.epoch.max-records": "40"})
    env = StreamExecutionEnvironment.get_execution_environment(settings, runtime=given.runtime).set_parallelism(2)
    env.set_checkpoint_dir(given.checkpoints)
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(given.url)
    declare(env, builder.with_user_name("flint").with_password(given.password).build())
    env.execute("counts")


if __name__ == "__main__":
    main()
