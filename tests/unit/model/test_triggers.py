"""When windows fire, with a context that keeps timers and state in dictionaries."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream.errors import InvalidArgumentError, UnsupportedError
from flintstream.model.time import MIN_TIMESTAMP
from flintstream.model.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from flintstream.model.windows import GlobalWindow, TimeWindow

CONTINUE, FIRE = TriggerResult.CONTINUE, TriggerResult.FIRE
WINDOW = TimeWindow(0, 100)


class FakeReducing:
    def __init__(self, function: Any) -> None:
        self.function = function
        self.held: Any = None

    def get(self) -> Any:
        return self.held

    def add(self, value: Any) -> None:
        self.held = value if self.held is None else self.function.reduce(self.held, value)

    def clear(self) -> None:
        self.held = None


class FakeContext(Trigger.OnMergeContext):
    """One key and one window: two clocks, two sets of timers, state by name; `merging` holds the old windows."""

    def __init__(self, *, watermark: int = MIN_TIMESTAMP, now: int = 0, merging: tuple[FakeContext, ...] = ()) -> None:
        self.watermark = watermark
        self.now = now
        self.merging = merging
        self.event_timers: set[int] = set()
        self.processing_timers: set[int] = set()
        self.states: dict[str, FakeReducing] = {}

    def get_current_processing_time(self) -> int:
        return self.now

    def get_metric_group(self) -> Any:
        raise AssertionError("no built-in trigger has metrics")

    def get_current_watermark(self) -> int:
        return self.watermark

    def register_processing_time_timer(self, time: int) -> None:
        self.processing_timers.add(time)

    def register_event_time_timer(self, time: int) -> None:
        self.event_timers.add(time)

    def delete_processing_time_timer(self, time: int) -> None:
        self.processing_timers.discard(time)

    def delete_event_time_timer(self, time: int) -> None:
        self.event_timers.discard(time)

    def get_partitioned_state(self, state_descriptor: Any) -> Any:
        return self.states.setdefault(state_descriptor.name, FakeReducing(state_descriptor.get_reduce_function()))

    def merge_partitioned_state(self, state_descriptor: Any) -> None:
        target = self.get_partitioned_state(state_descriptor)
        for old in self.merging:
            value = old.get_partitioned_state(state_descriptor).get()
            if value is not None:
                target.add(value)

    def advance_watermark(
        self, trigger: Trigger[Any, Any], window: Any, watermark: int
    ) -> list[tuple[int, TriggerResult]]:
        """Fire due timers in order, as the window operator does; a timer set meanwhile fires too."""
        self.watermark = watermark
        fired: list[tuple[int, TriggerResult]] = []
        while due := sorted(time for time in self.event_timers if time <= watermark):
            self.event_timers.discard(due[0])
            fired.append((due[0], trigger.on_event_time(due[0], window, self)))
            assert len(fired) < 1000, "a trigger sets timers for ever"
        return fired

    def advance_clock(self, trigger: Trigger[Any, Any], window: Any, now: int) -> list[tuple[int, TriggerResult]]:
        self.now = now
        fired: list[tuple[int, TriggerResult]] = []
        while due := sorted(time for time in self.processing_timers if time <= now):
            self.processing_timers.discard(due[0])
            fired.append((due[0], trigger.on_processing_time(due[0], window, self)))
            assert len(fired) < 1000, "a trigger sets timers for ever"
        return fired

    def leaks(self) -> list[Any]:
        held = [name for name, state in self.states.items() if state.get() is not None]
        return [*self.event_timers, *self.processing_timers, *held]


def test_the_four_results_mean_what_they_say() -> None:
    meaning = {result.name: (result.is_fire(), result.is_purge()) for result in TriggerResult}
    assert meaning == {
        "CONTINUE": (False, False),
        "FIRE_AND_PURGE": (True, True),
        "FIRE": (True, False),
        "PURGE": (False, True),
    }


def test_event_time_fires_when_the_watermark_reaches_the_last_timestamp() -> None:
    trigger, ctx = EventTimeTrigger.create(), FakeContext()
    assert trigger.on_element("a", 5, WINDOW, ctx) is CONTINUE
    assert ctx.advance_watermark(trigger, WINDOW, 98) == []
    assert ctx.advance_watermark(trigger, WINDOW, 99) == [(99, FIRE)]


def test_event_time_fires_at_once_for_a_late_record_and_sets_no_timer() -> None:
    trigger, ctx = EventTimeTrigger(), FakeContext(watermark=99)
    assert trigger.on_element("late", 5, WINDOW, ctx) is FIRE
    assert ctx.event_timers == set()


def test_event_time_ignores_timers_of_others_and_the_other_clock() -> None:
    trigger, ctx = EventTimeTrigger(), FakeContext()
    assert trigger.on_event_time(150, WINDOW, ctx) is CONTINUE
    assert trigger.on_processing_time(99, WINDOW, ctx) is CONTINUE


def test_event_time_leaves_no_timer_behind() -> None:
    trigger, ctx = EventTimeTrigger(), FakeContext()
    trigger.on_element("a", 5, WINDOW, ctx)
    trigger.clear(WINDOW, ctx)
    assert ctx.leaks() == []


def test_event_time_sets_a_timer_for_a_merged_window_unless_it_is_over() -> None:
    trigger = EventTimeTrigger()
    early, over = FakeContext(watermark=98), FakeContext(watermark=99)
    trigger.on_merge(WINDOW, early)
    trigger.on_merge(WINDOW, over)
    assert (trigger.can_merge(), early.event_timers, over.event_timers) == (True, {99}, set())


def test_processing_time_fires_when_the_clock_reaches_the_last_timestamp() -> None:
    trigger, ctx = ProcessingTimeTrigger.create(), FakeContext(now=50)
    assert trigger.on_element("a", 5, WINDOW, ctx) is CONTINUE
    assert trigger.on_event_time(99, WINDOW, ctx) is CONTINUE
    assert ctx.advance_clock(trigger, WINDOW, 98) == []
    assert ctx.advance_clock(trigger, WINDOW, 99) == [(99, FIRE)]


def test_processing_time_leaves_no_timer_behind_and_merges() -> None:
    trigger, ctx = ProcessingTimeTrigger(), FakeContext(now=98)
    trigger.on_merge(WINDOW, ctx)
    assert (trigger.can_merge(), ctx.processing_timers) == (True, {99})
    trigger.clear(WINDOW, ctx)
    assert ctx.leaks() == []
    over = FakeContext(now=99)
    trigger.on_merge(WINDOW, over)
    assert over.processing_timers == set()


def test_continuous_event_time_fires_on_multiples_of_the_interval_and_at_the_end() -> None:
    trigger, ctx = ContinuousEventTimeTrigger.of("30 ms"), FakeContext()
    assert trigger.on_element("a", 5, WINDOW, ctx) is CONTINUE
    assert trigger.on_element("b", 70, WINDOW, ctx) is CONTINUE
    assert ctx.event_timers == {30, 99}
    assert ctx.advance_watermark(trigger, WINDOW, 60) == [(30, FIRE), (60, FIRE)]
    assert ctx.advance_watermark(trigger, WINDOW, 200) == [(90, FIRE), (99, FIRE)]
    assert trigger.on_element("late", 5, WINDOW, ctx) is FIRE
    trigger.clear(WINDOW, ctx)
    assert ctx.leaks() == []


def test_continuous_event_time_counts_from_the_grid_before_1970_too() -> None:
    trigger, ctx = ContinuousEventTimeTrigger(30), FakeContext()
    trigger.on_element("a", -5, TimeWindow(-100, 100), ctx)
    assert ctx.event_timers == {0, 99}


def test_continuous_event_time_ignores_timers_of_others_and_the_other_clock() -> None:
    trigger, ctx = ContinuousEventTimeTrigger(30), FakeContext()
    trigger.on_element("a", 5, WINDOW, ctx)
    assert trigger.on_event_time(31, WINDOW, ctx) is CONTINUE
    assert trigger.on_processing_time(30, WINDOW, ctx) is CONTINUE


def test_continuous_event_time_cleared_early_takes_back_both_timers() -> None:
    trigger, ctx = ContinuousEventTimeTrigger(30), FakeContext()
    trigger.on_element("a", 5, WINDOW, ctx)
    trigger.clear(WINDOW, ctx)
    assert ctx.leaks() == []


@pytest.mark.parametrize("kind", [ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger])
def test_continuous_triggers_keep_the_earliest_fire_time_of_merged_windows(kind: Any) -> None:
    trigger = kind(30)
    first, second = FakeContext(now=5), FakeContext(now=65)
    trigger.on_element("a", 5, TimeWindow(0, 70), first)
    trigger.on_element("b", 65, TimeWindow(60, 130), second)
    result = FakeContext(merging=(second, first))
    trigger.on_merge(TimeWindow(0, 130), result)
    assert trigger.can_merge()
    assert result.event_timers | result.processing_timers == {30}
    empty = FakeContext(merging=(FakeContext(),))
    trigger.on_merge(WINDOW, empty)
    assert empty.leaks() == []


def test_continuous_processing_time_fires_on_multiples_and_at_the_end_of_the_window() -> None:
    trigger, ctx = ContinuousProcessingTimeTrigger.of("30 ms"), FakeContext(now=10)
    assert trigger.on_element("a", 999, WINDOW, ctx) is CONTINUE
    assert trigger.on_element("b", 999, WINDOW, ctx) is CONTINUE
    assert ctx.processing_timers == {30}
    assert trigger.on_event_time(30, WINDOW, ctx) is CONTINUE
    assert trigger.on_processing_time(31, WINDOW, ctx) is CONTINUE
    assert ctx.advance_clock(trigger, WINDOW, 95) == [(30, FIRE), (60, FIRE), (90, FIRE)]
    assert ctx.advance_clock(trigger, WINDOW, 200) == [(99, FIRE)]
    trigger.clear(WINDOW, ctx)
    assert ctx.leaks() == []


def test_continuous_processing_time_on_a_window_in_the_past_fires_once_per_record() -> None:
    trigger, ctx = ContinuousProcessingTimeTrigger(30), FakeContext(now=1_000)
    trigger.on_element("a", 5, WINDOW, ctx)
    assert ctx.advance_clock(trigger, WINDOW, 1_000) == [(99, FIRE)]
    assert ctx.leaks() == []


def test_continuous_processing_time_cleared_early_takes_back_its_timer() -> None:
    trigger, ctx = ContinuousProcessingTimeTrigger(30), FakeContext(now=10)
    trigger.clear(WINDOW, ctx)
    trigger.on_element("a", 5, WINDOW, ctx)
    trigger.clear(WINDOW, ctx)
    assert ctx.leaks() == []


def test_count_fires_with_every_nth_record() -> None:
    trigger, ctx = CountTrigger.of(3), FakeContext()
    results = [trigger.on_element(i, i, WINDOW, ctx) for i in range(7)]
    assert results == [CONTINUE, CONTINUE, FIRE, CONTINUE, CONTINUE, FIRE, CONTINUE]
    assert trigger.on_event_time(99, WINDOW, ctx) is trigger.on_processing_time(99, WINDOW, ctx) is CONTINUE
    trigger.clear(WINDOW, ctx)
    assert ctx.leaks() == []


def test_count_adds_up_over_merged_windows() -> None:
    trigger, first, second = CountTrigger(4), FakeContext(), FakeContext()
    trigger.on_element("a", 1, WINDOW, first)
    trigger.on_element("b", 1, WINDOW, second)
    trigger.on_element("c", 1, WINDOW, second)
    result = FakeContext(merging=(first, second))
    trigger.on_merge(WINDOW, result)
    assert trigger.can_merge()
    assert trigger.on_element("d", 1, WINDOW, result) is FIRE


def test_purging_turns_every_fire_into_fire_and_purge() -> None:
    trigger, ctx = PurgingTrigger.of(CountTrigger(2)), FakeContext()
    assert trigger.on_element("a", 1, WINDOW, ctx) is CONTINUE
    assert trigger.on_element("b", 1, WINDOW, ctx) is TriggerResult.FIRE_AND_PURGE
    event, processing = PurgingTrigger(EventTimeTrigger()), PurgingTrigger(ProcessingTimeTrigger())
    assert event.on_event_time(99, WINDOW, ctx) is TriggerResult.FIRE_AND_PURGE
    assert event.on_event_time(98, WINDOW, ctx) is CONTINUE
    assert processing.on_processing_time(99, WINDOW, ctx) is TriggerResult.FIRE_AND_PURGE


def test_purging_merges_and_clears_as_the_trigger_inside() -> None:
    trigger, ctx = PurgingTrigger(EventTimeTrigger()), FakeContext()
    assert trigger.can_merge() and not PurgingTrigger(NeverTrigger()).can_merge()
    trigger.on_merge(WINDOW, ctx)
    assert ctx.event_timers == {99}
    trigger.clear(WINDOW, ctx)
    assert ctx.leaks() == []


def test_never_never_fires() -> None:
    trigger, ctx, window = NeverTrigger(), FakeContext(watermark=10**12), GlobalWindow.get()
    assert trigger.on_element("a", 1, window, ctx) is CONTINUE
    assert trigger.on_event_time(1, window, ctx) is CONTINUE
    assert trigger.on_processing_time(1, window, ctx) is CONTINUE
    trigger.on_merge(window, ctx)
    trigger.clear(window, ctx)
    assert not trigger.can_merge()
    assert ctx.leaks() == []


def test_a_user_trigger_does_not_merge_unless_it_says_how() -> None:
    class Mine(Trigger[Any, TimeWindow]):
        def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Any) -> TriggerResult:
            return FIRE

        def on_processing_time(self, time: int, window: TimeWindow, ctx: Any) -> TriggerResult:
            return CONTINUE

        def on_event_time(self, time: int, window: TimeWindow, ctx: Any) -> TriggerResult:
            return CONTINUE

        def clear(self, window: TimeWindow, ctx: Any) -> None: ...

    assert not Mine().can_merge()
    with pytest.raises(UnsupportedError, match="Mine cannot be used with merging windows"):
        Mine().on_merge(WINDOW, FakeContext())


@pytest.mark.parametrize(
    "build",
    [lambda: CountTrigger(0), lambda: ContinuousEventTimeTrigger(0), lambda: ContinuousProcessingTimeTrigger.of("-1s")],
)
def test_impossible_settings_are_refused(build: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        build()
