"""Deadlines, and state that gets a time to live or loses it."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream.errors import DefinitionError, UnsupportedError
from flintstream.model.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flintstream.model.state_ttl import StateTtlConfig
from flintstream.ops.keyed_store import KeyedStore
from flintstream.ops.operator import OperatorContext
from flintstream.state.backend import KeyedBackend
from flintstream.state.codec import decode, encode
from flintstream.state.stamped import Stamped
from flintstream.state.ttl import Deadlines

GROUPS = 8


class Clock:
    """Event time, as told."""

    def __init__(self) -> None:
        self.time = 0

    def now(self) -> int:
        return self.time

    def stamp(self) -> int:
        return self.time


class Program:
    """The state of one operator in one life of a program."""

    def __init__(self, restored: dict[str, Any] | None = None, watermark: int = 0, ttl: int | None = None) -> None:
        self.clock = Clock()
        self.clock.time = watermark
        self.backend = KeyedBackend(GROUPS, range(GROUPS))
        self.backend.apply(restored or {})
        self.ctx = OperatorContext("op", "op", 0, 1, self.backend, watermark=watermark, moment=self.clock)
        self.store = KeyedStore(self.ctx, keyed=True)
        self._ttl = ttl

    def of(self, descriptor: StateDescriptor) -> StateDescriptor:
        if self._ttl is not None:
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(self._ttl).use_event_time().build())
        return descriptor

    def states(self) -> tuple[Any, Any, Any]:
        value, several, by_key = ValueStateDescriptor("v"), ListStateDescriptor("l"), MapStateDescriptor("m")
        self.backend.key = "k"
        return (
            self.store.get_state(self.of(value)),
            self.store.get_list_state(self.of(several)),
            self.store.get_map_state(self.of(by_key)),
        )

    def reach(self, time: int) -> None:
        """Let event time advance, and an epoch end."""
        self.clock.time = time
        for sweep in self.ctx.sweeps.values():
            sweep(time)

    def entries(self) -> int:
        return sum(self.backend.entries().values())


def fill(program: Program) -> None:
    value, several, by_key = program.states()
    value.update([1, 2])
    several.update(["a", "b"])
    by_key.put("x", None)
    by_key.put("y", 2)


def contents(program: Program) -> tuple[Any, ...]:
    value, several, by_key = program.states()
    return value.value(), several.get(), sorted(by_key.items())


FULL = ([1, 2], ["a", "b"], [("x", None), ("y", 2)])
EMPTY = (None, [], [])


def test_state_that_gets_a_time_to_live_lives_from_the_restart():
    old = Program()
    fill(old)
    new = Program(old.backend.snapshot(), watermark=100, ttl=10)
    assert contents(new) == FULL
    new.reach(109)
    assert contents(new) == FULL
    new.reach(110)
    assert contents(new) == EMPTY
    assert new.entries() == 0


def test_state_that_loses_its_time_to_live_stays():
    old = Program(ttl=10)
    fill(old)
    new = Program(old.backend.snapshot(), watermark=5)
    assert contents(new) == FULL
    new.reach(1000)
    assert contents(new) == FULL
    assert new.entries() == 4
    value, several, by_key = new.states()
    for state in (value, several, by_key):
        state.clear()
    assert new.entries() == 0


@pytest.mark.parametrize(("ttl", "end"), [(20, 20), (5, 5)])
def test_another_time_to_live_holds_for_old_entries_too(ttl, end):
    old = Program(ttl=10)
    fill(old)
    new = Program(old.backend.snapshot(), watermark=0, ttl=ttl)
    new.states()
    new.reach(end - 1)
    assert contents(new) == FULL
    new.reach(end)
    assert contents(new) == EMPTY
    new.reach(20)
    assert new.entries() == 0


def test_what_is_restored_expires_when_it_would_have():
    old = Program(ttl=10)
    fill(old)
    new = Program(old.backend.snapshot(), watermark=9, ttl=10)
    assert contents(new) == FULL
    new.reach(10)
    assert new.entries() == 0


def test_an_entry_is_written_and_looked_at_only_when_it_was_touched():
    program = Program(ttl=10)
    fill(program)
    assert set(program.backend.delta()) == {f"op/{name}" for name in ("v", "l", "m")} | {
        f"op/#ttl:{name}-timers" for name in ("v", "l", "m")
    }
    program.reach(5)
    contents(program)
    assert program.backend.delta() == {}
    program.states()[0].update(3)
    assert set(program.backend.delta()) == {"op/v"}


def test_one_state_has_one_time_to_live():
    program = Program(ttl=10)
    program.states()
    with pytest.raises(
        DefinitionError, match="state 'v' was asked for twice, with different times to live; operator 'op'"
    ):
        program.store.get_state(ValueStateDescriptor("v"))
    assert program.store.get_state(program.of(ValueStateDescriptor("v"))) is program.states()[0]


def test_event_time_is_refused_where_it_is_not_known():
    program = Program(ttl=10)
    program.ctx.moment = None
    with pytest.raises(UnsupportedError, match="state 'v' expires by event time, which this operator cannot tell"):
        program.states()
    config = StateTtlConfig.new_builder(10).build()
    by_clock = ReducingStateDescriptor("r", max)
    by_clock.enable_time_to_live(config)
    program.backend.key = "k"
    state = program.store.get_reducing_state(by_clock)
    state.add(1)
    program.ctx.now = 9
    assert state.get() == 1
    program.ctx.now = 10
    assert state.get() is None


def test_deadlines_come_in_time_and_once():
    deadlines = Deadlines("t")
    for key, time in [("a", 5), ("b", 3), ("c", 9), ("b", 7), ("a", 4)]:
        deadlines.add(key, time)
    assert sorted(deadlines.take_until(4)) == ["a", "b"]
    assert list(deadlines.take_until(8)) == []
    deadlines.drop("c")
    assert list(deadlines.take_until(100)) == []
    assert len(deadlines) == 0


def test_a_key_that_comes_and_goes_takes_no_room():
    deadlines = Deadlines("t")
    deadlines.add("stays", 10**9)
    for n in range(20_000):
        deadlines.add("k", 1000 + n)
        deadlines.drop("k")
    assert deadlines._queued < 2000
    assert list(deadlines.take_until(10**9)) == ["stays"]


def test_deadlines_are_restored():
    deadlines, restored = Deadlines("t"), Deadlines("t")
    deadlines.add("a", 5)
    deadlines.add("b", 7)
    batch = deadlines.delta(GROUPS)
    assert batch is not None
    restored.apply(batch)
    assert list(restored.take_until(5)) == ["a"]
    gone = restored.delta(GROUPS)
    assert gone is not None
    deadlines.mark_clean()
    deadlines.apply(gone)
    assert list(deadlines.take_until(9)) == ["b"]


def test_stamped_values_are_columns_and_say_what_they_are():
    values = [Stamped((1, 10)), Stamped((None, 20)), None]
    array, kind = encode(values)
    assert kind == ["stamped", ["int", "int"]]
    back = decode(array, kind)
    assert back == values
    assert [type(each) for each in back] == [Stamped, Stamped, type(None)]
