"""The process that keeps one job running: `python -m flintstream.jobs.keeper <job folder>`.

One for each job and apart from the manager, so that a manager may die and come back without a job noticing. It runs the
supervisor on the program, writes down how far that is, and looks for orders. A lease on the job's folder keeps a second
keeper out; if this one dies, the program's lifeline breaks, and the next keeper clears away what is left of it.

Flink: the JobMaster, which each job has for itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from flintstream.api.environment import IMPOSED_VARIABLE, SETTINGS_VARIABLE
from flintstream.engine.lease import Holder, Lease, acquire
from flintstream.engine.requests import CANCEL, ask
from flintstream.engine.restart import now_ms
from flintstream.engine.restart_log import RestartLog
from flintstream.engine.supervisor import Supervisor, exit_status, how_it_ended
from flintstream.errors import FlintstreamError, LeaseError
from flintstream.jobs.files import append_line, read_json
from flintstream.jobs.leftovers import clear_away
from flintstream.jobs.logs import LogWriter
from flintstream.jobs.orders import ERR, OUT, REPORT, SPEC, KeeperState, Orders
from flintstream.jobs.spec import JobSpec, read_spec
from flintstream.jobs.supervise import ProgramProcess, child_command
from flintstream.model.restart import strategy_of
from flintstream.state.storage import LocalStorage
from flintstream.state.storage_remote import storage_at

LOOK_SECONDS = 0.1
BEAT_SECONDS = 1.0
GENTLE_SECONDS, LEAVE_SECONDS, PATIENCE_SECONDS = 20.0, 5.0, 20.0
"""How long a job may take to answer, its program to leave behind it, and to leave when it is told to; then it is
killed, which its state survives."""
LET_GO = 0
"""The number of no signal: whoever gets it is left in peace, but not started again."""
RESTARTS, DEATHS = "restarts.jsonl", "deaths.jsonl"


class KeptProcess(ProgramProcess):
    """A driver whose start and end the keeper writes down, and whose output goes to the job's logs."""

    def __init__(self, keeper: Keeper, environment: Mapping[str, str]) -> None:
        self._keeper = keeper
        spec, folder = keeper.spec, keeper.folder
        program = spec.module or program_path(folder, spec)
        command = child_command(program, spec.arguments, is_module=spec.module is not None, entry=spec.entry)
        super().__init__(
            command,
            folder / RESTARTS,
            keeper.lifeline,
            environment,
            cwd=working_directory(folder, spec),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        pipes = (self._process.stdout, keeper.out), (self._process.stderr, keeper.err)
        self._pumps = [log.pump(os.dup(pipe.fileno())) for pipe, log in pipes]
        for pipe, _ in pipes:
            pipe.close()
        keeper.started(self.pid)

    def wait(self) -> int:
        status = super().wait()
        self._keeper.ended(self.pid, status)
        return status

    def clear(self) -> None:
        super().clear()
        for pump in self._pumps:
            pump.join(BEAT_SECONDS)
        self._keeper.cleared()


class Keeper:
    """Keeps the job of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec = read_spec(folder / SPEC)
        self.out, self.err = LogWriter(folder / OUT), LogWriter(folder / ERR)
        self.lifeline, self._held = os.pipe()
        self._state = KeeperState({})
        self._lock = threading.RLock()
        self._orders = Orders(0, "running", 1)
        self._supervisor: Supervisor | None = None
        self._left_by: int | None = None
        self._stopping: Supervisor | None = None
        self._death: dict[str, object] | None = None
        self._last_child = 0
        self._lease: Lease | None = None
        self._over = threading.Event()

    def run(self) -> int:
        """Keep the job until it ends; return the exit status."""
        lease = acquire(LocalStorage(str(self.folder), durable=False), self.folder.name, str(self.folder))
        self._lease = lease
        lease.call_on_loss(lambda: self._on_signal(signal.SIGTERM, None))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        watcher = threading.Thread(target=self._watch, name="flintstream-orders", daemon=True)
        try:
            self._take_up()
            if self._left_by is not None:
                return 128 + self._left_by
            clear_away(self.folder, self._state, read_json(self.folder / REPORT / "plan.json").get("checkpoint_dir"))
            self._become()
            watcher.start()
            status = self._run()
        finally:
            self._over.set()
            if watcher.ident is not None:
                watcher.join()
            lease.release()
        return status

    def _take_up(self) -> None:
        """Read how far the last keeper was, and what is wanted; only now, when no other keeper writes any more."""
        self._state = KeeperState.read(self.folder) or self._state
        while self._left_by is None:
            found = Orders.read(self.folder) or self._orders
            if found.term >= self._state.term:
                self._orders = found
                return
            # A leader that slept has written these; the one that leads puts them right.
            self._over.wait(LOOK_SECONDS)

    def _become(self) -> None:
        """Write down that this process is the keeper now."""
        mine = Holder.this_process(self.folder.name)
        same = self._state.start == self._orders.start
        if not same:
            self._set_aside()
        self._say(
            keeper=vars(mine), pid=mine.pid, host=mine.host, child=None, child_pid=None, state="INITIALIZING",
            start=self._orders.start, term=self._orders.term, ended_ms=None, status=None, error=None,
        )  # fmt: skip

    def _set_aside(self) -> None:
        """Begin to count failures anew, since someone wants another start."""
        log = self.folder / RESTARTS
        if log.exists():
            log.replace(self.folder / f"restarts-{self._state.start}.jsonl")

    def _run(self) -> int:
        while True:
            orders = self._orders
            if orders.wanted == "canceled":
                return self._end("CANCELED", 0, None)
            self._say(start=orders.start)
            log = RestartLog(self.folder / RESTARTS)
            imposed = strategy_of(self.spec.restart_settings)
            supervisor = Supervisor(partial(self._start, orders), log, now_ms, self._tell, imposed=imposed)
            with self._lock:
                self._supervisor = supervisor
                if self._left_by is not None:
                    return self._end("LEFT", 128 + self._left_by, None)
                if self._orders != orders:
                    continue
            try:
                status = supervisor.run()
            except OSError as error:
                return self._end("FAILED", 1, f"the program cannot be started: {error}")
            with self._lock:
                self._supervisor = None
                newest = self._orders
            if self._left_by is not None:
                return self._end("LEFT", status, None)
            if newest.wanted == "running" and newest.start > orders.start:
                self._note_death(restarted=True)
                self._set_aside()
                self._say(state="RESTARTING")
                continue
            return self._ended(newest, status, log)

    def _start(self, orders: Orders) -> KeptProcess:
        return KeptProcess(self, self._environment(orders))

    def _ended(self, orders: Orders, status: int, log: RestartLog) -> int:
        self._note_death(restarted=False)
        told = self._report().get("status")
        if orders.wanted == "canceled" or (status == 0 and told == "CANCELED"):
            return self._end("CANCELED", status, None)
        if status == 0 or orders.wanted == "stopped":
            return self._end("FINISHED", status, None)
        ending = log.ending(self._last_child)
        how = f"its process {how_it_ended(status if status < 128 else 128 - status)}"
        return self._end("FAILED", status, how if ending is None else ending.line)

    def _end(self, state: str, status: int, error: str | None) -> int:
        self._say(state=state, status=status, error=error, ended_ms=now_ms())
        return status

    def _environment(self, orders: Orders) -> dict[str, str]:
        """Return the variables of the program's environment."""
        return {
            **program_environment(self.folder, self.spec, orders),
            "FLINTSTREAM_REPORT": str(self.folder / REPORT),
            "FLINTSTREAM_ATTEMPT": str(self._state.attempt + 1),
        }

    def started(self, pid: int) -> None:
        """Take in that a driver was started."""
        restarts = self._state.restarts + (self._death is not None)
        self._note_death(restarted=True)
        child, self._last_child = Holder.process(pid, self.folder.name), pid
        self._say(
            child=vars(child), child_pid=pid, child_started_ms=now_ms(), attempt=self._state.attempt + 1,
            restarts=restarts, state="RUNNING",
        )  # fmt: skip

    def ended(self, pid: int, status: int) -> None:
        """Take in that a driver has ended."""
        with self._lock:
            told_to = self._left_by is not None or self._orders.start > self._state.start
            told_to = told_to or self._orders.wanted != "running"
        if status == 0 or told_to:
            return
        ending = RestartLog(self.folder / RESTARTS).ending(pid)
        kind, _, message = ("" if ending is None else ending.line).partition(": ")
        self._death = {
            "at_ms": now_ms(), "attempt": self._state.attempt, "type": kind or "ProcessDied",
            "message": message or f"process {pid} {how_it_ended(status)}", "status": exit_status(status),
        }  # fmt: skip
        self._say(state="FAILING")

    def cleared(self) -> None:
        """Take in that nothing is left of a driver, and how often it restarted its job by itself."""
        inside = int(self._report().get("restarts") or 0)
        state = self._state.state if self._death is None else "RESTARTING"
        self._say(child=None, child_pid=None, restarts=self._state.restarts + inside, state=state)

    def _note_death(self, restarted: bool) -> None:
        death, self._death = self._death, None
        if death is not None:
            append_line(self.folder / DEATHS, {**death, "restarted": restarted})

    def _tell(self, text: str) -> None:
        self.err.write(f"flintstream: {text}\n".encode())

    def _say(self, **changes: object) -> None:
        with self._lock:
            if self._lease is not None and self._lease.is_lost:
                return  # another keeper speaks for the job
            state = replace(self._state, **changes, beat_ms=now_ms(), beats=self._state.beats + 1)
            self._state = state
            try:
                state.write(self.folder)
            except OSError:
                if state.has_ended:
                    raise

    def _watch(self) -> None:
        """Look for orders, and say now and then that this keeper lives."""
        looks = 0
        while not self._over.wait(LOOK_SECONDS):
            looks += 1
            found = Orders.read(self.folder)
            if found is not None and found != self._orders and found.term >= self._orders.term:
                self._obey(found)
            if looks * LOOK_SECONDS >= BEAT_SECONDS:
                looks = 0
                self._say()

    def _obey(self, orders: Orders) -> None:
        before, self._orders = self._orders, orders
        if orders.term != before.term:
            self._say(term=orders.term)
        is_over = orders.wanted == "canceled" and before.wanted != "canceled"
        if is_over or (orders.wanted == "running" and orders.start > self._state.start):
            self._say(state="CANCELLING" if is_over else "RESTARTING")
            with self._lock:
                supervisor = self._supervisor
            if supervisor is not None and supervisor is not self._stopping:
                self._stopping = supervisor
                threading.Thread(target=self._stop, args=[supervisor], name="flintstream-stop", daemon=True).start()
        elif orders.wanted == "stopped" and self._supervisor is not None:
            self._supervisor.stop(LET_GO)

    def _stop(self, supervisor: Supervisor) -> None:
        """Ask the job to end behind its last epoch; if it does not, the program is told to stop, and then made to."""
        supervisor.stop(LET_GO)
        if self._report().get("status") == "RUNNING":
            where = self._report("plan.json").get("checkpoint_dir")
            # A job that does not answer is told in another way.
            with suppress(FlintstreamError, OSError):
                ask(storage_at(str(where)), CANCEL, timeout=GENTLE_SECONDS)
                self._until_over(supervisor, LEAVE_SECONDS)
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._is_over(supervisor):
                return
            supervisor.stop(number)
            self._until_over(supervisor, PATIENCE_SECONDS)

    def _is_over(self, supervisor: Supervisor) -> bool:
        return self._supervisor is not supervisor or self._over.is_set()

    def _until_over(self, supervisor: Supervisor, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._is_over(supervisor) and time.monotonic() < deadline:
            self._over.wait(LOOK_SECONDS)

    def _report(self, name: str = "status.json") -> dict[str, Any]:
        """Return what the driver that runs has reported, nothing if it has not yet."""
        found = read_json(self.folder / REPORT / name)
        return found if found.get("attempt") == self._state.attempt else {}

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # Inside a signal's handler nothing may be waited for: the lock may be held by the code it interrupted.
        self._left_by = number
        if self._supervisor is not None:
            self._supervisor.stop(number)


def program_environment(folder: Path, spec: JobSpec, orders: Orders) -> dict[str, str]:
    """Return the variables that a job's program has besides those of this process."""
    known = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    uploaded = [str(folder / "program")] if (folder / "program").is_dir() else []
    path = os.pathsep.join([*uploaded, *spec.python_path, *known])
    return {
        # What a program prints is to be read at once.
        "PYTHONUNBUFFERED": "1",
        **({"PYTHONPATH": path} if path else {}),
        **spec.environment,
        SETTINGS_VARIABLE: json.dumps(dict(orders.settings)),
        IMPOSED_VARIABLE: json.dumps(dict(orders.imposed)),
    }


def program_path(folder: Path, spec: JobSpec) -> str:
    """Return where a job's script is: what was uploaded comes before what lies where it runs."""
    uploaded = folder / "program" / (spec.program or "")
    return str(uploaded) if uploaded.exists() else spec.program or ""


def working_directory(folder: Path, spec: JobSpec) -> Path:
    """Return where a job's program runs, made if it is the job's own."""
    if spec.working_directory is not None:
        return Path(spec.working_directory)
    own = folder / "program" if (folder / "program").is_dir() else folder / "work"
    own.mkdir(mode=0o700, exist_ok=True)
    return own


def main(argv: list[str]) -> int:
    """Keep the job of the folder that the only argument names."""
    try:
        return Keeper(Path(argv[0]).absolute()).run()
    except LeaseError:
        return 0  # another keeper does it
    except (FlintstreamError, OSError) as error:
        sys.stderr.write(f"flintstream: {type(error).__name__}: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
