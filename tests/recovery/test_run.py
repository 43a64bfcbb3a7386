"""`python -m flintstream run`: programs that are killed for real go on by themselves, and end as they should."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from flintstream.api import environment
from flintstream.engine.restart_log import RestartLog
from flintstream.errors import InvalidArgumentError
from flintstream.jobs import child
from flintstream.jobs.supervise import supervise
from tests.crash.harness import RECORDS, Folders, JobProcess, check_manifests, check_output

RUN = [sys.executable, "-m", "flintstream", "run"]
AT_ONCE = ["-D", "restart-strategy.type=fixed-delay", "-D", "restart-strategy.fixed-delay.delay=0"]
FIVE_TIMES = [*AT_ONCE, "-D", "restart-strategy.fixed-delay.attempts=5"]
PATIENCE = 60


def write(folder: Path, text: str, name: str = "app.py") -> str:
    (folder / name).write_text(textwrap.dedent(text))
    return str(folder / name)


def run(folder: Path, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUN, *command], cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False, **options
    )


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Programs under a supervisor; what still runs when the test ends is killed."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()
        process.communicate()


def start(started: list[subprocess.Popen[str]], folder: Path, *command: str) -> subprocess.Popen[str]:
    started.append(
        subprocess.Popen([*RUN, *command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    )
    return started[-1]


def wait_for(condition: Any, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def as_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Runs a program as the supervisor's child does, but in this process; returns its status and what it told."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", list(sys.path))
    log = RestartLog(tmp_path / "log")
    monkeypatch.setattr(child, "of_this_process", lambda: log)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield lambda *argv: (child.main(list(argv)), log.ending(os.getpid()))
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_a_program_gets_its_arguments_and_finds_its_neighbours(tmp_path: Path, as_child: Any, capsys: Any):
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "elsewhere", "WORD = 'beside'", "neighbour.py")
    program = write(
        tmp_path / "elsewhere",
        """
        import sys, neighbour
        from flintstream import StreamExecutionEnvironment
        if __name__ == "__main__":
            env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
            env.from_collection(sys.argv[1:]).map(lambda word: f"{neighbour.WORD} {word}").print()
            env.execute()
        """,
    )
    assert as_child("script", program, "--one", "two") == (0, None)
    assert capsys.readouterr().out.splitlines() == ["beside --one", "beside two"]


def test_a_module_is_run_by_its_name(tmp_path: Path, as_child: Any, capsys: Any):
    (tmp_path / "package_of_test_run").mkdir()
    write(tmp_path / "package_of_test_run", "", "__init__.py")
    write(tmp_path / "package_of_test_run", "import sys; print(__name__, sys.argv[1:])", "app.py")
    assert as_child("module", "package_of_test_run.app", "x") == (0, None)
    assert capsys.readouterr().out == "__main__ ['x']\n"


def test_a_wrong_program_says_that_no_restart_will_help(tmp_path: Path, as_child: Any, capsys: Any):
    program = write(
        tmp_path,
        """
        from flintstream import StreamExecutionEnvironment
        env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        env.from_collection([1]).key_by(3.5).print()
        """,
    )
    status, ending = as_child("script", program)
    assert status == 1 and not ending.may_restart
    (told,) = capsys.readouterr().err.splitlines()
    assert told == f"flintstream: {ending.line}" and "app.py:4" in told


@pytest.mark.parametrize(("text", "status"), [("import sys; sys.exit(3)", 3), ("raise SystemExit", None)])
def test_a_status_of_the_programs_own_making_is_passed_on(tmp_path: Path, as_child: Any, text: str, status: Any):
    with pytest.raises(SystemExit) as caught:
        as_child("script", write(tmp_path, text))
    assert caught.value.code == status


def test_an_error_of_the_programs_own_may_pass_once_a_job_has_begun(tmp_path: Path, as_child: Any, capsys: Any):
    """Before that the program is wrong and not unlucky, unless it got as far in an earlier life."""
    status, ending = as_child("script", write(tmp_path, "raise ConnectionError('not yet')"))
    assert status == 1 and not ending.may_restart and ending.line == "ConnectionError: not yet"
    told = capsys.readouterr().err.splitlines()
    # As Python shows it: the program's own lines, and none of the modules that ran it.
    assert told[0].startswith("Traceback") and 'app.py", line 1' in told[1] and told[-1] == ending.line
    assert len(told) <= 4
    RestartLog(tmp_path / "log").began()
    _, ending = as_child("script", write(tmp_path, "raise ConnectionError('not now')"))
    assert ending.may_restart and ending.line == "ConnectionError: not now"


def test_a_job_that_was_run_has_begun(tmp_path: Path, as_child: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any):
    program = write(
        tmp_path,
        """
        from flintstream import StreamExecutionEnvironment
        env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        env.from_collection([0]).map(lambda n: 1 / n).print()
        env.execute()
        """,
    )
    monkeypatch.setattr(environment, "of_this_process", child.of_this_process)
    _, ending = as_child("script", program)
    assert ending.may_restart and "ZeroDivisionError" in ending.line
    told = capsys.readouterr().err
    # The user's own part of the traceback, once, and nothing of ours.
    assert told.startswith(f"flintstream: {ending.line}\n") and told.count("Traceback") == 1
    assert "/flintstream/" not in told


def test_a_job_and_its_supervisor_count_failures_together(tmp_path: Path):
    program = write(
        tmp_path,
        """
        import os, signal
        from pathlib import Path
        from flintstream import RestartStrategies, StreamExecutionEnvironment

        def fails(n):
            tries = Path("tries")
            tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
            if len(tries.read_text()) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("every time")

        env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        env.set_restart_strategy(RestartStrategies.fixed_delay_restart(4, 0))
        env.from_collection([1]).map(fails).print()
        env.execute()
        """,
    )
    done = run(tmp_path, program)
    # Four restarts of either kind, so five tries in all.
    assert len((tmp_path / "tries").read_text()) == 5
    assert done.returncode == 1
    assert "was killed by SIGKILL" in done.stderr and "restart 2 in 0ms" in done.stderr
    # The error itself once, by the program; the supervisor adds what it decided, and why.
    assert done.stderr.count("Traceback") == 1
    assert "UserFunctionError" in done.stderr.split("is not started again")[1]


@pytest.mark.parametrize("key", ["restart-strategy.type", "pipeline.name", "restart-strategy.fixed-delay.delay"])
def test_wrong_settings_are_refused(tmp_path: Path, key: str):
    with pytest.raises(InvalidArgumentError, match=re.escape(key)):
        supervise(write(tmp_path, ""), settings={key: "7"})


def test_a_program_that_is_not_there_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"there is no program 'absent\.py'"):
        supervise("absent.py")


ENDLESS = """
    from flintstream import StreamExecutionEnvironment
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    env.set_checkpoint_dir("checkpoints")
    env.generate(generator=lambda i: i, rate=1000, splits=1).key_by(lambda n: 0).reduce(lambda a, b: a + b).print()
    env.execute("endless")
