"""Bad records leave no trace: results are those of the good ones alone, however a run is cut, spread, interrupted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import (
    DataStream,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ValueStateDescriptor,
)
from tests.laws.runs import Input, run
from tests.laws.test_batching_law import LONG_SPLIT, PLAIN, law, local_env, numbered, ways

pytestmark = pytest.mark.timeout(900)
BAD = OutputTag("bad")


class Remembers(KeyedProcessFunction):
    """Changes state and sets timers, and fails behind that at every record that is poison, and at some timers."""

    def __init__(self, poison: frozenset[int]) -> None:
        self._poison = poison

    def open(self, runtime_context: Any) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen"))
        self._list = runtime_context.get_list_state(ListStateDescriptor("list"))
        self._map = runtime_context.get_map_state(MapStateDescriptor("map"))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        n = value["n"]
        seen = self._seen.value() or []
        seen.append(n)
        self._seen.update(seen)
        self._list.add(n)
        self._map.put(n % 3, n)
        ctx.timer_service().register_event_time_timer(value["ts"] + 7)
        if n % 4 == 0:
            self._list.clear()
            ctx.timer_service().delete_event_time_timer(value["ts"] + 6)
        yield value["key"], n, list(seen), list(self._list.get()), sorted(self._map.items())
        if n in self._poison:
            raise ValueError(n)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        self._seen.clear()
        yield ctx.get_current_key(), timestamp, sorted(self._map.items())
        if timestamp % 5 == 0:
            raise ValueError(timestamp)


def program(poison: frozenset[int]) -> Any:
    def poisoned(left: DataStream, right: DataStream) -> dict[str, DataStream]:
        stateful = left.key_by("key").process(Remembers(poison)).uid("remembers").on_error(BAD)
        letters = stateful.get_side_output(BAD).map(lambda each: (each.key, each.timestamp, each.record, each.message))
        return {"main": stateful, "bad": letters.uid("letters")}

    return poisoned


@law(15)
@given(split=LONG_SPLIT, poison=st.frozensets(st.integers(0, 30)), bound=st.integers(0, 12), way=ways())
def test_where_a_bad_record_was_cut_off_does_not_matter(split, poison, bound, way):
    records = Input(numbered([split]), bound=bound)
    assert run(program(poison), records, way, local_env) == run(program(poison), records, PLAIN, local_env)


class Good(Remembers):
    """The same on input from which bad records were taken out; the watermark still sees them."""

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return () if value["n"] in self._poison else super().process_element(value, ctx)


def only_good(poison: frozenset[int]) -> Any:
    def poisoned(left: DataStream, right: DataStream) -> dict[str, DataStream]:
        stateful = left.key_by("key").process(Good(poison)).uid("remembers").on_error("skip")
        return {"main": stateful}

    return poisoned


@law(15)
@given(split=LONG_SPLIT, poison=st.frozensets(st.integers(0, 30)), way=ways())
def test_results_are_those_of_the_good_records_alone(split, poison, way):
    records = Input(numbered([split]))
    found = run(program(poison), records, way, local_env)
    assert found["poisoned main"] == run(only_good(poison), records, PLAIN, local_env)["poisoned main"]
    sent = [letter for letter in found["poisoned bad"] if letter[2] is not None]
    assert sorted(letter[2]["n"] for letter in sent) == sorted(poison & {each["n"] for each in records.left[0]})
