"""DataFrames with an order of their own: splits and places by columns, whatever Spark does with the rows between."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from flintstream import CollectSink, StreamExecutionEnvironment, bounded, count, sum_of, tumbling
from tests.capabilities.support import Lists, collect
from tests.laws.programs import timers, windows_columns, windows_process

pytestmark = pytest.mark.spark
SCHEMA = "split INT, at BIGINT, key STRING, ts BIGINT, n BIGINT"
Rows = list[dict[str, Any]]


def splits(count: int, size: int, seed: int) -> list[Rows]:
    """Return splits of records, some of them late, which tell their own place."""
    chance = random.Random(seed)
    return [
        [
            {"split": split, "at": at, "key": chance.choice("abc"), "ts": at * 2 + chance.randrange(24), "n": at}
            for at in range(size)
        ]
        for split in range(count)
    ]


def outputs(env: StreamExecutionEnvironment, stream: Any) -> dict[str, list[Any]]:
    """Run three programs that tell when each record came, as one job in deterministic order."""
    timed = stream.assign_timestamps_and_watermarks(bounded("4ms", on="ts"))
    sinks: dict[str, CollectSink] = {}
    for program in (timers, windows_process, windows_columns):
        for name, output in program(timed, timed).items():
            sink = sinks[f"{program.__name__} {name}"] = CollectSink()
            output.map(lambda value: tuple(value.values()) if isinstance(value, dict) else tuple(value)).sink_to(sink)
    env.deterministic_order().execute("frames")
    return {name: sink.results for name, sink in sinks.items()}


@pytest.mark.parametrize("number_of_splits", [1, 3])
def test_results_are_those_of_the_splits_however_spark_holds_the_rows(make_env, spark_session, number_of_splits):
    records = splits(number_of_splits, 40, seed=number_of_splits)
    wanted_env = make_env("local", 1)
    wanted = outputs(wanted_env, wanted_env.from_source(Lists(*records)).map(without_place))
    assert all(wanted.values()), "every output has something to tell"
    rows = [tuple(record.values()) for split in records for record in split]
    random.Random(7).shuffle(rows)
    for partitions, parallelism in ((5, 2), (1, 3)):
        frame = spark_session.createDataFrame(rows, SCHEMA).repartition(partitions)
        env = make_env("spark", parallelism)
        stream = env.from_dataframe(frame, split_by="split", order_by="at").map(without_place)
        assert outputs(env, stream) == wanted


def without_place(row: Any) -> dict[str, Any]:
    """Return a record without what may differ between two ways to read it: the class of the record."""
    values = row if isinstance(row, dict) else row.as_dict()
    return {name: values[name] for name in ("key", "ts", "n")}


def write_batches(folder: Path, batches: list[Rows]) -> str:
    """Write a file for each micro-batch, a minute apart: Spark reads files by their time."""
    folder.mkdir(parents=True)
    for number, batch in enumerate(batches):
        lines = "".join(f"{json.dumps(record)}\n" for record in batch)
        file = folder / f"{number:03d}.json"
        file.write_text(lines)
        os.utime(file, (10**9 + 60 * number,) * 2)
    return str(folder)


def stream_of(session: Any, folder: str, schema: str = SCHEMA, files: int = 1) -> Any:
    return session.readStream.schema(schema).option("maxFilesPerTrigger", files).json(folder)


def record(split: Any, at: int, ts: int) -> dict[str, Any]:
    return {"split": split, "at": at, "key": "k", "ts": ts, "n": 1}


TIMES = {"slow": [1, 2, 11, 12, 21, 35], "fast": [5, 15, 25, 35, 45, 60]}


@pytest.mark.parametrize("cut", [1, 2, 6])
def test_every_split_of_a_stream_has_a_watermark_of_its_own(make_env, spark_session, tmp_path, cut):
    """One split is far ahead of the other: with one watermark for both, records of the other would be late."""
    batches: list[Rows] = [[] for _ in range(0, 6, cut)]
    for split, times in TIMES.items():
        for at, ts in enumerate(times):
            batches[at // cut].append(record(split, at, ts))
    for batch in batches:
        batch.reverse()
    folder = write_batches(tmp_path / "in", batches)
    env = make_env("spark")
    frame = stream_of(spark_session, folder, SCHEMA.replace("INT", "STRING", 1))
    stream = env.from_dataframe(frame, bounded(0, on="ts"), split_by="split", order_by="at")
    windows = stream.key_by("key").window(tumbling("10ms")).agg(n=count(), total=sum_of("n"))
    found = windows.execute_and_collect(limit=3)
    assert [(row.window_start, row.n, row.total) for row in found] == [(0, 3, 3), (10, 3, 3), (20, 2, 2)]


def test_several_columns_order_and_tell_apart(make_env, spark_session):
    rows = [(topic, part, major, minor) for topic in "xy" for part in (0, 1) for major in (1, 2) for minor in (1, 2)]
    random.Random(3).shuffle(rows)
    frame = spark_session.createDataFrame(rows, "topic STRING, part INT, major INT, `min.or` INT").repartition(4)
    env = make_env("spark")
    stream = env.from_dataframe(frame, split_by=["topic", "part"], order_by=["major", "min.or"])
    found = collect(stream.select("topic", "part", place="10 * major + `min.or`"))
    by_split: dict[Any, list[int]] = {}
    for topic, part, place in found:
        by_split.setdefault((topic, part), []).append(place)
    assert by_split == {(topic, part): [11, 12, 21, 22] for topic in "xy" for part in (0, 1)}


def test_rows_with_an_order_may_stand_beside_rows_with_none(make_env, spark_session, tmp_path):
    (tmp_path / "lines.txt").write_text("".join(f"{n}\n" for n in range(50)))
    ordered = spark_session.createDataFrame([(n,) for n in range(50)], "n INT").repartition(3)
    env = make_env("spark", 3)
    from_frame = env.from_dataframe(ordered, order_by="n").map(lambda row: ("frame", row.n))
    from_files = env.from_dataframe(spark_session.read.text(str(tmp_path))).map(lambda row: ("file", int(row.value)))
    from_lists = env.from_source(Lists(range(20), range(20, 30))).map(lambda n: ("list", n))
    found = collect(from_frame.union(from_files, from_lists))
    assert [n for kind, n in found if kind == "frame"] == list(range(50))
    assert [n for kind, n in found if kind == "file"] == list(range(50))
    assert sorted(n for kind, n in found if kind == "list") == list(range(30))


@pytest.mark.parametrize("fixed", [True, False])
def test_the_only_source_is_read_whole_whatever_its_rows_are(make_env, spark_session, fixed):
    """Rows of one width come in many batches that nobody measures, others in few; both without their source's name."""
    frame = spark_session.range(0, 4000, 1, 3).selectExpr("id % 7 AS key", "id AS n", *([] if fixed else ["'a' AS t"]))
    env = make_env("spark", 2)
    sink = CollectSink()
    env.from_dataframe(frame).key_by("key").sum("n").map(lambda row: (row["key"], row["n"])).sink_to(sink)
    env.execute("lone")
    assert len(sink.results) == 4000
    totals = {key: max(total for each, total in sink.results if each == key) for key in range(7)}
    assert totals == {key: sum(range(key, 4000, 7)) for key in range(7)}
