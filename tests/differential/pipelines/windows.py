"""Pipelines of windows with the trigger they come with: every assigner, every kind of function, windows of windows."""

from __future__ import annotations

from flintstream.common import Time, Types
from flintstream.datastream import (
    AggregateFunction,
    MergingWindowAssigner,
    ProcessFunction,
    ProcessWindowFunction,
    TimeWindow,
    WindowAssigner,
    WindowFunction,
)
from flintstream.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from flintstream.datastream.state import ListStateDescriptor, ValueStateDescriptor
from flintstream.datastream.window import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeWindowSerializer,
    TumblingEventTimeWindows,
)
from tests.differential.pipelines.registry import (
    Contents,
    EachWindow,
    Merged,
    key_of,
    keyed,
    pipeline,
    record_type,
    shuffled,
    timed,
)


def ms(count: int) -> Time:
    return Time.milliseconds(count)


def add(x, y):
    """The sum of two records: of one key, at the later time."""
    return x[0], max(x[1], y[1]), x[2] + y[2]


class Mean(AggregateFunction):
    def create_accumulator(self):
        return "", 0, 0

    def add(self, value, accumulator):
        return value[0], accumulator[1] + value[2], accumulator[2] + 1

    def get_result(self, accumulator):
        return accumulator[0], accumulator[1] / accumulator[2]

    def merge(self, acc_a, acc_b):
        return acc_a[0], acc_a[1] + acc_b[1], acc_a[2] + acc_b[2]


class Numbers(WindowFunction):
    def apply(self, key, window, inputs):
        yield key, window.start, window.end, window.max_timestamp(), [record[2] for record in inputs]


class Clock(ProcessFunction):
    """What event time it is for results of a window: the record's own, and the watermark."""

    def process_element(self, value, ctx):
        yield (*value, ctx.timestamp(), ctx.timer_service().current_watermark())


@pipeline(shuffled(201))
def tumbling_reduce(events):
    return {"out": keyed(events).window(TumblingEventTimeWindows.of(ms(30))).reduce(add)}


@pipeline(shuffled(202))
def tumbling_aggregate(events):
    return {"out": keyed(events).window(TumblingEventTimeWindows.of(ms(30))).aggregate(Mean())}


@pipeline(shuffled(203))
def tumbling_process(events):
    return {"out": keyed(events).window(TumblingEventTimeWindows.of(ms(30))).process(Contents())}


@pipeline(shuffled(204))
def tumbling_apply_with_offset(events):
    return {"out": keyed(events).window(TumblingEventTimeWindows.of(ms(30), ms(7))).apply(Numbers())}


@pipeline([(key, ts - 130, number) for key, ts, number in shuffled(205)])
def tumbling_before_1970(events):
    return {"out": keyed(events).window(TumblingEventTimeWindows.of(ms(30), ms(-4))).process(Contents())}


class OfOne(ProcessWindowFunction):
    """Gets what a fold made: one element."""

    def process(self, key, context, elements):
        yield key, context.window().start, list(elements)

    def clear(self, context):
        pass


class OfOneApplied(WindowFunction):
    def apply(self, key, window, inputs):
        yield key, window.end, list(inputs)


@pipeline(shuffled(206))
def tumbling_fold_and_function(events):
    windows = keyed(events)
    return {
        "reduce process": windows.window(TumblingEventTimeWindows.of(ms(25))).reduce(add, OfOne()),
        "reduce apply": windows.window(TumblingEventTimeWindows.of(ms(25))).reduce(add, OfOneApplied()),
        "aggregate process": windows.window(TumblingEventTimeWindows.of(ms(25))).aggregate(Mean(), OfOne()),
        "aggregate apply": windows.window(TumblingEventTimeWindows.of(ms(25))).aggregate(Mean(), OfOneApplied()),
    }


@pipeline(shuffled(207))
def sliding_reduce(events):
    return {"out": keyed(events).window(SlidingEventTimeWindows.of(ms(40), ms(15))).reduce(add, OfOne())}


@pipeline(shuffled(208))
def sliding_process_with_offset(events):
    return {"out": keyed(events).window(SlidingEventTimeWindows.of(ms(40), ms(20), ms(3))).process(Contents())}


@pipeline(shuffled(209))
def sliding_with_gaps(events):
    """The slide is longer than the window: records in between are in none."""
    return {"out": keyed(events).window(SlidingEventTimeWindows.of(ms(10), ms(25))).aggregate(Mean(), OfOne())}


@pipeline(shuffled(210, keys="abcdef"))
def session_process(events):
    return {"out": keyed(events).window(EventTimeSessionWindows.with_gap(ms(15))).process(Merged())}


@pipeline(shuffled(211, keys="abcdef", disorder=0))
def session_reduce(events):
    return {"out": keyed(events).window(EventTimeSessionWindows.with_gap(ms(15))).reduce(add, OfOne())}


@pipeline(shuffled(212, keys="abcdef", disorder=0))
def session_aggregate(events):
    return {"out": keyed(events).window(EventTimeSessionWindows.with_gap(ms(15))).aggregate(Mean(), OfOne())}


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return 3 + element[2] % 20


@pipeline(shuffled(213, keys="abcd"))
def session_with_dynamic_gap(events):
    return {"out": keyed(events).window(DynamicEventTimeSessionWindows.with_dynamic_gap(Gap())).process(Merged())}


