"""Rows 90 and 91 on Kafka: rewinding by time and offset, the word when caught up, files and topic alike."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from flintstream import CollectSink, FileSource, bounded, count, tumbling
from flintstream.datastream.connectors.kafka import KafkaTopicPartition
from flintstream.errors import SourceError
from tests.kafka.broker import PATIENCE, Cluster

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    """A topic of two partitions with a record each for every second; Kafka takes a timestamp of 0 for none."""
    name = cluster.topic(2)
    for partition in range(2):
        cluster.send(name, [(f"{partition}/{n}", 1000 * n + 1000) for n in range(10)], partition)
    return name


def read(env: Any, cluster: Cluster, topic: str, **places: Any) -> list[str]:
    source = cluster.source(topic, until=None).build()
    return sorted(env.from_source(source, **places).execute_and_collect())


def test_a_range_of_a_topic_is_read_by_time_and_by_offset(make_env: Any, cluster: Cluster, topic: str) -> None:
    def found(**places: Any) -> list[str]:
        return read(make_env("local", max_records=3), cluster, topic, **places)

    assert found(start_from=8500, until="now") == ["0/8", "0/9", "1/8", "1/9"]
    assert found(start_from="1970-01-01T00:00:05", until=6000) == ["0/4", "1/4"]
    offsets: Any = {KafkaTopicPartition(topic, 0): 8, f"{topic}-1": 9}
    assert found(start_from=offsets, until="now") == ["0/8", "0/9", "1/9"]
    assert found(start_from=4000, until={f"{topic}-0": 5, f"{topic}-1": 4}) == ["0/3", "0/4", "1/3"]
    assert found(start_from="now", until="now") == []
    with pytest.raises(SourceError, match=r"there is no split 'other-0'; test_time_travel\.py"):
        found(start_from={"other-0": 1}, until="now")


@pytest.mark.row(90)
def test_a_job_rewinds_by_time_catches_up_and_goes_on_live(new_env: Any, cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.send(topic, [(str(n), 1000 * n + 1000) for n in range(20)])
    came, found = threading.Event(), list[str]()

    def take(epoch: int, values: list[str]) -> None:
        found.extend(values)
        if "live" in values:
            came.set()

    env = new_env(max_records=6)
    env.from_source(cluster.source(topic, until=None).build(), start_from=6000).uid("in").sink_to(CollectSink(take))
    client = env.execute_async("rewound")
    assert client.caught_up().result(PATIENCE).records == 15
    assert found == [str(n) for n in range(5, 20)]
    cluster.send(topic, ["live"])
    assert came.wait(PATIENCE)
    client.cancel().result(PATIENCE)


@pytest.mark.row(91)
def test_files_of_yesterday_and_the_topic_give_the_same_windows(
    make_env: Any, cluster: Cluster, tmp_path: Path
) -> None:
    lines = [f"{'ab'[n % 2]} {n * 700 - (n % 3) * 900}" for n in range(50)]
    (tmp_path / "yesterday.txt").write_text("\n".join(lines))
    topic = cluster.topic()
    cluster.send(topic, lines)

    def per_window(stream: Any) -> list[Any]:
        events = stream.map(lambda line: {"key": line.split()[0], "ts": int(line.split()[1])})
        timed = events.assign_timestamps_and_watermarks(bounded("2s", on="ts"))
        rows = timed.key_by("key").window(tumbling("5s")).agg(n=count()).execute_and_collect()
        return sorted((row.key, row.window_start, row.n) for row in rows)

    past = per_window(make_env("local").from_source(FileSource.text(tmp_path / "yesterday.txt")))
    live = cluster.source(topic, until=None).build()
    assert per_window(make_env("local", max_records=7).from_source(live, until="now")) == past
    assert sum(n for _, _, n in past) == 50
