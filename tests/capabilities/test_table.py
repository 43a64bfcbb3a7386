"""The capability table must not be able to look better than the tests are."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.capability_table import DATA, CapabilityTable, TableKeeper, is_full_run

WANTED = [
    *range(1, 13), *range(14, 98), 100, *range(104, 108), 111, 115, 119, 121, *range(127, 131), *range(140, 154),
]  # fmt: skip


class Terminal:
    """Keeps what is written, with its colour."""

    def __init__(self) -> None:
        self.text = ""

    def section(self, title: str) -> None:
        self.text += f"== {title}\n"

    def write(self, text: str, **colour: bool) -> None:
        self.text += f"<{next(iter(colour))}>{text.strip()}</>" if colour else text

    def write_line(self, text: str, **colour: bool) -> None:
        self.text += f"{text}\n"


def written(table: CapabilityTable) -> str:
    terminal: Any = Terminal()
    table.write(terminal)
    return terminal.text


def test_the_table_has_the_rows_that_were_asked_for():
    assert list(CapabilityTable().titles) == WANTED


def test_the_worst_outcome_of_a_row_is_shown():
    table = CapabilityTable()
    for outcome in ("passed", "skipped"):
        table.record(1, "local", outcome)
    for outcome in ("skipped", "failed", "passed"):
        table.record(1, "spark", outcome)
    table.record(2, "local", "passed")
    assert [table.status(1, "local"), table.status(1, "spark"), table.status(2, "local")] == [
        "skipped",
        "failed",
        "passed",
    ]
    text = written(table)
    assert re.search(r"   1  .*<red>skipped</><red>failed</>", text)
    assert re.search(r"   2  .*<green>passed</>-", text)


def test_rows_that_were_not_selected_are_no_complaint():
    table = CapabilityTable()
    table.record(1, "local", "passed")
    assert table.status(2, "local") == "-"
    assert table.missing() == []


def test_in_a_full_run_a_row_without_a_test_is_missing():
    table = CapabilityTable()
    table.is_full = True
    table.record(1, "local", "passed")
    assert table.status(1, "spark") == "missing"
    assert {row for row, _ in table.missing()} == set(WANTED)
    assert "<red>missing</>" in written(table)
    assert f"{len(table.missing())} places have no test" in written(table)


def test_a_runtime_that_a_row_is_not_about_is_left_empty():
    table = CapabilityTable()
    table.is_full = True
    assert table.status(148, "spark") == ""
    assert (148, "local") in table.missing()
    assert (148, "spark") not in table.missing()


def options(**changes: Any) -> Any:
    plain = {"keyword": "", "markexpr": "", "deselect": None, "collectonly": False, "lf": False, "ignore": None}
    return SimpleNamespace(**{**plain, **changes})


@pytest.mark.parametrize(
    ("arguments", "changes", "full"),
    [
        (["tests"], {}, True),
        (["src", "tests"], {}, True),
        (["."], {}, True),
        (["tests/capabilities"], {}, False),
        (["tests"], {"markexpr": "not spark"}, False),
        (["tests"], {"keyword": "row"}, False),
        (["tests"], {"lf": True}, False),
        (["tests"], {"ignore": ["tests/crash"]}, False),
    ],
)
def test_a_run_is_full_only_if_nothing_was_left_out(arguments, changes, full):
    root = DATA.parents[2]
    config: Any = SimpleNamespace(
        option=options(**changes), args=arguments, invocation_params=SimpleNamespace(dir=Path(root))
    )
    assert is_full_run(config) is full


class Run:
    """One test and who keeps the table; `proves` is what the test says of itself, wherever it runs."""

    def __init__(self, row: int, **config: Any) -> None:
        mark, self.proves = SimpleNamespace(args=(row,)), list[Any]()
        item: Any = SimpleNamespace(
            nodeid="tests/x.py::test_x",
            callspec=SimpleNamespace(params={"runtime": "spark"}),
            iter_markers=lambda name: [mark],
            get_closest_marker=lambda name: None,
            user_properties=self.proves,
        )
        invoked = SimpleNamespace(dir=DATA.parents[2])
        made: Any = SimpleNamespace(option=options(), args=["tests"], invocation_params=invoked, **config)
        self.keeper = TableKeeper(made)
        self.keeper.pytest_collection_modifyitems([item])

    def report(self, when: str, outcome: str) -> Any:
        return SimpleNamespace(nodeid="tests/x.py::test_x", when=when, outcome=outcome, user_properties=self.proves)


def test_a_test_that_cannot_be_set_up_counts_as_failed():
    run = Run(3)
    run.keeper.pytest_runtest_logreport(run.report("setup", "failed"))
    assert run.keeper.table.status(3, "spark") == "failed"


def test_a_test_that_passes_but_cannot_be_torn_down_counts_as_failed():
    run = Run(3)
    for when, outcome in (("setup", "passed"), ("call", "passed"), ("teardown", "failed")):
        run.keeper.pytest_runtest_logreport(run.report(when, outcome))
    assert run.keeper.table.status(3, "spark") == "failed"


def test_a_test_that_ran_in_another_process_counts():
    there, here = Run(3), Run(4)
    here.keeper.pytest_runtest_logreport(there.report("call", "passed"))
    assert here.keeper.table.status(3, "spark") == "passed"


def test_a_row_that_nobody_listed_is_refused():
    with pytest.raises(pytest.UsageError, match="9999"):
        Run(9999)


def test_missing_rows_fail_a_full_run_that_else_passed():
    session: Any = SimpleNamespace(shouldfail=False, shouldstop=False, exitstatus=pytest.ExitCode.OK)
    Run(3).keeper.pytest_sessionfinish(session)
    assert session.exitstatus == pytest.ExitCode.TESTS_FAILED


def test_a_process_that_runs_a_part_of_the_tests_misses_nothing():
    session: Any = SimpleNamespace(shouldfail=False, shouldstop=False, exitstatus=pytest.ExitCode.OK)
    Run(3, workerinput={}).keeper.pytest_sessionfinish(session)
    assert session.exitstatus == pytest.ExitCode.OK
