"""Ports that die on command: a storage and a sink that raise `Crash` at a chosen step, and from then on at every step.

A job in this process over such ports is a process that was killed at exactly that place: whatever runs afterwards (a
`finally`, an `abort`) can no longer reach the outside world.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flintstream import Committer, FileSink, Sink, SinkWriter, StreamExecutionEnvironment, WriterContext
from flintstream.connectors.files_staging import FileCommitter, StagedFile
from flintstream.engine.coordinator import Coordinator
from flintstream.engine.job import RunningJob
from flintstream.engine.loop import EpochLoop
from flintstream.engine.options import JobOptions
from flintstream.engine.replay_catchup import CatchUp
from flintstream.engine.report import JobWatch
from flintstream.engine.savepoint_desk import SavepointDesk
from flintstream.engine.task import forget
from flintstream.local.run import LocalRunner
from flintstream.planner.guarantee import guarantee_of
from flintstream.planner.plan import Plan
from flintstream.state.storage import LocalStorage, Storage


class Crash(BaseException):
    """The end of a process. Not an Exception, so nobody handles it."""


@dataclass
class Fault:
    """Crash at the nth time that a step is reached; `steps` counts how often each was."""

    step: str = ""
    nth: int = 1
    error: Callable[[], BaseException] = Crash
    times: int = 1
    steps: dict[str, int] = field(default_factory=dict[str, int])
    dead: bool = False

    def cure(self) -> None:
        """Let the same ports work again, as in a restart inside the same process."""
        self.step, self.dead = "", False

    def reach(self, step: str) -> None:
        if self.dead:
            raise Crash
        self.steps[step] = self.steps.get(step, 0) + 1
        if step == self.step and self.nth <= self.steps[step] < self.nth + self.times:
            error = self.error()
            self.dead = isinstance(error, Crash)
            raise error


class FaultyStorage(Storage):
    """A storage whose writes are steps: `<verb> <folder>` before it happens, `... done` after it."""

    def __init__(self, inner: Storage, fault: Fault) -> None:
        self.inner = inner
        self.fault = fault

    def _around(self, verb: str, path: str, action: Callable[[], Any]) -> Any:
        step = f"{verb} {path.partition('/')[0]}"
        self.fault.reach(step)
        result = action()
        self.fault.reach(f"{step} done")
        return result

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        return self.inner.read(path, offset, length)

    def write(self, path: str, data: bytes) -> None:
        self._around("write", path, lambda: self.inner.write(path, data))

    def create(self, path: str, data: bytes) -> bool:
        return self._around("create", path, lambda: self.inner.create(path, data))

    def list(self, folder: str) -> list[str]:
        return self.inner.list(folder)

    def abandoned(self, folder: str) -> Sequence[str]:
        return self.inner.abandoned(folder)

    def delete(self, path: str) -> None:
        self._around("delete", path, lambda: self.inner.delete(path))


class FaultyCommitter(FileCommitter):
    """Publishes files with a step before, between and after them."""

    def __init__(self, base_path: str, fault: Fault) -> None:
        super().__init__(base_path)
        self._fault = fault
        self._published = 0

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        self._fault.reach("commit")
        self._published = 0
        super().commit(job, uid, epoch, committables)
        self._fault.reach("commit done")

    def _publish(self, file: StagedFile) -> set[Path]:
        if self._published:
            self._fault.reach("commit half")
        self._published += 1
        return super()._publish(file)


@dataclass
class FaultySink(Sink):
    """A file sink with a faulty committer."""

    inner: FileSink
    fault: Fault

    def create_writer(self, context: WriterContext) -> SinkWriter:
        self.fault.reach("stage")
        return self.inner.create_writer(context)

    def create_committer(self) -> Committer:
        return FaultyCommitter(self.inner.base_path, self.fault)


def plan_of(env: StreamExecutionEnvironment) -> Plan:
    return env.compile("crash test")


def run(plan: Plan, storage: Storage, options: JobOptions, *, same_process: bool = False) -> RunningJob:
    """Run a plan to its end over any storage, as the in-process runtime does.

    With `same_process`, what tasks keep in memory survives a crash, which must not matter: it has another token.
    """
    coordinator = Coordinator(plan, storage, options.retained)
    loop = EpochLoop(coordinator, options, LocalRunner(plan, storage).run_epoch, None)

    def body() -> bool:
        try:
            coordinator.recover()
            return loop.run()
        finally:
            if not same_process:
                forget(coordinator.incarnation)

    promise, desk, watch = guarantee_of(plan, None), SavepointDesk(storage), JobWatch(plan, options)
    job = RunningJob(body, loop.stop, lambda: coordinator.manifest, CatchUp(plan), promise, desk, plan, watch)
    job.run()
    return job


def local(folder: object) -> LocalStorage:
    return LocalStorage(str(folder), durable=False)
