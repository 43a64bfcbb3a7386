"""Lookups and their cache: what is asked for, how often, how many at a time, and what happens when an answer fails."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from flintstream.errors import JobError
from flintstream.model.functions_join import PairUp
from flintstream.model.functions_lookup import AsyncLookupFunction, LookupCache, LookupFunction, as_lookup
from flintstream.ops.batch import Batch, Values
from flintstream.ops.lookup import LookupJoin, LookupOperator
from flintstream.ops.lookup_cache import CachedRows
from flintstream.ops.operator import OperatorContext
from flintstream.ops.selectors import FunctionKey
from flintstream.state.backend import KeyedBackend


class Collected:
    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def emit(self, batch: Batch, tag: str = "") -> None:
        self.batches.append(batch)

    def rows(self) -> list[Any]:
        return [row for batch in self.batches for row in batch.values.rows()]


class Bench:
    """A lookup of records that are their own keys."""

    def __init__(self, lookup: Any, cache: LookupCache | None = None, how: str = "left", **settings: int) -> None:
        chosen = {"retries": 0, "retry_delay_ms": 0, "capacity": 1, **settings}
        key = FunctionKey(lambda value: value)
        self.operator = LookupOperator(LookupJoin(how, as_lookup(lookup), key, cache, **chosen, function=PairUp()))
        self.ctx = OperatorContext("uid", "Lookup Join", 0, 1, KeyedBackend(128, range(128)))
        self.operator.open(self.ctx)

    def ask(self, *keys: Any, now: int = 0) -> list[Any]:
        self.ctx.now = now
        out = Collected()
        numbers = np.arange(len(keys))
        self.operator.process(Batch(Values(list(keys)), numbers, [numbers] * 3), 0, out)
        return out.rows()

    def count(self, name: str) -> int:
        return self.ctx.counters.get(name, 0)


class Asked:
    """Answers with the key twice over, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.keys: list[Any] = []

    def __call__(self, key: Any) -> Any:
        self.keys.append(key)
        return None if key == "nobody" else [key, key]


def test_without_a_cache_every_record_asks():
    asked = Asked()
    bench = Bench(asked)
    assert bench.ask("a", "a", None, "nobody") == [("a", "a")] * 4 + [(None, None), ("nobody", None)]
    assert asked.keys == ["a", "a", "nobody"]
    assert (bench.count("lookup_misses"), bench.count("lookup_hits")) == (3, 0)


@pytest.mark.parametrize("cuts", [[6], [1, 1, 1, 1, 1, 1], [2, 4]])
def test_with_a_cache_a_key_is_asked_for_once_however_batches_are_cut(cuts):
    asked = Asked()
    bench = Bench(asked, LookupCache(100), how="inner")
    keys = ["a", "b", "a", "nobody", "b", "nobody"]
    for size in cuts:
        bench.ask(*keys[:size])
        keys = keys[size:]
    assert asked.keys == ["a", "b", "nobody"]
    assert (bench.count("lookup_misses"), bench.count("lookup_hits")) == (3, 3)


@pytest.mark.parametrize("cuts", [[3], [1, 1, 1]])
def test_that_a_key_has_no_rows_need_not_be_kept(cuts):
    bench = Bench(Asked(), LookupCache(100, cache_missing_key=False))
    for size in cuts:
        bench.ask(*["nobody"] * size)
    assert (bench.count("lookup_misses"), bench.count("lookup_hits")) == (3, 0)


def test_rows_expire_after_they_were_written():
    asked = Asked()
    bench = Bench(asked, LookupCache(expire_after_write="10ms"))
    for now in (0, 9, 10, 19):
        bench.ask("a", now=now)
    assert asked.keys == ["a", "a"]


def test_rows_expire_after_they_were_used():
    asked = Asked()
    bench = Bench(asked, LookupCache(expire_after_access="10ms"))
    for now in (0, 9, 18, 28):
        bench.ask("a", now=now)
    assert asked.keys == ["a", "a"]


