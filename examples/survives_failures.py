"""A service that is down for a while: the job is started again from its last checkpoint, and counts every visit once.

The function fails when it comes to the fifth visit, twice. Each time the job goes back to its last checkpoint, with the
counts of that moment; what was printed by then is not printed again. Run it as it is, or let it be looked after from
outside as well, where even `kill -9` cannot stop it: `python -m flintstream run examples/survives_failures.py`.

It prints:

    (ann,1)
    (bob,1)
    (ann,2)
    (cyd,1)
    (ann,3)
    (bob,2)
    the service was down 2 times
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from flintstream import (
    Configuration,
    KeyedProcessFunction,
    RestartStrategies,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)

VISITS = [(1, "ann"), (2, "bob"), (3, "ann"), (4, "cyd"), (5, "ann"), (6, "bob")]


class Service:
    """Does not answer the first two calls; it lives outside the job, so it does not start again with it."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def outages(self) -> int:
        return len(list(self._folder.iterdir()))

    def call(self) -> None:
        if self.outages() < 2:
            (self._folder / f"outage-{self.outages()}").touch()
            message = "the service is down"
            raise ConnectionError(message)


class CountVisits(KeyedProcessFunction):
    """Counts visits, and asks the service about the fifth."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value: tuple[int, str], ctx: KeyedProcessFunction.Context) -> Iterator[tuple[str, int]]:
        number, name = value
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        if number == 5:
            self._service.call()
        yield name, count


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        service = Service(folder)
        settings = Configuration.from_dict({"flintstream.epoch.max-records": "2"})
        env = StreamExecutionEnvironment.get_execution_environment(settings).set_parallelism(1)
        env.set_restart_strategy(RestartStrategies.exponential_delay_restart(initial_backoff="10ms", max_backoff="1s"))
        visits = env.from_collection(VISITS)
        visits.key_by(lambda visit: visit[1]).process(CountVisits(service)).uid("count").print()
        env.execute("visits")
        print(f"the service was down {service.outages()} times")


if __name__ == "__main__":
    main()
