"""The law checker: pipelines that keep the batching law pass, and each way to break it is told in plain words."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ValueStateDescriptor,
    bounded,
    count,
    session,
    tumbling,
    vectorized,
)
from flintstream.errors import InvalidArgumentError, LawError, UserFunctionError
from flintstream.testing import check_batching

CLICKS = [{"user": f"u{n % 3}", "ts": n * 700 + (n * 37) % 900} for n in range(20)]
TIMED = bounded("1s", on="ts")


def windows(clicks):
    return clicks.key_by("user").window(tumbling("5s")).agg(n=count())


def test_a_pipeline_that_keeps_the_law_is_played_in_many_ways():
    assert check_batching(windows, CLICKS, watermark=TIMED, ways=4) == 8 + 4
    assert check_batching(windows, CLICKS[:8], watermark=TIMED, ways=1, parallelism=[2]) == 6 + 1


def test_all_outputs_are_compared():
    def sessions(clicks):
        return {"sessions": clicks.key_by("user").window(session("2s")).agg(n=count()), "users": clicks.map(user_of)}

    check_batching(sessions, CLICKS, watermark=TIMED, ways=2)


def user_of(click):
    return click["user"]


class CountsInAnAttribute(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = 0

    def process_element(self, value, ctx):
        self.seen += 1
        yield value["user"], self.seen


def test_memory_in_an_attribute_is_found():
    with pytest.raises(LawError, match=r"with (a restart|parallelism).* gives .* where all at once it gives") as caught:
        check_batching(lambda clicks: clicks.key_by("user").process(CountsInAnAttribute()), CLICKS)
    assert "test_batching.py:" in str(caught.value)


class CountsAll(MapFunction):
    def open(self, runtime_context):
        self.seen = 0

    def map(self, value):
        self.seen += 1
        return self.seen


def test_memory_of_a_subtask_is_found_also_without_parallelism():
    with pytest.raises(
        LawError, match="one record at a time, with a restart after each, output 'main' gives 1 as result 1"
    ):
        check_batching(lambda clicks: clicks.map(CountsAll()), CLICKS, parallelism=[1])


@vectorized("arrow")
def number_of_records(batch: Any) -> Any:
    import pyarrow as pa

    return pa.array([len(batch)] * len(batch))


def test_what_depends_on_the_batch_is_found():
    with pytest.raises(LawError, match="one record at a time"):
        check_batching(lambda numbers: numbers.map(number_of_records), list(range(20)), parallelism=[1])


class FailsLater(KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("n"))
        self.here = None

    def process_element(self, value, ctx):
        if self.state.value() is not None and self.here is None:
            raise RuntimeError("it was not prepared for this")
        self.here = 1
        self.state.update(1)
        yield 1


def test_a_failure_in_one_way_only_is_a_difference():
    with pytest.raises(LawError, match=r"the pipeline fails, and all at once it does not: .*not prepared"):
        check_batching(lambda clicks: clicks.key_by("user").process(FailsLater()), CLICKS[:1] * 5)


def test_a_failure_in_all_ways_is_the_pipelines_own():
    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        check_batching(lambda numbers: numbers.map(lambda n: 1 / n), [0])


class Latest(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.price = runtime_context.get_state(ValueStateDescriptor("price"))

    def process_element1(self, value, ctx):
        yield value, self.price.value()

    def process_element2(self, value, ctx):
        self.price.update(value["ts"])
        return ()


def latest(orders, prices):
    return orders.key_by("user").connect(prices.key_by("user")).process(Latest())


def test_several_inputs_are_merged_in_one_order():
    check_batching(latest, {"orders": CLICKS, "prices": CLICKS[::2]}, watermark=TIMED, ways=5)


class Sloppy(Latest):
    def process_element2(self, value, ctx):
        self.here = value["ts"]
        return ()

    def process_element1(self, value, ctx):
        yield value, getattr(self, "here", None)


def test_several_inputs_show_what_is_wrong_too():
    def sloppy(orders, prices):
        return orders.key_by("user").connect(prices.key_by("user")).process(Sloppy())

    with pytest.raises(LawError):
        check_batching(sloppy, {"orders": CLICKS, "prices": CLICKS[::2]}, watermark=TIMED)


def test_another_seed_plays_other_ways():
    def starts(seed: int) -> int:
        """Return how often the pipeline is started, which depends on what happens in the random ways."""
        count = 0

        def pipeline(numbers):
            nonlocal count
            count += 1
            return numbers.map(str)

        check_batching(pipeline, list(range(6)), parallelism=[1], ways=2, seed=seed)
        return count

    counts = [starts(seed) for seed in (0, 0, 1, 2, 3)]
    assert counts[0] == counts[1]
    assert len(set(counts)) > 1


def test_many_records_are_not_played_one_by_one():
    with pytest.raises(LawError, match="5 records at a time, with a restart after each, output 'main' gives 1 as"):
        check_batching(lambda numbers: numbers.map(CountsAll()), list(range(100)), parallelism=[1])


def test_records_that_give_no_result_prove_nothing():
    with pytest.raises(InvalidArgumentError, match="gives no result for these records"):
        check_batching(lambda numbers: numbers.filter(lambda n: n > 5), [1, 2])


def test_inputs_must_be_those_of_the_pipeline():
    with pytest.raises(InvalidArgumentError, match="the inputs orders, prices, and records are given for orders"):
        check_batching(latest, CLICKS)
