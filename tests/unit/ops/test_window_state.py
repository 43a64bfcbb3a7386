from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from flintstream.errors import DefinitionError, UnsupportedError
from flintstream.model.assigners import EventTimeSessionWindows, TumblingEventTimeWindows
from flintstream.model.functions_window import ProcessAllWindowFunction, ProcessWindowFunction
from flintstream.model.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flintstream.model.triggers import CountTrigger, EventTimeTrigger, Trigger, TriggerResult
from flintstream.ops.window import WindowOperator
from flintstream.ops.window_aligned import AlignedWindowOperator
from tests.unit.ops.window_harness import END, Contents, Record, Total, Watermark, WindowHarness

TUMBLING = TumblingEventTimeWindows(10)
FIRINGS = ValueStateDescriptor("firings")
SEEN = ListStateDescriptor("seen")
BY_VALUE = MapStateDescriptor("by-value")
GREATEST = ReducingStateDescriptor("greatest", max)
TOTAL = AggregatingStateDescriptor("total", Total())


class Remembering(ProcessWindowFunction[Any, Any, Any, Any]):
    """Uses all five kinds of state of the window, and the same names in the key's own state."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        emitted: list[Any] = [key]
        for store in (context.window_state(), context.global_state()):
            firings = store.get_state(FIRINGS)
            firings.update((firings.value() or 0) + 1)
            newest = list(elements)[-1]
            for state in (store.get_list_state(SEEN), store.get_reducing_state(GREATEST)):
                state.add(newest)
            store.get_aggregating_state(TOTAL).add(newest)
            store.get_map_state(BY_VALUE).put(newest, key)
            emitted.append(firings.value())
            emitted.append(list(store.get_list_state(SEEN).get()))
            emitted.append(sorted(store.get_map_state(BY_VALUE).keys()))
            emitted.append(store.get_reducing_state(GREATEST).get())
            emitted.append(store.get_aggregating_state(TOTAL).get())
        yield tuple(emitted)

    def clear(self, context: Any) -> None:
        store = context.window_state()
        store.get_state(FIRINGS).clear()
        store.get_list_state(SEEN).clear()
        store.get_map_state(BY_VALUE).clear()
        store.get_reducing_state(GREATEST).clear()
        store.get_aggregating_state(TOTAL).clear()


@pytest.fixture(params=[WindowOperator, AlignedWindowOperator])
def remembering(request: pytest.FixtureRequest) -> Callable[[], WindowOperator]:
    return lambda: request.param(TUMBLING, allowed_lateness_ms=20, apply=Remembering())


@pytest.mark.parametrize("restarting", [False, True])
def test_a_window_has_state_of_its_own_and_the_key_has_state_for_all(remembering: Any, restarting: bool) -> None:
    harness = WindowHarness(remembering)
    script = [Record("a", 5, 1), Watermark(10), Record("a", 3, 2), Record("b", 7, 2), Record("a", 9, 12), Watermark(19)]
    for step in script:
        harness.feed(step)
        if restarting:
            harness.restart()
    assert harness.values() == [
        ("a", 1, [5], [5], 5, (5, 1), 1, [5], [5], 5, (5, 1)),
        ("a", 2, [5, 3], [3, 5], 5, (8, 2), 2, [5, 3], [3, 5], 5, (8, 2)),
        ("b", 1, [7], [7], 7, (7, 1), 1, [7], [7], 7, (7, 1)),
        ("a", 1, [9], [9], 9, (9, 1), 3, [5, 3, 9], [3, 5, 9], 9, (17, 3)),
    ]
    harness.feed(END)
    left = {name: rows for name, rows in harness.entries().items() if name.startswith("#")}
    assert left == {}
    expected = {"firings": 2, "seen": 2, "greatest": 2, "total": 2, "by-value": 4}
    assert harness.entries() == expected
    of_key = {name for name in harness.backend.snapshot() if "#" not in name}
    assert of_key == {f"window/{name}" for name in expected}


def test_state_of_a_window_has_key_window_and_map_key_as_columns(remembering: Any) -> None:
    harness = WindowHarness(remembering)
    harness.feed(Record("a", 5, 1), Watermark(10))
    changes = harness.commit()
    rows = changes["window/#window:by-value"]
    assert rows.column("key").to_pylist() == ["a"]
    assert rows.column("part1").to_pylist() == [{"start": 0, "end": 10}]
    assert rows.column("part2").to_pylist() == [5]
    assert rows.column("value").to_pylist() == ["a"]
    of_key = changes["window/firings"]
    assert rows.column("key_group").to_pylist() == of_key.column("key_group").to_pylist()
    snapshot = harness.backend.snapshot()["window/#window:by-value"]
    assert snapshot.column("part1").to_pylist() == [{"start": 0, "end": 10}]


def test_a_process_all_function_has_both_kinds_of_state_too() -> None:
    class Counting(ProcessAllWindowFunction[Any, Any, Any]):
        def process(self, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
            counts: list[int] = []
            for store in (context.window_state(), context.global_state()):
                state = store.get_state(FIRINGS)
                state.update((state.value() or 0) + 1)
                counts.append(state.value())
            yield tuple(counts)

        def clear(self, context: Any) -> None:
            context.window_state().get_state(FIRINGS).clear()

    harness = WindowHarness(lambda: AlignedWindowOperator(TUMBLING, apply=Counting()))
    harness.feed(Record(0, 1, 1), Record(0, 1, 11), END)
    assert harness.values() == [(1, 1), (1, 2)]
    assert harness.entries() == {"firings": 1}


def test_a_window_function_sees_both_clocks() -> None:
    class Clocks(ProcessWindowFunction[Any, Any, Any, Any]):
        def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
            yield context.current_watermark(), context.current_processing_time()

    for kind in (WindowOperator, AlignedWindowOperator):
        harness = WindowHarness(lambda kind=kind: kind(TUMBLING, allowed_lateness_ms=100, apply=Clocks()))
        harness.set_processing_time(5)
        harness.feed(Record("a", 1, 1), Watermark(4), Watermark(12), Watermark(15), Record("a", 1, 1))
        assert harness.values() == [(12, 5), (15, 5)]


def test_merging_windows_have_no_state_of_their_own() -> None:
    harness = WindowHarness(lambda: WindowOperator(EventTimeSessionWindows(10), apply=Remembering()))
    with pytest.raises(UnsupportedError, match=r"'firings' .* can merge .* operator 'the window'; use global_state"):
        harness.feed(Record("a", 1, 1), END)


class KeepingAll(EventTimeTrigger):
    """Keeps every kind of mergeable state, and shows it when the window ends."""

    descriptors: tuple[StateDescriptor, ...] = (SEEN, GREATEST, TOTAL)
    shown: list[Any] = []  # noqa: RUF012  # cleared by the test

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        for descriptor in self.descriptors:
            ctx.get_partitioned_state(descriptor).add(element)
        return super().on_element(element, timestamp, window, ctx)

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        self.shown.append([ctx.get_partitioned_state(descriptor).get() for descriptor in self.descriptors])
        return super().on_event_time(time, window, ctx)

    def on_merge(self, window: Any, ctx: Any) -> None:
        for descriptor in self.descriptors:
            ctx.merge_partitioned_state(descriptor)
        super().on_merge(window, ctx)

    def clear(self, window: Any, ctx: Any) -> None:
        for descriptor in self.descriptors:
            ctx.get_partitioned_state(descriptor).clear()
        super().clear(window, ctx)


@pytest.mark.parametrize("restarting", [False, True])
def test_state_of_triggers_merges_with_their_windows(restarting: bool) -> None:
    KeepingAll.shown.clear()
    harness = WindowHarness(lambda: WindowOperator(EventTimeSessionWindows(10), KeepingAll(), apply=Contents()))
    for step in (Record("a", 1, 0), Record("a", 2, 18), Record("a", 4, 9), END):
        harness.feed(step)
        if restarting:
            harness.restart()
    assert KeepingAll.shown == [[[1, 2, 4], 4, (7, 3)]]
    assert harness.entries() == {}


def test_state_that_cannot_be_merged_is_refused() -> None:
    class MergingValues(EventTimeTrigger):
        def on_merge(self, window: Any, ctx: Any) -> None:
            ctx.merge_partitioned_state(FIRINGS)

    harness = WindowHarness(lambda: WindowOperator(EventTimeSessionWindows(10), MergingValues(), apply=Contents()))
    with pytest.raises(DefinitionError, match="state 'firings' cannot be merged"):
        harness.feed(Record("a", 1, 0), Record("a", 2, 5))


def test_a_trigger_can_use_value_and_map_state_processing_time_and_metrics() -> None:
    class Curious(Trigger[Any, Any]):
        def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
            ctx.get_partitioned_state(FIRINGS).update(element)
            ctx.get_partitioned_state(BY_VALUE).put(element, timestamp)
            ctx.get_metric_group().counter("elements").inc()
            ctx.register_processing_time_timer(ctx.get_current_processing_time() + 5)
            ctx.register_processing_time_timer(ctx.get_current_processing_time() + 6)
            ctx.delete_processing_time_timer(ctx.get_current_processing_time() + 6)
            return TriggerResult.CONTINUE

        def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
            both = ctx.get_partitioned_state(FIRINGS).value(), ctx.get_partitioned_state(BY_VALUE).items()
            return TriggerResult.FIRE_AND_PURGE if both == (2, [(1, 3), (2, 4)]) else TriggerResult.PURGE

        def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
            return TriggerResult.CONTINUE

        def clear(self, window: Any, ctx: Any) -> None:
            ctx.get_partitioned_state(FIRINGS).clear()
            ctx.get_partitioned_state(BY_VALUE).clear()

    harness = WindowHarness(lambda: WindowOperator(TUMBLING, Curious(), apply=Contents()))
    harness.set_processing_time(100)
    harness.feed(Record("a", 1, 3), Record("a", 2, 4), Record("b", 3, 4))
    assert harness.ctx.counters == {"user.elements": 3}
    assert harness.set_processing_time(105) == []
    assert [e.value for e in harness.set_processing_time(106)] == [("a", [1, 2])]
    assert set(harness.entries()) == {"#event-timers", "#trigger:firings", "#trigger:by-value"}
    harness.feed(END)
    assert harness.entries() == {}


def test_a_descriptor_of_no_known_kind_is_refused() -> None:
    class Odd(CountTrigger):
        def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
            return ctx.get_partitioned_state(StateDescriptor("odd", None))

    harness = WindowHarness(lambda: WindowOperator(TUMBLING, Odd(1), apply=Contents()))
    with pytest.raises(DefinitionError, match="no state of a window"):
        harness.feed(Record("a", 1, 3))


def test_state_of_triggers_and_functions_with_one_name_is_not_shared() -> None:
    class Counting(ProcessWindowFunction[Any, Any, Any, Any]):
        def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
            state = context.window_state().get_state(ValueStateDescriptor("count"))
            state.update((state.value() or 0) + 10)
            yield state.value()

        def clear(self, context: Any) -> None:
            context.window_state().get_state(ValueStateDescriptor("count")).clear()

    harness = WindowHarness(lambda: WindowOperator(TUMBLING, CountTrigger(2), apply=Counting()))
    harness.feed(*(Record("a", i, i) for i in range(4)), END)
    assert harness.values() == [10, 20]
    assert harness.entries() == {}
