"""Epochs without input: a driver that starts again must look whether timers wait, however quiet its sources are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flintstream import KeyedProcessFunction
from flintstream.engine.coordinator import Coordinator
from flintstream.state.storage import LocalStorage
from tests.spec.job import InProcess, ScriptedSource, SteppedJob
from tests.spec.transcript import Line


class Alarm(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_processing_time_timer(value["at"])
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp


def declare(env: Any, folder: Path) -> dict[str, Any]:
    stream = env.from_source(ScriptedSource(folder, "in", 1)).uid("in")
    return {"main": stream.key_by("key").process(Alarm()).uid("alarm")}


def coordinator_of(job: SteppedJob) -> Coordinator:
    return job._coordinator


def test_timers_that_wait_are_looked_for_after_a_restart(tmp_path: Path):
    job = SteppedJob(declare, tmp_path, InProcess(), 1)
    assert not coordinator_of(job).needs_ticks
    job.epoch([Line("in", 0, {"key": "a", "at": 1000})])
    assert coordinator_of(job).needs_ticks
    job.restart()
    assert coordinator_of(job).needs_ticks
    job.now = 1001
    job.epoch()
    assert job.sinks["main"].results == [1000]
    assert not coordinator_of(job).needs_ticks
    job.stop()


def test_a_job_without_processing_time_needs_no_look(tmp_path: Path):
    def plain(env: Any, folder: Path) -> dict[str, Any]:
        stream = env.from_source(ScriptedSource(folder, "in", 1)).uid("in")
        return {"main": stream.key_by("key").reduce(lambda x, y: y).uid("newest")}

    job = SteppedJob(plain, tmp_path, InProcess(), 1)
    job.epoch([Line("in", 0, {"key": "a", "at": 1})])
    job.restart()
    assert not coordinator_of(job).needs_ticks
    assert LocalStorage(str(tmp_path / "checkpoint")).list("manifests")
    job.stop()
