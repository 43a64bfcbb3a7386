"""Row 59: summaries as state stay small, and say the same however the input is cut, spread and interrupted."""

from __future__ import annotations

from collections import Counter

import pytest

from flintstream import (
    CollectSink,
    DistinctCountStateDescriptor,
    KeyedProcessFunction,
    ProcessWindowFunction,
    QuantilesStateDescriptor,
    ReservoirStateDescriptor,
    TopKStateDescriptor,
    Types,
    bounded,
    session,
    tumbling,
)
from flintstream.errors import UnsupportedError, UserFunctionError
from tests.capabilities.support import Epochs, Lists, bytes_under, collect, run_with_stops

pytest.importorskip("datasketches")

EVENTS, KEYS = 40_000, 4


class Summaries(KeyedProcessFunction):
    """Adds every event to four summaries, and tells them at the last one."""

    def open(self, runtime_context):
        self.sample = runtime_context.get_summary_state(ReservoirStateDescriptor("sample", 50))
        self.users = runtime_context.get_summary_state(DistinctCountStateDescriptor("users"))
        self.times = runtime_context.get_summary_state(QuantilesStateDescriptor("times", (0.5, 0.99)))
        self.pages = runtime_context.get_summary_state(TopKStateDescriptor("pages", 3))

    def process_element(self, value, ctx):
        number, user, time, page = value
        self.sample.add(number)
        self.users.add(user)
        self.times.add(time)
        self.pages.add(page)
        if self.pages.count() == EVENTS // KEYS:
            yield ctx.get_current_key(), self.sample.get(), self.users.get(), self.times.get(), self.pages.get()


def event(number: int) -> tuple[int, str, float, str]:
    """A user of 2,000, a time up to 10,007, and a page: every third time the same."""
    user = f"user {number * 7919 % 2000}"
    return number, user, float(number * 104_729 % 10_007), "home" if number % 3 == 0 else f"page {number % 1009}"


def declare(env, sink) -> None:
    events = env.from_source(Lists(range(EVENTS))).map(event)
    events.key_by(lambda e: e[0] % KEYS).process(Summaries()).uid("summaries").sink_to(sink)


@pytest.mark.row(59)
def test_summaries_are_near_the_truth_and_small(new_env, tmp_path):
    env = new_env(max_records=10_000, checkpoint_dir=tmp_path)
    epochs, sink = Epochs(), CollectSink()
    env.add_listener(epochs)
    declare(env, sink)
    env.execute("job")
    assert [key for key, *_ in sorted(sink.results)] == [0, 1, 2, 3]
    for key, sample, users, times, pages in sink.results:
        mine = [event(number) for number in range(key, EVENTS, KEYS)]
        assert len(set(sample)) == 50
        assert all(number % KEYS == key for number in sample)
        assert abs(users - len({user for _, user, _, _ in mine})) < 0.08 * 2000
        ordered = sorted(time for _, _, time, _ in mine)
        ranks = [sum(each < time for each in ordered) / len(ordered) for time in times]
        assert abs(ranks[0] - 0.5) < 0.02
        assert abs(ranks[1] - 0.99) < 0.003
        assert pages[0][0] == "home"
        exact = Counter(page for *_, page in mine)["home"]
        assert exact <= pages[0][1] <= exact + 2 * len(mine) / 48
    # The state-size metric of the operator, and what a checkpoint takes: four summaries of four keys.
    assert epochs.manifests[-1].entries == {"summaries": 4 * KEYS}
    state = [size for name, size in bytes_under(tmp_path).items() if name.startswith(("epochs/", "state/"))]
    assert state
    assert sum(state) / len(epochs) < KEYS * 16_000


@pytest.mark.row(59)
def test_summaries_do_not_depend_on_cuts_restarts_and_parallelism(new_env, make_env, tmp_path):
    plain = CollectSink()
    env = make_env("local", 1)
    declare(env, plain)
    env.execute()
    lives = iter([(1, 9_000), (3, 11_000), (2, 17_000)])

    def next_env():
        parallelism, max_records = next(lives)
        return new_env(parallelism, max_records=max_records, checkpoint_dir=tmp_path)

    assert sorted(run_with_stops(next_env, declare, (1, 1))) == sorted(plain.results)


