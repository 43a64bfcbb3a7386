"""Commands in the hands of someone who errs: each mistake is one clear line, JSON where that was asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flintstream.errors import EnvironmentSetupError, InvalidArgumentError, TokenError
from flintstream.jobs.client_http import Wire, error_of
from flintstream.jobs.command import main
from flintstream.jobs.command_show import list_row
from flintstream.jobs.launch import Given, spec_of
from flintstream.jobs.manager import Manager
from flintstream.jobs.server import start_detached
from flintstream.jobs.spec import JobSpec, check_program, token_of
from flintstream.jobs.view import JobView

SECONDS = 60.0
LONG = "a" * 80


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLINTSTREAM_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FLINTSTREAM_MANAGER", raising=False)
    return tmp_path


def flintstream(*argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flintstream", *argv]
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS, env=environment)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["list", "--json", "--nope"], "--nope"),
        (["nosuch", "--json"], "nosuch"),
        (["run", "--json", "-p", "0", "app.py"], "parallelism"),
        (["run", "--json", "--detached", "--here", "app.py"], "--here"),
        (["state", "watch", "./job", "-", "totals", "--json"], "--prefix"),
    ],
)
def test_a_wrong_call_is_told_as_json_too(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert main(argv) == 2
    told = capsys.readouterr()
    found = json.loads(told.err)
    assert found["code"] == "usage"
    assert message in found["error"]
    assert told.out == ""


def test_json_of_the_program_itself_is_not_ours(nowhere: Path):
    (nowhere / "app.py").write_text("import sys; print(sys.argv[1:])")
    done = flintstream("run", "app.py", "--", "--json")
    assert (done.returncode, done.stdout) == (0, "['--json']\n")


def test_letters_that_the_terminal_does_not_know_are_escaped():
    done = flintstream("doctor", "--checkpoint-dir", "./größe", PYTHONIOENCODING="ascii")
    assert "Traceback" not in done.stderr
    assert "free in gr\\xf6\\xdfe" in done.stdout


def test_a_directory_without_savepoints_says_so(capsys: pytest.CaptureFixture[str]):
    assert main(["savepoint", "list", "./empty"]) == 0
    assert capsys.readouterr().out == "no savepoints in ./empty\n"


@pytest.mark.parametrize(
    ("argv", "status", "message"),
    [
        (["list", "--home", "~no-such-user/x"], 2, "nobody knows whose home"),
        (["list", "--home", "file"], 1, "cannot be read"),
        (["cluster", "stop", "--home", "file"], 1, "cannot be read"),
        (["cluster", "start", "--home", "file"], 1, "cannot be used (File exists)"),
        (["cluster", "start", "--home", "file/below"], 1, "cannot be used (Not a directory)"),
        (["cluster", "start", "--foreground", "--home", "file"], 1, "cannot be used (File exists)"),
        (["cluster", "start", "--foreground", "--host", LONG], 1, "it cannot be a name"),
        (["cluster", "start", "--foreground", "--host", "192.0.2.1"], 1, "is no address of this machine; give another"),
        (["rescale", "orders", "-p", "²"], 2, "give 1 or more, or auto"),
        (["rescale", "orders", "-p", "9" * 5_000], 2, "give 1 or more, or auto"),
        (["rescale", "orders", "-p", "100000"], 2, "from 1 to 32768"),
        (["show", "./job", "--watch"], 2, "--watch is for jobs of a manager"),
        (["show", "orders", "--watch", "--json"], 2, "--watch goes on"),
        (["run", "-D", "restart-strategy.type=bogus", "app.py"], 2, "is 'bogus'; set it to"),
    ],
)
def test_a_mistake_is_one_line(
    argv: list[str], status: int, message: str, nowhere: Path, capsys: pytest.CaptureFixture[str]
):
    (nowhere / "file").touch()
    (nowhere / "app.py").touch()
    argv = [*argv, "--port", "0"] if argv[:2] == ["cluster", "start"] else argv
    assert main(argv) == status
    told = capsys.readouterr()
    assert message in told.err
    assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1", "http://localhost:abc", "http://localhost:99999", "http://exa mple", f"http://{LONG}.x",
        "http://localhost:8081/?a=b", "http://localhost:8081#jobs", "http://", "http://u:hunter2@localhost:8081",
    ],
)  # fmt: skip
def test_what_is_no_address_of_a_manager_is_said_at_once(url: str, capsys: pytest.CaptureFixture[str]):
    assert main(["list", "--manager", url]) == 2
    told = capsys.readouterr().err
    assert "is no address of a manager; give one such as http://localhost:8081" in told
    assert "hunter2" not in told


@pytest.mark.parametrize("url", ["http://[::1]:8081", "https://example.org/flintstream/", "http://a-b.c_d:1"])
def test_an_address_may_have_a_path_and_any_host(url: str):
    assert Wire(url, None, 1.0).url == url.rstrip("/")


def test_whoever_has_a_wrong_token_learns_where_one_is_given():
    error = error_of({"status": 401, "detail": "the token is wrong", "remedy": "send it as a header"})
    assert isinstance(error, TokenError)
    assert str(error).startswith("the token is wrong; set FLINTSTREAM_TOKEN")


def test_a_manager_that_cannot_even_write_its_log_says_why_it_did_not_start(nowhere: Path):
    (nowhere / "home" / "log").mkdir(parents=True)
    (nowhere / "home" / "log" / "manager.log").symlink_to("/dev/full")
    (nowhere / "home" / "token").touch()
    with pytest.raises(EnvironmentSetupError, match="did not start; the manager's token is empty"):
        start_detached(nowhere / "home", port=0)


def test_a_disk_that_is_full_leaves_no_piece_of_a_token(nowhere: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(EnvironmentSetupError, match=r"No space left.*--home DIR"):
        Manager(nowhere / "home")
    assert [path.name for path in (nowhere / "home").glob(".token*")] == []
    with pytest.raises(EnvironmentSetupError, match="No space left"):
        token_of(nowhere / "home")


def test_a_name_that_no_file_can_have_is_no_program():
    for spec in (JobSpec(program=f"/{'n' * 3_000}.py"), JobSpec(program="x.py", working_directory=f"/{'n' * 3_000}")):
        with pytest.raises(InvalidArgumentError, match="there is no"):
            check_program(spec, None)


def test_a_directory_that_is_gone_is_said(nowhere: Path, monkeypatch: pytest.MonkeyPatch):
    (nowhere / "gone").mkdir()
    (nowhere / "app.py").touch()
    monkeypatch.chdir(nowhere / "gone")
    (nowhere / "gone").rmdir()
    with pytest.raises(InvalidArgumentError, match="is gone; go to another one"):
        spec_of(Given(program=str(nowhere / "app.py")))


def test_a_restart_strategy_that_is_none_names_no_line_of_ours():
    with pytest.raises(InvalidArgumentError) as caught:
        JobSpec(module="app", settings={"restart-strategy.type": "bogus"})
    assert str(caught.value).startswith("restart-strategy.type is 'bogus'; set it to none or")


@pytest.mark.parametrize(
    ("program", "status", "last"),
    [
        ("import sys; sys.exit(7)", 7, "SystemExit: 7"),
        ("import sys; sys.exit('say which day')", 1, "SystemExit: say which day"),
        ("def f(:\n  pass\n", 1, "SyntaxError: invalid syntax (app.py, line 1)"),
    ],
)
def test_a_program_that_does_not_get_to_its_job_is_not_started_again(
    program: str, status: int, last: str, nowhere: Path
):
    (nowhere / "app.py").write_text(program)
    done = flintstream("run", "--here", "app.py")
    assert done.returncode == status
    assert done.stderr.splitlines()[-1].endswith(f"is not started again: {last}")
    assert "runpy" not in done.stderr


def test_a_module_that_is_not_there_is_said_without_a_traceback():
    done = flintstream("run", "--here", "-m", "no_such.module")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "No module named 'no_such'" in done.stderr


def test_a_long_name_leaves_room_for_the_rest_of_the_list():
    spec = JobSpec(module="app")
    view = JobView("a" * 32, "n" * 5_000, "RUNNING", 1, None, None, 1, 0, 2, None, None, spec, None, "running")
    assert len(str(list_row(view, {}, 2)[1])) == 60


def test_the_doctor_looks_at_the_port_that_a_manager_would_take(capsys: pytest.CaptureFixture[str], monkeypatch: Any):
    monkeypatch.setenv("FLINTSTREAM_PORT", "18765")
    main(["doctor", "--json"])
    names = {each["name"] for each in json.loads(capsys.readouterr().out)["findings"]}
    assert "port 18765" in names
