"""The command line against a manager that runs: each command as a user types it, on one real job."""

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

from flintstream.jobs.command import app, main
from flintstream.jobs.leader import leader_of

PATIENCE = 90.0
PROGRAM = """
    import sys

    from flintstream import DataGeneratorSource, FileSink, StreamExecutionEnvironment, sequence

    folder, rate = sys.argv[1], int(sys.argv[2])
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    env.enable_checkpointing(100)
    numbers = env.from_source(DataGeneratorSource({"n": sequence()}, rate=rate, splits=2)).uid("numbers")
    pairs = numbers.map(lambda row: (f"key_{row.n % 5}", 1)).uid("pairs").key_by(lambda pair: pair[0])
    pairs.as_queryable_state("latest")
    counts = pairs.sum(1).uid("counts")
    counts.sink_to(FileSink.json(f"{folder}/out")).uid("out")
    print("program starts", flush=True)
    print("and says so", file=sys.stderr, flush=True)
    env.execute("counting")
"""


class Room:
    """A home with a manager, a program, and the commands to steer it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str] | None = None) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.program = folder / "app.py"
        self.environment = {**os.environ, "FLINTSTREAM_HOME": str(self.home), "FLINTSTREAM_PORT": "0"}

    def call(self, *argv: str, status: int = 0) -> str:
        """Run a command in a process of its own; return what it printed."""
        command = [sys.executable, "-m", "flintstream", *argv]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
            env=self.environment,
            cwd=self.folder,
        )
        assert done.returncode == status, (argv, done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout if status == 0 else done.stderr

    def json(self, *argv: str) -> Any:
        return json.loads(self.call(*argv, "--json"))


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    room = Room(tmp_path_factory.mktemp("manager"))
    room.program.write_text(textwrap.dedent(PROGRAM))
    started = room.json("cluster", "start", "--slots", "4", "--allow-path", str(room.folder))
    assert started["standby"] is False
    yield room
    room.call("cluster", "stop", "--cancel-jobs")
    assert leader_of(room.home) is None


def in_process(room: Room, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a caller of commands in this process, which costs no start of Python."""
    monkeypatch.setenv("FLINTSTREAM_HOME", str(room.home))
    monkeypatch.chdir(room.folder)

    def call(*argv: str, status: int = 0) -> str:
        capsys.readouterr()
        assert main(list(argv)) == status, capsys.readouterr().err
        told = capsys.readouterr()
        return told.out if status == 0 else told.err

    return call


