"""Garbage in a worker that holds state: state is not gone through after every task, and garbage goes all the same."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from flintstream.spark import collecting
from flintstream.spark.collecting import Collector


class Node:
    """An object that can be in a cycle."""

    other: Node | None = None


def cycle() -> weakref.ref[Node]:
    first, second = Node(), Node()
    first.other, second.other = second, first
    return weakref.ref(first)


def held_cycle() -> tuple[weakref.ref[Node], list[Node]]:
    """Return a cycle that is not garbage until the list is cleared."""
    lost = cycle()
    node = lost()
    assert node is not None
    return lost, [node]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def test_state_is_out_of_the_collectors_sight_after_a_task() -> None:
    with Collector().at_rest():
        assert not gc.isenabled()
        state = [[number] for number in range(1000)]
    assert gc.isenabled()
    seen = set(map(id, gc.get_objects()))
    assert not seen & set(map(id, state))


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with Collector().at_rest():
        pass
    assert not gc.isenabled()


def test_garbage_that_a_task_leaves_goes_with_it() -> None:
    with Collector().at_rest():
        lost = cycle()
        assert lost() is not None
    assert lost() is None


def test_garbage_of_earlier_tasks_goes_once_there_is_much_that_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "LEAST_NEW", 1000)
    collector = Collector()
    with collector.at_rest():
        lost, held = held_cycle()
    with collector.at_rest():
        held.clear()
        state = [[number] for number in range(100)]
    assert lost() is not None
    with collector.at_rest():
        state += [[number] for number in range(2000)]
    assert lost() is None
    assert len(state) == 2100


def test_garbage_goes_after_many_tasks_however_little_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "MOST_TASKS", 4)
    monkeypatch.setattr(collecting, "LEAST_NEW", 1 << 60)
    collector = Collector()
    with collector.at_rest():
        lost, held = held_cycle()
    held.clear()
    for _ in range(2):
        with collector.at_rest():
            pass
    assert lost() is not None
    with collector.at_rest():
        pass
    assert lost() is None
