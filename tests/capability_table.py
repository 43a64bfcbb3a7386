"""A pytest plugin: at the end of a run, a table of capability rows by runtime.

Tests say which rows they prove by `@pytest.mark.row(17)`. A run that selects only some tests shows the others' rows as
"-"; in a full run a row without a test is missing, which is red and fails the session. What a test proves travels with
its report, so that tests may run in other processes than the one that keeps the table.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

RUNTIMES = ("local", "spark")
DATA = Path(__file__).parent / "capabilities" / "rows.toml"
COLOURS = {"passed": "green", "failed": "red", "skipped": "red", "missing": "red"}
PROVES = "proves"
"""The property of a test that names its runtime and rows."""
_NOT_SELECTED = "-"
_WORST_FIRST = ("failed", "skipped", "passed")


class CapabilityTable:
    """What is known of each row on each runtime."""

    def __init__(self, data: Path = DATA) -> None:
        entries = tomllib.loads(data.read_text())
        self.titles = {int(number): str(entry["title"]) for number, entry in entries.items()}
        self._runtimes = {int(number): tuple(entry.get("runtimes", RUNTIMES)) for number, entry in entries.items()}
        self._outcomes: defaultdict[tuple[int, str], set[str]] = defaultdict(set)
        self.is_full = False

    def record(self, row: int, runtime: str, outcome: str) -> None:
        """Take in how one test of a row went."""
        self._outcomes[row, runtime].add(outcome)

    def status(self, row: int, runtime: str) -> str:
        """Return the worst outcome of a row's tests; without any it was not selected, not wanted, or is missing."""
        found = self._outcomes.get((row, runtime), set())
        for outcome in _WORST_FIRST:
            if outcome in found:
                return outcome
        if runtime not in self._runtimes.get(row, RUNTIMES):
            return ""
        return "missing" if self.is_full else _NOT_SELECTED

    def missing(self) -> list[tuple[int, str]]:
        """Return the cells that should have had a test in a full run."""
        return [(row, name) for row in self.titles for name in RUNTIMES if self.status(row, name) == "missing"]

    def write(self, terminal: pytest.TerminalReporter) -> None:
        """Print the table, unless the run had nothing to do with it."""
        if not self._outcomes and not self.is_full:
            return
        terminal.section("capability rows")
        width = max(map(len, self.titles.values()))
        terminal.write_line(f"{'row':>4}  {'':<{width}}  " + "".join(f"{name:<9}" for name in RUNTIMES))
        for row, title in self.titles.items():
            terminal.write(f"{row:>4}  {title:<{width}}  ")
            for name in RUNTIMES:
                status = self.status(row, name)
                colour = {COLOURS[status]: True} if status in COLOURS else {}
                terminal.write(f"{status:<9}", **colour)
            terminal.write_line("")
        if self.missing():
            terminal.write_line(f"{len(self.missing())} places have no test, which fails a full run", red=True)


class TableKeeper:
    """The hooks that fill the table."""

    def __init__(self, config: pytest.Config) -> None:
        self.table = CapabilityTable()
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            rows = [row for mark in item.iter_markers("row") for row in mark.args]
            unknown = [row for row in rows if row not in self.table.titles]
            if unknown:
                msg = f"{item.nodeid}: rows {unknown} have no title in {DATA.name}"
                raise pytest.UsageError(msg)
            if rows:
                item.user_properties.append((PROVES, [runtime_of(item), *rows]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.outcome == "passed":
            return
        for name, proved in report.user_properties:
            if name == PROVES:
                runtime, *rows = proved
                for row in rows:
                    self.table.record(row, runtime, report.outcome)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self._config, "workerinput"):
            return  # a process that runs some of the tests for another one
        self.table.is_full = is_full_run(self._config) and not session.shouldfail and not session.shouldstop
        if self.table.missing() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        self.table.write(terminalreporter)


def runtime_of(item: pytest.Item) -> str:
    """Return the runtime that a test is about: its parameter, else what its mark says."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return parameters.get("runtime") or ("spark" if item.get_closest_marker("spark") else "local")


def is_full_run(config: pytest.Config) -> bool:
    """Whether nothing was left out on the command line."""
    option = config.option
    narrowed = option.keyword or option.markexpr or option.deselect or option.collectonly
    narrowed = narrowed or getattr(option, "lf", False) or getattr(option, "ignore", None)
    tests = Path(__file__).parent
    given = [(config.invocation_params.dir / str(argument).partition("::")[0]).resolve() for argument in config.args]
    covered = any(path == tests or path in tests.parents for path in given)
    return covered and not narrowed


def pytest_configure(config: pytest.Config) -> None:
    """Called when the plugin is loaded."""
    config.pluginmanager.register(TableKeeper(config), "capability-table-keeper")
