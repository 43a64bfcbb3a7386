"""A managed job on two executors of a real Spark cluster, as its user meets it: looked into, saved, continued."""

from __future__ import annotations

import os
import re
import textwrap
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pyspark
import pytest

from flintstream import QueryableStateClient, StateAnswer
from flintstream.jobs.client import Client
from flintstream.jobs.server import start_detached, stop_running
from flintstream.jobs.spec import JobSpec, token_of
from tests.jobs.managed import KEYS, clear, counts, until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(280)]
# Key 0 is slow: whoever has the others has told of them long before their epoch is committed.
PROGRAM = """
    import sys
    import time

    from flintstream import (
        DataGeneratorSource,
        FileSink,
        KeyedProcessFunction,
        StreamExecutionEnvironment,
        ValueStateDescriptor,
        sequence,
    )


    class Count(KeyedProcessFunction):
        def open(self, runtime_context):
            descriptor = ValueStateDescriptor("count", int)
            descriptor.set_queryable("counts", uncommitted=True)
            self.count = runtime_context.get_state(descriptor)

        def process_element(self, value, ctx):
            time.sleep(0.01 if value == 0 else 0)
            self.count.update((self.count.value() or 0) + 1)
            yield value, self.count.value()


    env = StreamExecutionEnvironment.get_execution_environment().enable_checkpointing(50)
    numbers = env.from_source(DataGeneratorSource({"n": sequence()}, rate=100, splits=1)).map(lambda row: row.n % 5)
    counts = numbers.key_by(lambda key: key).process(Count()).uid("counting")
    counts.sink_to(FileSink.json(f"{sys.argv[1]}/out")).uid("out")
    env.execute("counting")
"""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    home = tmp_path / "home"
    yield Client(start_detached(home, port=0, slots=2), token_of(home))
    stop_running(home, cancel_jobs=True)
    clear(home)


@pytest.fixture
def job(client: Client, tmp_path: Path) -> str:
    """The id of a job that runs on two executors, which share nothing but a few directories with its driver."""
    (tmp_path / "app.py").write_text(textwrap.dedent(PROGRAM))
    # A local cluster writes its work folder below Spark's home.
    home = tmp_path / "spark"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    settings = {"spark.executorEnv.FLINTSTREAM_LOCAL_DIR": "local-state", "spark.ui.enabled": "false"}
    spec = JobSpec(
        program=str(tmp_path / "app.py"),
        arguments=(str(tmp_path),),
        master="local-cluster[2,1,1024]",
        parallelism=2,
        settings=settings,
        environment={"SPARK_HOME": str(home)},
    )
    return client.submit(spec).id


def executors(client: Client, job: str) -> int:
    """Return how many executors a job's driver has started."""
    number = 0
    for each in psutil.Process(int(client.plan(job)["pid"])).children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            number += "CoarseGrainedExecutorBackend" in " ".join(each.cmdline())
    return number


def assert_whole(answers: list[StateAnswer]) -> int:
    """Check that all keys are told as of one moment, to the record; return how many records that is."""
    total = sum(each.value or 0 for each in answers)
    assert len({each.epoch for each in answers}) == 1
    assert [each.value or 0 for each in answers] == [len(range(key, total, KEYS)) for key in range(KEYS)]
    return total


def look_into(states: QueryableStateClient) -> None:
    """Look the state of a running job up in every way."""
    assert [(each["operator"], each["name"]) for each in states.states()] == [("counting", "counts")]
    first = assert_whole(states.get_many("counts", range(KEYS)))
    assert states.get("counts", 3).value >= first // KEYS
    page = states.scan("counts", limit=3)
    rest = states.scan("counts", limit=3, after=page.after)
    assert [each.key for each in (*page.entries, *rest.entries)] == list(range(KEYS))
    assert not states.get("counts", 99).found
    # Epochs go on below all this, and every answer is that of one of them.
    until(lambda: assert_whole(states.get_many("counts", range(KEYS))) > first, "a later epoch")
    ahead = until(lambda: _ahead(states), "a change that is told before its epoch is committed")
    later = until(lambda: _committed(states, ahead), "that epoch")
    assert later.value >= ahead.value


def _ahead(states: QueryableStateClient) -> StateAnswer | None:
    answers = states.get_many("counts", range(KEYS), consistency="uncommitted")
    return next((each for each in answers if not each.committed), None)


def _committed(states: QueryableStateClient, ahead: StateAnswer) -> StateAnswer | None:
    answer = states.get("counts", ahead.key)
    return answer if answer.epoch >= ahead.epoch else None


def records_in(url: str) -> float | None:
    """Return how many records Prometheus is told of, None if it is told nothing."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        found = re.findall(r"^flintstream_job_records_in_total\{.*\} (\S+)$", answer.read().decode(), re.MULTILINE)
    return float(found[0]) if found else None


@pytest.mark.row(93)
def test_state_on_two_executors_is_looked_into_while_the_job_runs(client: Client, job: str) -> None:
    until(lambda: client.status(job).get("records_in", 0) >= KEYS, "a record of every key")
    assert executors(client, job) == 2
    look_into(QueryableStateClient(client.url, job=job, token=client.token))


@pytest.mark.row(79)
@pytest.mark.slow
def test_a_job_on_two_executors_goes_on_from_a_savepoint_of_its_history(
    client: Client, job: str, tmp_path: Path
) -> None:
    until(lambda: client.status(job).get("records_in", 0) >= KEYS, "a record of every key")
    client.savepoint(job, tags=["first"])
    (saved,) = client.savepoints(job)
    told = until(lambda: records_in(client.url), "metrics")
    until(lambda: (records_in(client.url) or 0) > told, "more records")
    assert client.cancel(job).status == "CANCELED"
    before = counts(tmp_path)
    assert before == {key: list(range(1, len(values) + 1)) for key, values in before.items()}

    (tmp_path / "out").rename(tmp_path / "before")
    client.restart(job, saved["path"])
    until(lambda: set(counts(tmp_path)) == set(range(KEYS)), "results of every key")
    client.stop(job)
    # What the first life wrote up to the savepoint, and what the second wrote behind it, is all, and nothing twice.
    (tmp_path / "whole" / "out").mkdir(parents=True)
    for path in (tmp_path / "before").glob("part-*"):
        if int(path.name.split("-")[2]) <= saved["epoch"]:
            os.link(path, tmp_path / "whole" / "out" / f"part-0-{path.name}")
    for path in (tmp_path / "out").glob("part-*"):
        os.link(path, tmp_path / "whole" / "out" / path.name)
    found = counts(tmp_path / "whole")
    total = sum(map(len, found.values()))
    assert found == {key: list(range(1, len(range(key, total, KEYS)) + 1)) for key in range(KEYS)}
    assert (client.job(job).attempt, client.job(job).restarts) == (2, 0)
