"""Savepoints on an object store: taken, listed, restored and disposed of there."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream import StreamExecutionEnvironment, Types
from tools.servers import ObjectStore


def sums(env: StreamExecutionEnvironment, numbers: range) -> Any:
    pairs = [("even" if number % 2 == 0 else "odd", number) for number in numbers]
    stream = env.from_collection(pairs, Types.TUPLE([Types.STRING(), Types.LONG()])).uid(f"in-{numbers.start}")
    return stream.key_by(lambda pair: pair[0]).sum(1).uid("sums")


def test_a_savepoint_there_is_as_good_as_one_here(
    store: ObjectStore, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flintstream import savepoints

    # Whoever gives no options relies on the package's own ways to find them.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "flint")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", store.password)
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.url)
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    env.set_checkpoint_dir(f"{place}/checkpoints")
    list(sums(env, range(10)).execute_and_collect())
    path = savepoints.take(f"{place}/checkpoints", f"{place}/savepoints", tags=["ten"])
    assert path.startswith(f"{place}/savepoints/")
    assert [each.path for each in savepoints.history(f"{place}/savepoints")] == [path]
    savepoints.check(path)

    again = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    again.start_from_savepoint(path)
    assert list(sums(again, range(10, 12)).execute_and_collect()) == [("even", 30), ("odd", 36)]

    savepoints.dispose(path)
    assert savepoints.history(f"{place}/savepoints") == []


def test_options_reach_every_way_to_handle_a_savepoint(store: ObjectStore, place: str) -> None:
    from flintstream import SavepointWriter, ValueStateDescriptor, savepoint, savepoints

    options = store.options
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    env.set_checkpoint_dir(f"{place}/checkpoints", storage_options=options)
    list(sums(env, range(10)).execute_and_collect())
    first = savepoints.take(f"{place}/checkpoints", f"{place}/savepoints", storage_options=options)
    totals = savepoint(first, storage_options=options).state("sums", "reduced", arrow=True)
    assert sorted(row["key"] for row in totals.to_pylist()) == ["even", "odd"]

    writer = SavepointWriter.from_existing_savepoint(first, storage_options=options)
    writer.with_state("extra", ValueStateDescriptor("n", int), [("a", 3)])
    second = writer.write(f"{place}/savepoints/second", storage_options=options)
    assert (
        savepoints.show(second, storage_options=options).parent == savepoints.check(first, storage_options=options).id
    )
    assert [each.path for each in savepoints.ancestors(second, storage_options=options)] == [first]
    assert [(each.uid, each.added) for each in savepoints.diff(first, second, storage_options=options)] == [
        ("extra", 1)
    ]
    savepoints.tag(second, "mine", storage_options=options)
    found = savepoints.history(f"{place}/savepoints", tag="mine", storage_options=options)
    assert [each.path for each in found] == [second]
    savepoints.dispose(second, storage_options=options)
    assert [each.path for each in savepoints.history(f"{place}/savepoints", storage_options=options)] == [first]
