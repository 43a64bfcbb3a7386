"""Rows 93 to 95 of the capability table: state is asked while the job runs, on either runtime, also by a web page."""

from __future__ import annotations

import re
import runpy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintstream import (
    DataGeneratorSource,
    DiscardingSink,
    KeyedProcessFunction,
    QueryableStateClient,
    ValueStateDescriptor,
    choice,
    sequence,
)
from flintstream.errors import UnknownStateError
from tests.queryable.programs import queryable
from tests.queryable.serving import JOB, ask, serving

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "queryable_state.py"


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(queryable(ValueStateDescriptor("count"), "counts"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        return ()


def until(condition: Callable[[], Any], seconds: float = 120.0) -> Any:
    """Return what a condition gives as soon as it is true."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        try:
            found = condition()
        except UnknownStateError:
            found = None
        if found:
            return found
        time.sleep(0.02)
    pytest.fail("it has not come to pass")


@pytest.mark.row(93)
def test_state_is_a_table_to_look_things_up_in_while_the_job_runs(new_env: Any, tmp_path: Path):
    env = new_env(checkpoint_dir=tmp_path / "c")
    numbers = DataGeneratorSource({"word": choice(["to", "be", "or"])}, rate=500)
    env.from_source(numbers).key_by("word").process(Count()).uid("count").sink_to(DiscardingSink())
    job = env.execute_async("counts")
    try:
        client = QueryableStateClient(str(tmp_path / "c"))
        first = until(lambda: (answer := client.get("counts", "be")).found and answer)
        later = until(lambda: (answer := client.get("counts", "be")).value > first.value and answer)
        assert later.epoch > first.epoch
        assert later.committed
        with serving(tmp_path, {JOB: str(tmp_path / "c")}) as address:
            path = f"/jobs/{JOB}/state/count/counts/be"
            status, answer = ask(address, path)
            assert (status, answer["value"] >= later.value, answer["epoch"] >= later.epoch) == (200, True, True)
            assert ask(address, f"{path}?consistency=uncommitted")[1]["value"] >= answer["value"]
    finally:
        job.cancel().result()
    assert sorted(entry.key for entry in client.scan("counts").entries) == ["be", "or", "to"]


@pytest.mark.row(94)
def test_lookups_go_on_beside_the_job_and_are_exact_in_the_end(make_env: Any, tmp_path: Path):
    keys, rounds = 5_000, 8
    env = make_env("local", max_records=keys, checkpoint_dir=tmp_path)
    numbers = env.from_source(DataGeneratorSource({"id": sequence()}, count=keys * rounds))
    numbers.key_by(lambda row: row["id"] % keys).process(Count()).uid("count").sink_to(DiscardingSink())
    job = env.execute_async("many keys")
    client = QueryableStateClient(str(tmp_path))
    some = list(range(0, keys, 7))
    seen = until(lambda: client.get_many("counts", some))
    job.get_job_execution_result().result()
    last = client.get_many("counts", some)
    # No answer is ahead of the last one, and all of one question are of one epoch.
    assert len({answer.epoch for answer in seen}) == 1
    assert all((before.value or 0) <= after.value for before, after in zip(seen, last, strict=True))
    assert {answer.value for answer in last} == {rounds}
    assert len(client.scan("counts", limit=10_000).entries) == keys


@pytest.mark.row(95)
def test_a_page_shows_counts_that_grow_without_a_database(monkeypatch: pytest.MonkeyPatch, capsys: Any):
    monkeypatch.setenv("FLINTSTREAM_RUNTIME", "local")
    monkeypatch.setattr("sys.argv", [str(EXAMPLE)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = capsys.readouterr().out
    assert re.search(r"^the page shows /cart, /home, /search$", printed, re.MULTILINE)
    assert re.search(r"^its counts have grown while the job ran: True$", printed, re.MULTILINE)
