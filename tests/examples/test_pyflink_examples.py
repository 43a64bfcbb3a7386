"""PyFlink's own DataStream examples run after their import lines were changed, and print what they print on PyFlink.

The programs are not ours, so they are taken from PyFlink's wheel where `bench/rivals/venvs.py flink` has installed it;
`pyflink_output.json` has what they printed there, with Flink 2.3. Those that use tables are left out.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRINTED: dict[str, list[str]] = json.loads(Path(__file__).with_name("pyflink_output.json").read_text())
FOLDERS = sorted((ROOT / ".bench" / "flink").glob("lib/python3*/site-packages/pyflink/examples/datastream"))
NOT_RESULTS = ("Printing result to stdout", "Executing ", "Use --input")

# On Flink the totals that timers see depend on how often watermarks are emitted: every 200 ms, all are the last ones.
# Here a watermark follows every record, so that Alice's first timer comes before her last booking. By hand from that.
TIMERS = {"event_time_timer.py": [*["('Alice', 163.29999923706055)"] * 3, "('Alice', 143.19999885559082)"]}
TIMERS["event_time_timer.py"] += ["('Bob', 102.49999952316284)"] * 4
EXPECTED = PRINTED | TIMERS


def lines(printed: str) -> list[str]:
    """Return results without the number of the task that printed them; Flink orders them within a key only."""
    found = [re.sub(r"^\d+> ", "", line) for line in printed.splitlines() if not line.startswith(NOT_RESULTS)]
    return sorted(found)


@pytest.mark.skipif(not FOLDERS, reason="PyFlink is not installed for the benchmarks")
@pytest.mark.parametrize("name", EXPECTED)
def test_a_program_of_pyflink_prints_the_same(name, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("FLINTSTREAM_RUNTIME", "local")
    program = tmp_path / Path(name).name
    program.write_text(re.sub(r"\bpyflink\b", "flintstream", (FOLDERS[0] / name).read_text()))
    monkeypatch.setattr(sys, "argv", [str(program)])
    runpy.run_path(str(program), run_name="__main__")
    assert lines(capsys.readouterr().out) == sorted(EXPECTED[name])
