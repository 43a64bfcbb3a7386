"""Rows 85, 86, 88 and 90 to 92: rewinding, the same program on past and present, other versions, repair."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from flintstream import (
    CollectSink,
    DictSink,
    FileSource,
    JobStatus,
    bounded,
    compare_outputs,
    count,
    experiment,
    output_hash,
    positions_in,
    repair,
    sum_of,
    tumbling,
    what_if,
)
from tests.capabilities.support import Epochs
from tests.timetravel.log import FileLog, append, filled
from tests.timetravel.programs import WAIT, orders, produced, totals, windows

HOUR = 3_600_000


@pytest.mark.row(90)
def test_a_job_rewinds_catches_up_and_goes_on_live(new_env, tmp_path):
    folder = filled(tmp_path / "log", a=[(n * HOUR, n) for n in range(24)], b=[(n * HOUR, 100 + n) for n in range(24)])
    came, found = threading.Event(), []

    def take(epoch: int, values: list[Any]) -> None:
        found.extend(values)
        if "live" in values:
            came.set()

    env = new_env(max_records=10)
    env.from_source(FileLog(folder), start_from="1970-01-01T18:00").uid("log").sink_to(CollectSink(take))
    client = env.execute_async("rewound")
    assert client.caught_up().result(WAIT).records == 12
    assert sorted(found) == [*range(18, 24), *range(118, 124)]
    assert client.get_job_status().result() is JobStatus.RUNNING
    append(folder, "b", [(25 * HOUR, "live")])
    assert came.wait(WAIT)
    client.cancel().result(WAIT)


READINGS = [{"sensor": f"s{n % 3}", "ts": n * 700 - (n % 4) * 900, "value": n} for n in range(60)]


def per_window(stream: Any) -> list[tuple[Any, ...]]:
    """The program, whatever it reads."""
    timed = stream.assign_timestamps_and_watermarks(bounded("3s", on="ts"))
    rows = timed.key_by("sensor").window(tumbling("5s")).agg(n=count(), total=sum_of("value")).execute_and_collect()
    return sorted((row.sensor, row.window_start, row.n, row.total) for row in rows)


@pytest.mark.row(91)
def test_files_of_yesterday_and_the_live_log_give_the_same_windows(new_env, tmp_path):
    (tmp_path / "files").mkdir()
    for day in range(3):
        lines = [json.dumps(reading) for reading in READINGS[20 * day : 20 * day + 20]]
        (tmp_path / "files" / f"{day}.json").write_text("\n".join(lines))
    log = FileLog(filled(tmp_path / "log", a=[(n, reading) for n, reading in enumerate(READINGS)]))
    past = per_window(new_env().from_source(FileSource.json(tmp_path / "files", "sensor STRING, ts LONG, value LONG")))
    live = per_window(new_env(max_records=7).from_source(log, until="now"))
    assert past == live
    assert sum(n for _, _, n, _ in past) == 60


@pytest.mark.row(92)
def test_two_replays_of_a_range_have_one_digest_in_order(new_env, tmp_path):
    folder = filled(
        tmp_path / "log",
        a=[(n, {"key": n % 5, "ts": n * 100}) for n in range(40)],
        b=[(n, {"key": n % 3, "ts": n * 130}) for n in range(40)],
    )

    def run(parallelism: int, max_records: int) -> str:
        env = new_env(parallelism, max_records=max_records).deterministic_order()
        log = env.from_source(FileLog(folder), watermark=bounded("1s", on="ts"), start_from=5, until=35)
        return output_hash(log.key_by("key").window(tumbling("1s")).agg(n=count()).execute_and_collect())

    first = run(2, 0)
    assert run(3, 13) == first
    append(folder, "a", [(40, {"key": 0, "ts": 0})])
    assert run(1, 50) == first


@pytest.mark.row(85)
def test_what_if_other_code_had_run_since_a_savepoint(new_env, tmp_path):
    """Only full windows, from sp1 on, over what production has read since; production's sink stays as it is."""
    log, sink, state = filled(tmp_path / "log", a=orders(*[1] * 12)), CollectSink(), tmp_path / "state"
    sp1 = produced(new_env(max_records=6, checkpoint_dir=state), windows(log, sink), tmp_path / "sp1")
    before = list(sink.results)
    append(log, "a", [*orders(*[1] * 7, start=12_000), *orders(*[1] * 12, start=20_000)])
    sp2 = produced(new_env(max_records=6, checkpoint_dir=state), windows(log, sink), tmp_path / "sp2")
    since, mine = sink.results[len(before) :], CollectSink()
    assert [row["n"] for row in before] == [5, 5] and sorted(row["n"] for row in since) == [4, 5, 5, 5]
    append(log, "a", orders(*[1] * 50, start=40_000))
    range_ = {"savepoint": sp1, "until": positions_in(sp2)}
    same = what_if(new_env(), windows(log, sink), **range_, into={"out": mine})
    assert compare_outputs(since, same["out"]).is_same and same["out"] == mine.results
    other = what_if(new_env(), windows(log, sink, least=4), **range_)
    assert compare_outputs(other["out"], [row for row in since if row["n"] > 4]).is_same
    assert sink.results == [*before, *since]


