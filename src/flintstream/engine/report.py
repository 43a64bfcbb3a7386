"""What a driver knows of its job while it runs: it listens to the epoch loop, and gives one document at any moment.

The loop tells what it plans, begins and has committed; tasks have measured themselves (`measures.py`). All is kept in
memory, in a bounded space, whoever asks: a notebook, a client of the job, or the files that `report_files.py` writes
for other processes. Telling costs the loop some microseconds of each epoch; documents are made when they are asked for.

Flink: JobManager's view of a job (ExecutionGraph and its metric fetcher).
Differs from Flink: numbers are those of committed epochs, so they never count a record twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flintstream.engine.epoch import EpochContext, ReadRange, TaskReport
from flintstream.engine.latency import LatencyBook, Sample, summary_of
from flintstream.engine.latency_arrivals import Arrivals, Due
from flintstream.engine.manifest import Manifest
from flintstream.engine.options import JobOptions
from flintstream.engine.report_backlog import Backlog
from flintstream.engine.report_numbers import (
    feeding,
    files_of,
    job_watermark,
    records_of,
    sinks_of,
    sources_of,
    watermarks_of,
)
from flintstream.engine.report_plan import Host, plan_document
from flintstream.engine.report_rates import Rates
from flintstream.engine.report_status import Facts, Traffic, status_document
from flintstream.engine.report_trouble import Trouble, trouble_of
from flintstream.model.job import JobStatus
from flintstream.planner.plan import Plan


def wall_ms() -> float:
    """Return the time of day in ms."""
    return time.time() * 1000


def _never(source: int, split: int, position: int) -> float | None:
    """When records are due before anything is known of their sources."""


class Keeper:
    """Is told when there is something new to be written down; this one writes nothing."""

    def begin(self, plan: Callable[[], Mapping[str, Any]]) -> None:
        """Take in that there is a plan, or another one; it is made when it is needed."""

    def epoch(self, line: Mapping[str, Any]) -> None:
        """Take in a committed epoch."""

    def trouble(self, line: Mapping[str, Any]) -> None:
        """Take in a failure."""

    def changed(self) -> None:
        """Take in that there is a new status."""

    def close(self) -> None:
        """Write what is left, and end."""


class JobWatch:
    """Listens to one job, over all its attempts in this process.

    Args:
        plan: What runs.
        options: How it was asked to run.
        host: What it runs on.
        attempt: The number of this process in the job's life, from 1.
        clock: The time of day in ms.
    """

    def __init__(
        self,
        plan: Plan,
        options: JobOptions,
        host: Host | None = None,
        attempt: int = 1,
        clock: Callable[[], float] = wall_ms,
    ) -> None:
        self._plan, self._options, self._host = plan, options, host or Host()
        self._attempt = attempt
        self.clock = clock
        self._lock = threading.RLock()
        self._uids = {op.id: op.uid for op in plan.operators}
        self._feeding = feeding(plan)
        self._sources, self._sinks = sources_of(plan), sinks_of(plan)
        self._arrivals = Arrivals()
        self._backlog = Backlog(plan)
        self._latency = LatencyBook()
        self._rates = Rates()
        self._traffic: dict[str, Traffic] = {op.uid: Traffic() for op in plan.operators}
        self._received: dict[int, list[Sample]] = {}
        self._ranges: Sequence[ReadRange] = ()
        self._looked = clock()
        self._due: Due = _never
        self._visible: dict[str, float] = {}
        self._files: dict[tuple[str, int], int] = {}
        self._facts = Facts(started_ms=int(clock()))
        self.keeper = Keeper()

    def plan(self) -> dict[str, Any]:
        """Return the document about the plan."""
        facts, manifest = self._facts, self._facts.manifest
        queryable = {} if manifest is None else {uid: sorted(names) for uid, names in manifest.queryable.items()}
        return plan_document(self._plan, self._options, self._host, self._attempt, facts.started_ms, queryable)

    def status(self) -> dict[str, Any]:
        """Return the document about where the job stands now."""
        with self._lock:
            return status_document(self._plan, self._facts, self._host, self._attempt, self.clock(), self._shown())

    def _shown(self) -> dict[str, Any]:
        now = self.clock()
        is_at_work = self._facts.epoch_started_ms is not None
        return {
            "rates": self._rates.per_second(None if is_at_work else now / 1000),
            "traffic": self._traffic,
            "sources": self._backlog.shown(now),
            "is_behind": self._backlog.is_behind,
            "sinks": {
                uid: {"latency_ms": self._latency.newest(uid, now), "total_ms": self._latency.total(uid)}
                for uid in self._sinks
            },
        }

    def show(self, status: JobStatus) -> None:
        """Take in where the job is in its life."""
        with self._lock:
            self._facts.status = status.name
            self._facts.epoch_started_ms = None
        self.keeper.changed()

    def begin_attempt(self, manifest: Manifest | None) -> None:
        """Take in that the job starts, or starts again after a failure, behind a manifest."""
        with self._lock:
            self._facts.manifest = manifest
            self._files = files_of(manifest)
            self._rates.begin(self.clock() / 1000, self._totals())
        self.keeper.begin(self.plan)
        self.keeper.changed()

    def planned(
        self,
        now: int,
        ranges: Sequence[ReadRange],
        positions: Mapping[int, Mapping[int, int]],
        available: Mapping[tuple[int, int], int],
        pacer: Any,
    ) -> None:
        """Take in what an epoch is about to read, and what there was to be read."""
        with self._lock:
            self._looked = self.clock()  # later than `now`: asking a log takes time, in which it grows
            self._due = pacer.due_ms
            self._arrivals.look(self._looked, available, positions)
            self._ranges = ranges
            self._backlog.planned(now, ranges, positions, available, pacer, self._arrivals)
            self._received = {}
            for piece in ranges:
                self._received.setdefault(piece.source, []).extend(self._received_by(piece))

    def begin_epoch(self, context: EpochContext) -> None:
        """Take in that the tasks of an epoch start."""
        with self._lock:
            self._facts.epoch_started_ms = self.clock()
            self._visible = {}
        self.keeper.changed()

    def visible(self, sink: str) -> None:
        """Take in that a sink's output of the epoch is to be seen since now."""
        self._visible.setdefault(sink, self.clock())

    def committed(
        self, manifest: Manifest, reports: Sequence[TaskReport], seconds: float, commit_seconds: float
    ) -> None:
        """Take in an epoch that is committed."""
        with self._lock:
            facts, now = self._facts, self.clock()
            latency, before = self._latencies(reports, now), self._totals_of_job()
            is_news = manifest.queryable != ({} if facts.manifest is None else facts.manifest.queryable)
            facts.manifest, facts.epoch_seconds = manifest, seconds
            files = files_of(manifest)
            facts.checkpoint = {
                "epoch": manifest.epoch,
                "bytes": sum(length for file, length in files.items() if file not in self._files),
                "total_bytes": sum(files.values()),
                "seconds": round(commit_seconds + max((each.checkpoint_seconds for each in reports), default=0.0), 6),
                "committed_ms": int(now),
            }
            self._files = files
            self._add(reports)
            facts.epoch_started_ms = None
            self._rates.note(now / 1000, self._totals())
            line = self._line(manifest, seconds, latency, before)
        if is_news:
            self.keeper.begin(self.plan)
        self.keeper.epoch(line)
        self.keeper.changed()

    def _add(self, reports: Sequence[TaskReport]) -> None:
        """Add up what tasks measured."""
        facts = self._facts
        for report in reports:
            for node, measure in report.measures.items():
                traffic = self._traffic[self._uids[node]]
                traffic.busy += measure.busy
                traffic.bytes_in += measure.bytes_in
                traffic.bytes_out += measure.bytes_out
            for edge, count in report.sent.items():
                facts.sent[edge] = facts.sent.get(edge, 0) + count
            for edge, count in report.received.items():
                facts.received[edge] = facts.received.get(edge, 0) + count
        facts.workers = {
            (each.worker.host, each.worker.pid): each.worker.memory for each in reports if each.worker is not None
        } or facts.workers

    def _totals(self) -> dict[str, tuple[float, ...]]:
        """Return what rates are made of, by operator."""
        records = records_of(self._plan, self._facts.manifest)
        return {
            uid: (*records[uid], traffic.bytes_in, traffic.bytes_out, traffic.busy)
            for uid, traffic in self._traffic.items()
        }

    def _totals_of_job(self) -> tuple[int, int, int]:
        """Return how many records came into the job, went out of it, and were late, by the manifest at hand."""
        manifest = self._facts.manifest
        records = records_of(self._plan, manifest)
        late = 0 if manifest is None else sum(counts.get("late", 0) for counts in manifest.counters.values())
        return sum(records[uid][0] for uid in self._sources), sum(records[uid][0] for uid in self._sinks), late

    def _latencies(self, reports: Sequence[TaskReport], now: float) -> dict[str, dict[str, Any]]:
        """Note and return how long the records of the epoch took to each sink that got any."""
        received = self._with_own_times(reports, now)
        got = {node for report in reports for node, counts in report.counters.items() if counts.get("in")}
        found: dict[str, dict[str, Any]] = {}
        for node, uid in self._uids.items():
            if uid not in self._feeding or node not in got:
                continue
            seen = self._visible.get(uid, now)
            samples = [
                (max(0.0, seen - moment), weight)
                for source in self._feeding[uid]
                for moment, weight in received.get(source, ())
            ]
            summary = summary_of(samples)
            if summary is not None:
                self._latency.note(uid, samples, now)
                found[uid] = summary
        return found

    def _with_own_times(self, reports: Sequence[TaskReport], now: float) -> dict[int, list[Sample]]:
        """Return when records were received, by source: logs' own times are known only now, Spark's input too."""
        times: dict[tuple[int, int], list[int]] = {}
        read: dict[int, int] = {}
        for report in reports:
            for name, own in report.times.items():
                times.setdefault(name, []).extend(own)
            for node, counts in report.counters.items():
                read[node] = read.get(node, 0) + counts.get("out", 0)
        received = {node: list(samples) for node, samples in self._received.items()}
        for source in {name[0] for name in times}:
            pieces = [piece for piece in self._ranges if piece.source == source]
            received[source] = [
                sample for piece in pieces for sample in self._received_by(piece, times.get((source, piece.split), ()))
            ]
        started = self._facts.epoch_started_ms or now
        for uid in self._sources:
            node = next(number for number, name in self._uids.items() if name == uid)
            if node not in received and read.get(node):
                received[node] = [(started, float(read[node]))]
        return received

    def _received_by(self, piece: ReadRange, times: Sequence[int] = ()) -> list[Sample]:
        return self._arrivals.of_range(piece, self._due, self._looked, times)

    def _line(
        self, manifest: Manifest, seconds: float, latency: Mapping[str, Any], before: tuple[int, int, int]
    ) -> dict[str, Any]:
        """Return the line of an epoch: what it read and wrote, and what it left."""
        shown = self._facts.checkpoint
        records_in, records_out, late = (now - then for now, then in zip(self._totals_of_job(), before, strict=True))
        return {
            "epoch": manifest.epoch,
            "committed_ms": shown["committed_ms"],
            "seconds": round(seconds, 6),
            "records_in": records_in,
            "records_out": records_out,
            "bytes": shown["bytes"],
            "total_bytes": shown["total_bytes"],
            "late": late,
            "watermark": job_watermark(watermarks_of(self._plan, manifest)),
            "latency_ms": dict(latency),
            "state_entries": sum(manifest.entries.values()),
            "checkpoint_seconds": shown["seconds"],
        }

    def failed(self, error: BaseException, *, restarted: bool) -> None:
        """Take in that an attempt has failed, and whether another follows."""
        with self._lock:
            manifest = self._facts.manifest
            epoch = 0 if manifest is None else manifest.epoch
            found: Trouble = trouble_of(error, int(self.clock()), epoch + 1, restarted=restarted)
            self._facts.restarts += restarted
            self._facts.epoch_started_ms = None
        self.keeper.trouble(found)
        self.keeper.changed()

    def close(self) -> None:
        """Write what is left; the job has ended."""
        self.keeper.close()