class Bytes(KeyedProcessFunction):
    """Gives a summary's bytes for every record."""

    def open(self, runtime_context):
        self.times = runtime_context.get_summary_state(QuantilesStateDescriptor("times", compression=20))
        self.sample = runtime_context.get_summary_state(ReservoirStateDescriptor("sample", 3))

    def process_element(self, value, ctx):
        self.times.add(value)
        self.sample.add(value)
        yield value, self.times.to_bytes(), self.sample.to_bytes()
        if self.times.count() == 40:
            self.times.clear()


def test_summaries_that_do_not_fit_into_memory_say_the_same(make_env, tmp_path):
    results = []
    for entries, stops in (("1000000", ()), ("7", (3, 2))):
        settings = {"flintstream.state.entries-in-memory": entries}

        def next_env(settings=settings, entries=entries):
            return make_env("local", 2, max_records=300, checkpoint_dir=tmp_path / entries, settings=settings)

        def program(env, sink):
            env.from_source(Lists(range(3000))).key_by(lambda n: n % 60).process(Bytes()).uid("bytes").sink_to(sink)

        results.append(sorted(run_with_stops(next_env, program, stops)))
    assert len(results[0]) == 3000
    assert results[0] == results[1]


class DistinctPerWindow(ProcessWindowFunction):
    """Adds what a window has to a summary of the window and to one of the key."""

    def process(self, key, context, elements):
        mine = context.window_state().get_summary_state(DistinctCountStateDescriptor("mine"))
        every = context.global_state().get_summary_state(DistinctCountStateDescriptor("every"))
        for element in elements:
            mine.add(element["user"])
            every.add(element["user"])
        yield context.window().start, mine.get(), every.get()

    def clear(self, context):
        context.window_state().get_summary_state(DistinctCountStateDescriptor("mine")).clear()


def windows(env):
    clicks = [{"key": 1, "t": t, "user": t % 7} for t in range(0, 20)]
    return env.from_collection(clicks).assign_timestamps_and_watermarks(bounded("0ms", on="t")).key_by("key")


@pytest.mark.row(59)
def test_windows_have_summaries_of_their_own_and_of_their_key(env):
    epochs = Epochs()
    env.add_listener(epochs)
    results = collect(windows(env).window(tumbling("5ms")).process(DistinctPerWindow()).uid("windows"))
    assert sorted(results) == [(0, 5, 5), (5, 5, 7), (10, 5, 7), (15, 5, 7)]
    assert epochs.manifests[-1].entries == {"windows": 1}


def test_windows_that_merge_have_no_summaries_of_their_own(make_env):
    stream = windows(make_env("local")).window(session("5ms")).process(DistinctPerWindow())
    with pytest.raises(UnsupportedError, match=r"'mine' was asked for of a window that can merge"):
        collect(stream)


class Part(KeyedProcessFunction):
    """Sends its summary on with every hundredth record."""

    def open(self, runtime_context):
        self.users = runtime_context.get_summary_state(DistinctCountStateDescriptor("users", 0.01))

    def process_element(self, value, ctx):
        self.users.add(value)
        if self.users.count() % 100 == 0:
            yield self.users.to_bytes()
            self.users.clear()


class Whole(KeyedProcessFunction):
    """Merges summaries that others have made."""

    def open(self, runtime_context):
        self.users = runtime_context.get_summary_state(DistinctCountStateDescriptor("all", 0.01))

    def process_element(self, value, ctx):
        self.users.merge(value)
        yield self.users.count(), self.users.get()


@pytest.mark.row(59)
def test_summaries_are_sent_on_and_merged(env):
    """Two steps: 1,000 values by 10 keys, then all of them."""
    parts = env.from_collection(range(1000)).key_by(lambda n: n % 10).process(Part(), Types.PICKLED_BYTE_ARRAY())
    results = collect(parts.key_by(lambda _: 0).process(Whole()))
    assert len(results) == 10
    assert results[-1][0] == 1000
    assert abs(results[-1][1] - 1000) < 40


def test_a_value_that_cannot_be_added_is_an_error_at_the_users_line(make_env):
    class Bad(KeyedProcessFunction):
        def open(self, runtime_context):
            self.times = runtime_context.get_summary_state(QuantilesStateDescriptor("times"))

        def process_element(self, value, ctx):
            self.times.add(value)
            yield 1

    with pytest.raises(UserFunctionError, match=r"could not convert string to float.*test_rows_summaries\.py"):
        collect(make_env("local").from_collection(["x"]).key_by(lambda n: n).process(Bad()))
