"""Partial matches on their way into state and back: what is read is what was written, shared parts and all."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from flintstream import Row
from flintstream.ops.cep_state import Event, Link, Partial, Partials
from flintstream.ops.cep_table import PartialsTable
from flintstream.state.table import Table

GROUPS = 128


def event(number: int) -> Event:
    return number, 1000 + number, Row(key=number % 3, word=f"word {number}")


@st.composite
def partial_matches(draw: st.DrawFn) -> Partials:
    """Chains that branch: each new link follows one of an earlier record, or begins a chain."""
    partials = Partials()
    events = [event(number) for number in range(draw(st.integers(1, 5)))]
    links: list[Link] = []
    starts: list[Event] = []
    for _ in range(draw(st.integers(1, 6))):
        taken = draw(st.sampled_from(events))
        parent = draw(st.sampled_from([-1, *(at for at, link in enumerate(links) if link[2][0] < taken[0])]))
        links.append((None if parent < 0 else links[parent], draw(st.sampled_from("ab")), taken))
        starts.append(taken if parent < 0 else starts[parent])
    ends = st.lists(st.integers(0, len(links) - 1), max_size=4)
    partials.runs = [Partial(draw(st.sampled_from(["at a", "at b"])), starts[end], links[end]) for end in draw(ends)]
    partials.done = [Partial("", starts[end], links[end]) for end in draw(ends)]
    partials.count = len(events)
    partials.timer = draw(st.none() | st.integers(0, 9000))
    return partials


def shown(partials: Partials | None) -> Any:
    """Return all there is to see, with what is shared as places of what was seen before."""
    if partials is None:
        return None
    seen: dict[int, int] = {}

    def event_of(found: Event) -> tuple[int, Event]:
        return seen.setdefault(id(found), len(seen)), found

    def link_of(link: Link | None) -> Any:
        if link is None:
            return None
        return seen.setdefault(id(link), len(seen)), link_of(link[0]), link[1], event_of(link[2])

    def run_of(run: Partial) -> Any:
        return run.place, link_of(run.link), event_of(run.start)

    return partials.count, partials.timer, list(map(run_of, partials.runs)), list(map(run_of, partials.done))


def table_of(matches: dict[int, Partials]) -> PartialsTable:
    table = PartialsTable()
    for key, partials in matches.items():
        table.put(key, partials)
    return table


def written(table: Table) -> pa.RecordBatch:
    batch = table.delta(GROUPS)
    assert batch is not None
    return batch


def read(*batches: pa.RecordBatch) -> PartialsTable:
    table = PartialsTable()
    for batch in batches:
        table.apply(batch)
    return table


@given(st.dictionaries(st.integers(0, 9), partial_matches(), min_size=1))
def test_what_is_read_is_what_was_written(matches: dict[int, Partials]) -> None:
    table = read(written(table_of(matches)))
    assert {key: shown(table.of(key)) for key in table.data} == {key: shown(each) for key, each in matches.items()}


@given(st.dictionaries(st.integers(0, 9), partial_matches(), min_size=1), st.sets(st.integers(0, 9)))
def test_what_was_read_is_written_again_whether_or_not_its_key_came(
    matches: dict[int, Partials], came: set[int]
) -> None:
    table = read(written(table_of(matches)))
    for key in came:
        table.of(key)
    snapshot = table.snapshot(GROUPS)
    assert snapshot is not None
    again = read(snapshot)
    assert {key: shown(again.of(key)) for key in again.data} == {key: shown(each) for key, each in matches.items()}


@given(st.dictionaries(st.integers(0, 9), partial_matches(), min_size=1))
def test_rows_for_a_working_store_are_plain_and_come_back(matches: dict[int, Partials]) -> None:
    table = read(written(table_of(matches)))
    plain = dict(table.rows())
    assert all(type(value) is tuple and len(value) == 6 for value in plain.values())
    store = Table("plain")
    for key, value in plain.items():
        store.put(key, value)
    # Generic code encodes such rows by their values alone, so lists may have another kind where they are empty.
    again = read(written(store))
    assert {key: shown(again.of(key)) for key in again.data} == {key: shown(each) for key, each in matches.items()}
    held = PartialsTable()
    held.data.update(plain)
    assert {key: shown(held.of(key)) for key in plain} == {key: shown(each) for key, each in matches.items()}


@given(partial_matches(), partial_matches(), partial_matches())
def test_a_changelog_removes_and_replaces(kept: Partials, replaced: Partials, new: Partials) -> None:
    table = table_of({1: kept, 2: replaced, 3: replaced})
    first = written(table)
    table.mark_clean()
    table.put(2, new)
    table.delete(3)
    again = read(first, written(table))
    assert {key: shown(again.of(key)) for key in again.data} == {1: shown(kept), 2: shown(new)}
