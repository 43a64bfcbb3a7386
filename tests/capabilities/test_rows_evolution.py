"""Rows 58 and 82: the class of what is in state changes, and a new program goes on from the old one's checkpoint."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from flintstream import (
    CollectSink,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
    evolves,
)
from flintstream.errors import IncompatibleStateError
from tests.capabilities.support import Lists, run


def account(version: str) -> Any:
    """Return the class as it is in some version of the program; like one of a script, it is not importable."""
    if version == "first":

        @dataclasses.dataclass
        class Account:
            owner: str
            cents: int
            limit: int = 10

    elif version == "next":

        @evolves(renamed={"cents": "balance"})
        @dataclasses.dataclass
        class Account:
            balance: float
            owner: str
            tags: list[str] = dataclasses.field(default_factory=list)

    elif version == "no default":

        @dataclasses.dataclass
        class Account:
            owner: str
            cents: int
            currency: str

    else:

        @dataclasses.dataclass
        class Account:
            owner: str
            cents: str

    return Account


class Bank(KeyedProcessFunction):
    """Keeps accounts in a value, in a list and in a map; tells what it finds, and adds one made with `new`."""

    def __init__(self, cls: Any, new: Any) -> None:
        self._cls, self._new = cls, new

    def open(self, runtime_context):
        self.one = runtime_context.get_state(ValueStateDescriptor("account"))
        self.several = runtime_context.get_list_state(ListStateDescriptor("several"))
        self.by_name = runtime_context.get_map_state(MapStateDescriptor("by name"))

    def process_element(self, value, ctx):
        found = [self.one.value(), *self.several.get(), *self.by_name.values()]
        assert all(each is None or type(each) is self._cls for each in found)
        yield value, [each if each is None else dataclasses.asdict(each) for each in found]
        made = self._cls(*self._new)
        self.one.update(made)
        self.several.add(made)
        self.by_name.put("a", [made])
        self.by_name.put("a", made)


def declare(version: str, *new: Any) -> Any:
    def program(env: Any, sink: CollectSink) -> None:
        function = Bank(account(version), new)
        keyed = env.from_source(Lists([1, 2, 1, 2])).uid("in").key_by(lambda n: n)
        keyed.process(function).uid("bank").sink_to(sink).uid("out")

    return program


def restart(new_env: Any, folder: Path, program: Any, entries: int = 1_000_000) -> list[Any]:
    """Run the first version for half of the input, then another one; return what that emits."""
    sink = CollectSink()
    settings = {"flintstream.state.entries-in-memory": str(entries)}
    named: dict[str, Any] = {"max_records": 2, "checkpoint_dir": folder, "settings": settings}
    assert not run(new_env(**named), sink, declare("first", "Ann", 7), stop_after=1)
    assert sorted(sink.results) == [(1, [None]), (2, [None])]
    assert run(new_env(**named), sink, program)
    return sorted(sink.results[2:])


@pytest.mark.row(58, 82)
@pytest.mark.parametrize("entries", [1_000_000, 1])
def test_a_class_in_state_gains_loses_renames_and_widens_fields(new_env, tmp_path, entries):
    found = restart(new_env, tmp_path, declare("next", 1.5, "Bob"), entries)
    account = {"balance": 7.0, "owner": "Ann", "tags": []}
    assert found == [(1, [account] * 3), (2, [account] * 3)]
    assert type(found[0][1][0]["balance"]) is float


REFUSED = {
    "no default": "Account has a field 'currency', which its objects did not have, and no default for it; ",
    "another type": "field 'cents' of .*Account was int and is str; ",
}


def check_refused(new_env: Any, folder: Path, version: str, entries: int) -> None:
    message = f"state 'bank/.*' cannot be restored: .*{REFUSED[version]}.*test_rows_evolution.py:[0-9]+"
    with pytest.raises(IncompatibleStateError, match=message):
        restart(new_env, folder, declare(version, "Ann", "7"), entries)


@pytest.mark.row(82)
def test_an_impossible_change_is_refused_with_the_field_named(new_env, tmp_path):
    check_refused(new_env, tmp_path, "no default", 1_000_000)


@pytest.mark.row(82)
@pytest.mark.parametrize(("version", "entries"), [("another type", 1_000_000), ("another type", 1), ("no default", 1)])
def test_so_are_others_in_memory_and_on_disk(make_env, tmp_path, version, entries):
    check_refused(lambda **named: make_env("local", **named), tmp_path, version, entries)


class Typed(KeyedProcessFunction):
    """Counts in a state of a declared type, which may have a time to live."""

    def __init__(self, type_info: Any, ttl: str | None) -> None:
        self._type_info, self._ttl = type_info, ttl

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("count", self._type_info)
        if self._ttl is not None:
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(self._ttl).use_event_time().build())
        self.count = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield self.count.value()


def counted(type_info: Any, ttl: str | None = None) -> Any:
    def program(env: Any, sink: CollectSink) -> None:
        keyed = env.from_source(Lists([1, 1, 1])).uid("in").key_by(lambda n: n)
        keyed.process(Typed(type_info, ttl)).uid("count").sink_to(sink).uid("out")

    return program


@pytest.mark.row(82)
@pytest.mark.parametrize(
    ("first", "then"),
    [(Types.INT(), Types.LONG()), (Types.INT(), Types.DOUBLE()), (None, Types.INT()), (Types.INT(), None)],
)
def test_a_declared_type_may_become_wider(make_env, tmp_path, first, then):
    sink = CollectSink()
    assert not run(make_env("local", max_records=2, checkpoint_dir=tmp_path), sink, counted(first), stop_after=1)
    assert run(make_env("local", max_records=2, checkpoint_dir=tmp_path), sink, counted(then))
    assert sink.results == [1, 2, 3]


@pytest.mark.row(82)
def test_a_declared_type_that_does_not_fit_is_refused(make_env, tmp_path):
    sink = CollectSink()
    assert not run(make_env("local", max_records=2, checkpoint_dir=tmp_path), sink, counted(Types.INT()), stop_after=1)
    message = r"state 'count' was restored with values like 2, but its declared type is now STRING; .*:[0-9]+"
    with pytest.raises(IncompatibleStateError, match=message):
        run(make_env("local", max_records=2, checkpoint_dir=tmp_path), sink, counted(Types.STRING()))


@pytest.mark.row(59)
@pytest.mark.parametrize(("first", "then"), [(None, "1h"), ("1h", None), ("1h", "2h")])
def test_a_time_to_live_may_come_and_go(make_env, tmp_path, first, then):
    sink = CollectSink()
    for ttl, stop in ((first, 1), (then, 1), (first, None)):
        env = make_env("local", max_records=1, checkpoint_dir=tmp_path)
        assert run(env, sink, counted(None, ttl), stop_after=stop) == (stop is None)
    assert sink.results == [1, 2, 3]
