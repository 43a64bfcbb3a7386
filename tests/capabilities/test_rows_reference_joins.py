"""Rows 105 and 106: joins with a table, and with the version that was valid at a record's time; lookups besides."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from flintstream import CollectSink, LookupCache, bounded, count, tumbling
from flintstream.errors import DefinitionError, JobError, UnsupportedError
from tests.capabilities.support import Epochs, Lists, collect, run_with_stops

NOON, MINUTE = 12 * 60 * 60_000, 60_000
CAMPAIGNS = pa.table({"campaign": [0, 1, 1], "name": ["spring", "autumn", "harvest"]})


def impressions(size: int) -> list[dict[str, Any]]:
    return [{"campaign": n % 3, "user": f"u{n % 7}", "ts": n} for n in range(size)]


def expected(size: int) -> list[tuple[int, str]]:
    names = {0: ["spring"], 1: ["autumn", "harvest"], 2: []}
    return [(row["ts"], name) for row in impressions(size) for name in names[row["campaign"]]]


@pytest.mark.row(106)
def test_a_record_gets_the_price_of_its_time_though_it_is_processed_after_the_change(new_env, tmp_path):
    """The order of 11:59 comes when the price of 12:00 has been there for ten minutes, and after two restarts."""
    prices = [{"item": "pen", "ts": NOON - 60 * MINUTE, "price": 2}, {"item": "pen", "ts": NOON, "price": 3}]
    prices.append({"item": "pen", "ts": NOON + 15 * MINUTE, "price": 4})
    minutes = [-30, 0, 10, -1, 20]
    orders = [{"item": "pen", "ts": NOON + minute * MINUTE, "minute": minute} for minute in minutes]

    def declare(env: Any, sink: CollectSink) -> None:
        time = bounded("30min", on="ts")
        left = env.from_source(Lists(orders), time).uid("orders").key_by("item")
        right = env.from_source(Lists(prices), time).uid("prices").key_by("item")
        joined = left.temporal_join(right).apply(lambda order, price: (order["minute"], price["price"])).uid("join")
        joined.sink_to(sink).uid("sink")

    def env() -> Any:
        return new_env(max_records=2, checkpoint_dir=tmp_path / "checkpoint")

    assert run_with_stops(env, declare, [1, 1]) == [(-30, 2), (-1, 2), (0, 3), (10, 3), (20, 4)]


@pytest.mark.row(106)
def test_nothing_is_left_of_the_versions_when_the_input_has_ended(new_env):
    env, epochs = new_env(max_records=5), Epochs()
    stream = env.from_source(Lists([{"k": n % 4, "ts": n, "n": n} for n in range(40)]), bounded(3, on="ts"))
    left, right = stream.key_by("k"), stream.filter(lambda row: row["n"] % 3 == 0).key_by("k")
    joined = [
        left.temporal_join(right).apply(),
        left.temporal_join(right, how="left", as_of="processing").apply(),
        left.regular_join(right, ttl=9, how="full").apply(),
        left.regular_join(right, ttl="1h", how="full", ttl_time="processing").apply(),
        left.regular_join(right, ttl=None).apply(),
    ]
    for each in joined:
        each.sink_to(CollectSink())
    env.add_listener(epochs)
    env.execute()
    assert sum(sum(report.entries.values()) for reports in epochs.reports[:-1] for report in reports) > 0
    assert {name: rows for report in epochs.reports[-1] for name, rows in report.entries.items() if rows} == {}


@pytest.mark.row(105)
def test_impressions_meet_the_campaigns_of_a_table(new_env):
    env = new_env(max_records=1000)
    joined = env.from_source(Lists(impressions(5000))).join_static(CAMPAIGNS, on="campaign")
    assert [(row.ts, row.name) for row in collect(joined)] == expected(5000)


@pytest.mark.row(105)
def test_a_table_can_be_joined_behind_any_operator(new_env):
    stream = new_env().from_source(Lists(impressions(30)), bounded(0, on="ts")).filter(lambda row: row["ts"] >= 15)
    joined = stream.key_by("user").join_static(CAMPAIGNS, on="campaign", how="left")
    found = [(row.ts, row.name) for row in collect(joined)]
    assert sorted(found, key=str) == sorted(
        [each for each in expected(30) if each[0] >= 15] + [(ts, None) for ts in range(17, 30, 3)], key=str
    )


@pytest.mark.spark
@pytest.mark.row(105)
@pytest.mark.parametrize("strategy", ["broadcast", "merge"])
def test_spark_itself_joins_with_a_dataframe_and_event_time_goes_on_as_before(make_env, spark_session, strategy):
    """However Spark joins, the records of our own source come in their order, so none is late."""
    frame = spark_session.createDataFrame(CAMPAIGNS).hint(strategy)
    env = make_env("spark", max_records=20)
    joined = env.from_source(Lists(impressions(60))).join_static(frame, on="campaign")
    timed = joined.assign_timestamps_and_watermarks(bounded(0, on="ts"))
    counts = timed.key_by("name").window(tumbling("30ms")).agg(n=count())
    found = sorted((row.name, row.window_start, row.n) for row in collect(counts))
    assert found == [(name, start, 10) for name in ("autumn", "harvest", "spring") for start in (0, 30)]


@pytest.mark.spark
@pytest.mark.row(105)
def test_a_stream_of_files_meets_a_table_of_files(make_env, spark_session, tmp_path):
    folder, table = tmp_path / "impressions", tmp_path / "campaigns.parquet"
    folder.mkdir()
    (folder / "1.json").write_text("\n".join(map(json.dumps, impressions(12))))
    spark_session.createDataFrame(CAMPAIGNS).write.parquet(str(table))
    stream = spark_session.readStream.schema("campaign BIGINT, user STRING, ts BIGINT").json(str(folder))
    joined = make_env("spark").from_dataframe(stream, order_by="ts")
    joined = joined.where("ts < 9").join_static(spark_session.read.parquet(str(table)), on="campaign", how="left")
    wanted = sorted([*expected(9), *((ts, None) for ts in (2, 5, 8))], key=str)
    found = joined.execute_and_collect("files", limit=len(wanted))
    assert sorted(((row.ts, row.name) for row in found), key=str) == wanted


@pytest.mark.spark
@pytest.mark.row(105)
def test_a_dataframe_that_cannot_be_joined_is_refused(make_env, spark_session):
    frame = spark_session.createDataFrame(CAMPAIGNS)
    mapped = make_env("spark").from_collection(impressions(3)).map(lambda row: row)
    with pytest.raises(DefinitionError, match=r"right behind a source.*test_rows_reference_joins\.py:\d+.*toArrow"):
        mapped.join_static(frame, on="campaign")
    with pytest.raises(UnsupportedError, match=r"runs in-process; test_rows_reference_joins\.py:\d+"):
        make_env("local").from_collection(impressions(3)).join_static(frame, on="campaign")
    clash = make_env("spark").from_collection([{"campaign": 1, "name": "x"}]).join_static(frame, on="campaign")
    with pytest.raises(JobError, match=r"records and table both have 'name'.*test_rows_reference_joins\.py:\d+"):
        collect(clash)


async def double(key: int) -> int:
    return 2 * key


def test_a_lookup_join_asks_once_for_each_key_in_each_task(new_env):
    env, epochs, sink = new_env(1, max_records=10), Epochs(), CollectSink()
    stream = env.from_source(Lists([n % 5 for n in range(40)]))
    stream.lookup_join(double, on=lambda n: n).with_cache(LookupCache(100)).apply().uid("lookup").sink_to(sink)
    env.add_listener(epochs)
    env.execute()
    assert sink.results == [(n % 5, 2 * (n % 5)) for n in range(40)]
    asked, known = epochs.counts("lookup", "lookup_misses"), epochs.counts("lookup", "lookup_hits")
    # On Spark an epoch may run in another worker process, whose cache is its own.
    assert 5 <= asked <= 20
    assert asked + known == 40
