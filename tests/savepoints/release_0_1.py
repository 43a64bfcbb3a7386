"""The program whose savepoint is kept in tests/fixtures/savepoints/0.1. It must stay as it is: uids, names, classes.

`main(directory)` takes such a savepoint, and writes beside it what must come out of whoever starts from it. That was
done once, with release 0.1, and is never done again for it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from flintstream import (
    AggregateFunction,
    AggregatingStateDescriptor,
    BroadcastProcessFunction,
    CollectSink,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    StreamExecutionEnvironment,
    Time,
    Types,
    ValueStateDescriptor,
    bounded,
    count,
    session,
    sum_of,
    tumbling,
)
from flintstream.cep import CEP, Pattern
from tests.capabilities.support import Lists
from tests.savepoints.support import held_at, local_env

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "savepoints" / "0.1"
RECORDS = [(f"k{i * 7 % 5}", ("tea", "coffee", "cake")[i % 3], i % 6 + 1, i * 3) for i in range(120)]
UNTIL = 60


@dataclass
class Bill:
    """A class in state."""

    total: int = 0
    items: list[str] = field(default_factory=list[str])


class Mean(AggregateFunction):
    """The mean of amounts."""

    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Everything(KeyedProcessFunction):
    """State of every kind: typed, a dataclass, pickled, with a time to live, and timers."""

    def open(self, runtime_context: Any) -> None:
        lasting = ValueStateDescriptor("expires", Types.LONG())
        ttl = StateTtlConfig.new_builder(Time.days(10000)).set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)
        lasting.enable_time_to_live(ttl.build())
        self.expires = runtime_context.get_state(lasting)
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.bill = runtime_context.get_state(ValueStateDescriptor("bill"))
        self.mixed = runtime_context.get_state(ValueStateDescriptor("mixed"))
        self.last = runtime_context.get_list_state(ListStateDescriptor("last", Types.LONG()))
        self.kinds = runtime_context.get_map_state(MapStateDescriptor("kinds", Types.STRING(), Types.LONG()))
        self.most = runtime_context.get_reducing_state(ReducingStateDescriptor("most", max, Types.LONG()))
        mean = AggregatingStateDescriptor("mean", Mean(), Types.PICKLED_BYTE_ARRAY())
        self.mean = runtime_context.get_aggregating_state(mean)

    def process_element(self, value: Any, ctx: Any) -> Any:
        key, kind, amount, ts = value
        self.expires.update((self.expires.value() or 0) + 1)
        self.total.update((self.total.value() or 0) + amount)
        bill = self.bill.value() or Bill()
        self.bill.update(Bill(bill.total + amount, [*bill.items[-1:], kind]))
        self.mixed.update(Decimal(amount) if amount % 2 else {kind, amount})
        self.last.update([*list(self.last.get())[-2:], amount])
        self.kinds.put(kind, (self.kinds.get(kind) or 0) + 1)
        self.most.add(amount)
        self.mean.add(amount)
        ctx.timer_service().register_event_time_timer(ts // 40 * 40 + 40)
        found = (self.expires.value(), self.total.value(), self.most.get(), round(self.mean.get(), 6))
        yield key, *found, list(self.last.get()), sorted(self.kinds.items()), self.bill.value().items

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield (
            ctx.get_current_key(),
            "timer",
            timestamp,
            self.bill.value().total,
            str(sorted(map(str, _parts(self.mixed)))),
        )


def _parts(mixed: Any) -> Any:
    value = mixed.value()
    return value if isinstance(value, set) else [value]


class Priced(BroadcastProcessFunction):
    """Multiplies records by what the broadcast side said last."""

    PRICES = MapStateDescriptor("prices", Types.STRING(), Types.LONG())

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value[0], value[2] * (ctx.get_broadcast_state(self.PRICES).get(value[1]) or 1)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(self.PRICES).put(value[0], value[1])
        return ()


def declare(env: StreamExecutionEnvironment, sinks: dict[str, CollectSink]) -> None:
    """Declare the program."""
    source = env.from_source(Lists(RECORDS)).uid("purchases")
    stream = source.assign_timestamps_and_watermarks(bounded("10ms", on=3)).uid("times")
    keyed = stream.key_by(lambda value: value[0])
    outputs = {
        "everything": keyed.process(Everything()).uid("everything"),
        "sums": stream.map(lambda value: {"key": value[0], "amount": value[2]})
        .uid("rows")
        .key_by("key")
        .window(tumbling("90ms"))
        .agg(total=sum_of("amount"), number=count())
        .uid("sums")
        .map(tuple)
        .uid("as tuples"),
        "sessions": keyed.window(session("13ms")).reduce(lambda a, b: (a[0], a[1], a[2] + b[2], a[3])).uid("sessions"),
        "priced": stream.connect(
            env.from_collection([("tea", 3), ("coffee", 4)]).uid("prices").broadcast(Priced.PRICES)
        )
        .process(Priced())
        .uid("priced"),
        "patterns": CEP.pattern(
            keyed,
            Pattern.begin("first")
            .where(lambda value: value[1] == "tea")
            .followed_by("then")
            .where(lambda value: value[1] == "cake")
            .within("60ms"),
        )
        .select(lambda match: (match["first"][0][0], match["first"][0][3], match["then"][0][3]))
        .uid("patterns"),
        "sorted": keyed.sort_by_event_time().uid("sorted"),
    }
    for name, stream in outputs.items():
        stream.sink_to(sinks.setdefault(name, CollectSink())).uid(f"to {name}")


def shown(sinks: dict[str, CollectSink]) -> dict[str, list[str]]:
    """Return what came out as text, in an order of its own."""
    return {name: sorted(map(repr, sink.results)) for name, sink in sinks.items()}


def main(directory: str) -> None:
    """Take the savepoint."""
    before: dict[str, CollectSink] = {}
    env = local_env()
    declare(env, before)
    with held_at(env, "purchases", UNTIL) as (client, gate):
        stopped = client.stop_with_savepoint(False, directory, tags=["fixture"])
        gate.go_on()
        path = Path(stopped.result(60))
    path.rename(path.with_name("savepoint"))
    after: dict[str, CollectSink] = {}
    env = local_env().start_from_savepoint(str(path.with_name("savepoint")))
    declare(env, after)
    env.execute("job")
    whole: dict[str, CollectSink] = {}
    env = local_env()
    declare(env, whole)
    env.execute("job")
    told = {name: sorted([*shown(before)[name], *rows]) for name, rows in shown(after).items()}
    if told != shown(whole):
        raise SystemExit("the two halves are not the whole")
    Path(directory, "expected.json").write_text(json.dumps(shown(after), indent=1) + "\n")
