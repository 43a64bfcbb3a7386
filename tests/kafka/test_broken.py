"""What is killed: the driver by kill -9 at the steps of its transactions, the broker before and while a job runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flintstream import Configuration, StreamExecutionEnvironment
from flintstream.engine import manifest as manifests
from flintstream.errors import SinkError, SourceError
from flintstream.state.storage import LocalStorage
from tests.conftest import ROOT
from tests.kafka.broker import Cluster, Running
from tests.kafka.job import declare, sink
from tests.kafka.test_sink import check
from tools.kafka_broker import Broker

pytestmark = pytest.mark.kafka

WORDS = [f"w{n % 7}" for n in range(300)]
IMPATIENT = {"default_api_timeout_ms": "2000"}
NOBODY = "127.0.0.1:9"
AT_ONCE = {"default_api_timeout_ms": "500"}
"""For a place where nobody will ever answer."""


def start(cluster: Cluster, given: str, wanted: str, folder: Path, runtime: str, die: tuple[str, int] | None) -> int:
    """Run the job in a process of its own and return how it ended."""
    program = Path(__file__).with_name("job.py")
    command = [sys.executable, str(program), "--servers", cluster.servers, "--input", given, "--output", wanted]
    command += ["--checkpoints", str(folder / "checkpoints"), "--runtime", runtime, "--records", "100"]
    command += [] if die is None else ["--die", die[0], str(die[1])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    with (folder / "log.txt").open("ab") as log:
        done = subprocess.run(command, env=environment, stdout=log, stderr=log, check=False, start_new_session=True)
    return done.returncode


@pytest.mark.parametrize(
    ("step", "nth"), [("init done", 2), ("produce", 120), ("offsets done", 2), ("commit", 3), ("commit done", 3)]
)
def test_a_killed_driver_loses_and_doubles_nothing(cluster: Cluster, tmp_path: Path, step: str, nth: int) -> None:
    given, wanted = cluster.topic(2), cluster.topic(3)
    cluster.send(given, WORDS[:150])
    cluster.send(given, WORDS[150:], partition=1)
    assert start(cluster, given, wanted, tmp_path, "local", (step, nth)) == -signal.SIGKILL
    assert start(cluster, given, wanted, tmp_path, "local", None) == 0, (tmp_path / "log.txt").read_text()[-3000:]
    check(cluster, wanted, len(WORDS))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("step", "nth"), [("commit", 3), ("commit done", 3)])
def test_a_killed_driver_loses_and_doubles_nothing_on_spark(
    cluster: Cluster, tmp_path: Path, step: str, nth: int
) -> None:
    given, wanted = cluster.topic(2), cluster.topic(3)
    cluster.send(given, WORDS[:150])
    cluster.send(given, WORDS[150:], partition=1)
    assert start(cluster, given, wanted, tmp_path, "spark", (step, nth)) == -signal.SIGKILL
    assert start(cluster, given, wanted, tmp_path, "spark", None) == 0, (tmp_path / "log.txt").read_text()[-3000:]
    check(cluster, wanted, len(WORDS))


def local(folder: Path, records: int = 0) -> StreamExecutionEnvironment:
    settings = Configuration.from_dict({"flintstream.epoch.max-records": str(records)})
    env = StreamExecutionEnvironment.get_execution_environment(settings, runtime="local").set_parallelism(2)
    return env.set_checkpoint_dir(str(folder))


def test_a_broker_that_is_dead_at_the_start_is_named_with_the_users_line(tmp_path: Path) -> None:
    env = local(tmp_path)
    declare(env, NOBODY, "given", "wanted", bounded=False, **AT_ONCE)
    with pytest.raises(SourceError, match=r"no broker answers at 127\.0\.0\.1:9") as caught:
        env.execute()
    assert caught.value.location is not None and "job.py" in caught.value.location


def test_a_broker_that_is_dead_when_output_is_published_gets_it_when_it_is_back(mortal: Broker, tmp_path: Path) -> None:
    cluster = Cluster(mortal.servers)
    topic = cluster.topic()
    mortal.kill()

    def declared() -> StreamExecutionEnvironment:
        env = local(tmp_path)
        env.from_collection(["a", "b"]).sink_to(sink(mortal.servers, topic, **IMPATIENT)).uid("out")
        return env

    with pytest.raises(SinkError, match=r"epoch 1 could not be published to Kafka at .*nothing is lost"):
        declared().execute()
    mortal.start()
    declared().execute()
    assert cluster.values(topic) == ["a", "b"]


def test_a_broker_that_dies_while_a_job_runs_ends_it_and_the_next_run_goes_on(mortal: Broker, tmp_path: Path) -> None:
    cluster = Cluster(mortal.servers)
    given, wanted = cluster.topic(), cluster.topic(2)

    def declared() -> StreamExecutionEnvironment:
        env = local(tmp_path, records=50)
        declare(env, mortal.servers, given, wanted, bounded=False, **IMPATIENT)
        return env

    cluster.send(given, WORDS[:200])
    with pytest.raises((SourceError, SinkError), match="nothing is lost"), Running(declared()) as job:
        job.wait_for_records(200)
        mortal.kill()
        job.wait_for_records(201)
    mortal.start()
    cluster.send(given, WORDS[200:])
    with Running(declared()) as job:
        job.wait_for_records(300)
    check(cluster, wanted, len(WORDS))


def test_a_job_outlives_a_broker_that_comes_back_in_time(mortal: Broker, tmp_path: Path) -> None:
    cluster = Cluster(mortal.servers)
    given, wanted = cluster.topic(), cluster.topic(2)
    env = local(tmp_path, records=50)
    declare(env, mortal.servers, given, wanted, bounded=False)
    cluster.send(given, WORDS[:200])
    with Running(env) as job:
        job.wait_for_records(200)
        mortal.kill()
        mortal.start()
        cluster.send(given, WORDS[200:])
        job.wait_for_records(300)
    check(cluster, wanted, len(WORDS))


@pytest.mark.row(111)
def test_topic_to_topic_with_offsets_in_the_checkpoint(cluster: Cluster, new_env: Any, tmp_path: Path) -> None:
    given, wanted = cluster.topic(2), cluster.topic(3)
    cluster.send(given, WORDS[:150])
    cluster.send(given, WORDS[150:], partition=1)
    env = new_env(max_records=150, checkpoint_dir=tmp_path)
    declare(env, cluster.servers, given, wanted, bounded=True)
    env.execute("counts")
    check(cluster, wanted, len(WORDS))
    newest = manifests.newest(LocalStorage(str(tmp_path)))
    assert newest is not None and newest.finished
    assert newest.parts["in"] == [[0, f"{given}-0", 0, 150], [1, f"{given}-1", 0, 150]]
    assert newest.positions["in"] == {0: 150, 1: 150}


def test_nobody_hears_of_a_password(cluster: Cluster, tmp_path: Path) -> None:
    secret = "hunter2"
    env = local(tmp_path)
    properties = {"sasl_password": secret, "sasl_username": "me", **AT_ONCE}
    declare(env, NOBODY, "given", "wanted", bounded=False, **properties)
    said = [env.explain(), *map(repr, (op.node for op in env.compile("x").operators))]
    with pytest.raises(SourceError) as caught:
        env.execute()
    assert not any(secret in text for text in [*said, str(caught.value)])
