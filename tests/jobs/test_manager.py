"""The manager with real jobs in processes of their own, on the local runtime."""

from __future__ import annotations

import json
import os
import signal
import stat
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flintstream.errors import InvalidArgumentError, JobStateError, ManagerError, SavepointError, UnknownJobError
from flintstream.jobs.manager import Manager
from flintstream.jobs.spec import JobSpec, token_of
from tests.jobs.managed import (
    assert_unbroken,
    clear,
    counting,
    counts,
    driver_of,
    epoch_of,
    exactly,
    keeper_of,
    kill,
    until,
    wait_for_epochs,
    wait_for_status,
)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(tmp_path / "home", jobs_at_once=2, url="http://here")
    made.start()
    until(lambda: made.is_leader, "the only manager leads")
    yield made
    made.close()
    clear(made.home)


def script(folder: Path, text: str) -> JobSpec:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "app.py").write_text(textwrap.dedent(text))
    return JobSpec(program="app.py", working_directory=str(folder), environment={"FLINTSTREAM_RUNTIME": "local"})


def test_a_job_lives_from_its_submission_to_its_end(manager: Manager, tmp_path: Path) -> None:
    spec = counting(tmp_path / "job", rate=400, count=600, settings={"some.password": "hush"})
    job = manager.submit(spec).id
    view = wait_for_status(manager, job, "RUNNING")
    assert (view.name, view.parallelism, view.guarantee, view.attempt) == ("counting", 2, "exactly-once", 1)
    assert view.checkpoint_dir is not None
    assert Path(view.checkpoint_dir).is_relative_to(manager.folder(job))
    assert manager.overview()["slots"] == {"total": 2, "used": 1, "free": 1}
    assert manager.overview()["leader"]["url"] == "http://here"
    assert {each["uid"] for each in manager.plan(job)["operators"]} >= {"counts", "out"}

    view = wait_for_status(manager, job, "FINISHED")
    assert counts(tmp_path / "job") == exactly(600)
    assert (view.error, view.wanted) == (None, "running")
    assert view.submitted_ms <= (view.started_ms or 0) <= (view.ended_ms or 0)
    status = manager.status(job)
    assert (status["status"], status["records_in"], status["records_in_per_second"]) == ("FINISHED", 600, 0.0)
    assert manager.epochs(job)[-1]["epoch"] == epoch_of(view)
    assert manager.epochs(job, since_epoch=epoch_of(view)) == []
    assert manager.exceptions(job) == []
    assert [each["status"] for each in manager.history(job)][:1] == ["CREATED"]
    assert [each["status"] for each in manager.history(job)][-1:] == ["FINISHED"]

    assert manager.log(job, "out").text == "counting begins\n"
    (link,) = (manager.home / "log").glob("*.out")
    assert link.name.startswith("app-")
    assert link.read_text() == "counting begins\n"
    assert "hush" not in json.dumps(manager.job(job).as_dict())
    assert "hush" not in json.dumps(manager.configuration(job))

    manager.forget(job)
    with pytest.raises(UnknownJobError, match=job):
        manager.job(job)
    assert not list((manager.home / "jobs").iterdir())
    assert not list((manager.home / "log").iterdir())


