"""A cluster of two real executor processes that share nothing but the checkpoint directory and the sinks' directory.

Each executor has temporary and local directories of its own, below its own working directory. One after the other is
killed on the way: its partitions' state is rebuilt on the other one from the changelog.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest

from tests.crash.harness import IN_MEMORY, RECORDS, RETAINED, Folders, JobProcess, check_manifests, check_output

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800), pytest.mark.row(67, 71)]

EVENTS = 200_000


def spark_home(folder: Path) -> Path:
    """Return the installed Spark under another name, because a local cluster writes its work folder there."""
    folder.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (folder / entry.name).symlink_to(entry)
    return folder


def start_cluster(folders: Folders, start: Callable[..., JobProcess], entries_in_memory: int) -> JobProcess:
    settings = {
        "spark.master": "local-cluster[2,1,1024]",
        "spark.executorEnv.FLINTSTREAM_LOCAL_DIR": "local-state",  # relative: each executor has a working directory
        "spark.executorEnv.TMPDIR": str(folders.root),
        IN_MEMORY: entries_in_memory,
        RECORDS: EVENTS // 20,
        RETAINED: 2,
    }
    home = spark_home(folders.root / "spark")
    return start(EVENTS, environment={"SPARK_HOME": str(home)}, **settings)


@pytest.mark.parametrize(
    "entries_in_memory",
    [
        pytest.param(2_000_000, id="state in memory", marks=pytest.mark.slow),
        pytest.param(4_000, id="state on local disks"),
    ],
)
def test_results_are_exact_after_the_death_of_executors(
    folders: Folders, start: Callable[..., JobProcess], entries_in_memory: int
) -> None:
    rng = random.Random(6)
    running = start_cluster(folders, start, entries_in_memory)
    for number in (1, 2):
        assert running.wait_for_epochs(2) and running.wait_seconds(rng.uniform(0.0, 0.5)), running.said()
        executors = running.executors()
        assert len(executors) == 2, running.said()
        # The second time it is the one that has lived longest, which has taken over from the first.
        victim = min(executors, key=lambda p: p.create_time())
        victim.kill()
        print(f"\nkill {number}: executor {victim.pid} in epoch {folders.epoch() + 1}")
        assert running.wait_until(lambda: len(running.executors()) == 2, "another executor"), running.said()
    assert running.finish() == 0, running.said()
    check_output(folders, EVENTS)
    check_manifests(folders)
    at_work = [p.parent for p in folders.root.glob("spark/work/app-*/*/stderr") if "Finished task" in p.read_text()]
    assert len(at_work) >= 3, "executors that took over had nothing to do"
    with_state = [p for p in at_work if (p / "local-state").is_dir()]
    assert bool(with_state) == (entries_in_memory < EVENTS)
    assert not list(folders.scratch.glob("flintstream-*/*")), "an executor wrote into the driver's directory"
