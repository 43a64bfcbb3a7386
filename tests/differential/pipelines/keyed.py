"""Pipelines of keyed process functions: every kind of state, timers of event time, and the end of the stream."""

from __future__ import annotations

from flintstream.common import Types
from flintstream.datastream import AggregateFunction, KeyedProcessFunction, OutputTag
from flintstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tests.differential.pipelines.registry import key_of, keyed, pipeline, shuffled, timed, with_late

LONG_AGO = OutputTag("long ago")


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Distinct(KeyedProcessFunction):
    """Emits each number of a key once, and forgets them all when it sees one above 90."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.LONG()))

    def process_element(self, value, ctx):
        number = value[2] // 10
        if not self.seen.contains(number):
            yield value[0], number, sorted(self.seen.keys())
        self.seen.put(number, (self.seen.get(number) or 0) + 1)
        if value[2] > 90:
            yield value[0], -1, sorted(self.seen.items())
            self.seen.clear()


@pipeline(shuffled(101))
def map_state(events):
    return {"out": keyed(events).process(Distinct())}


class MapEdits(KeyedProcessFunction):
    def open(self, runtime_context):
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))

    def process_element(self, value, ctx):
        field = str(value[2] % 4)
        if value[2] % 5 == 0 and self.map.contains(field):
            self.map.remove(field)
        else:
            self.map.put_all({field: value[2], "last": value[1]})
        yield value[0], self.map.is_empty(), sorted(self.map.values()), sorted(self.map.items()), self.map.get("0")


@pipeline(shuffled(102), only="thread")
def map_state_edits(events):
    return {"out": keyed(events).process(MapEdits())}


class Batches(KeyedProcessFunction):
    """Emits the numbers of a key by four, then keeps the largest only."""

    def open(self, runtime_context):
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.LONG()))

    def process_element(self, value, ctx):
        self.waiting.add(value[2])
        waiting = list(self.waiting.get())
        if len(waiting) >= 4:
            yield value[0], waiting
            self.waiting.update([max(waiting)])
        if value[2] < 10:
            self.waiting.clear()
            self.waiting.add_all([-1, -2])


@pipeline(shuffled(103))
def list_state(events):
    return {"out": keyed(events).process(Batches())}


class Folded(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_reducing_state(
            ReducingStateDescriptor("total", lambda x, y: x + y, Types.LONG())
        )
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()]))
        )

    def process_element(self, value, ctx):
        self.total.add(value[2])
        self.mean.add(value[2])
        yield value[0], self.total.get(), self.mean.get()
        if value[2] > 80:
            self.total.clear()
            self.mean.clear()


@pipeline(shuffled(104))
def reducing_and_aggregating_state(events):
    return {"out": keyed(events).process(Folded())}


class EmptyStates(KeyedProcessFunction):
    """Shows what states answer before anything was put into them, and after they were cleared."""

    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))
        self.total = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", max, Types.LONG()))

    def process_element(self, value, ctx):
        yield (
            value[0],
            self.value.value(),
            list(self.list.get()),
            self.map.is_empty(),
            self.map.get("x"),
            self.total.get(),
        )
        if value[2] % 2:
            for state in (self.value, self.list, self.map, self.total):
                state.clear()
        else:
            self.value.update(value[2])
            self.list.add(value[2])
            self.map.put("x", value[2])
            self.total.add(value[2])


@pipeline(shuffled(105))
def states_when_empty(events):
    return {"out": keyed(events).process(EmptyStates())}


class Timers(KeyedProcessFunction):
    """One timer for every 30 ms of event time, however often it is registered."""

    def process_element(self, value, ctx):
        end = ctx.timestamp() // 30 * 30 + 29
        ctx.timer_service().register_event_time_timer(end)
        ctx.timer_service().register_event_time_timer(end)
        yield value[0], "element", value[1], ctx.timer_service().current_watermark()

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), "timer", timestamp, ctx.timestamp(), ctx.timer_service().current_watermark()


@pipeline(with_late(106))
def timers_fire_once(events):
    return {"out": keyed(events, 5).process(Timers())}


class Inactivity(KeyedProcessFunction):
    """Each record moves its key's timer 25 ms beyond the highest timestamp seen; it fires when the key is silent."""

    def open(self, runtime_context):
        self.timer = runtime_context.get_state(ValueStateDescriptor("timer", Types.LONG()))

    def process_element(self, value, ctx):
        timer, wanted = self.timer.value(), ctx.timestamp() + 25
        if timer is None or wanted > timer:
            if timer is not None:
                ctx.timer_service().delete_event_time_timer(timer)
            ctx.timer_service().register_event_time_timer(wanted)
            self.timer.update(wanted)
        return []

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, self.timer.value()
        self.timer.clear()