def test_the_rows_used_least_recently_make_room():
    cache = CachedRows(LookupCache(3))
    cache.put("a", ("x", "y"), 0)
    cache.put("b", (), 1)
    assert cache.get("a", 2) == ("x", "y")
    cache.put("c", ("z",), 3)
    assert [cache.get(key, 4) for key in "abc"] == [("x", "y"), None, ("z",)]
    assert len(cache) == 3
    cache.put("d", ("1", "2", "3", "4"), 5)
    assert [cache.get(key, 6) for key in "acd"] == [None, None, None]
    assert len(cache) == 0


class Many(LookupFunction):
    def __init__(self, answers: int | None = None) -> None:
        self.calls: list[list[Any]] = []
        self._answers = answers

    def lookup(self, key: Any) -> Any:
        raise AssertionError

    def lookup_many(self, keys: Any) -> Any:
        self.calls.append(list(keys))
        return [twice(key) for key in keys][: self._answers]


def twice(key: Any) -> Any:
    yield key
    yield key


def test_all_keys_of_a_batch_are_asked_for_in_one_call():
    many = Many()
    assert Bench(many, LookupCache(10)).ask("a", "b", "a") == [("a", "a")] * 2 + [("b", "b")] * 2 + [("a", "a")] * 2
    assert many.calls == [["a", "b"]]


def test_an_answer_too_few_is_refused_and_not_tried_again():
    many = Many(answers=1)
    with pytest.raises(JobError, match="lookup_many gave 1 answers to 2 keys; operator 'Lookup Join'; return one for"):
        Bench(many, retries=3).ask("a", "b")
    assert len(many.calls) == 1


class Flaky:
    """Fails so many times before it answers."""

    def __init__(self, failures: int) -> None:
        self.left = failures

    def __call__(self, key: Any) -> Any:
        if self.left:
            self.left -= 1
            raise ConnectionError
        return key

    async def later(self, key: Any) -> Any:
        return self(key)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_lookup_that_fails_is_tried_again_so_often_and_no_more(is_async):
    flaky = Flaky(2)
    bench = Bench(flaky.later if is_async else flaky, retries=2)
    assert bench.ask("a") == [("a", "a")]
    assert bench.count("lookup_retries") == 2
    flaky.left = 3
    with pytest.raises(ConnectionError):
        bench.ask("b")


class Crowd(AsyncLookupFunction):
    """Waits until as many lookups are under way as there may be; if there could be more, they would be counted."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self.now = self.most = 0

    async def lookup(self, key: Any) -> Any:
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(100):
            await asyncio.sleep(0)
        self.now -= 1
        return key


def test_so_many_async_lookups_are_under_way_at_once_as_there_is_capacity_for():
    crowd = Crowd(4)
    assert Bench(crowd, capacity=4).ask(*range(20)) == [(n, n) for n in range(20)]
    assert crowd.most == 4


def test_ordinary_lookups_run_in_so_many_threads():
    meeting = threading.Barrier(3, timeout=60)

    def lookup(key: Any) -> Any:
        meeting.wait()
        return key

    bench = Bench(lookup, capacity=3)
    assert bench.ask(1, 2, 3) == [(1, 1), (2, 2), (3, 3)]
    bench.operator.close()


class Opened(LookupFunction):
    def open(self, runtime_context: Any) -> None:
        self.name = runtime_context.get_task_name()

    def close(self) -> None:
        self.name = "closed"

    def lookup(self, key: Any) -> Any:
        return self.name


def test_the_function_is_opened_and_closed():
    opened = Opened()
    bench = Bench(opened)
    assert bench.ask("a") == [("a", "Lookup Join")]
    bench.operator.close()
    assert opened.name == "closed"


def test_an_async_lookup_works_in_a_program_that_has_an_event_loop():
    async def program() -> list[Any]:
        bench = Bench(Crowd(1), capacity=2)
        found = bench.ask(1, 2)
        bench.operator.close()
        return found

    assert asyncio.run(program()) == [(1, 1), (2, 2)]


def test_when_one_async_lookup_fails_the_others_are_cancelled():
    ended: list[str] = []

    async def lookup(key: str) -> str:
        if key == "bad":
            raise ConnectionError
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(key)
        return key

    bench = Bench(lookup, capacity=3)
    with pytest.raises(ConnectionError):
        bench.ask("a", "b", "bad")
    bench.operator.close()
    assert sorted(ended) == ["a", "b"]
