"""State that was read as a table and written again is, to a job that starts from it, what it was."""

from __future__ import annotations

import tempfile
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from flintstream import (
    CollectSink,
    Configuration,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    SavepointWriter,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    savepoint,
)
from flintstream.engine.state_tables import open_state
from flintstream.state.table import parts_of, read_rows
from tests.capabilities.support import Lists
from tests.unit.values import LAW, Frozen, columns, exactly, law

ONE_KEY = st.one_of(
    st.integers(),
    st.text(max_size=5),
    st.tuples(st.integers(0, 9), st.text(max_size=3)),
    st.builds(Frozen, st.integers()),
)
KEYS = st.lists(ONE_KEY, min_size=1, max_size=5, unique_by=lambda key: (type(key), key))
KINDS: dict[str, Any] = {"value": ValueStateDescriptor, "list": ListStateDescriptor, "map": MapStateDescriptor}


class Told(KeyedProcessFunction):
    """Emits what its three states hold for the key of each record."""

    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value"))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list"))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map"))

    def process_element(self, value, ctx):
        yield value, self.value.value(), list(self.list.get()), dict(self.map.items())


def told(path: str, keys: list[Any]) -> list[Any]:
    """Return what a job finds that starts from a savepoint."""
    trusted = Configuration.from_dict({"flintstream.state-recovery.trust": "true"})
    env = StreamExecutionEnvironment.get_execution_environment(trusted, runtime="local").set_parallelism(2)
    sink = CollectSink()
    stream = env.from_source(Lists([(key,) for key in keys])).key_by(lambda value: value[0])
    stream.process(Told()).uid("op").sink_to(sink)
    env.start_from_savepoint(path, trust=True)
    env.execute("job")
    return sorted((exactly(row) for row in sink.results), key=repr)


def pairs_of(keys: list[Any], values: list[Any], others: list[Any]) -> dict[str, list[tuple[Any, Any]]]:
    """Return what each state shall hold, by key."""
    return {
        "value": [(key, value) for key, value in zip(keys, values, strict=False) if value is not None],
        "list": [(key, [*others[:place], other]) for place, (key, other) in enumerate(zip(keys, others, strict=False))],
        "map": [(key, dict(enumerate(others[: place + 1]))) for place, key in enumerate(keys)],
    }


def written(held: dict[str, list[tuple[Any, Any]]], folder: str) -> tuple[str, str]:
    """Return a savepoint with this state, and one into which its tables were copied."""
    writer = SavepointWriter.new_savepoint()
    for name, data in held.items():
        if data:
            writer.with_state("op", KINDS[name](name), data)
    first = writer.write(f"{folder}/first")
    again = SavepointWriter.from_existing_savepoint(first)
    for name, data in held.items():
        if data:
            again.with_state("op", KINDS[name](name), savepoint(first).state("op", name, arrow=True))
    return first, again.write(f"{folder}/second")


def stored(path: str) -> list[Any]:
    """Return all rows of a savepoint as the tables of a job would load them."""
    source = open_state(path)
    found: list[Any] = []
    for table in source.tables():
        for part in source.parts(table.name):
            for batch in part.read():
                batch = batch.append_column("gone", pa.array([False] * batch.num_rows))
                entries, values, _ = read_rows(batch, parts_of(batch))
                found += [(table.name, exactly(row)) for row in zip(entries, values, strict=True)]
    return sorted(found, key=repr)


@law
@given(KEYS, columns(min_size=5), columns(min_size=5))
def test_reading_and_writing_changes_no_row(keys, values, others):
    held = pairs_of(keys, values, others)
    expected = [("op/value", pair) for pair in held["value"]] + [("op/list", pair) for pair in held["list"]]
    expected += [("op/map", ((key, inner), value)) for key, each in held["map"] for inner, value in each.items()]
    with tempfile.TemporaryDirectory() as folder:
        first, second = written(held, folder)
        assert stored(first) == sorted(((name, exactly(row)) for name, row in expected), key=repr)
        assert stored(second) == stored(first)
        assert all(each.is_same for each in savepoint(first).diff(second).summary())


@settings(LAW, max_examples=5, phases=[Phase.generate])
@given(KEYS, columns(min_size=5), columns(min_size=5))
def test_a_job_finds_what_was_written(keys, values, others):
    held = pairs_of(keys, values, others)
    expected = [((key,), *(dict(held[name]).get(key) for name in KINDS)) for key in keys]
    with tempfile.TemporaryDirectory() as folder:
        for path in written(held, folder):
            assert told(path, keys) == sorted((exactly(row) for row in expected), key=repr)


def test_the_law_can_fail(tmp_path):
    one = SavepointWriter.new_savepoint().with_state("op", ValueStateDescriptor("value"), [("a", 1)])
    other = SavepointWriter.new_savepoint().with_state("op", ValueStateDescriptor("value"), [("a", 2)])
    first, second = one.write(tmp_path / "one"), other.write(tmp_path / "other")
    assert told(first, ["a"]) != told(second, ["a"])
    with pytest.raises(AssertionError):
        assert all(each.is_same for each in savepoint(first).diff(second).summary())
