"""What the crash tests share: the job as a process that can be watched and killed, and the check of what it wrote."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from flintstream import DataGeneratorSource
from flintstream.engine.manifest import Manifest
from tests.crash import job

RECORDS = "flintstream.epoch.max-records"
IN_MEMORY = "flintstream.state.entries-in-memory"
RETAINED = "execution.checkpointing.num-retained"
PROGRAM = Path(__file__).with_name("job.py")
TAG = "FLINTSTREAM_CRASH_TEST"
PATIENCE = 240.0
"""Seconds after which something that must happen counts as never happening; the machine may be busy."""


@dataclass
class Folders:
    """The directories of one job. Everything a run leaves behind is below `root`."""

    root: Path
    checkpoints: Path = field(init=False)
    output: Path = field(init=False)
    scratch: Path = field(init=False)
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.checkpoints = self.root / "checkpoints"
        self.output = self.root / "output"
        self.scratch = self.root / "scratch"
        self.log = self.root / "log.txt"
        self.scratch.mkdir(parents=True, exist_ok=True)

    def manifests(self) -> list[Path]:
        folder = self.checkpoints / "manifests"
        return (
            sorted(p for p in folder.iterdir() if p.suffix == ".json" and p.name[0] != ".") if folder.is_dir() else []
        )

    def epoch(self) -> int:
        """The newest committed epoch, 0 if there is none."""
        found = self.manifests()
        return int(found[-1].stem) if found else 0

    def files(self) -> dict[str, int]:
        """Every output file that a reader sees, with its size."""
        visible = [p for p in self.output.rglob("*") if p.is_file() and not _is_hidden(p.relative_to(self.output))]
        return {str(p.relative_to(self.output)): p.stat().st_size for p in visible}


def _is_hidden(path: Path) -> bool:
    return any(part[0] in "._" for part in path.parts)


class JobProcess:
    """The program in a process group of its own."""

    def __init__(
        self,
        folders: Folders,
        events: int,
        *,
        runtime: str = "spark",
        environment: dict[str, str] | None = None,
        files: Path | None = None,
        launcher: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        self.folders = folders
        # The scratch directory takes what a killed JVM leaves behind.
        java = f"-Djava.io.tmpdir={folders.scratch} -XX:-UsePerfData"
        on_spark = {"spark.local.dir": str(folders.scratch), "spark.driver.extraJavaOptions": java}
        given = on_spark if runtime == "spark" else {}
        command = [
            sys.executable,
            *launcher,
            str(PROGRAM),
            "--checkpoints",
            str(folders.checkpoints),
            "--runtime",
            runtime,
        ]
        command += ["--output", str(folders.output), "--events", str(events)]
        command += [] if files is None else ["--files", str(files)]
        for key, value in {**given, **settings}.items():
            command += ["--set", f"{key}={value}"]
        own = {"TMPDIR": str(folders.scratch), "FLINTSTREAM_LOCAL_DIR": str(folders.scratch)}
        # Orphans of a killed driver are found by this.
        self._tag = uuid.uuid4().hex
        own[TAG] = self._tag
        self._log = folders.log.open("ab")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            cwd=folders.scratch,
            env={**os.environ, **own, **(environment or {})},
            start_new_session=True,
        )
        self.handle = psutil.Process(self.process.pid)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def family(self) -> list[psutil.Process]:
        """All living descendants: the JVM, executors, Python workers."""
        try:
            return self.handle.children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def orphans(self) -> list[psutil.Process]:
        """What still runs of a job whose driver is gone."""
        return [p for p in psutil.process_iter() if p.pid != self.process.pid and _tag(p) == self._tag]

    def executors(self) -> list[psutil.Process]:
        return [p for p in self.family() if "CoarseGrainedExecutorBackend" in _command(p)]

    def python_workers(self) -> list[psutil.Process]:
        """The processes that run tasks: children of Spark's Python daemons."""
        daemons = {p.pid: p for p in self.family() if "pyspark.daemon" in _command(p)}
        return [p for p in daemons.values() if _parent(p) in daemons]

    def wait_until(self, condition: Any, what: str, pause: float = 0.002) -> bool:
        """Wait for something the job does; False if the job ended first."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if not self.is_running:
                return False
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: nothing for {PATIENCE:.0f} s\n{self.said()}")
            time.sleep(pause)
        return True

    def wait_for_epochs(self, number: int, pause: float = 0.002) -> bool:
        """Wait for more commits; False if the job ended first."""
        first = self.folders.epoch()
        wanted = first + number
        return self.wait_until(lambda: self.folders.epoch() >= wanted, f"{number} epochs more than {first}", pause)

    def wait_seconds(self, seconds: float, most_epochs: int = 2) -> bool:
        """Wait some time, but no longer than for two epochs; False if the job ended first."""
        until, last = time.monotonic() + seconds, self.folders.epoch() + most_epochs
        over = lambda: time.monotonic() >= until or self.folders.epoch() >= last  # noqa: E731
        return self.wait_until(over, "the moment of a kill")

    def kill(self) -> None:
        """kill -9 of the driver: Python and its JVM at once. Workers, in a group of their own, live on a little."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def interrupt(self) -> None:
        """What Ctrl-C does: a signal to the whole foreground group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def finish(self) -> int:
        """Wait for the end, as long as there is progress, and return the exit status."""
        while self.is_running:
            self.wait_for_epochs(1, pause=0.1)
        return self.process.wait()

    def said(self) -> str:
        return self.folders.log.read_text(errors="replace")[-8000:]

    def close(self) -> None:
        """Leave nothing running."""
        if self.is_running:
            self.kill()
        for process in self.orphans():
            try:
                process.wait(10)
            except psutil.TimeoutExpired:
                process.kill()
        self._log.close()


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _tag(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(TAG)
    except psutil.Error:
        return None


def _parent(process: psutil.Process) -> int:
    try:
        return process.ppid()
    except psutil.Error:
        return 0


def busiest(processes: list[psutil.Process], seconds: float = 0.1) -> psutil.Process | None:
    """Return the process that computes most right now, if any does."""
    before = {p: _cpu(p) for p in processes}
    time.sleep(seconds)
    used = {p: _cpu(p) - spent for p, spent in before.items()}
    best = max(used, key=lambda p: used[p], default=None)
    return best if best is not None and used[best] > 0 else None


def _cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return times.user + times.system


def describe_phase(folders: Folders) -> str:
    """Say where a kill hit: the newest epoch, and how much of its output was published."""
    found = folders.manifests()
    if not found:
        return "before the first commit"
    manifest = json.loads(found[-1].read_text())
    parts = [
        p
        for sink in manifest["committables"].values()
        for part in sink
        for p in ([part] if isinstance(part, dict) else part)
    ]
    staged = [
        p for p in parts if any((folders.output / name / p["staged"]).exists() for name in ("running", "windows"))
    ]
    state = "published" if not staged else f"{len(parts) - len(staged)} of {len(parts)} files published"
    return f"after commit of epoch {manifest['epoch']}, {state}"


def moments(seed: int, number: int, longest: float) -> Iterator[tuple[int, float]]:
    """Yield (epochs to wait for, seconds to wait then); `longest` is about what an epoch and a half take.

    Some moments are right behind a commit, some in the midst of an epoch, some before the job has done anything.
    """
    rng = random.Random(seed)
    for _ in range(number):
        kind = rng.random()
        if kind < 0.2:
            yield 0, rng.uniform(longest, longest * 10)
        elif kind < 0.5:
            yield 1, rng.uniform(0.0, longest / 20)
        else:
            yield 1, rng.uniform(0.0, longest)


def all_events(events: int) -> pa.StructArray:
    """The job's input, in the order of time."""
    return DataGeneratorSource(job.FIELDS, count=events, seed=job.SEED, splits=1).read(0, 0, events)


