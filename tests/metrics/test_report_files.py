"""A job's report on disk: written by a program that runs on its own, read here as a manager does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from flintstream import CollectSink
from flintstream.engine.report_files import EPOCHS, PLAN, STATUS, TROUBLES, LineFile, ReportFiles, asked_for

RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "2",
    "restart-strategy.fixed-delay.delay": "10 ms",
}


def run(tmp_path: Path, program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(program))
    return subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "FLINTSTREAM_RUNTIME": "local", **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


PROGRAM = """
    import os
    from flintstream import CollectSink, Configuration, StreamExecutionEnvironment, bounded, count, tumbling

    settings = Configuration.from_dict({"spark.hadoop.fs.s3a.secret.key": "hush", "parallelism.default": "2",
                                        "flintstream.epoch.max-records": "40"})
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.get_config().set_global_job_parameters({"db": "postgres://me:hush@host/db", "password": "hush"})
    rows = env.from_collection([(i % 5, 10 * i) for i in range(100)], type_info=None).uid("rows")
    timed = rows.assign_timestamps_and_watermarks(bounded("1s", on=1)).uid("times")
    timed.key_by(0).window(tumbling("200ms")).agg(n=count()).uid("window").sink_to(CollectSink()).uid("out")
    env.execute("reported")
    assert "FLINTSTREAM_REPORT" not in os.environ and "FLINTSTREAM_ATTEMPT" not in os.environ
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The report of a job that has finished."""
    path = tmp_path_factory.mktemp("finished")
    done = run(path, PROGRAM, FLINTSTREAM_REPORT=str(path / "report"), FLINTSTREAM_ATTEMPT="3")
    assert done.returncode == 0, done.stderr
    return path / "report"


def test_a_finished_job_leaves_its_plan_its_status_and_a_line_for_every_epoch(folder):
    plan, status = (json.loads((folder / name).read_text()) for name in (PLAN, STATUS))
    assert (plan["name"], plan["runtime"], plan["parallelism"], plan["attempt"]) == ("reported", "local", 2, 3)
    assert [op["uid"] for op in plan["operators"]] == ["rows", "times", "window", "out"]
    assert {op["kind"] for op in plan["operators"]} == {"source", "timestamps", "aggregate", "sink"}
    assert [(edge["from"], edge["to"], edge["how"]) for edge in plan["edges"]] == [
        ("rows", "times", "forward"),
        ("times", "window", "hash"),
        ("window", "out", "forward"),
    ]
    assert plan["operators"][0]["location"].startswith("program.py:")
    assert plan["picture"].startswith("<svg")
    assert plan["guarantee"]["text"].startswith(plan["guarantee"]["level"])
    assert (status["status"], status["attempt"], status["records_in"]) == ("FINISHED", 3, 100)
    assert status["operators"]["window"]["records_in"] == 100
    assert status["records_out"] == status["operators"]["out"]["records_in"] == 25
    assert status["ledger"]["edges"][0]["sent"] == status["ledger"]["edges"][0]["received"] > 0
    epochs = lines(folder / EPOCHS)
    assert [line["epoch"] for line in epochs] == list(range(1, status["epoch"] + 1))
    assert sum(line["records_in"] for line in epochs) == 100
    assert sum(line["records_out"] for line in epochs) == 25
    assert not (folder / TROUBLES).exists()


def test_no_secret_is_in_any_file_of_a_report(folder):
    written = "".join(path.read_text() for path in folder.iterdir())
    assert "hush" not in written
    shown = json.loads((folder / PLAN).read_text())["configuration"]
    assert shown["spark.hadoop.fs.s3a.secret.key"] == "******"
    assert shown["pipeline.global-job-parameters.db"] == "postgres://******@host/db"


FAILING = """
    from flintstream import CollectSink, Configuration, StreamExecutionEnvironment

    settings = Configuration.from_dict(SETTINGS)
    env = StreamExecutionEnvironment.get_execution_environment(settings).set_parallelism(1)

    def burst(n):
        return 1 // (n - 3)

    env.from_collection([1, 2, 3]).map(burst).uid("burst").sink_to(CollectSink())
    env.execute("failing")
