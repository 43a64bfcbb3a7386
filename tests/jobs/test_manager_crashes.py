"""kill -9 of a job's driver, of its keeper, of the manager, and of several at once: jobs come back, output is exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flintstream.jobs.manager import Manager
from flintstream.jobs.orders import KeeperState
from tests.jobs.managed import (
    ServedManager,
    clear,
    counting,
    counts,
    driver_of,
    exactly,
    keeper_of,
    kill,
    until,
    wait_for_epochs,
    wait_for_status,
)

COUNT = 800
Serve = Callable[..., ServedManager]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    yield home
    clear(home)


@pytest.fixture
def manager(home: Path) -> Iterator[Manager]:
    made = Manager(home)
    made.start()
    until(lambda: made.is_leader, "the only manager leads")
    yield made
    made.close()


@pytest.fixture
def serve(home: Path) -> Iterator[Serve]:
    made: list[ServedManager] = []

    def start(name: str = "first") -> ServedManager:
        made.append(ServedManager(home, name))
        return made[-1]

    yield start
    for each in made:
        each.close()


@pytest.mark.parametrize("victims", ["driver", "keeper"])
def test_a_job_whose_processes_are_killed_comes_back(manager: Manager, tmp_path: Path, victims: str) -> None:
    settings = {
        "restart-strategy.type": "exponential-delay",
        "restart-strategy.exponential-delay.initial-backoff": "50 ms",
    }
    job = manager.submit(counting(tmp_path / "job", rate=400, count=COUNT, settings=settings)).id
    wait_for_epochs(manager, job)
    driver, keeper = driver_of(manager, job), keeper_of(manager, job).pid
    kill(driver if victims == "driver" else keeper)
    view = wait_for_status(manager, job, "FINISHED")
    assert counts(tmp_path / "job") == exactly(COUNT)
    assert view.attempt == 2
    # Only the death of a driver that its keeper saw is a failure of the job.
    assert view.restarts == (1 if victims == "driver" else 0)
    assert (keeper_of(manager, job).pid == keeper) is (victims == "driver")
    failures = [(each["type"], each["restarted"]) for each in manager.exceptions(job)]
    assert failures == ([("ProcessDied", True)] if victims == "driver" else [])
    if victims != "driver":
        assert "RECONCILING" in [each["status"] for each in manager.history(job)]


@pytest.mark.row(78)
def test_jobs_go_on_while_their_manager_is_dead(serve: Serve, home: Path, tmp_path: Path) -> None:
    first = serve()
    until(lambda: first.ask("is_leader"), "it leads")
    spec = counting(tmp_path / "job", rate=400, count=COUNT)
    job = first.ask("submit", spec.to_json())["id"]
    until(lambda: first.ask("job", job)["status"] == "RUNNING", "it runs")
    before = KeeperState.read(home / "jobs" / job)
    first.signal(9)

    second = serve("second")
    until(lambda: second.ask("is_leader"), "the next manager leads")
    until(lambda: second.ask("job", job)["status"] == "FINISHED", "it has finished")
    after = KeeperState.read(home / "jobs" / job)
    assert before is not None
    assert after is not None
    assert (after.pid, after.attempt) == (before.pid, 1)
    assert counts(tmp_path / "job") == exactly(COUNT)


@pytest.mark.row(78)
def test_a_job_comes_back_whose_manager_keeper_and_driver_are_killed_at_once(
    serve: Serve, home: Path, tmp_path: Path
) -> None:
    first = serve()
    until(lambda: first.ask("is_leader"), "it leads")
    job = first.ask("submit", counting(tmp_path / "job", rate=400, count=COUNT).to_json())["id"]
    finished = first.ask("submit", counting(tmp_path / "before", rate=4000, count=100).to_json())["id"]
    until(lambda: first.ask("job", finished)["status"] == "FINISHED", "the other has finished")
    until(lambda: first.ask("status", job).get("epoch", 0) > 1, "it has epochs")
    state = KeeperState.read(home / "jobs" / job)
    assert state is not None
    assert state.child_pid is not None
    kill(first.process.pid, state.child_pid, state.pid)

    second = serve("second")
    until(lambda: second.ask("is_leader"), "the next manager leads")
    until(lambda: second.ask("job", job)["status"] == "FINISHED", "it has finished")
    assert counts(tmp_path / "job") == exactly(COUNT)
    assert second.ask("job", job)["attempt"] == 2
    # What had ended is remembered, and not run again.
    assert second.ask("job", finished)["status"] == "FINISHED"
    assert second.ask("job", finished)["attempt"] == 1


def test_a_cancellation_outlives_the_manager_that_was_asked_for_it(serve: Serve, home: Path, tmp_path: Path) -> None:
    first = serve()
    until(lambda: first.ask("is_leader"), "it leads")
    job = first.ask("submit", counting(tmp_path / "job").to_json())["id"]
    until(lambda: first.ask("job", job)["status"] == "RUNNING", "it runs")
    assert first.process.stdin is not None
    # Asked for, and killed without waiting for the answer.
    first.process.stdin.write(f'["cancel", "{job}"]\n')
    first.process.stdin.flush()
    until(lambda: '"canceled"' in (home / "jobs" / job / "orders.json").read_text(), "it was asked for")
    first.signal(9)
    second = serve("second")
    until(lambda: second.ask("job", job)["status"] == "CANCELED", "it is canceled")


@pytest.mark.spark
@pytest.mark.slow
def test_a_job_on_spark_whose_driver_is_killed_comes_back(manager: Manager, tmp_path: Path) -> None:
    spec = counting(tmp_path / "job", rate=400, count=1600, runtime="spark", master="local[2,4]")
    job = manager.submit(spec).id
    wait_for_epochs(manager, job)
    assert manager.plan(job)["master"] == "local[2,4]"
    kill(driver_of(manager, job))
    view = wait_for_status(manager, job, "FINISHED")
    assert counts(tmp_path / "job") == exactly(1600)
    assert (view.attempt, view.restarts) == (2, 1)
