"""The ledger: one balanced epoch, and every way to unbalance it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flintstream.engine.epoch import EpochContext, ReadRange, TaskReport, producer_id
from flintstream.engine.ledger import check_reports
from flintstream.errors import LedgerError
from tests.unit.graphs import Sketch, by_key

SKETCH = Sketch()
SOURCE = SKETCH.source()
COUNT = SKETCH.function(by_key(SOURCE), shape="keyed_process")
SKETCH.sink(by_key(COUNT))
PLAN = SKETCH.plan(parallelism=2)
RANGES = (ReadRange(SOURCE, 0, 0, 5), ReadRange(SOURCE, 1, 0, 5))
CONTEXT = EpochContext("job", "i", 1, 0, {}, frozenset(), {}, RANGES, {})


def balanced() -> dict[str, TaskReport]:
    """Return the reports of two tasks a level; ten records over edge 1, four over edge 2."""
    reports = {
        f"{level}/{partition}": TaskReport(level, partition, 10 * level + partition, "token")
        for level in range(3)
        for partition in range(2)
    }
    for partition in range(2):
        reports[f"0/{partition}"].ranges = [partition]
        reports[f"0/{partition}"].sent = {1: 5}
        reports[f"1/{partition}"].sent = {2: 2}
        for level, edge, counts in ((1, 1, (7, 3)), (2, 2, (4, 0))):
            reports[f"{level}/{partition}"].received = {edge: counts[partition]}
            reports[f"{level}/{partition}"].seen = {
                producer_id(level - 1, other): 10 * (level - 1) + other for other in range(2)
            }
    return reports


def check(reports: dict[str, TaskReport]) -> None:
    check_reports(PLAN, CONTEXT, list(reports.values()))


def test_a_balanced_epoch_passes() -> None:
    check(balanced())


def lose(reports: dict[str, TaskReport]) -> None:
    reports["1/0"].received[1] -= 1


def double(reports: dict[str, TaskReport]) -> None:
    reports["1/0"].received[1] += 1


def lose_a_whole_edge(reports: dict[str, TaskReport]) -> None:
    for partition in range(2):
        del reports[f"2/{partition}"].received[2]


def invent_an_edge(reports: dict[str, TaskReport]) -> None:
    reports["2/1"].received[9] = 1


def read_a_dead_attempt(reports: dict[str, TaskReport]) -> None:
    reports["1/1"].seen[producer_id(0, 0)] = 77


def read_someone_who_never_reported(reports: dict[str, TaskReport]) -> None:
    reports["1/1"].seen[producer_id(0, 5)] = 1


def report_twice(reports: dict[str, TaskReport]) -> None:
    reports["again"] = TaskReport(2, 1, 99, "another token")


def keep_silent(reports: dict[str, TaskReport]) -> None:
    del reports["2/1"]


def skip_a_range(reports: dict[str, TaskReport]) -> None:
    reports["0/1"].ranges = []


def read_a_range_twice(reports: dict[str, TaskReport]) -> None:
    reports["0/1"].ranges = [0, 1]


def read_a_range_of_another_epoch(reports: dict[str, TaskReport]) -> None:
    reports["0/1"].ranges = [1, 2]


IMBALANCES: list[tuple[Callable[[dict[str, TaskReport]], None], str]] = [
    (lose, r"edge 1 sent 10 records and 9 arrived"),
    (double, r"edge 1 sent 10 records and 11 arrived"),
    (lose_a_whole_edge, r"edge 2 sent 4 records and 0 arrived"),
    (invent_an_edge, r"edge 9 sent 0 records and 1 arrived"),
    (read_a_dead_attempt, r"partition 1 of level 1 read a dead attempt of task 0"),
    (read_someone_who_never_reported, r"dead attempt of task 5"),
    (report_twice, r"partition 1 of level 2 reported twice"),
    (keep_silent, r"partitions \[1\] of level 2 did not report"),
    (skip_a_range, r"of 2 source ranges \[0\] were read"),
    (read_a_range_twice, r"of 2 source ranges \[0, 0, 1\] were read"),
    (read_a_range_of_another_epoch, r"of 2 source ranges \[0, 1, 2\] were read"),
]


@pytest.mark.parametrize(("spoil", "message"), IMBALANCES, ids=[spoil.__name__ for spoil, _ in IMBALANCES])
def test_every_imbalance_is_caught(spoil: Callable[[dict[str, TaskReport]], None], message: str) -> None:
    reports = balanced()
    spoil(reports)
    with pytest.raises(LedgerError, match=message):
        check(reports)


def test_a_task_without_input_need_not_exist_at_level_0() -> None:
    reports = balanced()
    first = reports.pop("0/1")
    reports["0/0"].ranges += first.ranges
    reports["0/0"].sent = {1: 10}
    for partition in range(2):
        del reports[f"1/{partition}"].seen[producer_id(0, 1)]
    check(reports)