def test_what_is_in_a_home_is_its_owners_alone(manager: Manager, tmp_path: Path) -> None:
    job = manager.submit(counting(tmp_path / "job", settings={"a.token": "hush"})).id
    for path in (manager.home, manager.folder(job)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for path in (manager.home / "manager.db", manager.home / "token", manager.folder(job) / "job.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token_of(manager.home) == token_of(manager.home)
    assert manager.cancel(job).status == "CANCELED"


@pytest.mark.row(79, 145)
def test_a_job_is_steered(manager: Manager, tmp_path: Path) -> None:
    job = manager.submit(counting(tmp_path / "job")).id
    before = wait_for_epochs(manager, job)
    first = manager.savepoint(job, tags=["early"], comment="a first one")
    assert Path(first).parent == manager.folder(job) / "savepoints"
    wait_for_epochs(manager, job)
    assert manager.job(job).attempt == 1

    wider = manager.rescale(job, 3)
    assert (wider.status, wider.parallelism, wider.attempt, wider.restarts) == ("RUNNING", 3, 2, 0)
    assert wider.checkpoint_dir == before.checkpoint_dir
    wait_for_epochs(manager, job)
    assert_unbroken(tmp_path / "job")
    with pytest.raises(InvalidArgumentError, match="max parallelism"):
        manager.rescale(job, 1000)

    second = manager.stop(job, str(tmp_path / "elsewhere"))
    assert Path(second).parent == tmp_path / "elsewhere"
    assert (manager.job(job).status, manager.job(job).wanted) == ("FINISHED", "stopped")
    assert_unbroken(tmp_path / "job")
    assert [(each["path"], each["tags"]) for each in manager.savepoints(job)] == [(second, []), (first, ["early"])]
    with pytest.raises(JobStateError, match="FINISHED; nothing is left to be done"):
        manager.stop(job)

    # Behind its last epoch it goes on as if nothing had been.
    manager.restart(job)
    again = wait_for_epochs(manager, job)
    assert (again.checkpoint_dir, again.parallelism) == (before.checkpoint_dir, 3)
    assert manager.cancel(job).status == "CANCELED"
    assert_unbroken(tmp_path / "job")
    third = manager.savepoint(job)
    assert manager.savepoints(job)[0]["path"] == third
    with pytest.raises(SavepointError, match="nowhere"):
        manager.restart(job, str(tmp_path / "nowhere"))

    manager.forget(job)
    assert Path(first).exists()


@pytest.mark.parametrize("names_its_own", [False, True])
def test_a_job_is_restarted_from_a_savepoint(manager: Manager, tmp_path: Path, names_its_own: bool) -> None:
    settings = {"execution.checkpointing.dir": str(tmp_path / "mine")} if names_its_own else {}
    job = manager.submit(counting(tmp_path / "job", settings=settings)).id
    before = wait_for_epochs(manager, job)
    early = manager.savepoint(job)
    at = manager.savepoints(job)[0]["epoch"]
    wait_for_epochs(manager, job, more=5)
    last = epoch_of(manager.job(job))

    back = manager.restart(job, early)
    assert (back.attempt, back.restarts) == (2, 0)
    assert back.checkpoint_dir != before.checkpoint_dir
    # It goes on from the savepoint, and not from where it was.
    assert manager.epochs(job, since_epoch=0)[-1]["epoch"] >= at
    assert at <= epoch_of(manager.job(job)) < last + 5
    seen = wait_for_epochs(manager, job)
    keeper = keeper_of(manager, job).pid
    # What is restarted from then on, is restarted from its own checkpoints again.
    assert manager.rescale(job, 1).checkpoint_dir == seen.checkpoint_dir
    assert epoch_of(manager.job(job)) >= epoch_of(seen)
    assert keeper_of(manager, job).pid == keeper
    manager.cancel(job)


def test_jobs_wait_for_a_slot_in_the_order_of_their_submission(manager: Manager, tmp_path: Path) -> None:
    running = [manager.submit(counting(tmp_path / f"job {number}")).id for number in range(2)]
    for job in running:
        wait_for_status(manager, job, "RUNNING")
    third, fourth = (manager.submit(counting(tmp_path / f"job {number}")).id for number in (2, 3))
    assert [manager.job(job).status for job in (third, fourth)] == ["CREATED", "CREATED"]
    assert manager.overview()["slots"]["free"] == 0
    assert manager.rescale(fourth, 1).status == "CREATED"
    manager.cancel(running[0])
    wait_for_status(manager, third, "RUNNING")
    assert manager.job(fourth).status == "CREATED"
    assert manager.cancel(fourth).status == "CANCELED"
    assert manager.job(fourth).attempt == 0
    with pytest.raises(JobStateError, match="cancel it first"):
        manager.forget(third)
    manager.close(cancel=True)
    again = Manager(manager.home)
    assert {view.status for view in again.jobs()} == {"CANCELED"}
    again.close()


def test_a_program_that_is_wrong_fails_and_says_why(manager: Manager, tmp_path: Path) -> None:
    job = manager.submit(script(tmp_path / "job", "import nothing_of_that_name")).id
    view = wait_for_status(manager, job, "FAILED")
    assert "nothing_of_that_name" in (view.error or "")
    (failure,) = manager.exceptions(job)
    assert (failure["type"], failure["restarted"]) == ("ModuleNotFoundError", False)
    assert "Traceback" in manager.log(job, "err").text
    assert view.attempt == 1


def test_a_job_that_fails_again_and_again_is_given_up_by_its_strategy(manager: Manager, tmp_path: Path) -> None:
    text = """
        from flintstream import StreamExecutionEnvironment

        env = StreamExecutionEnvironment.get_execution_environment()
        env.generate(generator=lambda i: i, count=10, splits=1).map(lambda n: n // 0).print()
        env.execute("dividing")
    """
    settings = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    spec = script(tmp_path / "job", text)
    job = manager.submit(JobSpec.from_json({**spec.to_json(), "settings": settings})).id
    view = wait_for_status(manager, job, "FAILED")
    assert "ZeroDivisionError" in (view.error or "")
    assert manager.exceptions(job)[0]["location"].endswith("app.py:5")
    assert [each["restarted"] for each in manager.exceptions(job)] == [False, True]
    assert (view.attempt, view.restarts) == (1, 1)


def test_what_cannot_be_run_is_refused_at_once(manager: Manager, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no program"):
        manager.submit(JobSpec(program=str(tmp_path / "nothing.py")))
    with pytest.raises(InvalidArgumentError, match="relative"):
        manager.submit(JobSpec(program="app.py"))
    with pytest.raises(InvalidArgumentError, match="no directory"):
        manager.submit(JobSpec(module="app", working_directory=str(tmp_path / "nowhere")))
    with pytest.raises(SavepointError):
        manager.submit(counting(tmp_path / "job", savepoint=str(tmp_path / "nowhere")))
    assert manager.jobs() == []
    assert not list((manager.home / "jobs").iterdir())


def test_an_upload_becomes_the_jobs_own(manager: Manager, tmp_path: Path) -> None:
    uploaded = tmp_path / "upload"
    (uploaded / "pkg").mkdir(parents=True)
    (uploaded / "pkg" / "words.py").write_text("WORD = 'uploaded'\n")
    text = "import os, sys\nfrom pkg.words import WORD\nprint(WORD, os.getcwd(), *sys.argv[1:])\n"
    (uploaded / "pkg" / "main.py").write_text(text)
    job = manager.submit(JobSpec(module="pkg.main", arguments=("one", "")), files=uploaded).id
    wait_for_status(manager, job, "FINISHED")
    assert manager.log(job, "out").text == f"uploaded {manager.folder(job) / 'program'} one \n"
    assert not uploaded.exists()


def test_only_so_many_ended_jobs_are_kept(tmp_path: Path) -> None:
    manager = Manager(tmp_path / "home", keep_ended=1)
    manager.start()
    until(lambda: manager.is_leader, "it leads")
    spec = script(tmp_path / "job", "print('done')")
    first = manager.submit(spec).id
    wait_for_status(manager, first, "FINISHED")
    second = manager.submit(spec).id
    until(lambda: [view.id for view in manager.jobs()] == [second] and manager.job(second).has_ended, "one is kept")
    until(lambda: not (manager.home / "jobs" / first).exists(), "nothing is left of the other")
    manager.close()


def test_a_stopped_program_leaves_nothing_behind(manager: Manager, tmp_path: Path) -> None:
    job = manager.submit(counting(tmp_path / "job")).id
    wait_for_epochs(manager, job)
    pids = [driver_of(manager, job), keeper_of(manager, job).pid]
    manager.cancel(job)

    def are_gone() -> bool:
        return not any(Path(f"/proc/{pid}").exists() for pid in pids)

    until(are_gone, "keeper and driver are gone")


def test_parallelism_follows_the_backlog_between_its_bounds(manager: Manager, tmp_path: Path) -> None:
    job = manager.submit(counting(tmp_path / "job")).id
    wait_for_epochs(manager, job)
    with pytest.raises(InvalidArgumentError, match="exchange"):
        manager.rescale_auto(job, 4, 3)
    assert manager.rescale_auto(job, 3, 4).scaling == "auto 3..4"
    until(lambda: manager.job(job).parallelism == 3, "it is as wide as it must be at least")
    wait_for_epochs(manager, job)
    assert any("by its backlog" in each["note"] for each in manager.history(job))
    assert manager.rescale(job, 1).scaling == "manual"
    manager.cancel(job)
    assert_unbroken(tmp_path / "job")


def test_a_job_is_canceled_at_any_moment(manager: Manager, tmp_path: Path) -> None:
    early = manager.submit(counting(tmp_path / "early")).id
    wait_for_status(manager, early, "INITIALIZING")
    assert manager.cancel(early).status == "CANCELED"
    with pytest.raises(JobStateError, match="CANCELED; nothing is left to be done"):
        manager.cancel(early)

    # Between two attempts, in which there is nobody to be asked.
    settings = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "9",
        "restart-strategy.fixed-delay.delay": "1 h",
    }
    waiting = manager.submit(counting(tmp_path / "waiting", settings=settings)).id
    wait_for_epochs(manager, waiting)
    kill(driver_of(manager, waiting))
    wait_for_status(manager, waiting, "RESTARTING")
    with pytest.raises(JobStateError, match="does not run at this moment"):
        manager.savepoint(waiting)
    assert manager.cancel(waiting).status == "CANCELED"
    assert_unbroken(tmp_path / "waiting")


def test_a_keeper_that_is_told_to_leave_is_followed_by_another(manager: Manager, tmp_path: Path) -> None:
    job = manager.submit(counting(tmp_path / "job", rate=400, count=800)).id
    wait_for_epochs(manager, job)
    first = keeper_of(manager, job).pid
    os.kill(first, signal.SIGTERM)
    wait_for_status(manager, job, "FINISHED")
    assert keeper_of(manager, job).pid != first
    assert counts(tmp_path / "job") == exactly(800)


def test_a_manager_that_leaves_lets_nobody_wait(tmp_path: Path) -> None:
    manager = Manager(tmp_path / "home")
    manager.start()
    until(lambda: manager.is_leader, "it leads")
    text = "import signal, time; signal.signal(15, lambda *_: None); print('deaf', flush=True); time.sleep(600)"
    job = manager.submit(script(tmp_path / "job", text)).id
    until(lambda: manager.log(job, "out").text, "it does not listen")
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(manager.cancel, job)
        until(lambda: manager.job(job).status == "CANCELLING", "it was asked for")
        manager.close()
        with pytest.raises(ManagerError, match="leaves"):
            asked.result(30)
    clear(manager.home)


def test_what_was_never_submitted_is_cleared_away(tmp_path: Path) -> None:
    half, kept = (tmp_path / "home" / "jobs" / (name * 32) for name in "ab")
    half.mkdir(parents=True)
    (half / "job.json").write_text("{}")
    (kept / "savepoints" / "one").mkdir(parents=True)
    manager = Manager(tmp_path / "home")
    manager.start()
    until(lambda: manager.is_leader and not half.exists(), "it is gone")
    assert (kept / "savepoints" / "one").exists()
    manager.close()