@pipeline(shuffled(107, count=70, keys="abcdef"))
def timers_deleted_and_moved(events):
    return {"out": keyed(events).process(Inactivity())}


class Past(KeyedProcessFunction):
    """Timers in the past: registered by a record, and again by a timer, three times in a row."""

    def open(self, runtime_context):
        self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.LONG()))

    def process_element(self, value, ctx):
        if value[2] % 4 == 0:
            self.left.update(3)
            ctx.timer_service().register_event_time_timer(max(0, ctx.timestamp() - 1000))
        yield value[0], "element", value[2]

    def on_timer(self, timestamp, ctx):
        left = self.left.value()
        yield ctx.get_current_key(), "timer", timestamp, left, ctx.timer_service().current_watermark()
        if left:
            self.left.update(left - 1)
            ctx.timer_service().register_event_time_timer(timestamp + left)


@pipeline(shuffled(108), only="thread")
def timers_in_the_past(events):
    return {"out": keyed(events).process(Past())}


class Chain(KeyedProcessFunction):
    """A timer that registers the next one, until long after the last record: at the end of the stream they all fire."""

    def process_element(self, value, ctx):
        if value[2] > 85:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 7)
        return []

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, ctx.timer_service().current_watermark()
        if timestamp < 500:
            ctx.timer_service().register_event_time_timer(timestamp * 2)


@pipeline(shuffled(109), only="thread")
def timers_chained_beyond_the_end(events):
    return {"out": keyed(events).process(Chain())}


class AtTheEnd(KeyedProcessFunction):
    """Shows a key's sum when the stream ends: the timer is at the highest time there is."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value[2])
        ctx.timer_service().register_event_time_timer(2**63 - 1)
        return []

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.total.value(), timestamp


@pipeline(shuffled(110))
def timer_at_the_end_of_time(events):
    return {"out": keyed(events).process(AtTheEnd())}


class SortByTime(KeyedProcessFunction):
    """Holds records until the watermark has passed them; those it has passed already go to a side output."""

    def open(self, runtime_context):
        self.held = runtime_context.get_map_state(MapStateDescriptor("held", Types.LONG(), Types.LIST(Types.LONG())))

    def process_element(self, value, ctx):
        if ctx.timestamp() <= ctx.timer_service().current_watermark():
            yield LONG_AGO, value
            return
        self.held.put(ctx.timestamp(), [*(self.held.get(ctx.timestamp()) or []), value[2]])
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def on_timer(self, timestamp, ctx):
        for number in self.held.get(timestamp):
            yield ctx.get_current_key(), timestamp, number
        self.held.remove(timestamp)


@pipeline(with_late(111))
def sorted_by_timers_with_late_side_output(events):
    processed = keyed(events, 5).process(SortByTime())
    return {"sorted": processed, "late": processed.get_side_output(LONG_AGO)}


class Counted(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count, ctx.timestamp(), ctx.timer_service().current_watermark()


@pipeline(shuffled(112))
def timestamps_of_what_timers_emit(events):
    fired = keyed(events).process(Timers()).filter(lambda r: r[1] == "timer")
    return {"out": fired.key_by(key_of, Types.STRING()).process(Counted())}


@pipeline([(key, ts - 120, number) for key, ts, number in shuffled(113)])
def timers_before_1970(events):
    return {"out": timed(events).key_by(key_of, Types.STRING()).process(Timers())}
