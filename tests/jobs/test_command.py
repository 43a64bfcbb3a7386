"""The command line against a real job in a process of its own: each command as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flintstream.engine.manifest import newest
from flintstream.jobs.command import main
from flintstream.state.storage import LocalStorage

PATIENCE = 90.0
PROGRAM = """
    import sys

    from flintstream import DataGeneratorSource, FileSink, StreamExecutionEnvironment, sequence

    folder, rate = sys.argv[1], int(sys.argv[2])
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(2)
    env.set_checkpoint_dir(f"{folder}/checkpoints")
    env.enable_checkpointing(50)
    numbers = env.from_source(DataGeneratorSource({"n": sequence()}, rate=rate, splits=1))
    ones = numbers.map(lambda row: (row.n % 5, 1))
    counts = ones.key_by(lambda pair: pair[0]).sum(1).uid("counts")
    counts.sink_to(FileSink.json(f"{folder}/out")).uid("out")
    env.execute("counting")
"""


class Job:
    """A program under `flintstream run`, in a process of its own."""

    def __init__(self, folder: Path, *options: str, rate: int = 300) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "app.py"
        program.write_text(textwrap.dedent(PROGRAM))
        command = [sys.executable, "-m", "flintstream", "run", *options, str(program), str(folder), str(rate)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    @property
    def checkpoints(self) -> str:
        return str(self.folder / "checkpoints")

    def epoch(self) -> int:
        manifest = newest(LocalStorage(self.checkpoints))
        return 0 if manifest is None else manifest.epoch

    def wait_for_epoch(self, epoch: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.epoch() < epoch:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                pytest.fail(f"no epoch {epoch}: {self.process.communicate()}")
            time.sleep(0.05)

    def wait_for_end(self) -> int:
        return self.process.wait(PATIENCE)

    def counts(self) -> dict[int, list[int]]:
        """Return the counts that each key went through, in order."""
        found: dict[int, list[int]] = {}
        for file in sorted(self.folder.glob("out/part-*")):
            for row in map(json.loads, file.read_text().splitlines()):
                found.setdefault(row["f0"], []).append(row["f1"])
        return {key: sorted(values) for key, values in found.items()}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def start_job(name: str, *options: str, **more: Any) -> Job:
        jobs.append(Job(tmp_path / name, *options, **more))
        return jobs[-1]

    yield start_job
    for job in jobs:
        if job.process.poll() is None:
            job.process.send_signal(signal.SIGTERM)
            job.wait_for_end()
        job.process.communicate()


def as_json(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert main([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_relative_directory_is_that_of_who_asks(
    start: Callable[..., Job], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = start("job")
    job.wait_for_epoch(1)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    path = as_json(capsys, "savepoint", "take", job.checkpoints, "mine")["savepoint"]
    assert Path(path).parent == tmp_path / "elsewhere" / "mine"
    path = as_json(capsys, "stop", job.checkpoints, "--savepoint", "mine")["savepoint"]
    assert Path(path).parent == tmp_path / "elsewhere" / "mine"


@pytest.mark.parametrize("words", [["--savepoint"], ["--savepoint", "--no-drain"], []])
def test_the_place_of_the_last_savepoint_is_the_programs_if_none_is_named(
    start: Callable[..., Job], capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    job = start("job")
    job.wait_for_epoch(1)
    assert main(["stop", job.checkpoints, *words]) == 1
    assert "there is no directory for savepoints; name one, or set" in capsys.readouterr().err


@pytest.mark.row(79, 80, 87)
def test_a_job_is_watched_stopped_and_restarted_from_any_savepoint(
    start: Callable[..., Job], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, target = start("first"), str(tmp_path / "savepoints")
    job.wait_for_epoch(3)
    first = as_json(capsys, "savepoint", "take", job.checkpoints, target, "--tag", "early")["savepoint"]
    job.wait_for_epoch(job.epoch() + 3)
    assert job.process.poll() is None
    second = as_json(capsys, "stop", job.checkpoints, "--savepoint", target)["savepoint"]
    assert job.wait_for_end() == 0

    history = as_json(capsys, "savepoint", "list", target)
    assert [each["path"] for each in history] == [first, second]
    assert [each["tags"] for each in history] == [["early"], []]
    assert [each["path"] for each in as_json(capsys, "savepoint", "list", target, "--tag", "early")] == [first]
    positions = [as_json(capsys, "savepoint", "show", path)["sources"][0]["positions"]["0"] for path in (first, second)]
    assert 0 < positions[0] < positions[1]
    (changed,) = as_json(capsys, "savepoint", "diff", first, second)
    assert (changed["uid"], changed["changed"]) == ("counts", 5)

    for path, position in zip((first, second), positions, strict=True):
        again = start(f"from {position}", "--from-savepoint", path)
        again.wait_for_epoch(2)
        assert main(["cancel", again.checkpoints]) == 0
        assert again.wait_for_end() == 0
        for key, values in again.counts().items():
            before = len(range(key, position, 5))
            assert values == list(range(before + 1, before + len(values) + 1))

    assert main(["savepoint", "dispose", first, "--yes"]) == 0
    assert not Path(first).exists()
    assert Path(second).exists()


def test_a_savepoint_is_taken_of_a_job_that_does_not_run(
    start: Callable[..., Job], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = start("job")
    job.wait_for_epoch(2)
    assert main(["cancel", job.checkpoints]) == 0
    assert job.wait_for_end() == 0
    capsys.readouterr()
    assert main(["savepoint", "take", job.checkpoints, str(tmp_path / "savepoints")]) == 0
    path = capsys.readouterr().out.strip()
    assert main(["savepoint", "check", path]) == 0
    assert "is whole" in capsys.readouterr().out
    assert main(["savepoint", "tag", path, "good", "old"]) == 0
    assert main(["savepoint", "list", str(tmp_path / "savepoints")]) == 0
    assert "good old" in capsys.readouterr().out
    assert main(["savepoint", "show", path]) == 0
    shown = capsys.readouterr().out
    assert "of job 'counting'" in shown
    assert "counts" in shown
    before = dict(os.environ)
    assert main(["savepoint", "restore", path, "nothing.py"]) == 2
    assert "there is no program 'nothing.py'" in capsys.readouterr().err
    # What a program is given is the program's alone.
    assert dict(os.environ) == before


def test_settings_reach_the_program(start: Callable[..., Job], tmp_path: Path) -> None:
    job = start("job", "-D", "pipeline.max-parallelism=8", "-D", "parallelism.default=1")
    job.wait_for_epoch(1)
    manifest = newest(LocalStorage(job.checkpoints))
    assert manifest is not None
    assert manifest.max_parallelism == 8
    # The program's own word wins.
    assert manifest.layout["counts"][1] == 2


@pytest.mark.parametrize(
    ("argv", "status", "message"),
    [
        (["run", "nothing.py"], 2, "there is no program 'nothing.py'"),
        (["run", "-D", "parallelism.default", "app.py"], 2, "write -D key=value"),
        (["stop", "nowhere"], 1, "no job runs on nowhere"),
        (["cancel", "nowhere"], 1, "no job runs on nowhere"),
        (["savepoint", "take", "nowhere", "there"], 1, "nowhere"),
        (["savepoint", "show", "nowhere"], 1, "nowhere"),
        (["savepoint", "dispose", "nowhere", "--yes"], 1, "nowhere"),
        (["savepoint", "restore", "nowhere", "app.py"], 1, "nowhere"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(
    argv: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(argv) == status
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert "Traceback" not in told


def test_an_error_is_json_where_all_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["savepoint", "show", "/nowhere", "--json"]) == 1
    assert "/nowhere" in json.loads(capsys.readouterr().err)["error"]


def test_a_command_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dance"]) == 2
    assert "dance" in capsys.readouterr().err
