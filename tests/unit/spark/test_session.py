"""Sessions: settings as values, and in processes of their own what really happens when Spark starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import flintstream.errors
from flintstream.errors import EnvironmentSetupError, InvalidArgumentError
from flintstream.spark import session as session_module
from flintstream.spark.session import (
    check_session,
    create_session,
    embedded_settings,
    required_settings,
)

QUIET = """
import logging
from flintstream.spark.session import create_session

logging.basicConfig(level=logging.INFO)

def same(batches):
    yield from batches

def broken(batches):
    raise ValueError("boom")
    yield from batches

session = create_session(2, "quiet", {})
assert session.range(10).mapInArrow(same, "id long").count() == 10
try:
    session.range(10).mapInArrow(broken, "id long").count()
except Exception as error:
    assert "boom" in str(error)
else:
    raise AssertionError
session.stop()
"""

USERS_OWN = """
import json, os, sys
from pyspark.sql import SparkSession
from flintstream.errors import EnvironmentSetupError
from flintstream.spark.java import spark_java_home
from flintstream.spark.session import check_session, create_session

os.environ["JAVA_HOME"] = str(spark_java_home())
os.environ["PYSPARK_PYTHON"] = sys.executable
own = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "5")
    .config("spark.python.worker.reuse", "false")
    .getOrCreate()
)
seen = {"advice": check_session(own)}
new = create_session(3, "ours", {"spark.sql.ansi.enabled": "false", "spark.ui.enabled": "false"})
seen["same context"] = new.sparkContext is own.sparkContext
seen["partitions"] = [own.conf.get("spark.sql.shuffle.partitions"), new.conf.get("spark.sql.shuffle.partitions")]
seen["ansi"] = [own.conf.get("spark.sql.ansi.enabled"), new.conf.get("spark.sql.ansi.enabled")]

def message(function, *arguments):
    try:
        function(*arguments)
    except EnvironmentSetupError as error:
        return str(error)

