"""Plays `trigger_tables.toml`: each table as it stands, and with a restart after every step."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import flintstream
from flintstream.model.panes import PaneMode
from tests.unit.ops.trigger_tables import paned, play_table
from tests.unit.ops.window_harness import WindowHarness

TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").with_stem("trigger_tables").read_text())
CASES = TABLES.pop("case")


def vip(record: str) -> bool:
    return record.endswith("!")


def read(text: str) -> Any:
    """Return the windows or the trigger that a table names, as a user would write them."""
    return eval(text, {name: getattr(flintstream, name) for name in flintstream.__all__} | {"vip": vip})


def play(windows: str, trigger: str, mode: PaneMode, lateness: int, script: str) -> tuple[list[str], WindowHarness]:
    build = paned(read(windows), read(trigger), mode, lateness)
    harness = WindowHarness(build)
    fired = play_table(harness, script)
    assert play_table(WindowHarness(build), script, restarts=True) == fired
    return fired, harness


@pytest.mark.parametrize(
    ("table", "trigger"),
    [
        pytest.param(table, trigger, id=f"{name}: {trigger}")
        for name, table in TABLES.items()
        for trigger in table["fires"]
    ],
)
def test_tables(table: dict[str, Any], trigger: str) -> None:
    fired, _ = play(table["windows"], trigger, PaneMode.ACCUMULATING, table["lateness"], table["script"])
    assert fired == table["fires"][trigger]


def test_every_trigger_is_in_every_table() -> None:
    first, *others = (set(table["fires"]) for table in TABLES.values())
    assert [first] * 3 == others


@pytest.mark.parametrize("case", [pytest.param(case, id=case["why"]) for case in CASES])
def test_cases(case: dict[str, Any]) -> None:
    fired, harness = play(case["windows"], case["trigger"], PaneMode[case["mode"]], case["lateness"], case["script"])
    assert fired == case["fires"]
    assert harness.entries() == {}
