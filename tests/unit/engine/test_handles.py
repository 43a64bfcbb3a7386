"""Which files a task is given, and what the manifest lists after an epoch."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream.engine.epoch import EVERY_PARTITION, EpochContext, NewState, StateFile, StateHandle, TaskReport
from flintstream.engine.handles import handles_of, name_of, next_state, places_of
from flintstream.engine.manifest import Manifest
from tests.unit.graphs import Sketch, by_key

LAYOUT = {"Count-1": [1, 2]}


def plan_of() -> Any:
    sketch = Sketch()
    sketch.sink(sketch.function(by_key(sketch.source()), shape="keyed_process", parallelism=2))
    return sketch.plan()


def file(name: str) -> StateFile:
    return StateFile(name, 0, 1, 0, 1, 1, 1, True)


def handle(name: str) -> StateHandle:
    return StateHandle((file(name),), ((1, "token"),))


def manifest(**state: StateHandle) -> Manifest:
    names = {"own0": "1/0", "own1": "1/1", "shared": "1/all"}
    return Manifest("job", "i", 1, 0, layout=LAYOUT, state={names[key]: value for key, value in state.items()})


def test_every_partition_has_a_place_and_so_has_every_level() -> None:
    assert places_of(plan_of()) == [(1, 0), (1, 1), (1, EVERY_PARTITION)]
    assert name_of((1, 1)) == "1/1" and name_of((1, EVERY_PARTITION)) == "1/all"


def test_at_the_beginning_there_is_nothing() -> None:
    assert set(handles_of(plan_of(), None, LAYOUT).values()) == {(StateHandle(),)}


def test_in_the_same_layout_each_place_has_its_own() -> None:
    kept = manifest(own0=handle("a"), own1=handle("b"), shared=handle("c"))
    found = handles_of(plan_of(), kept, LAYOUT)
    assert found == {(1, 0): (handle("a"),), (1, 1): (handle("b"),), (1, EVERY_PARTITION): (handle("c"),)}


def test_what_was_never_written_is_empty() -> None:
    assert handles_of(plan_of(), manifest(own0=handle("a")), LAYOUT)[1, EVERY_PARTITION] == (StateHandle(),)


@pytest.mark.parametrize("shared", [None, handle("c")])
def test_in_another_layout_all_take_from_all_files_and_shared_ones_are_apart(shared: StateHandle | None) -> None:
    """Never from exactly one handle: that would say that the place is the same as before."""
    kept = manifest(own0=handle("a"), **({} if shared is None else {"shared": shared}))
    found = handles_of(plan_of(), kept, {"Count-1": [1, 3]})
    assert found[1, 0] == found[1, 1] == (handle("a"), StateHandle())
    assert found[1, EVERY_PARTITION] == (() if shared is None else (shared, StateHandle()))


def reports(shared: NewState | None) -> list[TaskReport]:
    first, second = (TaskReport(1, partition, 0, f"t{partition}") for partition in range(2))
    first.shared = shared
    return [TaskReport(0, 0, 0, "source"), first, second]


def context(handles: Any) -> EpochContext:
    return EpochContext("job", "i", 2, 0, {}, frozenset(), {}, (), handles)


def test_shared_state_is_listed_if_there_is_any() -> None:
    handles = handles_of(plan_of(), None, LAYOUT)
    assert set(next_state(context(handles), reports(None), lambda new: new)) == {"1/0", "1/1"}
    state = next_state(context(handles), reports(NewState(0, (file("c"),))), lambda new: new)
    assert state["1/all"] == StateHandle((file("c"),))
    kept = manifest(own0=handle("a"), shared=state["1/all"])
    again = next_state(context(handles_of(plan_of(), kept, LAYOUT)), reports(None), lambda new: new)
    assert again["1/all"].files == (file("c"),), "an epoch without changes keeps it"