def write_events(folder: Path, events: int, files: int) -> None:
    """Put the job's input into files, named and dated in the order in which they shall be read."""
    folder.mkdir()
    columns, share = all_events(events), events // files
    for number in range(files):
        path = folder / f"{number:03d}.parquet"
        pq.write_table(pa.Table.from_struct_array(columns.slice(number * share, share)), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def check_output(folders: Folders, events: int) -> None:
    """Check every number in the files against the generator itself."""
    columns = all_events(events)
    _check_running(folders, columns)
    _check_windows(folders, columns)
    leftovers = [p for p in (folders.output).rglob("*") if p.is_file() and _is_hidden(p.relative_to(folders.output))]
    assert not leftovers, f"staged files were left behind: {leftovers}"


def _check_running(folders: Folders, events: pa.StructArray) -> None:
    keys, values = events.field("key").to_numpy(), events.field("value").to_numpy()
    counts = np.bincount(keys, minlength=job.KEYS)
    totals = np.bincount(keys, weights=values, minlength=job.KEYS).astype(np.int64)
    names = [name for name in folders.files() if name.startswith("running/")]
    table = pa.concat_tables([pq.read_table(folders.output / name) for name in names])
    key, n, total = (table.column(i).to_numpy() for i in range(3))
    final = n < 0
    assert len(n) - final.sum() == len(keys), f"{len(n) - final.sum()} outputs for {len(keys)} events"
    # Each key's counts must be 1, 2, 3, ... with no gap and no repetition.
    order = np.lexsort((n[~final], key[~final]))
    expected = np.arange(len(keys)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    assert (key[~final][order] == np.repeat(np.arange(job.KEYS), counts)).all(), "outputs of a key are lost or doubled"
    assert (n[~final][order] == expected).all(), "a key was counted on top of another state than its own"
    seen = np.flatnonzero(counts)
    order = np.argsort(key[final])
    assert (key[final][order] == seen).all(), "the final result of a key is lost or doubled"
    assert (-n[final][order] == counts[seen]).all() and (total[final][order] == totals[seen]).all()


def _check_windows(folders: Folders, events: pa.StructArray) -> None:
    slot = events.field("ts").to_numpy() // job.WINDOW_MS * job.GROUPS + events.field("group").to_numpy()
    totals = np.bincount(slot, weights=events.field("value").to_numpy()).astype(np.int64)
    expected = {
        (int(s) % job.GROUPS, int(s) // job.GROUPS * job.WINDOW_MS): (int(n), int(totals[s]))
        for s, n in enumerate(np.bincount(slot))
        if n
    }
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for name in folders.files():
        if name.startswith("windows/"):
            for line in (folders.output / name).read_text().splitlines():
                row = json.loads(line)
                window = (row["group"], row["window_start"])
                assert window not in found, f"window {window} came twice"
                found[window] = (row["n"], row["total"])
    assert found == expected


def check_manifests(folders: Folders) -> list[Manifest]:
    """Check that the retained manifests are one unbroken chain whose files are all there."""
    manifests = [Manifest.from_bytes(path.read_bytes(), path.name) for path in folders.manifests()]
    assert [m.epoch for m in manifests] == list(range(manifests[0].epoch, manifests[-1].epoch + 1))
    for before, after in itertools.pairwise(manifests):
        assert after.predecessor == before.digest(), f"epoch {after.epoch} does not follow epoch {before.epoch}"
    assert len({m.incarnation for m in manifests}) == 1
    missing = {name for m in manifests for name in m.files() if not (folders.checkpoints / name).is_file()}
    assert not missing, f"files that manifests name are gone: {missing}"
    assert manifests[-1].finished
    return manifests
