"""What goes on at a web site, in a few kilobytes of state: a sample, distinct users, response times, commonest pages.

Summaries say the same however the job was cut into epochs, spread and interrupted. Needs `flintstream[sketches]`.

python examples/traffic_summaries.py                     on embedded Spark
FLINTSTREAM_RUNTIME=local python examples/traffic_summaries.py    in this process

It prints:

    requests  20000
    users     within 4 % of 5000: True
    median    within 2 % of 250 ms: True
    slowest 1 in 100 above 490 ms: True
    pages     /, /search
    a sample  3 of the users
    state     4 entries, ... bytes
    refused   200
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flintstream import (
    CollectSink,
    DistinctCountStateDescriptor,
    KeyedProcessFunction,
    QuantilesStateDescriptor,
    ReservoirStateDescriptor,
    StreamExecutionEnvironment,
    TopKStateDescriptor,
)

REQUESTS = 20_000


class Traffic(KeyedProcessFunction):
    """Adds every request to its site's summaries, and tells them at the last one."""

    def open(self, runtime_context: Any) -> None:
        self.sample = runtime_context.get_summary_state(ReservoirStateDescriptor("sample", size=3))
        self.users = runtime_context.get_summary_state(DistinctCountStateDescriptor("users", relative_error=0.01))
        self.millis = runtime_context.get_summary_state(QuantilesStateDescriptor("millis", (0.5, 0.99)))
        self.pages = runtime_context.get_summary_state(TopKStateDescriptor("pages", k=2))
        self.refused = runtime_context.get_metrics_group().counter("refused")

    def process_element(self, value: Any, ctx: Any) -> Iterator[dict[str, Any]]:
        self.sample.add(value["user"])
        self.users.add(value["user"])
        self.millis.add(value["millis"])
        self.pages.add(value["page"])
        if value["status"] != 200:
            self.refused.inc()
        if self.users.count() == REQUESTS:
            summaries = (self.sample, self.users, self.millis, self.pages)
            median, slowest = self.millis.get()
            yield {
                "requests": self.users.count(),
                "users": self.users.get(),
                "median": median,
                "slowest": slowest,
                "pages": [page for page, _ in self.pages.get()],
                "sample": self.sample.get(),
                "bytes": sum(len(summary.to_bytes()) for summary in summaries),
            }


def request(number: int) -> dict[str, Any]:
    page = "/" if number % 2 else "/search" if number % 3 else f"/item/{number % 1009}"
    status = 500 if number % 100 == 0 else 200
    return {"site": "shop", "user": number * 7919 % 5000, "millis": number * 31 % 500, "page": page, "status": status}


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    sink = CollectSink()
    requests = env.from_collection(range(REQUESTS)).map(request)
    requests.key_by("site").process(Traffic()).uid("traffic").sink_to(sink)
    result = env.execute("traffic summaries").get_accumulator_result("traffic")
    (found,) = sink.results
    print("requests ", found["requests"])
    print("users     within 4 % of 5000:", abs(found["users"] - 5000) < 200)
    print("median    within 2 % of 250 ms:", abs(found["median"] - 250) < 10)
    print("slowest 1 in 100 above 490 ms:", found["slowest"] > 490)
    print("pages    ", ", ".join(found["pages"]))
    print("a sample ", len(set(found["sample"])), "of the users")
    print("state    ", result["state_entries"], "entries,", f"{found['bytes']:,} bytes")
    print("refused  ", result["user.refused"])


if __name__ == "__main__":
    main()
