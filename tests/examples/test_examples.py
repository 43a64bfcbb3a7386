"""Every example runs as a user would start it, and prints what its docstring promises.

The promise is the indented block at the end of the docstring, behind "It prints:". In it `...` stands for any text;
where it says "in any order", lines are compared without theirs.
"""

from __future__ import annotations

import ast
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from tests.shown import assert_shown

EXAMPLES = {path.stem: path for path in sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))}
WITH_ARGUMENTS = {"orders_to_parquet"}
SLOW = {"sine_waves"}


def promised(path: Path) -> tuple[str, bool]:
    """Return what an example prints, and whether its lines come in that order."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    found = re.search(r"^It prints([^:\n]*):\n\n((?:    .+\n?)+)\Z", docstring, re.MULTILINE)
    assert found, f"{path.name} does not say what it prints"
    return "\n".join(line.removeprefix("    ") for line in found[2].splitlines()), "any order" not in found[1]


def run(path: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", [str(path), *arguments])
    runpy.run_path(str(path), run_name="__main__")


def jobs_of(session: Any) -> int:
    """Return how many jobs Spark has had."""
    return session.sparkContext._jsc.sc().dagScheduler().numTotalJobs()


def check(path: Path, printed: str) -> None:
    shown, in_order = promised(path)
    if in_order:
        assert_shown(shown, printed, path.name)
    else:
        assert sorted(printed.split("\n")) == sorted([*shown.split("\n"), ""])


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in WITH_ARGUMENTS | SLOW])
def test_an_example_prints_what_it_promises_without_spark(name, monkeypatch, capsys):
    monkeypatch.setenv("FLINTSTREAM_RUNTIME", "local")
    run(EXAMPLES[name], monkeypatch)
    check(EXAMPLES[name], capsys.readouterr().out)


@pytest.mark.spark
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in EXAMPLES if name not in WITH_ARGUMENTS],
)
def test_an_example_prints_what_it_promises_on_spark(name, spark_session, monkeypatch, capsys):
    monkeypatch.delenv("FLINTSTREAM_RUNTIME", raising=False)
    before = jobs_of(spark_session)
    run(EXAMPLES[name], monkeypatch)
    check(EXAMPLES[name], capsys.readouterr().out)
    assert jobs_of(spark_session) > before


def test_the_sine_waves_are_zero_in_event_time_also_when_they_are_short(monkeypatch, capsys):
    """The example goes at the speed of reality, for 15 s; here for 2, in this process."""
    monkeypatch.setenv("FLINTSTREAM_RUNTIME", "local")
    names = runpy.run_path(str(EXAMPLES["sine_waves"]))
    names["readings"].__globals__["SECONDS"] = 2
    names["main"]()
    assert re.match(r"event time +2 windows, largest \|sum\| [\d.]+e-1\d\nprocessing time ", capsys.readouterr().out)


@pytest.mark.parametrize("name", ["sine_waves", "watermark_eagerness"])
def test_the_page_about_time_shows_what_an_example_prints(name):
    page = EXAMPLES[name].parents[1] / "docs" / "concepts" / "time-and-watermarks.md"
    shown, _ = promised(EXAMPLES[name])
    blocks = re.findall(r"^```text\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    first = shown.split()[0]
    assert_shown(shown, next(block for block in blocks if block.startswith(first)), page.name)


@pytest.mark.spark
def test_orders_become_files_and_a_second_start_adds_none(spark_session, monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("FLINTSTREAM_RUNTIME", raising=False)
    output, checkpoints = tmp_path / "revenue", tmp_path / "checkpoints"
    for _ in range(2):
        run(EXAMPLES["orders_to_parquet"], monkeypatch, str(output), str(checkpoints))
        table = ds.dataset(output, format="parquet").to_table()
        assert sum(table["orders"].to_pylist()) == 100_000
        assert set(table["shop"].to_pylist()) == {"Aachen", "Bern", "Cork"}
    assert capsys.readouterr().out == ""
