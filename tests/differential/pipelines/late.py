"""Pipelines with late records and with triggers of every kind, on every kind of window."""

from __future__ import annotations

from flintstream.common import Types
from flintstream.datastream import OutputTag, ProcessWindowFunction, Trigger, TriggerResult
from flintstream.datastream.state import ReducingStateDescriptor, ValueStateDescriptor
from flintstream.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from tests.differential.pipelines.registry import (
    Contents,
    EachWindow,
    Merged,
    keyed,
    pipeline,
    record_type,
    shuffled,
    timed,
    with_late,
)
from tests.differential.pipelines.windows import AllNumbers, Mean, Remembered, add, ms


def both(windows, function=None):
    """All panes with their contents, and what came too late for any."""
    late = OutputTag("late", record_type())
    panes = windows.side_output_late_data(late).process(function or Contents())
    return {"panes": panes, "late": panes.get_side_output(late)}


@pipeline(with_late(301))
def late_dropped_by_tumbling(events):
    return {"out": keyed(events, 5).window(TumblingEventTimeWindows.of(ms(30))).process(Contents())}


@pipeline(with_late(302))
def late_side_output_of_tumbling(events):
    return both(keyed(events, 5).window(TumblingEventTimeWindows.of(ms(30))))


@pipeline(with_late(303))
def late_side_output_of_sliding(events):
    return both(keyed(events, 5).window(SlidingEventTimeWindows.of(ms(40), ms(20))))


@pipeline(with_late(304))
def late_side_output_of_session(events):
    return both(keyed(events, 5).window(EventTimeSessionWindows.with_gap(ms(12))), Merged())


@pipeline(with_late(305))
def lateness_refires_tumbling(events):
    return both(keyed(events, 5).window(TumblingEventTimeWindows.of(ms(30))).allowed_lateness(25))


@pipeline(with_late(306))
def lateness_refires_sliding(events):
    return both(keyed(events, 5).window(SlidingEventTimeWindows.of(ms(40), ms(20))).allowed_lateness(25))


@pipeline(with_late(307, keys="abcd"))
def lateness_refires_session(events):
    return both(keyed(events, 5).window(EventTimeSessionWindows.with_gap(ms(12))).allowed_lateness(25), Merged())


@pipeline(with_late(308))
def lateness_with_folds(events):
    by_key = keyed(events, 5)
    return {
        "reduce": by_key.window(TumblingEventTimeWindows.of(ms(30))).allowed_lateness(40).reduce(add),
        "aggregate": by_key.window(SlidingEventTimeWindows.of(ms(30), ms(10))).allowed_lateness(20).aggregate(Mean()),
    }


@pipeline(with_late(309))
def lateness_of_window_all(events):
    return both(timed(events, 5).window_all(TumblingEventTimeWindows.of(ms(30))).allowed_lateness(25), AllNumbers())


@pipeline(with_late(310))
def lateness_with_window_state(events):
    windows = keyed(events, 5).window(TumblingEventTimeWindows.of(ms(40))).allowed_lateness(30)
    return {"out": windows.process(Remembered())}


@pipeline(with_late(311))
def purging_event_time_with_lateness(events):
    windows = keyed(events, 5).window(TumblingEventTimeWindows.of(ms(30))).allowed_lateness(30)
    return both(windows.trigger(PurgingTrigger.of(EventTimeTrigger.create())))


@pipeline(with_late(312))
def count_trigger_on_tumbling(events):
    return both(keyed(events, 5).window(TumblingEventTimeWindows.of(ms(30))).trigger(CountTrigger.of(2)))


@pipeline(with_late(313))
def count_trigger_on_sliding(events):
    return both(keyed(events, 5).window(SlidingEventTimeWindows.of(ms(40), ms(20))).trigger(CountTrigger.of(3)))


@pipeline(with_late(314))
def count_trigger_on_session(events):
    return both(keyed(events, 5).window(EventTimeSessionWindows.with_gap(ms(12))).trigger(CountTrigger.of(3)), Merged())


@pipeline(with_late(315))
def purging_count_trigger_on_session(events):
    windows = keyed(events, 5).window(EventTimeSessionWindows.with_gap(ms(12))).allowed_lateness(10)
    return both(windows.trigger(PurgingTrigger.of(CountTrigger.of(2))), Merged())


@pipeline(shuffled(316))
def count_trigger_on_global(events):
    by_key = keyed(events)
    return {
        "all": by_key.window(GlobalWindows.create()).trigger(CountTrigger.of(3)).process(Values()),
        "purged": by_key.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(3))).reduce(add),
    }


