"""A parallelism that follows a real backlog: the source falls behind, the manager widens the job, then narrows it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from flintstream.jobs import rescale
from flintstream.jobs.manager import Manager
from flintstream.jobs.spec import JobSpec
from tests.jobs.managed import assert_unbroken, clear, until, wait_for_status

MOST = 4
# A record takes a millisecond, so one task does not keep up with 3,000 a second, whatever the machine.
PROGRAM = """
    import sys
    import time

    from flintstream import DataGeneratorSource, FileSink, StreamExecutionEnvironment, sequence

    env = StreamExecutionEnvironment.get_execution_environment().enable_checkpointing(50).set_parallelism(1)
    numbers = env.from_source(DataGeneratorSource({"n": sequence()}, rate=1, splits=4))

    def slow(row):
        time.sleep(0.001)
        return row.n % 5, 1

    numbers.map(slow).key_by(lambda pair: pair[0]).sum(1).uid("counts").sink_to(FileSink.json(f"{sys.argv[1]}/out"))
    env.execute("slow")
"""


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    # The rule is the same, only its patience is shorter.
    for name, short in (("LATE_MS", 1_000), ("UP_AFTER_MS", 500), ("DOWN_AFTER_MS", 1_000), ("REST_MS", 1_500)):
        monkeypatch.setattr(rescale, name, short)
    made = Manager(tmp_path / "home", url="http://here")
    made.start()
    until(lambda: made.is_leader, "the only manager leads")
    yield made
    made.close()
    clear(made.home)


def widths(manager: Manager, job: str) -> list[int]:
    """Return the parallelisms that a job was given by its backlog, oldest first."""
    notes = [str(each["note"]) for each in manager.history(job)]
    steps = [re.fullmatch(r"parallelism (\d+) instead of (\d+), by its backlog", note) for note in notes]
    found = sorted((index, int(step[2]), int(step[1])) for index, step in enumerate(steps) if step is not None)
    assert all(one[2] == other[1] for one, other in pairwise(found)), found
    return [found[0][1], *(step[2] for step in found)] if found else []


@pytest.mark.row(72)
@pytest.mark.slow
def test_a_job_that_falls_behind_is_widened_and_narrowed_when_it_idles(manager: Manager, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "app.py").write_text(textwrap.dedent(PROGRAM))
    (folder / "rate").write_text("3000")
    spec = JobSpec(
        program=str(folder / "app.py"),
        arguments=(str(folder),),
        settings={"flintstream.source.rate": f"file:{folder / 'rate'}"},
        environment={"FLINTSTREAM_RUNTIME": "local"},
    )
    job = manager.submit(spec).id
    wait_for_status(manager, job, "RUNNING")
    assert manager.rescale_auto(job, 1, MOST).scaling == f"auto 1..{MOST}"
    until(lambda: any(each["lag_records"] for each in manager.status(job).get("sources", {}).values()), "a backlog")
    until(lambda: widths(manager, job)[-1:] == [MOST], "it is as wide as it may be")
    wait_for_status(manager, job, "RUNNING")
    (folder / "rate").write_text("20")
    until(lambda: widths(manager, job)[-1:] == [1], "it is narrow again")
    wait_for_status(manager, job, "RUNNING")
    manager.stop(job)
    steps = widths(manager, job)
    widest = steps.index(MOST)
    assert steps[0] == 1
    assert steps[: widest + 1] == sorted(steps[: widest + 1])
    assert steps[widest:] == sorted(steps[widest:], reverse=True)
    # Every restart was by a plan of its own, and none was a failure.
    assert (manager.job(job).attempt, manager.job(job).restarts) == (len(steps), 0)
    assert_unbroken(folder)