"""


def test_a_signal_stops_the_job_and_ends_it_all(tmp_path: Path, started: Any):
    program = write(tmp_path, ENDLESS)
    process = start(started, tmp_path, program)
    wait_for((tmp_path / "checkpoints" / "manifests").is_dir, process)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, told
    assert "stopped endless; run it again to go on from checkpoints" in told
    assert "restart" not in told and "Traceback" not in told
    assert list((tmp_path / "checkpoints" / "lease").iterdir()) == []


def test_a_program_stops_when_its_supervisor_is_killed(tmp_path: Path, started: Any):
    program = write(tmp_path, ENDLESS)
    process = start(started, tmp_path, program)
    wait_for((tmp_path / "checkpoints" / "manifests").is_dir, process)
    (child,) = psutil.Process(process.pid).children()
    process.kill()
    child.wait(PATIENCE)
    assert list((tmp_path / "checkpoints" / "lease").iterdir()) == []


def driver_of(supervised: JobProcess) -> int | None:
    """The process at work, which is not the supervisor itself."""
    try:
        children = supervised.handle.children()
    except psutil.NoSuchProcess:
        return None
    return children[0].pid if children else None


def kill_and_wait(supervised: JobProcess, victims: Sequence[Callable[[int], int]]) -> None:
    """Kill what each function makes of the driver, each time after it has committed something; wait for the end."""
    for victim_of in victims:
        assert supervised.wait_for_epochs(1), supervised.said()
        driver = driver_of(supervised)
        assert driver is not None
        victim = victim_of(driver)
        os.killpg(victim, signal.SIGKILL) if victim == driver else os.kill(victim, signal.SIGKILL)
        assert supervised.wait_until(lambda old=driver: driver_of(supervised) not in (None, old), "a new driver")
    assert supervised.finish() == 0, supervised.said()


def itself(driver: int) -> int:
    return driver


def its_jvm(driver: int) -> int:
    return next(child.pid for child in psutil.Process(driver).children(recursive=True) if child.name() == "java")


def test_a_driver_that_is_killed_again_and_again_goes_on_by_itself(tmp_path: Path):
    folders = Folders(tmp_path)
    supervised = JobProcess(folders, 20_000, runtime="local", launcher=[*RUN[1:], *FIVE_TIMES], **{RECORDS: "1000"})
    try:
        kill_and_wait(supervised, [itself, itself])
    finally:
        supervised.close()
    assert supervised.said().count("was killed by SIGKILL") == 2
    check_output(folders, 20_000)
    check_manifests(folders)


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.row(67)
@pytest.mark.parametrize(
    ("victim", "words"),
    [
        pytest.param(itself, "was killed by SIGKILL", id="the driver"),
        pytest.param(its_jvm, "LostRuntimeError: Spark has gone away", id="its JVM", marks=pytest.mark.slow),
    ],
)
def test_a_driver_on_spark_that_is_killed_or_loses_its_jvm_goes_on_by_itself(tmp_path: Path, victim: Any, words: str):
    folders = Folders(tmp_path)
    supervised = JobProcess(folders, 60_000, launcher=[*RUN[1:], *FIVE_TIMES], **{RECORDS: "20000"})
    try:
        kill_and_wait(supervised, [victim])
    finally:
        supervised.close()
    assert words in supervised.said()
    check_output(folders, 60_000)
    check_manifests(folders)