@pytest.mark.row(86)
def test_two_versions_from_one_savepoint_read_the_same_events_once(new_env, tmp_path):
    log, sink, state = filled(tmp_path / "log", a=orders(*range(1, 13))), CollectSink(), tmp_path / "state"
    savepoint = produced(new_env(max_records=6, checkpoint_dir=state), totals(log, sink), tmp_path / "sp")
    append(log, "a", orders(13, 14, -5, 7, start=18_000))
    env, epochs = new_env(), Epochs()
    env.add_listener(epochs)
    versions = totals(log, sink), totals(log, sink, is_right=False)
    found = experiment(env, *versions, savepoint=savepoint, key="customer")
    # Both begin with what the twelve orders before the savepoint came to, and read the four since once.
    assert epochs.counts("orders", "out") == 4
    bob, ann = sum(range(1, 14, 2)), sum(range(2, 15, 2))
    first = [{"customer": "bob", "paid": bob}, {"customer": "ann", "paid": ann}]
    assert found.outputs.of("A")[:2] == found.outputs.of("B")[:2] == first
    assert [(each.key, each.a["paid"], each.b["paid"]) for each in found.comparisons["out"].different] == [
        (("bob",), bob - 5, bob + 5)
    ]
    assert {version for version, _, _ in found.tagged()} == {"A", "B"}


@pytest.mark.row(88)
def test_what_a_bug_wrote_since_a_savepoint_is_mended_in_the_sink(new_env, tmp_path):
    log, sink, state = filled(tmp_path / "log", a=orders(*[10] * 6)), DictSink("customer"), tmp_path / "state"
    wrong, mended = totals(log, sink, is_right=False), totals(log, sink)
    savepoint = produced(new_env(checkpoint_dir=state), wrong, tmp_path / "before the bug")
    append(log, "a", orders(*[-1] * 6, start=6000))
    stopped = produced(new_env(checkpoint_dir=state), wrong, tmp_path / "stopped")
    held = {"ann": {"customer": "ann", "paid": 33}, "bob": {"customer": "bob", "paid": 33}}
    assert sink.table == held
    options = {"savepoint": savepoint, "until": positions_in(stopped), "wrong": wrong}
    shown = repair(new_env(), mended, **options)
    assert sorted((each.kind, each.key, each.now["paid"]) for each in shown.corrections) == [
        ("update", ("ann",), 27),
        ("update", ("bob",), 27),
    ]
    assert sink.table == held
    assert shown.apply().is_applied
    assert {name: row["paid"] for name, row in sink.table.items()} == {"ann": 27, "bob": 27}
    assert repair(new_env(), mended, **options, apply=True).corrections == []
