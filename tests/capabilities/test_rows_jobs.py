"""The rows about jobs as a user meets them: one manager, its commands, its REST interface, and a few real jobs."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flintstream.jobs.command import main

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 90.0
PROGRAM = """
from flintstream import (
    DataGeneratorSource, KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor, choice, normal
)


class Count(KeyedProcessFunction):
    def open(self, context):
        descriptor = ValueStateDescriptor("count")
        descriptor.set_queryable("counts")
        self.count = context.get_state(descriptor)
        self.seen = context.get_metrics_group().counter("readingsSeen")

    def process_element(self, reading, ctx):
        self.seen.inc()
        self.count.update((self.count.value() or 0) + 1)
        yield f"{reading.sensor} {self.count.value()}"


class AverageSensorReadings:
    def main(self):
        env = StreamExecutionEnvironment.get_execution_environment()
        fields = {"sensor": choice(["kitchen", "cellar"]), "x": normal(21.0, 4.0)}
        readings = env.from_source(DataGeneratorSource(fields, rate=200, splits=1)).uid("readings")
        readings.key_by("sensor").process(Count()).name("Count").uid("count").print().uid("print")
        env.execute("AverageSensorReadings")
"""


def flintstream(*arguments: str, status: int = 0) -> str:
    """Run a command as `flintstream ...` would, and return what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(arguments) == status, printed.getvalue()
    return printed.getvalue()


def documents(*arguments: str) -> Any:
    return json.loads(flintstream(*arguments, "--json"))


def wait_for(what: Callable[[], Any]) -> Any:
    """Wait until something is true, and return it."""
    deadline = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.05)
    return found


@dataclass
class Managed:
    """A manager with a running job."""

    url: str
    home: Path
    job: str

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as answer:
            return answer.read()

    def ask(self, path: str) -> Any:
        return json.loads(self.get(path))

    def counted(self) -> int:
        return self.ask(f"/v1/jobs/{self.job}/status")["operators"]["count"]["records_in"]


def submit(folder: Path, *options: str) -> str:
    program = folder / "app.py"
    program.write_text(PROGRAM)
    entry = ("-c", "pkg.AverageSensorReadings")
    local = ("-D", "flintstream.runtime=local", "-p", "1")
    return flintstream("run", "--detached", *entry, *local, *options, str(program)).strip()


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    folder = tmp_path_factory.mktemp("manager")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLINTSTREAM_HOME", str(folder / "home"))
        said = flintstream("cluster", "start", "--port", "0")
        try:
            url = re.findall(r"^manager runs at (http://127\.0\.0\.1:\d+)$", said, re.MULTILINE)[0]
            running = Managed(url, folder / "home", submit(folder))
            wait_for(lambda: flintstream("list").count("RUNNING") and running.counted() > 20)
            yield running
        finally:
            flintstream("cluster", "stop", "--cancel-jobs")


@pytest.mark.row(140)
def test_a_cluster_starts_and_stops_and_says_its_port(tmp_path, monkeypatch):
    monkeypatch.setenv("FLINTSTREAM_HOME", str(tmp_path))
    flintstream("cluster", "status", status=3)
    started = documents("cluster", "start", "--port", "0")
    try:
        assert started["url"] in flintstream("cluster", "status")
    finally:
        assert flintstream("cluster", "stop") == "manager stopped; its jobs run on\n"
    flintstream("cluster", "status", status=3)


@pytest.mark.row(141, 151)
def test_the_overview_has_workers_slots_and_roles(managed):
    overview = managed.ask("/v1/overview")
    assert overview["slots"]["total"] >= 1
    assert len(overview["task_managers"]) == 1
    roles = {"Dispatcher", "JobManager", "ResourceManager", "TaskManager"}
    assert roles <= set(overview["roles"])
    assert b"<html" in managed.get("/").lower()
    page = (ROOT / "docs" / "concepts" / "jobs.md").read_text()
    assert all(role in page for role in overview["roles"])


