"""Ctrl-C: the job ends between two epochs with one line and status 130, and goes on from there when started again."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.crash.harness import RECORDS, Folders, JobProcess, check_manifests, check_output

EVENTS = 100_000


@pytest.mark.parametrize("runtime", ["local", pytest.param("spark", marks=[pytest.mark.spark])])
@pytest.mark.timeout(1200)
def test_an_interrupted_job_says_one_line_and_goes_on_later(
    folders: Folders, start: Callable[..., JobProcess], runtime: str
) -> None:
    settings = {"runtime": runtime, RECORDS: EVENTS // 20}
    running = start(EVENTS, **settings)
    assert running.wait_for_epochs(2), running.said()
    running.interrupt()
    assert running.finish() == 130, running.said()
    lines = folders.log.read_text().splitlines()
    assert lines == [f"stopped crash test; run it again to go on from {folders.checkpoints}"]
    stopped_at = folders.epoch()
    assert 2 <= stopped_at < 20
    again = start(EVENTS, **settings)
    assert again.finish() == 0, again.said()
    assert folders.log.read_text().splitlines() == lines, "the second run had something to say"
    check_output(folders, EVENTS)
    assert check_manifests(folders)[-1].epoch == 20


@pytest.mark.parametrize("runtime", ["local", pytest.param("spark", marks=[pytest.mark.spark])])
@pytest.mark.timeout(1200)
def test_an_impatient_interrupt_does_no_harm(folders: Folders, start: Callable[..., JobProcess], runtime: str) -> None:
    settings = {"runtime": runtime, RECORDS: EVENTS // 20}
    running = start(EVENTS, **settings)
    assert running.wait_for_epochs(1), running.said()
    running.interrupt()
    running.wait_seconds(0.1)
    if running.is_running:
        running.interrupt()
    # The second one may meet Python's own end; shells call both 130.
    assert running.finish() in (130, -signal.SIGINT), running.said()
    assert "Traceback" not in folders.log.read_text()
    again = start(EVENTS, **settings)
    assert again.finish() == 0, again.said()
    check_output(folders, EVENTS)
