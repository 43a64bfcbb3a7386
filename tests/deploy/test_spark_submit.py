"""The same program on this machine's embedded runtime and, by `spark-submit`, on a standalone cluster."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from flintstream.spark.java import spark_java_home

pytestmark = [pytest.mark.spark, pytest.mark.timeout(280)]

ROOT = Path(__file__).resolve().parents[2]
SPARK = Path(pyspark.__file__).parent
PROGRAM = """
import sys

from flintstream import FileSink, StreamExecutionEnvironment, bounded, sum_of, tumbling

checkpoints, output = sys.argv[1:]
env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2).set_checkpoint_dir(checkpoints)
clicks = env.generate(generator=lambda i: {"user": i % 7, "ts": i * 100, "n": i}, count=2_000, splits=2)
timed = clicks.assign_timestamps_and_watermarks(bounded("1s", on="ts"))
sums = timed.key_by("user").window(tumbling("10s")).agg(total=sum_of("n"))
sums.sink_to(FileSink.json(output)).uid("out")
env.execute("clicks")
"""


def environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "JAVA_HOME": str(spark_java_home()),
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


@contextlib.contextmanager
def daemon(folder: Path, name: str, *command: str) -> Iterator[Path]:
    """Run one of Spark's own processes, and yield the file of what it says."""
    log = folder / f"{name}.log"
    with log.open("w") as said:
        process = subprocess.Popen(
            [str(SPARK / "bin" / "spark-class"), *command], stdout=said, stderr=said, env=environment(folder)
        )
        try:
            yield log
        finally:
            process.terminate()
            process.wait(30)


def heard(log: Path, pattern: str, seconds: float = 60.0) -> str:
    """Wait until a process says something, and return it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := re.search(pattern, log.read_text()):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"{log.name} never said {pattern}:\n{log.read_text()[-3000:]}")


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A master and a worker with two cores; yields the master's address."""
    here = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with daemon(folder, "master", "org.apache.spark.deploy.master.Master", *here) as master:
        address = heard(master, r"Starting Spark master at (spark://\S+)")
        size = ("--cores", "2", "--memory", "1g", address)
        with daemon(folder, "worker", "org.apache.spark.deploy.worker.Worker", *here, *size) as worker:
            heard(worker, r"Successfully registered with (master)")
            yield address


def rows(output: Path) -> list[str]:
    lines = [line for path in output.rglob("*.json*") if path.is_file() for line in path.read_text().splitlines()]
    return sorted(json.dumps(json.loads(line), sort_keys=True) for line in lines)


def run(folder: Path, name: str, *command: str, **variables: str) -> list[str]:
    """Run the program and return what it wrote."""
    program = folder / "clicks.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [*command, str(program), str(folder / name / "checkpoints"), str(folder / name / "out")],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        cwd=folder,
        env={**environment(folder), **variables},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return rows(folder / name / "out")


@pytest.mark.row(150)
def test_a_program_runs_unchanged_by_spark_submit_on_a_standalone_cluster(tmp_path):
    expected = run(tmp_path, "here", sys.executable, FLINTSTREAM_RUNTIME="local")
    assert len(expected) == 140
    with cluster(tmp_path) as master:
        submit = [str(SPARK / "bin" / "spark-submit"), "--master", master, "--executor-memory", "512m"]
        assert run(tmp_path, "there", *submit) == expected
        application = heard(tmp_path / "master.log", r"Registering app (\S+)")
    assert application == "clicks"
    worked = [path for path in (tmp_path / "work").glob("app-*/*/stderr") if "Finished task" in path.read_text()]
    assert worked, "no executor of the cluster had anything to do"
