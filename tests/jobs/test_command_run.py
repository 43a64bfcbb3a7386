"""Programs from the command line without a manager: entry points, explanations, and what each end means."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from flintstream.errors import InvalidArgumentError
from flintstream.jobs.command import main
from flintstream.jobs.command_run import submit
from flintstream.jobs.entry import find_entry
from flintstream.jobs.launch import Given, own_arguments, spec_of
from flintstream.jobs.shown import exit_status, number, size, span
from flintstream.jobs.spec import JobSpec

PROGRAM = """
    import sys

    from flintstream import StreamExecutionEnvironment

    def words(argv):
        env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        env.from_collection(argv or ["nothing"]).map(str.upper).print()
        env.execute("words")

    class AverageSensorReadings:
        @staticmethod
        def main():
            words(["average", *sys.argv[1:]])

    class Instance:
        def main(self, argv):
            words(["instance", *argv])

    class NoEntry:
        pass

    if __name__ == "__main__":
        words(["script", *sys.argv[1:]])
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "jobs.py").write_text(textwrap.dedent(PROGRAM))
    (tmp_path / "app.py").write_text(textwrap.dedent(PROGRAM))
    return tmp_path / "app.py"


def flintstream(*argv: str, **how: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flintstream", *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False, **how)


@pytest.mark.row(142)
def test_the_entry_of_a_program_runs(app: Path):
    done = flintstream("run", "-c", "pkg.AverageSensorReadings", str(app), "--", "-x", cwd=app.parent)
    # Nothing in the package has that name, but the program itself has.
    assert (done.returncode, done.stdout) == (0, "AVERAGE\n-X\n"), done.stderr


@pytest.mark.parametrize(
    ("argv", "printed"),
    [
        (["app.py", "a"], "SCRIPT\nA\n"),
        (["-c", "words", "app.py", "a"], "A\n"),
        (["-c", "app.Instance", "app.py", "a"], "INSTANCE\nA\n"),
        (["-c", "pkg.jobs.Instance", "app.py", "a"], "INSTANCE\nA\n"),
        (["-c", "pkg.jobs", "app.py", "a"], "SCRIPT\nA\n"),
        (["-m", "pkg.jobs", "a"], "SCRIPT\nA\n"),
        (["-m", "-c", "Instance", "pkg.jobs", "a"], "INSTANCE\nA\n"),
        (["-c", "jobs.words", "pkg", "a"], "A\n"),
    ],
)
def test_what_runs_is_what_was_named(argv: list[str], printed: str, app: Path):
    done = subprocess.run(
        [sys.executable, "-m", "flintstream.jobs.child", *_child(argv)],
        capture_output=True, text=True, check=False, cwd=app.parent,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, printed), done.stderr


def _child(argv: list[str]) -> list[str]:
    """Return the child's own argv for what a user types."""
    rest, entry, kind = list(argv), [], "script"
    while rest[0].startswith("-"):
        if rest[0] == "-c":
            entry = ["--entry", rest[1]]
        else:
            kind = "module"
        rest = rest[2:] if rest[0] == "-c" else rest[1:]
    return [*entry, kind, *rest]


@pytest.mark.parametrize(
    ("entry", "message"),
    [("pkg.Nothing", "has no entry 'pkg.Nothing'"), ("NoEntry", "name a class with a method main")],
)
def test_an_entry_that_is_none_is_one_line(entry: str, message: str, app: Path):
    done = flintstream("run", "-c", entry, str(app), cwd=app.parent)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_an_entry_is_found_in_the_program_before_what_can_be_imported():
    program = type(sys)("program")
    program.json = "mine"  # type: ignore[attr-defined]
    assert find_entry(program, "json") == "mine"
    assert find_entry(None, "json.dumps") is json.dumps
    with pytest.raises(InvalidArgumentError, match=r"no entry 'no\.such\.thing'"):
        find_entry(None, "no.such.thing")


def test_a_program_is_explained_and_not_run(app: Path):
    done = flintstream("explain", str(app), "a", cwd=app.parent)
    assert done.returncode == 0, done.stderr
    assert "Collection Source" in done.stdout
    assert "SCRIPT" not in done.stdout
    done = flintstream(
        "explain", "--json", "-c", "words", "-D", "pipeline.max-parallelism=64", str(app), cwd=app.parent
    )
    document = json.loads(done.stdout)
    assert document["name"] == "words"
    assert [node["type"] for node in document["plan"]["nodes"]] == ["Source: Collection Source", "Map", "Sink: Print"]
    assert "64 key groups" in document["text"]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("print('nothing to do')", "ended before it came to an execute()"),
        ("raise ValueError('broken')", "failed before it came to an execute()"),
        (
            "from flintstream import *\nStreamExecutionEnvironment.get_execution_environment().execute()",
            "failed before it came to an execute()",
        ),
    ],
)
def test_a_program_without_a_plan_says_why(program: str, message: str, tmp_path: Path, capfd: Any):
    (tmp_path / "app.py").write_text(program)
    assert main(["explain", "--json", str(tmp_path / "app.py")]) == 1
    told = capfd.readouterr()
    assert message in told.err
    assert told.out == ""


