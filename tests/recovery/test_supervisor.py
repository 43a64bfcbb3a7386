"""The supervisor's decisions, with children that are no processes and a clock that tests move."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintstream.engine.restart_log import RestartLog
from flintstream.engine.supervisor import Supervisor
from flintstream.errors import FencedError, UserFunctionError
from flintstream.model.restart import FailureRateRestart, FixedDelayRestart, NoRestart, RestartStrategyConfiguration

FIRST_PID = 1000


class FakeChild:
    """A child that does something and ends with a status."""

    def __init__(self, pid: int, act: Callable[[FakeChild], int]) -> None:
        self.pid = pid
        self._act = act
        self.signals: list[int] = []
        self.cleared = False

    def wait(self) -> int:
        return self._act(self)

    def signal(self, number: int) -> None:
        self.signals.append(number)

    def clear(self) -> None:
        self.cleared = True


class Stage:
    """A supervisor with its children, each given by its status or by what it does."""

    def __init__(
        self, folder: Path, *acts: int | Callable[[FakeChild], int], imposed: RestartStrategyConfiguration | None = None
    ) -> None:
        self.path = folder / "log"
        self.log = RestartLog(self.path)
        self.children: list[FakeChild] = []
        self.said: list[str] = []
        self.now = 0
        self.waits: list[int] = []
        self._acts = iter(acts)
        self.on_sleep: Callable[[], None] = lambda: None
        clock = lambda: self.now  # noqa: E731
        self.supervisor = Supervisor(self._start, self.log, clock, self.said.append, self._sleep, imposed)

    def _start(self) -> FakeChild:
        act = next(self._acts)
        self.children.append(FakeChild(FIRST_PID + len(self.children), act if callable(act) else lambda child: act))
        return self.children[-1]

    def _sleep(self, seconds: float) -> None:
        self.on_sleep()
        self.now += round(seconds * 1000)

    def run(self) -> int:
        return self.supervisor.run()


def declares(stage: Callable[[], Stage], strategy: RestartStrategyConfiguration, status: int) -> Any:
    def act(child: FakeChild) -> int:
        RestartLog(stage().path).declare(strategy)
        return status

    return act


def ends(stage: Callable[[], Stage], error: BaseException, may_restart: bool = True) -> Any:
    def act(child: FakeChild) -> int:
        line = RestartLog(stage().path)
        line.ended(error, may_restart)
        # The log has the number of this process; the supervisor's child has another.
        text = stage().path.read_text()
        stage().path.write_text(text.replace(f'"pid": {os.getpid()}', f'"pid": {child.pid}'))
        return 1

    return act


def test_a_program_that_ends_well_is_not_started_again(tmp_path: Path):
    stage = Stage(tmp_path, 0)
    assert stage.run() == 0
    assert len(stage.children) == 1 and stage.children[0].cleared and stage.said == []


@pytest.mark.parametrize(("status", "words"), [(-9, "was killed by SIGKILL"), (3, "ended with status 3")])
def test_a_program_that_dies_is_started_again(tmp_path: Path, status: int, words: str):
    stage = Stage(tmp_path, status, 0)
    assert stage.run() == 0
    assert len(stage.children) == 2
    (line,) = stage.said
    assert f"process {FIRST_PID} {words}" in line and "restart 1 in " in line
    # Flink's default: a second, more or less.
    assert 900 <= stage.now <= 1100


def test_the_strategy_that_the_program_declares_holds(tmp_path: Path):
    stage: Stage = Stage(tmp_path, declares(lambda: stage, FixedDelayRestart(2, 5000), -9), -9, -9)
    assert stage.run() == 137
    assert len(stage.children) == 3 and stage.now == 10_000
    assert "given up after 3 failures, by fixed-delay (attempts 2, delay 5s)" in stage.said[-1]


def test_the_strategy_of_the_command_line_holds_before_that(tmp_path: Path):
    stage: Stage = Stage(
        tmp_path, declares(lambda: stage, FixedDelayRestart(9, 0), 4), 4, imposed=FixedDelayRestart(1, 10)
    )
    assert stage.run() == 4
    assert len(stage.children) == 2


def test_a_program_that_wants_no_restart_gets_none(tmp_path: Path):
    stage: Stage = Stage(tmp_path, declares(lambda: stage, NoRestart(), -11))
    assert stage.run() == 139
    assert len(stage.children) == 1


def test_failures_that_the_program_dealt_with_itself_count_too(tmp_path: Path):
    def fails_twice_inside(child: FakeChild) -> int:
        inside = RestartLog(stage.path)
        inside.declare(FixedDelayRestart(3, 0))
        inside.failed(1)
        inside.failed(2)
        return -9

    stage = Stage(tmp_path, fails_twice_inside, -9)
    assert stage.run() == 137
    assert len(stage.children) == 2


def test_a_rate_is_measured_by_the_clock(tmp_path: Path):
    slow = lambda seconds: lambda child: setattr(stage, "now", stage.now + seconds * 1000) or 1  # noqa: E731
    stage = Stage(tmp_path, slow(40), slow(40), slow(40), slow(25), slow(5), imposed=FailureRateRestart(2, 60_000, 0))
    assert stage.run() == 1
    assert len(stage.children) == 5


def test_a_program_that_is_wrong_is_not_started_again_and_its_error_is_told(tmp_path: Path):
    stage: Stage = Stage(tmp_path, ends(lambda: stage, FencedError("another driver has it"), may_restart=False))
    assert stage.run() == 1
    assert len(stage.children) == 1
    assert stage.said == [
        f"process {FIRST_PID} ended with status 1 and is not started again: FencedError: another driver has it"
    ]


def test_when_it_gives_up_the_last_error_is_told(tmp_path: Path):
    error = UserFunctionError("the function raised", user_traceback="line 3, in f")
    stage: Stage = Stage(tmp_path, ends(lambda: stage, error), imposed=NoRestart())
    assert stage.run() == 1
    (line,) = stage.said
    assert line.endswith("given up after 1 failures, by none: UserFunctionError: the function raised")


def test_what_the_strategy_in_the_program_gave_up_is_not_started_again(tmp_path: Path):
    path, error = tmp_path / "log", ValueError("once too often")
    log = RestartLog(path)
    log.gave_up(error)
    log.ended(error, may_restart=True)
    ending = log.ending(os.getpid())
    assert ending is not None and not ending.may_restart
    log.ended(ValueError("another one"), may_restart=True)
    ending = log.ending(os.getpid())
    assert ending is not None and ending.may_restart


def test_a_signal_is_passed_on_and_ends_it_all(tmp_path: Path):
    def interrupted(child: FakeChild) -> int:
        stage.supervisor.stop(signal.SIGINT)
        return 130

    stage = Stage(tmp_path, interrupted)
    assert stage.run() == 130
    assert stage.children[0].signals == [signal.SIGINT]


def test_a_signal_between_two_starts_ends_the_wait(tmp_path: Path):
    stage = Stage(tmp_path, -9, imposed=FixedDelayRestart(5, 3_600_000))
    stage.on_sleep = lambda: stage.supervisor.stop(signal.SIGTERM)
    assert stage.run() == 143
    assert len(stage.children) == 1 and stage.now < 1000


def test_a_line_cut_short_by_a_death_does_no_harm(tmp_path: Path):
    log = RestartLog(tmp_path / "log")
    log.failed(1)
    with (tmp_path / "log").open("a") as file:
        file.write('{"failed": 2')
    log.failed(3)
    assert log.failures() == [1, 3]


def test_without_a_supervisor_nothing_is_written():
    log = RestartLog(None)
    log.failed(1)
    log.declare(NoRestart())
    assert (log.failures(), log.strategy(), log.is_supervised) == ([], None, False)
