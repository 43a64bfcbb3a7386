"""Pipelines with broadcast state: rules on one stream, which all tasks of the other see.

Rules and data come of one input, slowly, so that what a record finds does not depend on which channel is faster.
"""

from __future__ import annotations

from flintstream.common import Types
from flintstream.datastream import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from flintstream.datastream.state import MapStateDescriptor, ValueStateDescriptor
from tests.differential.pipelines.registry import key_of, pipeline, shuffled, timed


def rules():
    """The descriptor of the rules: the last number that each key was given; a new one for each use, as types are."""
    return MapStateDescriptor("rules", Types.STRING(), Types.LONG())


def is_rule(record):
    return record[2] % 4 == 0


def is_data(record):
    return record[2] % 4 != 0


class Enriched(BroadcastProcessFunction):
    """Shows data with the rule of its key; a rule of a number below 20 takes the key's rule away."""

    def process_element(self, value, ctx):
        found = ctx.get_broadcast_state(rules())
        yield value[0], "data", value[2], found.get(value[0]), sorted(found.keys())

    def process_broadcast_element(self, value, ctx):
        state = ctx.get_broadcast_state(rules())
        if value[2] < 20:
            state.remove(value[0])
        else:
            state.put(value[0], value[2])
        # Every task would emit it once.
        yield from ()


@pipeline(shuffled(18, keys="abcd"), only="process")
def broadcast_rules(events):
    data, told = events.filter(is_data), events.filter(is_rule)
    return {"out": data.connect(told.broadcast(rules())).process(Enriched())}


class Counted(KeyedBroadcastProcessFunction):
    """Counts the data of a key since its rule last changed; event time shows the count 30 ms on."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))
        self.rule = runtime_context.get_state(ValueStateDescriptor("rule", Types.LONG()))

    def process_element(self, value, ctx):
        rule = ctx.get_broadcast_state(rules()).get(value[0])
        if rule != self.rule.value():
            self.rule.update(rule)
            self.seen.clear()
        self.seen.update((self.seen.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(value[1] // 30 * 30 + 29)
        yield value[0], "data", value[2], rule, self.seen.value()

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(rules()).put(value[0], value[2])
        yield from ()

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), "timer", timestamp, ctx.get_broadcast_state(rules()).get(ctx.get_current_key())


@pipeline(shuffled(19, keys="abcd"))
def broadcast_rules_keyed(events):
    stream = timed(events)
    data, told = stream.filter(is_data).key_by(key_of, key_type=Types.STRING()), stream.filter(is_rule)
    return {"out": data.connect(told.broadcast(rules())).process(Counted())}