class Ids(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().id, [element[2] for element in elements]

    def clear(self, context):
        pass


@pipeline(shuffled(214))
def count_tumbling(events):
    by_key = events.key_by(key_of, Types.STRING())
    return {
        "count_window": by_key.count_window(4).process(Ids()),
        "assigner": by_key.window(CountTumblingWindowAssigner.of(3)).reduce(add),
    }


@pipeline(shuffled(215))
def count_sliding(events):
    by_key = events.key_by(key_of, Types.STRING())
    return {
        "count_window": by_key.count_window(4, 2).process(Ids()),
        "assigner": by_key.window(CountSlidingWindowAssigner.of(5, 3)).reduce(add),
        "gaps": by_key.count_window(2, 3).process(Ids()),
    }


class AllNumbers(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield "all", context.window().start, [element[2] for element in elements]

    def clear(self, context):
        pass


class AllApplied(AllWindowFunction):
    def apply(self, window, inputs):
        yield "all", window.end, sum(record[2] for record in inputs)


@pipeline(shuffled(216))
def window_all_functions(events):
    stream = timed(events)
    return {
        "process": stream.window_all(TumblingEventTimeWindows.of(ms(30))).process(AllNumbers()),
        "apply": stream.window_all(SlidingEventTimeWindows.of(ms(30), ms(20))).apply(AllApplied()),
        "reduce": stream.window_all(TumblingEventTimeWindows.of(ms(30))).reduce(
            lambda x, y: ("all", max(x[1], y[1]), x[2] + y[2])
        ),
        "aggregate": stream.window_all(TumblingEventTimeWindows.of(ms(50))).aggregate(Mean(), AllPassed()),
    }


class AllPassed(AllWindowFunction):
    def apply(self, window, inputs):
        yield "all", window.start, [record[1] for record in inputs]


class ByNumber(WindowAssigner):
    """Small numbers go into windows of 20 ms, large ones into windows of 50 ms, those above 90 into both."""

    def assign_windows(self, element, timestamp, context):
        sizes = [20, 50] if element[2] > 90 else [20 if element[2] < 50 else 50]
        return [TimeWindow(timestamp - timestamp % size, timestamp - timestamp % size + size) for size in sizes]

    def get_default_trigger(self, env):
        return EventTimeTrigger.create()

    def get_window_serializer(self):
        return TimeWindowSerializer()

    def is_event_time(self):
        return True


@pipeline(shuffled(217))
def custom_assigner(events):
    return {"out": keyed(events).window(ByNumber()).process(EachWindow())}


class ShortSessions(MergingWindowAssigner):
    """Sessions with a gap of 12 ms that never grow beyond 40 ms."""

    def assign_windows(self, element, timestamp, context):
        return [TimeWindow(timestamp, timestamp + 12)]

    def merge_windows(self, windows, callback):
        ordered = sorted(windows, key=lambda window: (window.start, window.end))
        group = ordered[:1]
        for window in [*ordered[1:], None]:
            start, end = group[0].start, max(each.end for each in group)
            if window is not None and window.start <= end and max(window.end, end) - start <= 40:
                group.append(window)
                continue
            if len(group) > 1:
                callback.merge(group, TimeWindow(start, end))
            group = [window]

    def get_default_trigger(self, env):
        return EventTimeTrigger.create()

    def get_window_serializer(self):
        return TimeWindowSerializer()

    def is_event_time(self):
        return True


@pipeline(shuffled(218, keys="ab"))
def custom_merging_assigner(events):
    return {"out": keyed(events).window(ShortSessions()).process(Merged())}


@pipeline(shuffled(219))
def window_of_a_window(events):
    sums = keyed(events).window(TumblingEventTimeWindows.of(ms(20))).reduce(add)
    again = sums.key_by(key_of, Types.STRING()).window(TumblingEventTimeWindows.of(ms(60))).process(Contents())
    whole = sums.window_all(TumblingEventTimeWindows.of(ms(60))).reduce(lambda x, y: ("all", 0, x[2] + y[2]))
    return {"again": again, "all": whole}


@pipeline(shuffled(220), only="process")
def process_behind_a_window(events):
    sums = keyed(events).window(SlidingEventTimeWindows.of(ms(30), ms(15))).reduce(add)
    return {"out": sums.process(Clock())}


@pipeline(shuffled(221))
def window_behind_a_union(events):
    stream = timed(events)
    union = stream.filter(lambda r: r[2] < 30).union(stream.filter(lambda r: r[2] > 50))
    return {"out": union.key_by(key_of, Types.STRING()).window(TumblingEventTimeWindows.of(ms(40))).process(Contents())}


class Remembered(ProcessWindowFunction):
    """Counts the panes of each window, and the windows of each key, in state."""

    def process(self, key, context, elements):
        panes = context.window_state().get_state(ValueStateDescriptor("panes", Types.LONG()))
        windows = context.global_state().get_list_state(ListStateDescriptor("windows", Types.LONG()))
        panes.update((panes.value() or 0) + 1)
        windows.add(context.window().start)
        yield key, panes.value(), list(windows.get()), len(list(elements))

    def clear(self, context):
        context.window_state().get_state(ValueStateDescriptor("panes", Types.LONG())).clear()


@pipeline(shuffled(222))
def window_state_and_global_state(events):
    windows = keyed(events, 5).window(TumblingEventTimeWindows.of(ms(40))).allowed_lateness(30)
    return {"out": windows.process(Remembered())}


@pipeline(shuffled(223))
def window_of_keyed_results(events):
    larger = keyed(events).max_by(2).map(lambda r: (r[0] + "!", r[1], r[2]), record_type())
    return {
        "out": larger.key_by(key_of, Types.STRING()).window(TumblingEventTimeWindows.of(ms(50))).process(Contents())
    }
