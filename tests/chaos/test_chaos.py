"""The chaos run in small: the same feed, servers, job and verdict, with a few kills; and that its parts notice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.plan import JOB, SERVERS, plan_kills
from tests.chaos.record import Record, quarters, report
from tests.chaos.run import Setup, run
from tests.chaos.verdict import Verdict
from tools.kafka_broker import NoBrokerError, jars
from tools.servers import NoServerError


def check(setup: Setup) -> Record:
    try:
        jars()
    except NoBrokerError as error:
        pytest.skip(str(error))
    try:
        verdict, record = run(setup)
    except NoServerError as error:
        pytest.skip(str(error))
    said = (setup.folder / "job.log").read_text(errors="replace")[-5000:]
    assert verdict.is_right, f"{verdict.wrong}\n{said}"
    return record


@pytest.mark.kafka
def test_kills_of_driver_broker_and_database_do_not_show(tmp_path: Path) -> None:
    """In this process's own runtime, which starts soonest."""
    kinds = ("driver", *SERVERS)
    record = check(Setup(tmp_path, 6, 3, kinds, seed=3, rate=400, runtime="local", longest_down=1))
    assert Counter(kind for _, kind in record.kills) == {"driver": 1, "broker": 1, "database": 1}


@pytest.mark.row(152)
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_kill_of_each_kind_does_not_show_on_spark(tmp_path: Path) -> None:
    kinds = (*JOB, *SERVERS)
    record = check(Setup(tmp_path, 60, len(kinds), kinds, seed=5, rate=1_000))
    assert {kind for _, kind in record.kills} == set(kinds)


def test_a_plan_has_all_kinds_equally_often_and_is_the_same_for_a_seed() -> None:
    kinds = (*JOB, *SERVERS)
    plan = plan_kills(7, 600.0, 25, kinds)
    assert plan == plan_kills(7, 600.0, 25, kinds) != plan_kills(8, 600.0, 25, kinds)
    assert Counter(kill.kind for kill in plan) == dict.fromkeys(kinds, 5)
    assert all(24 * place <= kill.at <= 24 * (place + 1) for place, kill in enumerate(plan))
    assert {kill.is_patient for kill in plan} == {True, False}
    assert all((kill.down > 0) == (kill.kind in SERVERS) for kill in plan)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ([1, 2, 3], []),
        ([1, 3], ["1 lost: 2"]),
        ([1, 2, 2, 3], ["1 doubled: 2"]),
        ([1, 2, 4], ["1 lost: 3", "1 wrong: 4"]),
    ],
)
def test_a_verdict_tells_lost_doubled_and_wrong_rows(found: list[int], says: list[str]) -> None:
    verdict = Verdict()
    verdict.compare("rows", Counter(found), Counter([1, 2, 3]))
    assert verdict.wrong.get("rows", []) == says
    assert verdict.is_right is not bool(says)


def diary(folder: Path, *lines: tuple[int, float]) -> Record:
    path = folder / "diary.jsonl"
    text = "".join(f'{{"epoch": {epoch}, "at": {at}, "seconds": 1, "read": 5}}\n' for epoch, at in lines)
    path.write_text('{"started": 7, "at": 9.0}\n' + text + '{"epoch": 99, "a')
    return Record(path)


def test_a_recovery_is_from_a_kill_to_the_next_commit(tmp_path: Path) -> None:
    record = diary(tmp_path, (1, 10.0), (2, 12.0), (3, 20.0))
    record.kills = [(9.5, "worker"), (12.5, "driver"), (21.0, "driver")]
    assert record.recoveries() == {"worker": [0.5], "driver": [7.5, float("inf")]}
    assert record.repeated_epochs() == []
    assert diary(tmp_path, (1, 10.0), (1, 11.0)).repeated_epochs() == [1]


def test_a_report_shows_quarters_of_the_run(tmp_path: Path) -> None:
    record = diary(tmp_path, (1, 10.0), (2, 12.0))
    record.kills, record.files = [(9.0, "driver")], [1, 1, 2, 2, 3, 3, 4, 4]
    record.memory = [{"driver": size, "jvm": 7, "workers": 0} for size in range(8)]
    text: Any = "\n".join(report(record, {"input topic": 5}))
    assert "| driver | 1 | 1.0 | 1.0 | 1.0 | 1.0 |" in text
    assert "| files in the checkpoint directory | 1 | 2 | 3 | 4 |" in text
    assert "2 epochs; the program was started 1 times" in text
    assert quarters([5]) == [5]