"""


@pytest.mark.parametrize(("settings", "restarted"), [({}, [False]), (RESTARTS, [True, True, False])])
def test_failures_tell_the_users_line_and_what_happened_then(tmp_path, settings, restarted):
    folder = tmp_path / "report"
    done = run(tmp_path, FAILING.replace("SETTINGS", repr(settings)), FLINTSTREAM_REPORT=str(folder))
    assert done.returncode != 0
    troubles = lines(folder / TROUBLES)
    assert [line["restarted"] for line in troubles] == restarted
    first = troubles[0]
    assert (first["type"], first["operator"], first["epoch"]) == ("ZeroDivisionError", "burst", 1)
    script = (tmp_path / "program.py").read_text().splitlines()
    file, _, number = first["location"].rpartition(":")
    assert (Path(file).name, script[int(number) - 1].strip()) == ("program.py", "return 1 // (n - 3)")
    assert "return 1 // (n - 3)" in first["traceback"]
    status = json.loads((folder / STATUS).read_text())
    assert (status["status"], status["restarts"]) == ("FAILED", len(restarted) - 1)


@pytest.fixture
def asked(monkeypatch):
    """Asks this process for a report, as a manager asks a program."""

    def ask(folder: Path) -> None:
        monkeypatch.setenv("FLINTSTREAM_REPORT", str(folder))
        asked_for.cache_clear()

    yield ask
    monkeypatch.undo()
    asked_for.cache_clear()


def test_a_report_that_cannot_be_written_is_said_once_and_harms_nothing(tmp_path, make_env, asked, caplog):
    (tmp_path / "file").write_text("not a folder")
    asked(tmp_path / "file" / "report")
    assert make_env("local").from_collection([1, 2]).execute_and_collect(limit=2) == [1, 2]
    assert caplog.text.count("cannot be written") == 1


def test_jobs_in_a_row_are_reported_in_turn(tmp_path, make_env, asked):
    asked(tmp_path)
    for name in ("first", "second"):
        env = make_env("local")
        env.from_collection([1, 2]).sink_to(CollectSink())
        env.execute(name)
        assert json.loads((tmp_path / PLAN).read_text())["name"] == name
        assert json.loads((tmp_path / STATUS).read_text())["status"] == "FINISHED"
    assert [line["epoch"] for line in lines(tmp_path / EPOCHS)] == [1, 1]


def test_a_disk_that_fails_later_is_said_once(tmp_path, caplog):
    folder = tmp_path / "report"
    folder.mkdir()
    files = ReportFiles(folder, lambda: {"status": "RUNNING"})
    wait_for(lambda: (folder / STATUS).exists())
    (folder / STATUS).unlink()
    folder.rmdir()
    folder.write_text("a file in its place")
    for epoch in range(3):
        files.epoch({"epoch": epoch})
        wait_for(lambda: "cannot be written" in caplog.text)
    files.close()
    assert caplog.text.count("cannot be written") == 1


def wait_for(condition) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


def test_a_running_job_is_told_of_each_second_though_nothing_happens(tmp_path):
    calls: list[int] = []

    def status() -> dict:
        calls.append(1)
        return {"number": len(calls), "bad": float("nan"), "list": [float("inf"), 1.5]}

    files = ReportFiles(tmp_path, status)
    wait_for(lambda: len(calls) >= 3)
    files.close()
    found = json.loads((tmp_path / STATUS).read_text())
    assert found["number"] == len(calls)
    assert found["bad"] is None
    assert found["list"] == [None, 1.5]
    assert [path.name for path in tmp_path.iterdir()] == [STATUS]


def test_many_epochs_are_written_together_and_none_is_lost(tmp_path):
    files = ReportFiles(tmp_path, dict)
    for epoch in range(500):
        files.epoch({"epoch": epoch})
    files.close()
    assert [line["epoch"] for line in lines(tmp_path / EPOCHS)] == list(range(500))


def test_a_file_of_lines_keeps_at_least_the_newest(tmp_path):
    path = tmp_path / "lines"
    for start in range(0, 1000, 7):
        LineFile(path, 50).append([json.dumps(n) for n in range(start, start + 7)])
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert found == list(range(found[0], 1001))
    assert 50 <= len(found) <= 107


def test_a_line_that_a_killed_process_left_unfinished_does_not_spoil_the_next(tmp_path):
    path = tmp_path / "lines"
    path.write_text('{"epoch": 1}\n{"epo')
    LineFile(path, 50).append(['{"epoch": 2}'])
    assert path.read_text().splitlines() == ['{"epoch": 1}', '{"epo', '{"epoch": 2}']