@pytest.fixture
def call(room: Room, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    return in_process(room, capsys, monkeypatch)


def until(look: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        if time.monotonic() > deadline:
            pytest.fail(f"not within {PATIENCE} s: {what}")
        time.sleep(0.1)
    return found


def status_of(call: Callable[..., str], job: str) -> dict[str, Any]:
    return json.loads(call("show", job, "--json"))


@pytest.fixture
def job(room: Room, call: Callable[..., str]) -> Iterator[str]:
    """A job that has committed some epochs."""
    out = room.folder / f"job{time.monotonic_ns()}"
    job = call("run", "--detached", "--name", f"job-{out.name}", str(room.program), str(out), "200").strip()
    assert len(job) == 32
    until(lambda: (status_of(call, job)["status"] or {}).get("epoch", 0) >= 3, "three epochs")
    yield job
    if job in [each["id"] for each in json.loads(call("list", "--json"))]:
        call("cancel", job)


def counts_in(folder: Path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for file in sorted(folder.glob("out/part-*")):
        for row in map(json.loads, file.read_text().splitlines()):
            found.setdefault(row["f0"], []).append(row["f1"])
    return {key: sorted(values) for key, values in found.items()}


@pytest.mark.row(140)
def test_a_manager_is_started_shown_and_stood_by_for(room: Room, call: Callable[..., str]):
    overview = json.loads(call("cluster", "status", "--json"))
    assert overview["version"]
    shown = call("cluster", "status")
    url = call("open", "--no-browser").strip()
    assert url.startswith("http://127.0.0.1:")
    assert url in shown
    assert "manager" in call("doctor")
    assert json.loads(call("open", "--json")) == {"url": url}
    standby = room.json("cluster", "start", "--port", "0")
    seen = json.loads(call("cluster", "status", "--json", "--manager", standby["url"]))
    try:
        assert standby["standby"] is True
        assert standby["url"] != url
        assert (overview["is_leader"], seen["is_leader"]) == (True, False)
        # Whoever asks the standby sees the same jobs.
        assert isinstance(json.loads(call("list", "--json", "--manager", standby["url"])), list)
    finally:
        os.kill(seen["pid"], signal.SIGTERM)
        until(lambda: not Path(f"/proc/{seen['pid']}").exists(), "the standby's end")


@pytest.mark.row(142, 145, 146)
def test_a_job_from_its_start_to_its_end(room: Room, call: Callable[..., str], job: str):
    listed = json.loads(call("list", "--json"))
    (mine,) = [each for each in listed if each["id"] == job]
    assert mine["status"] == "RUNNING"
    table = call("list")
    assert job[:8] in table
    assert mine["name"] in table
    assert status_of(call, mine["name"])["plan"]["name"] == "counting"

    shown = status_of(call, job[:10])
    assert {"job", "status", "plan"} == set(shown)
    assert shown["job"]["id"] == job
    assert {each["uid"] for each in shown["plan"]["operators"]} >= {"numbers", "counts", "out"}
    picture = call("show", job)
    assert "RUNNING" in picture
    assert "epoch" in picture

    assert call("logs", job) == "program starts\n"
    assert "and says so" in call("logs", "--err", job)
    assert call("logs", "--lines", "0", job) == ""
    assert json.loads(call("logs", "--json", job))["text"] == "program starts\n"

    path = call("savepoint", "take", job, "--tag", "early").strip()
    assert Path(path).is_dir()
    (taken,) = json.loads(call("savepoint", "list", job, "--json"))
    assert (taken["path"], taken["tags"]) == (path, ["early"])
    assert path in call("savepoint", "list", job)
    own = call("savepoint", "take", job, str(room.folder / "savepoints")).strip()
    assert Path(own).parent == room.folder / "savepoints"

    assert json.loads(call("cancel", job, "--json")) == {"canceled": job}
    assert status_of(call, job)["job"]["status"] == "CANCELED"
    assert job[:8] not in call("list")
    assert job[:8] in call("list", "--all")
    call("stop", job, status=5)

    restarted = json.loads(call("restart", job, "--from-savepoint", "latest", "--json"))
    assert restarted["id"] == job
    until(lambda: status_of(call, job)["job"]["status"] == "RUNNING", "the job's restart")
    last = call("stop", job, "--savepoint").strip()
    assert Path(last).is_dir()
    until(lambda: status_of(call, job)["job"]["status"] in ("FINISHED", "CANCELED"), "the job's end")
    assert json.loads(call("forget", job, "--json")) == {"forgotten": job}
    assert "there is no job" in call("show", job, status=4)


def test_a_job_is_rescaled_and_loses_nothing(room: Room, call: Callable[..., str]):
    out = room.folder / "rescaled"
    job = call("run", "-d", "-p", "1", str(room.program), str(out), "300").strip()
    until(lambda: (status_of(call, job)["status"] or {}).get("epoch", 0) >= 2, "two epochs")
    assert json.loads(call("rescale", job, "--parallelism", "2", "--json"))["id"] == job
    until(lambda: status_of(call, job)["job"]["parallelism"] == 2, "parallelism 2")
    before = len(counts_in(out).get("key_0", []))
    until(lambda: len(counts_in(out).get("key_0", [])) > before, "more output")
    assert "follows the backlog, auto 1..2" in call("rescale", job, "-p", "auto", "--least", "1", "--most", "2")
    assert "follows the backlog, auto 1..4" in call("rescale", job, "--parallelism", "auto")
    call("cancel", job)
    counts = counts_in(out)
    assert set(counts) == {f"key_{n}" for n in range(5)}
    for values in counts.values():
        assert values == list(range(1, len(values) + 1))


def test_state_is_looked_up(room: Room, call: Callable[..., str], job: str):
    (state,) = json.loads(call("state", "list", job, "--json"))
    assert state["name"] == "latest"
    assert "latest" in call("state", "list", job)
    answer = json.loads(call("state", "get", job, "-", "latest", "key_1", "--json"))
    assert (answer["found"], answer["value"], answer["committed"]) == (True, ["key_1", 1], True)
    assert call("state", "get", job, state["operator"], "latest", "key_1") == '["key_1", 1]\n'
    assert "has no key nobody" in call("state", "get", job, "-", "latest", "nobody", status=1)
    page = json.loads(call("state", "scan", job, "-", "latest", "--prefix", "key_", "--limit", "2", "--json"))
    assert [each["key"] for each in page["entries"]] == ["key_0", "key_1"]
    assert "key_2" in call("state", "scan", job, "-", "latest", "--after", page["after"])
    checkpoints = status_of(call, job)["job"]["checkpoint_dir"]
    assert json.loads(call("state", "get", checkpoints, "-", "latest", "key_1", "--json"))["found"]
    watched = subprocess.Popen(
        [sys.executable, "-m", "flintstream", "state", "watch", job, "-", "latest", "key_1", "--json"],
        env=room.environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert watched.stdout is not None
    try:
        assert json.loads(watched.stdout.readline())["value"] == ["key_1", 1]
    finally:
        watched.send_signal(signal.SIGINT)
        assert watched.wait(PATIENCE) == 130


def test_run_follows_a_job_to_its_end_and_ctrl_c_cancels_it(room: Room, call: Callable[..., str]):
    (room.folder / "short.py").write_text("import sys\nprint('out')\nprint('err', file=sys.stderr)\n")
    done = subprocess.run(
        [sys.executable, "-m", "flintstream", "run", "short.py"],
        env=room.environment, cwd=room.folder, capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "out\n"), done.stderr
    assert "err\n" in done.stderr
    (room.folder / "broken.py").write_text("raise SystemExit('broken today')\n")
    options = ["-D", "restart-strategy.type=none"]
    told = room.call("run", *options, "broken.py", status=1)
    assert "broken today" in told

    out = room.folder / "followed"
    running = subprocess.Popen(
        [sys.executable, "-m", "flintstream", "run", "--name", "followed", str(room.program), str(out), "100"],
        env=room.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert running.stdout is not None
    assert running.stdout.readline() == "program starts\n"
    running.send_signal(signal.SIGINT)
    assert running.wait(PATIENCE) == 130
    told = running.communicate()[1]
    job = told.split("job ")[1].split(" ")[0]
    assert status_of(call, job)["job"]["status"] == "CANCELED"


def test_here_needs_no_manager(room: Room):
    (room.folder / "short.py").write_text("print('here')\n")
    before = room.json("list", "--all")
    assert room.call("run", "--here", "short.py") == "here\n"
    assert len(room.json("list", "--all")) == len(before)


def test_the_demo_runs_in_the_manager(room: Room, call: Callable[..., str]):
    job = call("demo", "--runtime", "local", "--rate", "5000").strip()
    try:
        until(lambda: (status_of(call, job)["status"] or {}).get("records_in", 0) > 0, "readings")
        assert status_of(call, "AverageSensorReadings")["job"]["id"] == job
    finally:
        call("cancel", "AverageSensorReadings")


def test_a_shell_completes_jobs(room: Room, call: Callable[..., str], job: str):
    environment = {
        **room.environment,
        "_FLINTSTREAM_COMPLETE": "complete_bash",
        "COMP_WORDS": f"flintstream show {job[:6]}",
        "COMP_CWORD": "2",
    }
    code = "from flintstream.jobs.command import app; app(prog_name='flintstream')"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert job in done.stdout.split(), done.stderr


def test_every_command_takes_json():
    import typer.main

    group = typer.main.get_command(app)
    found: list[tuple[str, bool]] = []

    def visit(command: Any, name: str) -> None:
        for child, each in getattr(command, "commands", {}).items():
            visit(each, f"{name} {child}".strip())
        if not hasattr(command, "commands"):
            found.append((name, any("--json" in option.opts for option in command.params)))

    visit(group, "")
    assert len(found) > 25
    assert [name for name, has_json in found if not has_json] == []
