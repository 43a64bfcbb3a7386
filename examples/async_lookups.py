"""A hundred lookups of 100 ms each, twenty of them at a time: half a second instead of ten.

It prints:

    100 prices, the last one 297, in ... s
"""

from __future__ import annotations

import asyncio
import time

from flintstream import CollectSink, MapFunction, RuntimeContext, StreamExecutionEnvironment


async def price(article: int) -> int:
    """Ask a service, which takes its time."""
    await asyncio.sleep(0.1)
    return article * 3


class Stopwatch(MapFunction):
    """Says of each price how long after the start of its task it was there."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._start = time.monotonic()

    def map(self, value: int) -> tuple[int, float]:
        return value, time.monotonic() - self._start


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    prices = CollectSink()
    env.from_collection(range(100)).map_async(price, capacity=20, timeout="10s").map(Stopwatch()).sink_to(prices)
    env.execute("lookups")
    last, seconds = prices.results[-1]
    print(f"{len(prices.results)} prices, the last one {last}, in {seconds:.1f} s")


if __name__ == "__main__":
    main()
