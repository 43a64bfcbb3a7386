"""Where a job's state is, in the driver's hands: what tasks are given at an epoch's start, and what it is after it.

Separate from the coordinator, which knows epochs and commits but not what lies behind a name. State is listed by place:
`level/partition`, and `level/all` for what all partitions of a level share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from flintstream.engine.epoch import EVERY_PARTITION, EpochContext, NewState, StateHandle, TaskReport
from flintstream.engine.manifest import Manifest
from flintstream.engine.statefiles import next_handle
from flintstream.planner.plan import Plan

_ALL = "all"
Place = tuple[int, int]
Store = Callable[[NewState | None], NewState | None]
"""Puts the bytes of a small file where the driver writes them, and returns the state with that file's place."""


def places_of(plan: Plan) -> list[Place]:
    """Return everything in a plan that has state: the partitions of all levels behind an exchange, and each level."""
    levels = range(1, plan.levels)
    own = [(level, partition) for level in levels for partition in range(plan.partitions(level))]
    return own + [(level, EVERY_PARTITION) for level in levels]


def name_of(place: Place) -> str:
    """Return how the manifest calls a place."""
    return f"{place[0]}/{_ALL if place[1] == EVERY_PARTITION else place[1]}"


def handles_of(
    plan: Plan, manifest: Manifest | None, layout: Mapping[str, list[int]]
) -> dict[Place, tuple[StateHandle, ...]]:
    """Return from which files each place takes its state."""
    places = places_of(plan)
    if manifest is None:
        return {place: (StateHandle(),) for place in places}
    if manifest.layout == layout:
        return {place: (manifest.state.get(name_of(place), StateHandle()),) for place in places}
    # Rescaled or changed code: every partition takes its key groups, and what is for all, out of all files, once.
    shared = _several(handle for name, handle in manifest.state.items() if name.endswith(f"/{_ALL}"))
    others = _several(handle for name, handle in manifest.state.items() if not name.endswith(f"/{_ALL}"))
    return {place: shared if place[1] == EVERY_PARTITION else others for place in places}


def _several(handles: Iterable[StateHandle]) -> tuple[StateHandle, ...]:
    """Return handles as more or fewer than one: a single one would say that the place is the same as before."""
    found = tuple(handles)
    return found if len(found) != 1 else (*found, StateHandle())


def next_state(context: EpochContext, reports: Sequence[TaskReport], store: Store) -> dict[str, StateHandle]:
    """Return where the state is after an epoch."""
    state: dict[str, StateHandle] = {}
    for report in reports:
        if not report.level:
            continue
        place = (report.level, report.partition)
        state[name_of(place)] = next_handle(context.handles[place], store(report.state), context.epoch, report.token)
        if report.partition == 0:
            place = (report.level, EVERY_PARTITION)
            old = context.handles[place]
            shared = next_handle(old, store(report.shared), context.epoch, report.token)
            if shared.files:
                # Which of its epochs a partition holds is told by the tokens of its own state.
                state[name_of(place)] = replace(shared, tokens=())
    return state
