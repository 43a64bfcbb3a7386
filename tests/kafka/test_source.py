"""The Kafka source against a real broker: where it begins and ends, what it reads, and that partitions are splits."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flintstream import (
    CollectSink,
    Configuration,
    FileSink,
    OutputTag,
    Row,
    StreamExecutionEnvironment,
    Types,
    WatermarkStrategy,
    count,
    tumbling,
)
from flintstream.common.serialization import ByteArraySchema, DeserializationSchema, SimpleStringSchema
from flintstream.connectors import kafka_read
from flintstream.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaTopicPartition,
)
from flintstream.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from flintstream.datastream.formats.json import JsonRowDeserializationSchema
from flintstream.errors import SourceError, UserFunctionError
from tests.kafka.broker import PATIENCE, Cluster, Running

pytestmark = pytest.mark.kafka

Begin = KafkaOffsetsInitializer


def local(records: int = 0, checkpoints: Path | None = None, parallelism: int = 2) -> StreamExecutionEnvironment:
    settings = Configuration.from_dict({"flintstream.epoch.max-records": str(records)})
    env = StreamExecutionEnvironment.get_execution_environment(settings, runtime="local").set_parallelism(parallelism)
    return env if checkpoints is None else env.set_checkpoint_dir(str(checkpoints))


def read(source: KafkaSource, env: StreamExecutionEnvironment | None = None) -> list[Any]:
    return list((env or local()).from_source(source).execute_and_collect())


@pytest.mark.parametrize("records", [0, 3], ids=["one epoch", "many epochs"])
def test_all_records_of_all_partitions_are_read_in_order(cluster: Cluster, records: int) -> None:
    topic = cluster.topic(3)
    for partition in range(3):
        cluster.send(topic, [f"{partition}/{n}" for n in range(10)], partition)
    found = read(cluster.source(topic).build(), local(records))
    assert sorted(found) == sorted(f"{p}/{n}" for p in range(3) for n in range(10))
    for partition in range(3):
        mine = [value for value in found if value.startswith(f"{partition}/")]
        assert mine == [f"{partition}/{n}" for n in range(10)]


def test_an_empty_topic_is_read_to_its_end(cluster: Cluster) -> None:
    assert read(cluster.source(cluster.topic(2)).build()) == []


START: dict[str, tuple[Any, list[str]]] = {
    "earliest": (lambda topic: Begin.earliest(), ["2", "3", "4", "5"]),
    "latest": (lambda topic: Begin.latest(), []),
    "timestamp": (lambda topic: Begin.timestamp(1_350), ["4", "5"]),
    "a timestamp to come": (lambda topic: Begin.timestamp(99_000), []),
    "offset": (lambda topic: Begin.offsets({KafkaTopicPartition(topic, 0): 3}), ["3", "4", "5"]),
    "an offset that is gone": (
        lambda topic: Begin.offsets({KafkaTopicPartition(topic, 0): 1}, KafkaOffsetResetStrategy.LATEST),
        [],
    ),
    "an offset to come": (lambda topic: Begin.offsets({KafkaTopicPartition(topic, 0): 77}), ["2", "3", "4", "5"]),
    "nothing committed": (lambda topic: Begin.committed_offsets(KafkaOffsetResetStrategy.LATEST), []),
    "of another partition": (
        lambda topic: Begin.offsets({KafkaTopicPartition("other", 0): 3}),
        ["2", "3", "4", "5"],
    ),
}


@pytest.fixture(scope="module")
def worn(cluster: Cluster) -> str:
    """A topic with records 0 to 5, a tenth of a second apart, of which the first two are gone."""
    topic = cluster.topic()
    cluster.send(topic, [(str(n), 1_000 + 100 * n) for n in range(6)])
    cluster.delete_before(topic, 0, 2)
    return topic


@pytest.mark.parametrize("start", START)
def test_a_job_begins_where_it_is_told_to(cluster: Cluster, worn: str, start: str) -> None:
    begin, expected = START[start]
    assert read(cluster.source(worn).set_starting_offsets(begin(worn)).build()) == expected


@pytest.mark.parametrize(
    ("begin", "says"),
    [
        (lambda topic: Begin.committed_offsets(), "no offset to begin at"),
        (
            lambda topic: Begin.offsets({KafkaTopicPartition(topic, 0): 1}, KafkaOffsetResetStrategy.NONE),
            "no offset 1: it keeps 2 to 6",
        ),
    ],
)
def test_a_beginning_that_is_not_there_is_refused_with_the_users_line(
    cluster: Cluster, worn: str, begin: Any, says: str
) -> None:
    with pytest.raises(SourceError, match=rf"{says}.*test_source\.py:\d+"):
        read(cluster.source(worn).set_starting_offsets(begin(worn)).build())


END: dict[str, tuple[Any, list[str]]] = {
    "latest": (lambda topic: Begin.latest(), ["2", "3", "4", "5"]),
    "timestamp": (lambda topic: Begin.timestamp(1_350), ["2", "3"]),
    "offset": (lambda topic: Begin.offsets({KafkaTopicPartition(topic, 0): 5}), ["2", "3", "4"]),
    "before the beginning": (lambda topic: Begin.earliest(), []),
}


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("end", END)
def test_a_job_ends_where_it_is_told_to(cluster: Cluster, worn: str, end: str, bounded: bool) -> None:
    until, expected = END[end]
    builder = cluster.source(worn, until=None)
    source = (builder.set_bounded if bounded else builder.set_unbounded)(until(worn)).build()
    assert source.is_bounded is bounded
    assert read(source) == expected


def test_a_group_commits_what_was_read_and_another_job_goes_on_there(cluster: Cluster) -> None:
    topic, group = cluster.topic(), "watchers"
    cluster.send(topic, ["a", "b", "c"])
    assert read(cluster.source(topic).set_group_id(group).build()) == ["a", "b", "c"]
    assert cluster.committed(group, topic) == 3
    cluster.send(topic, ["d"])
    silent = cluster.source(topic).set_group_id(group).set_property("commit.offsets.on.checkpoint", "false")
    assert read(silent.set_starting_offsets(Begin.committed_offsets()).build()) == ["d"]
    assert cluster.committed(group, topic) == 3


def test_records_have_the_timestamps_that_kafka_keeps(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.send(topic, [("a", 1_000), ("b", 2_500), ("c", 2_999), ("d", 5_000)])
    stream = local().from_source(cluster.source(topic).build(), WatermarkStrategy.for_monotonous_timestamps())
    counts = stream.key_by(lambda value: 0).window(tumbling("1s")).agg(n=count())
    rows = [(row.window_start, row.n) for row in counts.execute_and_collect()]
    assert rows == [(1_000, 1), (2_000, 2), (5_000, 1)]


def test_an_assigner_sees_and_may_replace_the_timestamp_of_kafka(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.send(topic, [("7", 1_000), ("9", 2_000)])
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, at: at + int(value))
    stream = local().from_source(cluster.source(topic).build(), strategy)
    rows = stream.key_by(lambda value: 0).window(tumbling("1ms")).agg(n=count()).execute_and_collect()
    assert [row.window_start for row in rows] == [1_007, 2_009]


NAMED = Types.ROW_NAMED(["id", "n"], [Types.STRING(), Types.INT()])
AVRO = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": "int"}]}'


@pytest.mark.parametrize(
    ("schema", "sent", "expected"),
    [
        (SimpleStringSchema(), b"gr\xc3\xbcn", "grün"),
        (SimpleStringSchema("latin-1"), b"gr\xfcn", "grün"),
        (ByteArraySchema(), b"\x00\xff", b"\x00\xff"),
        (JsonRowDeserializationSchema.builder().type_info(NAMED).build(), b'{"id":"a","n":1,"x":0}', Row(id="a", n=1)),
        (JsonRowDeserializationSchema.builder().build(), b'{"id":["a"]}', {"id": ["a"]}),
        (
            AvroRowDeserializationSchema(avro_schema_string=AVRO),
            AvroRowSerializationSchema(avro_schema_string=AVRO).serialize(("a", 1)),
            Row(id="a", n=1),
        ),
    ],
    ids=["utf-8", "latin-1", "bytes", "json row", "json", "avro"],
)
def test_values_are_read_by_their_format(cluster: Cluster, schema: Any, sent: bytes, expected: Any) -> None:
    topic = cluster.topic()
    cluster.send(topic, [sent])
    assert read(cluster.source(topic).set_value_only_deserializer(schema).build()) == [expected]


def test_a_record_without_a_value_is_left_out(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.send(topic, ["a", None, "b"])
    assert read(cluster.source(topic).build()) == ["a", "b"]


def test_rows_have_key_place_time_and_headers(cluster: Cluster) -> None:
    topic = cluster.topic(2)
    cluster.send(topic, [("v", 1_234, "k", {"trace": b"\x01"}), (None, 2_000, "gone")], partition=1)
    schema = KafkaRecordDeserializationSchema.rows(SimpleStringSchema(), SimpleStringSchema())
    first, second = read(cluster.source(topic).set_deserializer(schema).build())
    headers = [Row(name="trace", value=b"\x01")]
    assert first == Row(key="k", value="v", topic=topic, partition=1, offset=0, timestamp=1_234, headers=headers)
    assert (second.key, second.value, second.headers) == ("gone", None, [])
    raw = KafkaRecordDeserializationSchema.rows(SimpleStringSchema())
    assert read(cluster.source(topic).set_deserializer(raw).build())[0].key == b"k"


class Words(KafkaRecordDeserializationSchema):
    def deserialize(self, record: KafkaRecord) -> Iterator[str]:
        assert record.value is not None
        yield from record.value.decode().split()


def test_a_schema_of_the_users_may_make_many_records_of_one(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.send(topic, [("to be", 1_000), ("", 2_000), ("or", 3_000)])
    stream = local().from_source(
        cluster.source(topic).set_deserializer(Words()).build(), WatermarkStrategy.for_monotonous_timestamps()
    )
    rows = stream.key_by(lambda value: 0).window(tumbling("1s")).agg(n=count()).execute_and_collect()
    assert [(row.window_start, row.n) for row in rows] == [(1_000, 2), (3_000, 1)]


class Broken(DeserializationSchema):
    def deserialize(self, message: bytes) -> Any:
        return 1 // 0


def test_what_a_schema_raises_names_the_users_line(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.send(topic, ["a"])
    with pytest.raises(UserFunctionError, match=r"ZeroDivisionError.*"):
        read(cluster.source(topic).set_value_only_deserializer(Broken()).build())


def test_a_value_that_is_no_json_fails_with_its_place_or_is_left_out(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.send(topic, ['{"id":"a","n":1}', "{", '{"id":"b","n":"x"}', '{"id":"c","n":2}'])
    builder = JsonRowDeserializationSchema.builder().type_info(NAMED)
    with pytest.raises(SourceError, match=rf"no JSON of the declared type.*partition {topic}-0, offsets 0 to 3"):
        read(cluster.source(topic).set_value_only_deserializer(builder.build()).build())
    lenient = cluster.source(topic).set_value_only_deserializer(builder.ignore_parse_errors().build()).build()
    assert read(lenient) == [Row(id="a", n=1), Row(id="c", n=2)]


def test_a_value_that_is_no_json_goes_to_the_dead_letters_with_its_place(cluster: Cluster) -> None:
    topic, tag, good = cluster.topic(1), OutputTag("bad"), CollectSink()
    cluster.send(topic, ['{"a": 1}', "{", '{"a": 2}'], 0)
    schema = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["a"], [Types.INT()])).build()
    rows = local(1).from_source(cluster.source(topic).set_value_only_deserializer(schema).build()).on_error(tag)
    rows.sink_to(good)
    (letter,) = rows.get_side_output(tag).execute_and_collect()
    assert [row.a for row in good.results] == [1, 2]
    assert (letter.record, letter.split, letter.position) == (b"{", f"{topic}-0", 1)
    assert letter.timestamp is not None


def test_topics_by_pattern_and_partitions_by_number(cluster: Cluster) -> None:
    mark = cluster.topic()
    orders = [cluster.topic(name=f"{mark}.orders-{n}") for n in range(2)]
    other = cluster.topic(2, name=f"{mark}.others")
    for topic in (*orders, other):
        cluster.send(topic, [topic])
    cluster.send(other, ["second"], partition=1)
    assert sorted(read(cluster.source().set_topic_pattern(rf"{mark}\.orders-.*").build())) == orders
    assert read(cluster.source().set_topic_pattern(rf"{mark}\.order").build()) == []
    only = cluster.source().set_partitions({KafkaTopicPartition(other, 1)}).build()
    assert read(only) == ["second"]


@pytest.mark.parametrize(
    ("choose", "says"),
    [
        (lambda builder, topic: builder.set_topics("no-such-topic"), "there is no topic 'no-such-topic'"),
        (
            lambda builder, topic: builder.set_partitions({KafkaTopicPartition(topic, 5)}),
            "has no partition 5.*it has 1",
        ),
    ],
)
def test_what_is_not_there_is_refused_with_the_users_line(cluster: Cluster, choose: Any, says: str) -> None:
    source = choose(cluster.source(), cluster.topic()).build()
    with pytest.raises(SourceError, match=says) as caught:
        read(source)
    assert caught.value.location is not None and "test_source.py" in caught.value.location


def test_records_of_transactions_are_seen_as_the_isolation_level_says(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.send(topic, ["a", "b"], transaction="first")
    aborted = cluster.open_transaction(topic, ["x"])
    aborted.abort_transaction(60)
    cluster.send(topic, ["c"], transaction="second")
    committed = cluster.source(topic).set_property("isolation.level", "read_committed")
    assert read(committed.build()) == ["a", "b", "c"]
    assert read(committed.build(), local(1)) == ["a", "b", "c"]
    assert read(cluster.source(topic).build()) == ["a", "b", "x", "c"]
    pending = cluster.open_transaction(topic, ["y"])
    assert read(committed.build()) == ["a", "b", "c"]
    pending.abort_transaction(60)


def test_records_that_are_gone_before_they_were_read_are_told(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic()
    cluster.send(topic, [str(n) for n in range(9_000)])
    stop_after(local(2, tmp_path), cluster.source(topic, until=None).build(), 4)
    cluster.delete_before(topic, 0, 8_999)
    forget_consumers()
    with pytest.raises(SourceError, match=rf"records of partition {topic}-0 that the job has not read yet are gone"):
        stop_after(local(2, tmp_path), cluster.source(topic, until=None).build(), 4)


def forget_consumers() -> None:
    """Do what a new process would: the consumers of this one have fetched ahead."""
    while kafka_read._KEPT:
        kafka_read._KEPT.popitem()[1].close()


def stop_after(env: StreamExecutionEnvironment, source: KafkaSource, number: int) -> list[Any]:
    """Run a job on an endless source until it has given so many records."""
    with env.from_source(source).execute_and_collect() as results:
        return [next(results) for _ in range(number)]


def lines(folder: Path) -> list[str]:
    """All that a job has written, in order."""
    files = sorted(folder.glob("part-*.json"))
    return [json.loads(line)["value"] for file in files for line in file.read_text().splitlines()]


def written(source: KafkaSource, folder: Path, records: int = 0) -> StreamExecutionEnvironment:
    """Return a job that writes what it reads to files."""
    env = local(records, folder / "checkpoints")
    env.from_source(source).uid("in").sink_to(FileSink.json(folder / "out")).uid("out")
    return env


def test_a_job_goes_on_where_its_checkpoint_says(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic(2)
    cluster.send(topic, [f"a{n}" for n in range(4)])
    with Running(written(cluster.source(topic, until=None).build(), tmp_path)) as job:
        job.wait_for_records(4)
    cluster.send(topic, ["b0"], partition=1)
    # Where a job is told to begin counts when it begins, and never again.
    late = cluster.source(topic, until=None).set_starting_offsets(Begin.latest())
    with Running(written(late.build(), tmp_path)) as job:
        job.wait_for_records(5)
    assert lines(tmp_path / "out") == ["a0", "a1", "a2", "a3", "b0"]


def test_the_end_of_a_bounded_read_is_fixed_when_the_job_first_starts(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic()
    cluster.send(topic, [str(n) for n in range(600)])
    with Running(written(cluster.source(topic).build(), tmp_path, records=2)) as job:
        job.wait_for_records(2)
    assert len(lines(tmp_path / "out")) < 600
    cluster.send(topic, ["late"])
    written(cluster.source(topic).build(), tmp_path).execute("job")
    assert lines(tmp_path / "out") == [str(n) for n in range(600)]


class Feed:
    """Runs a job on an endless source and hands over its results while the test feeds the topic."""

    def __init__(self, stream: Any) -> None:
        self._results = stream.execute_and_collect()

    def take(self, number: int) -> list[Any]:
        return [next(self._results) for _ in range(number)]

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *error: object) -> None:
        self._results.close()


def test_partitions_and_topics_that_come_up_while_the_job_runs_are_read_from_their_beginning(cluster: Cluster) -> None:
    mark = cluster.topic()
    source = cluster.source(until=None).set_topic_pattern(rf"{mark}\.in-.*")
    source.set_property("partition.discovery.interval.ms", "50").set_starting_offsets(Begin.latest())
    with Feed(local().from_source(source.build())) as feed:
        one = cluster.topic(name=f"{mark}.in-1")
        cluster.send(one, ["a"])
        assert feed.take(1) == ["a"]
        cluster.add_partitions(one, 2)
        cluster.send(one, ["b"], partition=1)
        assert feed.take(1) == ["b"]
        two = cluster.topic(name=f"{mark}.in-2")
        cluster.send(two, ["c"])
        assert feed.take(1) == ["c"]


def test_partitions_found_while_running_keep_their_numbers_over_a_restart(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic()
    builder = cluster.source(topic, until=None).set_property("partition.discovery.interval.ms", "50")
    cluster.send(topic, ["a"])
    with Running(written(builder.build(), tmp_path)) as job:
        job.wait_for_records(1)
        cluster.add_partitions(topic, 3)
        cluster.send(topic, ["b"], partition=2)
        job.wait_for_records(2)
    cluster.send(topic, ["c"], partition=2)
    cluster.send(topic, ["d"], partition=1)
    with Running(written(builder.build(), tmp_path)) as job:
        job.wait_for_records(4)
    first, second, *rest = lines(tmp_path / "out")
    assert (first, second, sorted(rest)) == ("a", "b", ["c", "d"])


def windows(stream: Any) -> Any:
    counted = stream.key_by(lambda value: 0).window(tumbling("1s")).agg(n=count())
    return counted.map(lambda row: (row.window_start, row.n))


@contextmanager
def going_on(work: Callable[[], None]) -> Generator[None]:
    """Do something again and again while the block runs."""
    over = threading.Event()

    def repeat() -> None:
        while not over.is_set():
            work()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(PATIENCE)


@pytest.mark.row(36)
def test_a_silent_partition_of_four_holds_windows_back_until_it_is_idle(cluster: Cluster) -> None:
    topic = cluster.topic(4)
    for partition in range(3):
        cluster.send(topic, [("x", 1_000)], partition)

    def feed_three() -> None:
        for partition in range(3):
            cluster.send(topic, [("x", 2_500)], partition)

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness("2s")
    stream = local().from_source(cluster.source(topic, until=None).build(), strategy)
    with Feed(windows(stream)) as feed, going_on(feed_three):
        assert feed.take(1) == [(1_000, 3)]


@pytest.mark.row(36)
def test_a_slow_partition_holds_windows_back_and_loses_nothing(cluster: Cluster) -> None:
    topic = cluster.topic(4)
    for partition in range(3):
        cluster.send(topic, [("x", 1_000), ("x", 9_000)], partition)
    cluster.send(topic, [("x", 500)], partition=3)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    with Feed(windows(local().from_source(cluster.source(topic, until=None).build(), strategy))) as feed:
        # The slow one is a second behind the others' nine: what it brings now is not late.
        cluster.send(topic, [("x", 1_100), ("x", 2_100)], partition=3)
        assert feed.take(2) == [(0, 1), (1_000, 4)]


def test_a_record_of_a_partition_that_comes_up_late_is_late_as_in_flink(cluster: Cluster) -> None:
    topic = cluster.topic()
    source = cluster.source(topic, until=None).set_property("partition.discovery.interval.ms", "50")
    cluster.send(topic, [("x", 1_000), ("x", 5_500)])
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    is_read = threading.Event()

    def listen(manifest: Any, reports: Any, seconds: float) -> None:
        if max(each.get("in", 0) for each in manifest.counters.values()) >= 5:
            is_read.set()

    with Feed(windows(local().add_listener(listen).from_source(source.build(), strategy))) as feed:
        assert feed.take(1) == [(1_000, 1)]
        cluster.add_partitions(topic, 2)
        cluster.send(topic, [("late", 1_200), ("x", 5_600), ("x", 7_000)], partition=1)
        # Until then nothing holds event time back.
        assert is_read.wait(PATIENCE)
        cluster.send(topic, [("x", 7_000)])
        assert feed.take(1) == [(5_000, 2)]
