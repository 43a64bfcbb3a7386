"""kill -9 of a Python worker in the midst of its task: Spark starts the task again elsewhere, and nothing shows."""

from __future__ import annotations

import random
from collections.abc import Callable

import psutil
import pytest

from tests.crash.harness import RECORDS, RETAINED, Folders, JobProcess, busiest, check_manifests, check_output

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800), pytest.mark.row(67, 71)]


def kill_workers(folders: Folders, start: Callable[..., JobProcess], events: int, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    # Spark tells of tasks that it starts again only if asked to.
    log = {"FLINTSTREAM_SPARK_LOG": "warn"}
    running = start(events, environment=log, **{RECORDS: events // 20, RETAINED: 2})
    print(f"\nseed {seed}")
    number = 0
    # A kill may fall between two tasks, where nothing is lost: then another one follows, while the job runs.
    while number < kills or (number < 3 * kills and not restarted(folders)):
        if not (running.wait_for_epochs(1) and running.wait_seconds(rng.uniform(0.0, 0.5))):
            break
        victim = find_busy_worker(running)
        if victim is None:
            break
        victim.kill()
        number += 1
        print(f"kill {number}: worker {victim.pid} in epoch {folders.epoch() + 1}")
    assert running.finish() == 0, running.said()
    assert number >= kills, running.said()
    print(f"{restarted(folders)} tasks were started again")
    check_output(folders, events)
    check_manifests(folders)


def restarted(folders: Folders) -> int:
    """Return how many tasks Spark has started again, by its own log."""
    return folders.log.read_text().count("Lost task")


def find_busy_worker(running: JobProcess) -> psutil.Process | None:
    """Wait until a worker computes."""
    found: list[psutil.Process] = []

    def is_found() -> bool:
        worker = busiest(running.python_workers(), 0.05)
        found.extend([worker] if worker is not None else [])
        return bool(found)

    return found[0] if running.wait_until(is_found, "a worker at work") else None


def test_results_are_exact_after_the_death_of_two_workers(folders: Folders, start: Callable[..., JobProcess]) -> None:
    kill_workers(folders, start, 200_000, kills=2, seed=4)


@pytest.mark.slow
def test_results_are_exact_after_the_death_of_ten_workers_over_a_million_events(
    folders: Folders, start: Callable[..., JobProcess]
) -> None:
    kill_workers(folders, start, 1_000_000, kills=10, seed=5)