class Values(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.current_watermark(), [element[2] for element in elements]

    def clear(self, context):
        pass


@pipeline(shuffled(317))
def global_windows_never_fire(events):
    return {"out": keyed(events).window(GlobalWindows.create()).process(Values())}


@pipeline(with_late(318))
def continuous_trigger_on_tumbling(events):
    return both(
        keyed(events, 5).window(TumblingEventTimeWindows.of(ms(60))).trigger(ContinuousEventTimeTrigger.of(ms(20)))
    )


@pipeline(with_late(319), only="thread")
def continuous_trigger_on_sliding(events):
    windows = keyed(events, 5).window(SlidingEventTimeWindows.of(ms(60), ms(30)))
    return both(windows.trigger(ContinuousEventTimeTrigger.of(ms(13))), EachWindow())


@pipeline(with_late(320, keys="abcd"), only="thread")
def continuous_trigger_on_session(events):
    windows = keyed(events, 5).window(EventTimeSessionWindows.with_gap(ms(25)))
    return both(windows.trigger(ContinuousEventTimeTrigger.of(ms(10))), Merged())


@pipeline(with_late(321))
def continuous_trigger_with_lateness(events):
    windows = keyed(events, 5).window(TumblingEventTimeWindows.of(ms(50))).allowed_lateness(40)
    return both(windows.trigger(ContinuousEventTimeTrigger.of(ms(20))))


class SumReached(Trigger):
    """Fires when the numbers since it last fired make 100; at the end of the window once more, and then purges."""

    def __init__(self):
        self.total = ReducingStateDescriptor("total", lambda x, y: x + y, Types.LONG())

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(window.max_timestamp())
        total = ctx.get_partitioned_state(self.total)
        total.add(element[2])
        if total.get() < 100:
            return TriggerResult.CONTINUE
        total.clear()
        return TriggerResult.FIRE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE_AND_PURGE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.total)
        ctx.register_event_time_timer(window.max_timestamp())

    def can_merge(self):
        return True

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.total).clear()
        ctx.delete_event_time_timer(window.max_timestamp())


@pipeline(with_late(323))
def custom_trigger_on_tumbling(events):
    windows = keyed(events, 5).window(TumblingEventTimeWindows.of(ms(60))).allowed_lateness(20)
    return both(windows.trigger(SumReached()))


@pipeline(with_late(324))
def custom_trigger_on_sliding(events):
    return both(keyed(events, 5).window(SlidingEventTimeWindows.of(ms(60), ms(20))).trigger(SumReached()))


@pipeline(with_late(325, keys="abc"))
def custom_trigger_on_session(events):
    return both(keyed(events, 5).window(EventTimeSessionWindows.with_gap(ms(15))).trigger(SumReached()), Merged())


class Early(Trigger):
    """Fires 15 ms after the first record of a window, in event time, and at its end; numbers that end in 0 purge."""

    def __init__(self):
        self.early = ValueStateDescriptor("early", Types.LONG())

    def on_element(self, element, timestamp, window, ctx):
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        if element[2] % 10 == 0:
            return TriggerResult.PURGE
        early = ctx.get_partitioned_state(self.early)
        if early.value() is None:
            early.update(timestamp + 15)
            ctx.register_event_time_timer(timestamp + 15)
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        early = ctx.get_partitioned_state(self.early)
        return TriggerResult.FIRE if time in (window.max_timestamp(), early.value()) else TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        early = ctx.get_partitioned_state(self.early)
        if early.value() is not None:
            ctx.delete_event_time_timer(early.value())
        early.clear()
        ctx.delete_event_time_timer(window.max_timestamp())


@pipeline(with_late(326))
def custom_trigger_with_early_timers(events):
    windows = keyed(events, 5).window(TumblingEventTimeWindows.of(ms(60))).allowed_lateness(10)
    return both(windows.trigger(Early()))


@pipeline(with_late(327))
def late_results_go_into_the_next_window(events):
    """A late pane is late for the window behind as well, unless that allows for it."""
    panes = keyed(events, 5).window(TumblingEventTimeWindows.of(ms(20))).allowed_lateness(60).reduce(add)
    by_key = panes.key_by(lambda r: r[0], Types.STRING())
    return {
        "strict": by_key.window(TumblingEventTimeWindows.of(ms(40))).process(Contents()),
        "patient": by_key.window(TumblingEventTimeWindows.of(ms(40))).allowed_lateness(60).process(Contents()),
    }
