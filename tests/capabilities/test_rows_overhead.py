"""Row 64: how often checkpoints are is set, and what one writes is bounded; `bench` shows what that costs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from flintstream import CollectSink, DiscardingSink
from flintstream.engine.options import JobOptions
from tests.capabilities.support import Epochs, Lists
from tests.crash.ports import Fault, FaultyStorage, local, plan_of, run

CLOCK_MS = 20
"""What the clock that waits and the clock that is written may differ by."""


@pytest.mark.row(64)
@pytest.mark.parametrize("interval", [None, 300])
def test_epochs_are_no_closer_than_the_interval_and_the_results_the_same(
    new_env: Any, tmp_path: Path, interval: int | None
) -> None:
    env, epochs, sink = new_env(max_records=4, checkpoint_dir=tmp_path), Epochs(), CollectSink()
    env.add_listener(epochs)
    if interval is not None:
        env.enable_checkpointing(interval)
    env.from_source(Lists([(n % 2, n) for n in range(12)])).key_by(0).sum(1).sink_to(sink)
    env.execute()
    starts = [manifest.now for manifest in epochs.manifests]
    assert len(starts) == 3
    assert all(after - before >= (interval or 0) - CLOCK_MS for before, after in itertools.pairwise(starts))
    assert max(total for _, total in sink.results) == 36


@pytest.mark.row(64)
def test_an_epoch_with_little_state_makes_two_files_durable_whatever_the_parallelism(
    make_env: Any, tmp_path: Path
) -> None:
    """The manifest, and one file with the changes of all tasks: a commit waits for the disk twice."""
    for parallelism in (1, 4):
        env, fault = make_env("local", parallelism), Fault()
        env.from_source(Lists([(n % 20, n) for n in range(100)])).key_by(0).sum(1).sink_to(DiscardingSink())
        options = JobOptions(max_records=20)
        run(plan_of(env), FaultyStorage(local(tmp_path / str(parallelism)), fault), options)
        written = {step: n for step, n in fault.steps.items() if step.startswith(("write", "create manifests"))}
        assert {step: n for step, n in written.items() if "done" not in step} == {
            "create manifests": 5,
            "write epochs": 5,
        }
