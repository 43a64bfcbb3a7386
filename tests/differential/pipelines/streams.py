"""Pipelines without windows: functions of one record, rolling aggregates, several streams in one, side outputs."""

from __future__ import annotations

from flintstream.common import Types
from flintstream.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ReduceFunction,
)
from flintstream.datastream.state import ListStateDescriptor, ValueStateDescriptor
from tests.differential.pipelines.registry import key_of, keyed, pipeline, record_type, shuffled, timed, with_late


class Doubled(MapFunction):
    def map(self, value):
        return value[0], value[1], value[2] * 2


class IsEven(FilterFunction):
    def filter(self, value):
        return value[2] % 2 == 0


class Digits(FlatMapFunction):
    def flat_map(self, value):
        for digit in str(value[2]):
            yield value[0], value[1], int(digit)


@pipeline(shuffled(1))
def map_filter_flat_map(events):
    return {
        "out": events.map(Doubled(), record_type()).filter(lambda r: r[2] % 3 != 0).flat_map(Digits(), record_type())
    }


@pipeline(shuffled(2))
def lambdas_of_one_record(events):
    split = events.flat_map(lambda r: [(r[0], r[1], n) for n in range(r[2] % 3)], record_type())
    return {"out": split.map(lambda r: (r[0], r[2] - r[1])).filter(lambda r: r[1] < 0)}


@pipeline(shuffled(3))
def project_of_fields(events):
    return {"out": events.project(0, 2)}


class KeepLarger(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 if value1[2] >= value2[2] else value2


@pipeline(shuffled(4))
def rolling_reduce(events):
    by_key = events.key_by(key_of, Types.STRING())
    sums = by_key.reduce(lambda x, y: (x[0], max(x[1], y[1]), x[2] + y[2]))
    return {"sum": sums, "larger": by_key.reduce(KeepLarger())}


@pipeline(shuffled(5))
def rolling_sum_min_max(events):
    by_key = events.key_by(key_of, Types.STRING())
    return {"sum": by_key.sum(2), "min": by_key.min(2), "max": by_key.max(2)}


@pipeline([(key, ts, number // 20) for key, ts, number in shuffled(6)])
def rolling_min_by_max_by(events):
    by_key = events.key_by(key_of, Types.STRING())
    return {"min_by": by_key.min_by(2), "max_by": by_key.max_by(2)}


@pipeline(shuffled(7))
def keyed_map_and_filter(events):
    by_key = events.key_by(lambda r: r[2] % 5, Types.LONG())
    mapped = by_key.map(lambda r: (r[2] % 5, r[0], r[1]))
    return {
        "map": mapped,
        "filter": by_key.filter(lambda r: r[2] > 30),
        "flat_map": by_key.flat_map(Digits(), record_type()),
    }


@pipeline(shuffled(8))
def key_by_composite(events):
    by_both = events.key_by(lambda r: (r[0], r[2] % 2), Types.TUPLE([Types.STRING(), Types.LONG()]))
    return {"out": by_both.reduce(lambda x, y: (x[0], y[1], x[2] + 2 * y[2])).map(lambda r: (r[0] + str(r[2] % 2), r))}


EVEN = OutputTag("even", record_type())
LARGE = OutputTag("large", Types.LONG())


class Sorted(ProcessFunction):
    """Sends even numbers and large numbers to side outputs, and what time it is with all of them."""

    def process_element(self, value, ctx):
        if value[2] % 2 == 0:
            yield EVEN, value
        if value[2] > 70:
            yield LARGE, value[2]
        yield value[0], value[2], ctx.timestamp()


@pipeline(shuffled(9))
def process_side_outputs(events):
    processed = timed(events).process(Sorted())
    large = processed.get_side_output(LARGE).map(lambda n: ("large", n))
    return {"main": processed, "even": processed.get_side_output(EVEN), "large": large}


class Clock(ProcessFunction):
    def process_element(self, value, ctx):
        yield value[0], ctx.timestamp(), ctx.timer_service().current_watermark()


@pipeline(with_late(10))
def watermark_before_each_record(events):
    return {"bound": timed(events, 15).process(Clock()), "none": timed(events, 0).process(Clock())}


@pipeline(shuffled(11))
def timestamps_assigned_anew(events):
    return {"out": timed(timed(events, 0).map(lambda r: (r[0], r[1] * 10, r[2]), record_type()), 5).process(Clock())}


@pipeline(shuffled(12))
def union_of_two(events):
    small, large = events.filter(lambda r: r[2] < 40), events.filter(lambda r: r[2] >= 60)
    return {"out": small.union(large).key_by(key_of, Types.STRING()).sum(2)}


class Apart(CoMapFunction):
    def map1(self, value):
        return value[0], "one", value[2]

    def map2(self, value):
        return value[0], "two", -value[2]


class Repeated(CoFlatMapFunction):
    def flat_map1(self, value):
        for n in range(value[2] % 3):
            yield value[0], "one", n

    def flat_map2(self, value):
        if value[2] % 2:
            yield value[0], "two", value[2]


@pipeline(shuffled(13))
def connected_map_and_flat_map(events):
    both = events.filter(IsEven()).connect(events.filter(lambda r: r[2] % 2 == 1))
    return {"map": both.map(Apart()), "flat_map": both.flat_map(Repeated())}


class Times(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield value[0], "one", value[2], ctx.timestamp()

    def process_element2(self, value, ctx):
        yield value[0], "two", value[2], ctx.timestamp()


@pipeline(shuffled(14))
def connected_process(events):
    stream = timed(events)
    return {"out": stream.filter(IsEven()).connect(stream.filter(lambda r: r[2] % 2 == 1)).process(Times())}


class Latest(CoMapFunction):
    """What comes on the second stream is shown with what came last on the first, of the same key."""

    def open(self, runtime_context):
        self.latest = runtime_context.get_state(ValueStateDescriptor("latest", Types.LONG()))

    def map1(self, value):
        self.latest.update(value[2])
        return value[0], "set", value[2]

    def map2(self, value):
        return value[0], self.latest.value(), value[2]


@pipeline(shuffled(15, count=40))
def connected_keyed_map(events):
    both = events.filter(IsEven()).connect(events.filter(lambda r: r[2] % 2 == 1))
    return {"out": both.key_by(key_of, key_of, Types.STRING()).map(Latest())}


class Joined(KeyedCoProcessFunction):
    """Holds records of both streams, and shows them when event time has passed the end of their 50 ms."""

    def open(self, runtime_context):
        self.ones = runtime_context.get_list_state(ListStateDescriptor("ones", Types.LONG()))
        self.twos = runtime_context.get_list_state(ListStateDescriptor("twos", Types.LONG()))

    def process_element1(self, value, ctx):
        self.ones.add(value[2])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() // 50 * 50 + 49)

    def process_element2(self, value, ctx):
        self.twos.add(value[2])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() // 50 * 50 + 49)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, list(self.ones.get()), list(self.twos.get())
        self.ones.clear()
        self.twos.clear()


@pipeline(shuffled(16))
def connected_keyed_process_with_timers(events):
    stream = timed(events)
    both = stream.filter(IsEven()).connect(stream.filter(lambda r: r[2] % 2 == 1))
    return {"out": both.key_by(key_of, key_of, Types.STRING()).process(Joined())}


@pipeline(shuffled(17), only="process")
def process_behind_keyed_reduce(events):
    return {"out": keyed(events).reduce(lambda x, y: (x[0], y[1], x[2] + y[2])).process(Clock())}
