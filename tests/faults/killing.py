"""Drivers that really die: starts `driver` again whenever a case has killed it, until all are done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

import psutil

from tests.faults.matrix import Case, Outcome, judge, judged, write_cases
from tests.faults.spark_files import PROGRAM, judge_files

ROOT = Path(__file__).resolve().parents[2]
_CHECKS = {PROGRAM: judge_files}
TAG = "FLINTSTREAM_FAULT_TEST"
PATIENCE = 600.0
"""Seconds after which a driver that neither ends nor dies counts as stuck."""


def _judge(case: Case, folder: Path) -> None:
    # A worker that outlives its driver may still be writing what nobody will ever name.
    judge(case, folder, tidy=False)


def kill_drivers(runtime: str, cases: Sequence[Case], root: Path) -> list[Outcome]:
    """Run cases whose faults kill the driver, one after the other; return what came of each."""
    scratch = root / "scratch"
    scratch.mkdir()
    folders = [root / f"case-{number}" for number in range(len(cases))]
    write_cases(root / "cases.json", list(zip(folders, cases, strict=True)))
    tag = uuid.uuid4().hex
    deaths = 0
    try:
        while _run_once(runtime, root, scratch, tag) == -signal.SIGKILL:
            deaths += 1
            assert deaths <= sum(len(case.faults) for case in cases), _said(root)
    finally:
        _bury(tag)
    outcomes = [
        judged(case, folder, _CHECKS.get(case.program, _judge)) for case, folder in zip(cases, folders, strict=True)
    ]
    hits = sum(len(each.hits) for each in outcomes)
    assert deaths == hits, f"{deaths} deaths for {hits} faults\n{_said(root)}"
    return outcomes


def _run_once(runtime: str, root: Path, scratch: Path, tag: str) -> int:
    """Start the driver and wait for its end; return its status, which is that of a kill or 0."""
    command = [sys.executable, "-m", "tests.faults.driver", "--runtime", runtime, "--scratch", str(scratch)]
    search = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    own = {"TMPDIR": str(scratch), "FLINTSTREAM_LOCAL_DIR": str(scratch), TAG: tag, "PYTHONPATH": search}
    with (root / "log.txt").open("ab") as log:
        driver = subprocess.Popen(
            [*command, str(root / "cases.json")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=ROOT,
            env={**os.environ, **own},
            start_new_session=True,
        )
        try:
            status = driver.wait(PATIENCE)
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
                driver.wait()
    assert status in (0, -signal.SIGKILL), _said(root)
    return status


def _said(root: Path) -> str:
    return (root / "log.txt").read_text(errors="replace")[-4000:]


def _bury(tag: str) -> None:
    """Wait for workers that have outlived their driver; kill those that do not end by themselves."""
    for process in psutil.process_iter():
        try:
            if process.environ().get(TAG) == tag:
                process.wait(5)
        except psutil.TimeoutExpired:
            process.kill()
        except psutil.Error:
            continue
