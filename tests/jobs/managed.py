"""Jobs and managers for tests: a program that counts, its output judged exactly, managers in their own processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from flintstream.engine.manifest import newest
from flintstream.jobs.manager import Manager
from flintstream.jobs.orders import KeeperState
from flintstream.jobs.spec import JobSpec
from flintstream.jobs.view import JobView
from flintstream.state.storage import LocalStorage

T = TypeVar("T")
PATIENCE = 90.0
KEYS = 5
PROGRAM = """
    import sys

    from flintstream import DataGeneratorSource, FileSink, StreamExecutionEnvironment, sequence

    folder, rate, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    env = StreamExecutionEnvironment.get_execution_environment().enable_checkpointing(50)
    numbers = env.from_source(DataGeneratorSource({"n": sequence()}, rate=rate, count=count or None, splits=1))
    ones = numbers.map(lambda row: (row.n % 5, 1))
    counts = ones.key_by(lambda pair: pair[0]).sum(1).uid("counts")
    counts.sink_to(FileSink.json(f"{folder}/out")).uid("out")
    print("counting begins", flush=True)
    env.execute("counting")
"""


def until(condition: Callable[[], T | None], what: str) -> T:
    """Return what a condition returns as soon as it is something."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"this did not come about: {what}")
        time.sleep(0.03)
    return found


def counting(folder: Path, rate: int = 300, count: int = 0, runtime: str = "local", **more: Any) -> JobSpec:
    """Return a job that counts `count` numbers (0: for ever) at a rate, and writes how far each key is."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "app.py"
    program.write_text(textwrap.dedent(PROGRAM))
    given = {"parallelism": 2, "environment": {"FLINTSTREAM_RUNTIME": runtime}, **more}
    return JobSpec(program=str(program), arguments=(str(folder), str(rate), str(count)), **given)


def counts(folder: Path) -> dict[int, list[int]]:
    """Return the counts that each key went through, in order."""
    found: dict[int, list[int]] = {}
    for file in sorted(folder.glob("out/part-*")):
        for row in map(json.loads, file.read_text().splitlines()):
            found.setdefault(row["f0"], []).append(row["f1"])
    return {key: sorted(values) for key, values in found.items()}


def exactly(count: int) -> dict[int, list[int]]:
    """Return the counts of so many numbers."""
    return {key: list(range(1, len(range(key, count, KEYS)) + 1)) for key in range(KEYS)}


def assert_unbroken(folder: Path) -> None:
    """Check that what is there is the beginning of what there must be: nothing twice, nothing left out."""
    found = counts(folder)
    assert found
    assert found == {key: list(range(1, len(values) + 1)) for key, values in found.items()}


def epoch_of(view: JobView) -> int:
    """Return a job's newest epoch, 0 before the first."""
    if view.checkpoint_dir is None:
        return 0
    manifest = newest(LocalStorage(view.checkpoint_dir))
    return 0 if manifest is None else manifest.epoch


def wait_for_status(manager: Manager, job: str, *statuses: str) -> JobView:
    def look() -> JobView | None:
        view = manager.job(job)
        if view.status not in statuses and view.has_ended:
            pytest.fail(f"{view}\n{manager.log(job, 'err').text}")
        return view if view.status in statuses else None

    return until(look, f"job {job} is {statuses}")


def wait_for_epochs(manager: Manager, job: str, more: int = 2) -> JobView:
    """Wait until a job runs and has committed so many epochs more."""
    view = wait_for_status(manager, job, "RUNNING")
    before = epoch_of(view)

    def look() -> JobView | None:
        view = wait_for_status(manager, job, "RUNNING")
        return view if epoch_of(view) >= before + more else None

    return until(look, "more epochs")


def keeper_of(manager: Manager, job: str) -> KeeperState:
    state = KeeperState.read(manager.folder(job))
    assert state is not None
    return state


def driver_of(manager: Manager, job: str) -> int:
    return until(lambda: keeper_of(manager, job).child_pid, "a driver")


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def clear(home: Path) -> None:
    """End every keeper and driver of a home."""
    for path in home.glob("jobs/*/keeper.json"):
        state = KeeperState.read(path.parent)
        if state is None or state.has_ended:
            continue
        for pid in (state.pid, state.child_pid):
            if pid and not (pid == state.pid and state.is_gone()):
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)


SERVING = """
    import json, sys
    from pathlib import Path
    from flintstream.errors import FlintstreamError
    from flintstream.jobs.manager import Manager
    from flintstream.jobs.spec import JobSpec

    manager = Manager(Path(sys.argv[1]), url=f"http://{sys.argv[2]}", jobs_at_once=4)
    manager.start()
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            if name == "submit":
                answer = manager.submit(JobSpec.from_json(arguments[0])).as_dict()
            else:
                found = getattr(manager, name)
                answer = found(*arguments) if callable(found) else found
                answer = answer.as_dict() if hasattr(answer, "as_dict") else answer
        except FlintstreamError as error:
            answer = {"error": type(error).__name__, "url": getattr(error, "url", None)}
        print(json.dumps(answer), flush=True)
"""


class ServedManager:
    """A manager in a process of its own, which is asked through a pipe."""

    def __init__(self, home: Path, name: str) -> None:
        command = [sys.executable, "-c", textwrap.dedent(SERVING), str(home), name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._answer() == "ready"

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, *request: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