seen["fixed"] = message(create_session, 3, "ours", {"spark.ui.enabled": "true", "spark.driver.memory": "9g"})
own.sparkContext.pythonExec = "no-such-python"
seen["python"] = message(check_session, own)
own.stop()
seen["stopped"] = message(check_session, own)
del os.environ["JAVA_HOME"], os.environ["PYSPARK_PYTHON"]
ours = create_session(2, "ours", {})
seen["master"] = ours.sparkContext.master
seen["worker"] = ours.sparkContext.pythonExec == sys.executable
seen["left behind"] = [name for name in ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP") if name in os.environ]
ours.stop()
print(json.dumps(seen))
"""

BAD_JAVA_OPTION = """
from flintstream.spark.session import create_session
create_session(1, "bad", {"spark.driver.extraJavaOptions": "-Xmx1g"})
"""


def run(script: str, directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(flintstream.errors.__file__).parents[1])
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "FLINTSTREAM_"))}
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
        env=inherited | {"PYTHONPATH": source} | environment,
    )


@pytest.mark.spark
def test_starting_and_running_prints_nothing_even_when_a_function_fails(tmp_path: Path):
    done = run(QUIET, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_the_log_can_be_turned_up_to_see_what_was_silenced(tmp_path: Path):
    done = run(QUIET, tmp_path, FLINTSTREAM_SPARK_LOG="warn")
    assert done.returncode == 0
    assert "WARN NativeCodeLoader" in done.stderr
    assert "ERROR Executor" in done.stderr


@pytest.mark.spark
def test_a_users_own_spark_is_shared_and_its_settings_stay_as_they_are(tmp_path: Path):
    done = run(USERS_OWN, tmp_path)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    assert [advice.split()[0] for advice in seen["advice"]] == [
        "spark.master",
        "spark.python.worker.reuse",
        "spark.python.unix.domain.socket.enabled",
    ]
    assert seen["same context"] is True
    assert seen["partitions"] == ["5", "3"]
    assert seen["ansi"] == ["true", "false"]
    assert "spark.ui.enabled is false, wanted true, spark.driver.memory is not set, wanted 9g" in seen["fixed"]
    assert "PYSPARK_PYTHON is 'no-such-python', which does not exist, wanted a Python 3." in seen["python"]
    assert seen["stopped"].startswith("the Spark session was stopped;")
    assert seen["master"] == "local[2,4]"
    assert seen["worker"] is True
    assert seen["left behind"] == []


@pytest.mark.spark
def test_a_java_that_refuses_its_options_is_one_clear_error(tmp_path: Path):
    done = run(BAD_JAVA_OPTION, tmp_path)
    assert "Not allowed to specify max heap(Xmx)" in done.stderr
    assert "EnvironmentSetupError: Java ended before Spark had started; JAVA_HOME was " in done.stderr


def test_extra_settings_win_over_ours():
    settings = embedded_settings(4, "job", {"spark.ui.enabled": "true", "spark.sql.shuffle.partitions": "9"})
    assert settings["spark.master"] == "local[4,4]"
    assert settings["spark.app.name"] == "job"
    assert (settings["spark.ui.enabled"], settings["spark.sql.shuffle.partitions"]) == ("true", "9")


@pytest.mark.parametrize(
    ("master", "loopback"), [("local[2,4]", True), ("local-cluster[2,1,1024]", True), ("spark://host:7077", False)]
)
def test_spark_listens_on_the_loopback_only_where_it_runs_on_one_machine(master: str, loopback: bool):
    settings = embedded_settings(2, "job", {"spark.master": master})
    assert (settings.get("spark.driver.bindAddress") == "127.0.0.1") is loopback
    assert (settings.get("spark.driver.host") == "127.0.0.1") is loopback


@pytest.mark.parametrize("parallelism", [0, -1])
def test_a_parallelism_below_one_is_refused(parallelism: int):
    with pytest.raises(InvalidArgumentError, match=f"parallelism is {parallelism};"):
        create_session(parallelism, "job", {})


def test_spark_connect_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    with pytest.raises(EnvironmentSetupError, match="cannot run on Spark Connect"):
        create_session(1, "job", {})


def test_a_connect_session_of_the_user_is_refused():
    connect_class = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    with pytest.raises(EnvironmentSetupError, match="cannot run on Spark Connect"):
        check_session(connect_class())


@pytest.mark.parametrize(
    ("version", "recent"), [("4.0.1", False), ("3.5.8", False), ("4.1.0", True), ("4.3.0-amzn-1", True), ("5.0", True)]
)
def test_versions_are_compared_as_numbers(version: str, recent: bool):
    assert session_module._is_recent(version) is recent
    assert "4.1 or newer" in required_settings()["Spark version"]


def fake_python(directory: Path, body: str) -> str:
    path = directory / "python"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("echo 3.9", "which is Python 3.9"),
        ("echo \"ModuleNotFoundError: No module named 'pyarrow'\" >&2; exit 1", "No module named 'pyarrow'"),
        ("exit 1", "where it does not run"),
    ],
)
def test_a_python_that_cannot_run_the_workers_is_named_with_the_reason(tmp_path: Path, body: str, complaint: str):
    path = fake_python(tmp_path, body)
    answer = session_module._complaint_about_python(path)
    assert answer is not None
    assert answer.startswith(f"'{path}', ")
    assert complaint in answer


def test_the_running_python_and_any_other_of_its_version_will_do(tmp_path: Path):
    assert session_module._complaint_about_python(sys.executable) is None
    version = "{}.{}".format(*sys.version_info)
    assert session_module._complaint_about_python(fake_python(tmp_path, f"echo {version}")) is None


@pytest.mark.parametrize(("length", "expected"), [(20, "own"), (90, "/tmp")])
def test_sockets_lie_where_their_path_is_short_enough(monkeypatch, length, expected):
    own = "/" + "x" * length
    monkeypatch.setattr(tempfile, "tempdir", own)
    monkeypatch.setattr(os, "access", lambda folder, mode: True)
    settings = embedded_settings(2, "job", {})
    assert settings["spark.python.unix.domain.socket.dir"] == (own if expected == "own" else expected)


def test_without_a_folder_for_sockets_or_on_a_cluster_spark_keeps_to_tcp(monkeypatch):
    assert not any("socket" in name for name in embedded_settings(2, "job", {"spark.master": "spark://there:7077"}))
    monkeypatch.setattr(os, "access", lambda folder, mode: False)
    assert not any("socket" in name for name in embedded_settings(2, "job", {}))
