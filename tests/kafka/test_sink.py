"""The Kafka sink against a real broker: what readers see, and that no crash at any step shows in it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flintstream import Configuration, StreamExecutionEnvironment, WatermarkStrategy
from flintstream.common.serialization import ByteArraySchema, RowFieldExtractorSchema, SimpleStringSchema
from flintstream.connectors import kafka_publish, kafka_write
from flintstream.datastream.connectors.base import DeliveryGuarantee
from flintstream.datastream.connectors.kafka import (
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaTopicSelector,
)
from flintstream.engine import manifest as manifests
from flintstream.engine.options import JobOptions
from flintstream.errors import SinkError, UserFunctionError
from flintstream.model.connect import WriterContext
from flintstream.planner.plan import Plan
from tests.crash.ports import Crash, Fault, FaultyStorage, plan_of
from tests.crash.ports import local as storage_in
from tests.crash.ports import run as run_plan
from tests.kafka.broker import Cluster
from tests.kafka.faults import STEPS, faulty_library
from tests.kafka.job import Count, sink

pytestmark = pytest.mark.kafka

EXACTLY, AT_LEAST, NONE = DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.NONE


def local(records: int = 0, checkpoints: Path | None = None, parallelism: int = 2) -> StreamExecutionEnvironment:
    settings = Configuration.from_dict({"flintstream.epoch.max-records": str(records)})
    env = StreamExecutionEnvironment.get_execution_environment(settings, runtime="local").set_parallelism(parallelism)
    return env if checkpoints is None else env.set_checkpoint_dir(str(checkpoints))


def words(env: StreamExecutionEnvironment, count: int, splits: int = 2) -> Any:
    return env.generate(generator=lambda n: f"w{n % 7}", count=count, splits=splits)


def counted(count: int) -> Counter[str]:
    """What the job shall write for so many words."""
    totals = Counter(f"w{n % 7}" for n in range(count))
    return Counter(f"{word}:{number + 1}" for word, total in totals.items() for number in range(total))


def check(cluster: Cluster, topic: str, count: int) -> None:
    """Every count is there once, and those of a word in one partition and in order."""
    seen = cluster.seen(topic)
    assert Counter(each.value for each in seen) == counted(count)
    by_word: dict[str, list[int]] = {}
    places: dict[str, set[int]] = {}
    for each in seen:
        assert each.key is not None and each.value is not None
        by_word.setdefault(each.key, []).append(int(each.value.partition(":")[2]))
        places.setdefault(each.key, set()).add(each.partition)
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in by_word.values())
    assert all(len(where) == 1 for where in places.values())


@pytest.mark.parametrize("guarantee", list(DeliveryGuarantee))
@pytest.mark.parametrize("records", [0, 30], ids=["one epoch", "many epochs"])
def test_every_record_arrives_once_if_nothing_fails(
    cluster: Cluster, tmp_path: Path, guarantee: Any, records: int
) -> None:
    topic, env = cluster.topic(3), local(records, tmp_path)
    counts = words(env, 200).key_by(lambda word: word).process(Count())
    counts.sink_to(sink(cluster.servers, topic, guarantee))
    assert f"Guarantee: {guarantee.value}" in env.explain()
    env.execute("counts")
    check(cluster, topic, 200)


def test_records_have_keys_timestamps_headers_and_the_partitions_of_java(cluster: Cluster) -> None:
    topic, env = cluster.topic(100), local()
    record = KafkaRecordSerializationSchema.builder().set_topic(topic)
    record.set_key_serialization_schema(RowFieldExtractorSchema(0))
    record.set_value_serialization_schema(RowFieldExtractorSchema(1))
    record.set_header_provider(lambda row: {"size": str(len(row[0])), "raw": b"\x00"})
    builder = KafkaSink.builder().set_bootstrap_servers(cluster.servers).set_record_serializer(record.build())
    builder.set_delivery_guarantee(EXACTLY).set_transactional_id_prefix(topic)
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, at: 1_234)
    rows = env.from_collection([(b"foobar", b"v"), (b"21", None)]).assign_timestamps_and_watermarks(timed)
    rows.sink_to(builder.build())
    env.execute()
    seen = {each.key: each for each in cluster.seen(topic)}
    # The hashes stand in the tests of Kafka's own client: -790332482 and -973932308.
    assert seen["foobar"].partition == (-790332482 & 0x7FFFFFFF) % 100
    assert seen["21"].partition == (-973932308 & 0x7FFFFFFF) % 100
    assert seen["foobar"].headers == {"size": b"6", "raw": b"\x00"}
    assert (seen["foobar"].value, seen["21"].value) == ("v", None)
    assert {each.timestamp for each in seen.values()} == {1_234}


class ByLetter(KafkaTopicSelector):
    def __init__(self, topics: dict[str, str]) -> None:
        self._topics = topics

    def apply(self, data: str) -> str:
        return self._topics[data[0]]


@pytest.mark.parametrize("as_class", [True, False])
def test_a_record_may_choose_its_topic(cluster: Cluster, as_class: bool) -> None:
    topics, env = {letter: cluster.topic() for letter in "ab"}, local()
    selector = ByLetter(topics) if as_class else lambda value: topics[value[0]]
    record = KafkaRecordSerializationSchema.builder().set_topic_selector(selector)
    record.set_value_serialization_schema(SimpleStringSchema())
    builder = KafkaSink.builder().set_bootstrap_servers(cluster.servers).set_record_serializer(record.build())
    builder.set_delivery_guarantee(EXACTLY).set_transactional_id_prefix(topics["a"])
    env.from_collection(["a1", "b1", "a2"]).sink_to(builder.build())
    env.execute()
    assert (cluster.values(topics["a"]), cluster.values(topics["b"])) == (["a1", "a2"], ["b1"])


def breaks_at(number: int) -> Any:
    def check_one(value: str) -> str:
        if value == f"w{number}":
            raise ValueError(value)
        return value

    return check_one


@pytest.mark.parametrize(("guarantee", "seen"), [(EXACTLY, 0), (AT_LEAST, None)])
def test_an_epoch_that_fails_shows_nothing_unless_records_may_come_twice(
    cluster: Cluster, tmp_path: Path, guarantee: Any, seen: int | None
) -> None:
    topic = cluster.topic()
    with pytest.raises(UserFunctionError):
        env = local(0, tmp_path)
        numbers = env.generate(generator=lambda n: f"w{n}", count=10, splits=1)
        numbers.rebalance().map(breaks_at(9)).sink_to(sink(cluster.servers, topic, guarantee)).uid("out")
        env.execute()
    early = cluster.values(topic, "read_uncommitted")
    assert seen is None or len(early) == seen
    env = local(0, tmp_path)
    numbers = env.generate(generator=lambda n: f"w{n}", count=10, splits=1)
    numbers.rebalance().map(lambda value: value).sink_to(sink(cluster.servers, topic, guarantee)).uid("out")
    env.execute()
    assert Counter(cluster.values(topic)) == Counter(f"w{n}" for n in range(10)) + Counter(early)


def test_large_output_waits_in_files_that_are_gone_afterwards(cluster: Cluster, tmp_path: Path) -> None:
    topic, env = cluster.topic(), local(0, tmp_path)
    values = env.generate(generator=lambda n: f"{n:06d}" + "x" * 50_000, count=400, splits=1)
    fault = Fault()
    values.sink_to(sink(cluster.servers, topic))
    run_plan(plan_of(env), FaultyStorage(storage_in(tmp_path), fault), JobOptions(retained=1))
    assert fault.steps["write output"] >= 400 * 50_000 // kafka_write.PIECE_BYTES
    assert [int(value[:6]) for value in cluster.values(topic)] == list(range(400))
    newest = manifests.newest(storage_in(tmp_path))
    assert newest is not None
    left = {f"output/{path.name}" for path in (tmp_path / "output").iterdir()}
    assert left == {path for path in newest.files() if path.startswith("output/")}


def test_a_record_that_no_broker_takes_is_refused_before_the_commit(cluster: Cluster, tmp_path: Path) -> None:
    topic, env = cluster.topic(), local(0, tmp_path)
    env.from_collection(["a", "x" * 1_000_001]).sink_to(sink(cluster.servers, topic))
    with pytest.raises(SinkError, match=r"2,000,002 bytes is larger than the 1,000,000.*test_sink\.py:\d+"):
        env.execute()
    assert manifests.newest(storage_in(tmp_path)) is None
    assert cluster.values(topic, "read_uncommitted") == []


@pytest.mark.parametrize("guarantee", [AT_LEAST, NONE])
def test_a_record_that_no_broker_takes_fails_the_job_or_is_lost(
    cluster: Cluster, guarantee: Any, caplog: pytest.LogCaptureFixture
) -> None:
    topic, env = cluster.topic(), local()
    env.from_collection(["a", "x" * 1_000_001, "b"]).sink_to(sink(cluster.servers, topic, guarantee))
    if guarantee is AT_LEAST:
        with pytest.raises(SinkError, match=r"1 records could not be written to Kafka.*test_sink\.py:\d+"):
            env.execute()
    else:
        env.execute()
        assert cluster.values(topic) == ["a", "b"]
        assert "1 records for Kafka" in caplog.text


def test_a_topic_that_is_not_there_fails_the_job_and_nothing_is_lost(cluster: Cluster, tmp_path: Path) -> None:
    name = f"{cluster.topic()}-to-come"

    def declared() -> StreamExecutionEnvironment:
        env = local(0, tmp_path)
        target = sink(cluster.servers, name, topic_metadata_propagation_max_ms="500")
        env.from_collection(["a", "b"]).sink_to(target).uid("out")
        return env

    with pytest.raises(SinkError, match=r"epoch 1 could not be published.*nothing is lost"):
        declared().execute()
    cluster.topic(name=name)
    declared().execute()
    assert cluster.values(name) == ["a", "b"]


def test_a_job_that_starts_anew_writes_anew_under_the_same_names(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic()
    for life in range(2):
        env = local(1, tmp_path / str(life))
        env.from_collection(["a", "b"]).sink_to(sink(cluster.servers, topic)).uid("out")
        env.execute()
    assert cluster.values(topic) == ["a", "b", "a", "b"]


EVENTS = 300
OPTIONS = JobOptions(max_records=100, retained=2)
STORAGE_STEPS = ["create manifests", "create manifests done", "write output", "write output done", "delete output"]


def declare(cluster: Cluster, topic: str, parallelism: int = 2) -> Plan:
    env = local(parallelism=parallelism)
    counts = words(env, EVENTS).key_by(lambda word: word).process(Count()).uid("count")
    counts.sink_to(sink(cluster.servers, topic, transaction_timeout_ms="60000")).uid("out")
    return plan_of(env)


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Fault:
    """A fault that the next job meets in its client library; all output waits in files."""
    fault = Fault()
    library = faulty_library(fault.reach)
    monkeypatch.setattr(kafka_publish, "library", lambda: library)
    monkeypatch.setattr(kafka_write, "INLINE_BYTES", 0)
    return fault


def run(plan: Plan, folder: Path, fault: Fault) -> None:
    run_plan(plan, FaultyStorage(storage_in(folder), fault), OPTIONS).get_job_execution_result().result(0)


@pytest.mark.parametrize("step", STORAGE_STEPS + STEPS)
def test_a_crash_at_any_step_shows_nowhere(cluster: Cluster, tmp_path: Path, faulty: Fault, step: str) -> None:
    """Epochs 1 to 3 have two shares each: the second time a step is reached is between them, the third in epoch 2."""
    for nth in (1, 2) if step.startswith(("delete", "init")) else (2, 3):
        topic, folder = cluster.topic(2), tmp_path / str(nth)
        faulty.step, faulty.nth, faulty.steps, faulty.dead = step, nth, {}, False
        with pytest.raises(Crash):
            run(declare(cluster, topic), folder, faulty)
        faulty.cure()
        run(declare(cluster, topic), folder, faulty)
        check(cluster, topic, EVENTS)


def test_crash_upon_crash_shows_nowhere(cluster: Cluster, tmp_path: Path, faulty: Fault) -> None:
    topic = cluster.topic(2)
    for step in [*STEPS, *STEPS]:
        faulty.step, faulty.nth, faulty.steps, faulty.dead = step, 1, {}, False
        try:
            run(declare(cluster, topic), tmp_path, faulty)
        except Crash:
            continue
    faulty.cure()
    run(declare(cluster, topic), tmp_path, faulty)
    check(cluster, topic, EVENTS)


def test_half_published_output_is_finished_by_a_job_of_another_parallelism(
    cluster: Cluster, tmp_path: Path, faulty: Fault
) -> None:
    topic = cluster.topic(2)
    faulty.step, faulty.nth = "commit", 2
    with pytest.raises(Crash):
        run(declare(cluster, topic, parallelism=4), tmp_path, faulty)
    faulty.cure()
    run(declare(cluster, topic, parallelism=1), tmp_path, faulty)
    check(cluster, topic, EVENTS)


def test_a_driver_that_was_taken_for_dead_publishes_nothing_again(cluster: Cluster, tmp_path: Path) -> None:
    """Both have published epoch 1; the slow one does it once more, under the other's nose."""
    topic = cluster.topic()
    target = kafka_write.KafkaTarget(cluster.servers, {}, topic)

    def share(epoch: int) -> bytes:
        writer = kafka_write.StagingWriter(target, lambda value: (topic, None, value, None), context(epoch))
        writer.write([f"{epoch}".encode()], [0])
        return writer.prepare_commit()

    slow, quick = kafka_publish.KafkaCommitter(target), kafka_publish.KafkaCommitter(target)
    slow.commit("job", "out", 1, [share(1)])
    quick.commit("job", "out", 1, [share(1)])
    quick.commit("job", "out", 2, [share(2)])
    slow.commit("job", "out", 2, [share(2)])
    quick.commit("job", "out", 3, [share(3)])
    assert cluster.values(topic) == ["1", "2", "3"]


def context(epoch: int) -> WriterContext:
    return WriterContext("job", "out", epoch, 0, "a", incarnation="life")


def test_bytes_and_json_are_written_as_declared(cluster: Cluster) -> None:
    topic, env = cluster.topic(), local()
    record = KafkaRecordSerializationSchema.builder().set_topic(topic)
    record.set_value_serialization_schema(ByteArraySchema())
    builder = KafkaSink.builder().set_bootstrap_servers(cluster.servers).set_record_serializer(record.build())
    env.from_collection([b"raw"]).sink_to(builder.build())
    env.execute()
    assert cluster.values(topic) == ["raw"]