@pytest.mark.row(142)
def test_a_program_is_run_by_file_and_entry(managed):
    assert re.fullmatch(r"[0-9a-f]{32}", managed.job)
    assert managed.ask(f"/v1/jobs/{managed.job}")["name"] == "AverageSensorReadings"


@pytest.mark.row(143)
def test_the_graph_of_a_job_has_numbers_that_move(managed):
    plan = managed.ask(f"/v1/jobs/{managed.job}/plan")
    uids = [operator["uid"] for operator in plan["operators"]]
    assert uids == ["readings", "count", "print"]
    svg = managed.get(f"/v1/jobs/{managed.job}/graph.svg").decode()
    assert all(f'data-uid="{uid}"' in svg for uid in uids) and 'data-field="records_in_per_second"' in svg
    before = managed.counted()
    status = wait_for(lambda: managed.counted() > before and managed.ask(f"/v1/jobs/{managed.job}/status"))
    assert status["operators"]["count"]["records_in_per_second"] > 0


@pytest.mark.row(72)
def test_one_flag_chooses_the_guarantee_and_the_job_says_which(managed, tmp_path):
    promised = managed.ask(f"/v1/jobs/{managed.job}")["guarantee"]
    weaker = submit(tmp_path, "-D", "flintstream.guarantee=at-most-once")
    assert wait_for(lambda: managed.ask(f"/v1/jobs/{weaker}")["guarantee"]) == "at-most-once" != promised
    flintstream("cancel", weaker)


@pytest.mark.row(79, 145)
def test_commands_list_cancel_save_and_stop_a_job_from_another_shell(managed, tmp_path):
    job = submit(tmp_path)
    wait_for(lambda: managed.ask(f"/v1/jobs/{job}")["status"] == "RUNNING")
    wait_for(lambda: managed.ask(f"/v1/jobs/{job}/status").get("epoch", 0) > 2)
    other = [sys.executable, "-m", "flintstream", "savepoint", "take", job]
    done = subprocess.run(other, capture_output=True, text=True, check=False, timeout=PATIENCE, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_dir()
    assert {view["id"]: view["status"] for view in documents("list")}[job] == "RUNNING"
    stopped = flintstream("stop", job).strip()
    assert Path(stopped).is_dir() and stopped != done.stdout.strip()
    assert managed.ask(f"/v1/jobs/{job}")["status"] == "FINISHED"
    flintstream("restart", job, "--from-savepoint", stopped)
    wait_for(lambda: managed.ask(f"/v1/jobs/{job}")["status"] == "RUNNING")
    flintstream("cancel", job)
    assert {view["id"]: view["status"] for view in documents("list", "--all")}[job] == "CANCELED"


@pytest.mark.row(146)
def test_output_is_in_the_log_folder_and_at_hand(managed):
    line = re.compile(r"^(kitchen|cellar) \d+$", re.MULTILINE)
    assert line.search(flintstream("logs", managed.job))
    assert line.search(managed.ask(f"/v1/jobs/{managed.job}/logs/out")["text"])
    files = [path for path in (managed.home / "log").rglob("*.out*") if managed.job in str(path.resolve())]
    assert any(line.search(path.read_text()) for path in files)


@pytest.mark.row(147)
def test_user_metrics_stand_beside_system_metrics(managed):
    text = managed.get("/metrics").decode()
    mine = [line for line in text.splitlines() if "readingsSeen" in line and not line.startswith("#")]
    assert mine and float(mine[0].rsplit(" ", 1)[1]) > 20
    assert re.search(rf"records_in\S*{{[^}}]*{managed.job}[^}}]*}} \d", text)


@pytest.mark.row(93)
def test_state_is_read_over_http_while_the_job_runs(managed):
    path = f"/v1/jobs/{managed.job}/state/count/counts/kitchen"
    first = managed.ask(path)
    later = wait_for(lambda: (found := managed.ask(path)) and found["epoch"] > first["epoch"] and found)
    assert later["value"] >= first["value"] > 0
    got = documents("state", "get", managed.job, "count", "counts", "kitchen")
    assert got["value"] >= later["value"]