def test_a_program_that_catches_everything_is_not_run_either(tmp_path: Path, capfd: Any):
    (tmp_path / "app.py").write_text(
        textwrap.dedent(
            """
            from flintstream import StreamExecutionEnvironment
            env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
            env.from_collection([1]).print()
            try:
                env.execute("first")
            except Exception:
                env.execute("second")
            """
        )
    )
    assert main(["explain", "--json", str(tmp_path / "app.py")]) == 0
    assert json.loads(capfd.readouterr().out)["name"] == "first"


def test_what_the_command_line_says_reaches_the_job(app: Path, tmp_path: Path):
    (tmp_path / "tell.py").write_text(
        textwrap.dedent(
            """
            import os
            from flintstream import StreamExecutionEnvironment
            env = StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(2)
            env.from_collection([1]).rebalance().map(str).print()
            plan = env.compile()
            print(plan.name, max(op.parallelism for op in plan.operators), os.environ["SECRET"])
            """
        )
    )
    options = ["--name", "mine", "-p", "3", "--env", "SECRET= a=b "]
    done = flintstream("run", *options, str(tmp_path / "tell.py"), cwd=tmp_path)
    assert done.stdout == "mine 3  a=b \n", done.stderr


def test_a_job_for_a_manager_runs_where_it_was_asked_for(app: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", "lib")
    monkeypatch.setenv("FLINTSTREAM_RUNTIME", "local")
    monkeypatch.setenv("PASSWORD", "of this shell")
    spec = spec_of(
        Given("app.py", ("a",), settings=("parallelism.default = 2",), variables=("X=1",), savepoint="s", name="n")
    )
    assert spec.program == str(app)
    assert (spec.arguments, spec.settings, spec.name) == (("a",), {"parallelism.default": "2"}, "n")
    assert spec.working_directory == str(app.parent)
    assert spec.python_path == (str(app.parent / "lib"),)
    assert spec.savepoint == str(app.parent / "s")
    # Variables of this shell are its own, but for the one that says where jobs run.
    assert spec.environment == {"FLINTSTREAM_RUNTIME": "local", "X": "1"}
    assert spec_of(Given("pkg.jobs", is_module=True)).module == "pkg.jobs"
    with pytest.raises(InvalidArgumentError, match=r"there is no program 'nothing\.py'"):
        spec_of(Given("nothing.py"))


class Elsewhere:
    """A client of a manager on another machine, which keeps what it was given."""

    url = "http://192.0.2.1:8081"

    def submit(self, spec: JobSpec, upload: Path | None = None) -> tuple[JobSpec, Path | None]:
        return spec, upload


def test_a_manager_elsewhere_gets_the_program_itself(app: Path):
    spec, upload = submit(Elsewhere(), spec_of(Given("app.py", ("a",))), None)  # type: ignore[arg-type, misc]
    assert upload == app
    assert (spec.program, spec.working_directory, spec.python_path, spec.arguments) == ("app.py", None, (), ("a",))
    spec, upload = submit(Elsewhere(), spec_of(Given("pkg.jobs", is_module=True)), None)  # type: ignore[arg-type, misc]
    assert (spec.module, spec.working_directory, upload) == ("pkg.jobs", None, None)


def test_a_checkpoint_directory_tells_of_its_job(app: Path, capsys: pytest.CaptureFixture[str]):
    done = flintstream("run", "-D", "execution.checkpointing.dir=kept", str(app), "--json", "a", cwd=app.parent)
    # What follows the program is the program's.
    assert done.stdout == "SCRIPT\n--JSON\nA\n", done.stderr
    done = flintstream("run", "--json", "-D", "execution.checkpointing.dir=kept", str(app), cwd=app.parent)
    assert json.loads(done.stdout) == {"exit_status": 0}
    assert main(["show", "./kept", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["name"], document["status"], document["process"]) == ("words", "FINISHED", None)
    assert document["epoch"] >= 1
    assert main(["show", "kept"]) == 0
    shown = capsys.readouterr().out
    assert "FINISHED" in shown
    assert "words" in shown


def test_arguments_may_stand_behind_two_dashes():
    assert own_arguments(["--", "-x", "--"]) == ("-x", "--")
    assert own_arguments(["-x", "--", "y"]) == ("-x", "--", "y")


@pytest.mark.parametrize(
    ("argv", "status", "message"),
    [
        (["list"], 3, "flintstream cluster start"),
        (["run", "--detached", "app.py"], 3, "flintstream cluster start"),
        (["logs", "orders"], 3, "flintstream cluster start"),
        (["rescale", "orders", "-p", "2"], 3, "flintstream cluster start"),
        (["restart", "orders"], 3, "flintstream cluster start"),
        (["forget", "orders"], 3, "flintstream cluster start"),
        (["cluster", "status"], 3, "flintstream cluster start"),
        (["open"], 3, "flintstream cluster start"),
        (["show", "./nowhere"], 4, "neither a job of a manager nor a checkpoint directory"),
        (["list", "--manager", "http://127.0.0.1:1"], 3, "127.0.0.1:1"),
        (["list", "--manager", "ftp://x"], 2, "ftp://x"),
        (["rescale", "orders", "-p", "many"], 2, "give 1 or more, or auto"),
        (["rescale", "orders", "-p", "auto", "--least", "3", "--most", "2"], 2, "give the least first"),
        (["rescale", "orders", "-p", "2", "--most", "3"], 2, "--parallelism auto"),
        (["savepoint", "take", "./nowhere"], 2, "name a directory"),
        (["run", "--env", "SECRET", "app.py"], 2, "--env NAME=VALUE"),
        (["explain", "nothing.py"], 2, "there is no program"),
    ],
)
def test_each_failure_has_its_status_and_a_remedy(
    argv: list[str], status: int, message: str, app: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(argv) == status
    told = capsys.readouterr()
    assert message in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""


def test_detached_and_here_exclude_each_other(app: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["run", "--detached", "--here", str(app)]) == 2
    assert "--here" in capsys.readouterr().err


def test_ctrl_c_ends_a_command_with_130(monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("flintstream.jobs.command_jobs.manager_at", interrupted)
    assert main(["list"]) == 130


def test_a_reader_that_leaves_is_no_error_of_ours(app: Path):
    command = f"{sys.executable} -m flintstream doctor --json | head -c 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout == "{"
    assert "Traceback" not in done.stderr


def test_no_colours_where_nobody_sees_them(capsys: pytest.CaptureFixture[str]):
    assert main(["doctor"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_the_release_is_told(capsys: pytest.CaptureFixture[str]):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip()


def test_errors_of_others_end_with_1():
    assert exit_status(OSError("disk")) == 1
    assert exit_status(ValueError("x")) == 1


def test_numbers_are_written_as_people_read_them():
    assert (size(900), size(5 << 30)) == ("900 B", "5.0 GiB")
    assert (span(0), span(59_999), span(3_600_000)) == ("0 ms", "60.0 s", "1 h 0 min")
    assert (number(9_999), number(10_000), number(2.5), number(1e12)) == ("9999", "10.0 k", "2.50", "1000.0 G")


def test_commands_need_no_package_of_the_manager(app: Path):
    code = textwrap.dedent(
        """
        import sys
        for name in ("fastapi", "uvicorn", "httptools", "starlette", "python_multipart"):
            sys.modules[name] = None
        from flintstream.jobs.command import main
        assert main(["run", "app.py"]) == 0
        sys.exit(main(["cluster", "start", "--port", "0", "--foreground"]))
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=app.parent)
    assert (done.returncode, done.stdout) == (1, "SCRIPT\n")
    assert "pip install 'flintstream[manager]'" in done.stderr
    assert "Traceback" not in done.stderr
