"""Rows 20, 62 and 66: what a checkpoint holds, and what a job that is started again makes of it."""

from __future__ import annotations

import json
import logging
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from flintstream import CollectSink, DiscardingSink, JobStatus
from flintstream.engine.manifest import Manifest
from flintstream.engine.statefiles import read_file
from flintstream.state.storage import LocalStorage
from tests.capabilities.support import Epochs, Lists, bytes_under, run

WAIT_SECONDS = 120


def declare_stateless(env: Any, sink: CollectSink) -> None:
    env.from_source(Lists(range(10))).map(lambda n: n * n).rebalance().filter(lambda n: True).sink_to(sink)


def declare_stateful(env: Any, sink: CollectSink) -> None:
    env.from_source(Lists([(n % 2, n) for n in range(10)])).key_by(0).sum(1).sink_to(sink)


def manifests_in(folder: Path) -> list[Manifest]:
    paths = sorted((folder / "manifests").iterdir())
    return [Manifest.from_bytes(path.read_bytes(), path.name) for path in paths]


@pytest.mark.row(20)
def test_a_stateless_job_goes_on_where_it_left_off_without_state(new_env, tmp_path):
    sink, epochs = CollectSink(), Epochs()
    assert not run(new_env(max_records=4, checkpoint_dir=tmp_path), sink, declare_stateless, stop_after=1)
    assert sorted(sink.results) == [n * n for n in range(4)]
    assert not any(handle.files for handle in manifests_in(tmp_path)[-1].state.values())
    env = new_env(max_records=4, checkpoint_dir=tmp_path)
    env.add_listener(epochs)
    assert run(env, sink, declare_stateless)
    assert sorted(sink.results) == [n * n for n in range(10)]
    assert [manifest.epoch for manifest in epochs.manifests] == [2, 3]


@pytest.mark.row(20)
def test_a_stateful_job_gets_its_state_back_and_says_so(new_env, tmp_path, caplog):
    sink = CollectSink()
    assert not run(new_env(max_records=4, checkpoint_dir=tmp_path), sink, declare_stateful, stop_after=1)
    assert sink.results == [(0, 0), (1, 1), (0, 2), (1, 4)]
    with caplog.at_level(logging.INFO, logger="flintstream"):
        assert run(new_env(max_records=4, checkpoint_dir=tmp_path), sink, declare_stateful)
    assert sink.results[4:] == [(0, 6), (1, 9), (0, 12), (1, 16), (0, 20), (1, 25)]
    # As a user reads it: how much state came back, and from which epoch.
    assert re.search(r"restored.*\b2 keys", caplog.text)


@pytest.mark.row(20)
def test_a_cancelled_job_is_taken_up_without_loss_or_repetition(new_env, tmp_path):
    sink = CollectSink()
    for wanted in (3, 6):
        env, reached = new_env(max_records=5, checkpoint_dir=tmp_path), threading.Event()
        env.add_listener(
            lambda manifest, *_, wanted=wanted, reached=reached: manifest.epoch >= wanted and reached.set()
        )
        numbers = env.generate(generator=lambda i: ("all", 1), splits=1)
        numbers.key_by(0).sum(1).sink_to(sink)
        client = env.execute_async("job")
        assert reached.wait(WAIT_SECONDS)
        client.cancel().result(WAIT_SECONDS)
        assert client.get_job_status().result() is JobStatus.CANCELED
    assert len(sink.results) >= 30
    assert sink.results == [("all", n) for n in range(1, len(sink.results) + 1)]


@pytest.mark.row(62)
def test_every_checkpoint_holds_offsets_and_state_of_one_moment(new_env, tmp_path):
    """After reading n records the sum over all keys' counts is n, in each of the checkpoints that are kept."""
    env = new_env(max_records=4, checkpoint_dir=tmp_path)
    stream = env.from_source(Lists(range(10), range(10))).uid("numbers")
    stream.map(lambda n: (n % 5, 1)).key_by(0).sum(1).uid("counts").sink_to(DiscardingSink())
    env.execute()
    storage = LocalStorage(str(tmp_path))
    found = manifests_in(tmp_path)
    assert [manifest.epoch for manifest in found] == [3, 4, 5]
    for manifest in found:
        document = json.loads((tmp_path / "manifests" / f"{manifest.epoch:012d}.json").read_text())
        read = sum(document["positions"]["numbers"].values())
        assert read == 4 * manifest.epoch
        counts: dict[Any, int] = {}
        for handle in manifest.state.values():
            for file in handle.files:
                for name, batch in read_file(storage, file).items():
                    if name.startswith("counts/"):
                        counts.update(counts_in(batch))
        assert sum(counts.values()) == read
        assert set(counts) == set(range(5))


def counts_in(batch: Any) -> dict[Any, int]:
    """Return the counts by key in a file of state: any tool can read it, since it is made of named Arrow columns."""
    columns = batch.to_pydict()
    keys = columns["key"]
    values = columns["value"]
    return {key: value["f1"] if isinstance(value, dict) else value[1] for key, value in zip(keys, values, strict=True)}


@pytest.mark.row(62)
def test_how_many_checkpoints_are_kept_is_a_setting(make_env, tmp_path):
    settings = {"execution.checkpointing.num-retained": "2"}
    env = make_env("local", max_records=2, checkpoint_dir=tmp_path, settings=settings)
    assert run(env, CollectSink(), declare_stateful)
    assert [manifest.epoch for manifest in manifests_in(tmp_path)] == [4, 5]


@pytest.mark.row(66)
def test_a_checkpoint_after_touching_one_percent_is_under_a_tenth_of_the_full_one(new_env, tmp_path):
    keys, sizes = 20_000, []

    def declare(env, _):
        env.add_listener(lambda *_: sizes.append(bytes_under(tmp_path)))
        records = [(f"user-{n}", 1) for n in (*range(keys), *range(0, keys, 100))]
        env.from_source(Lists(records)).key_by(0).sum(1).sink_to(DiscardingSink())

    assert not run(new_env(max_records=keys, checkpoint_dir=tmp_path), CollectSink(), declare, stop_after=1)
    assert run(new_env(max_records=keys, checkpoint_dir=tmp_path), CollectSink(), declare)
    first, second = sizes
    added = sum(size for name, size in second.items() if name not in first)
    assert 0 < added < sum(first.values()) / 10
