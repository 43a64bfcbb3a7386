"""Jobs' numbers in the text format that Prometheus reads, made from their status documents.

Pure: documents in, text out. All series of one metric stand together below one TYPE line, whatever job they are of, as
the format demands. Names are ours and fixed; what users call things (jobs, operators, metrics) goes into labels, except
for the names of their own metrics, which become names, made valid.

Flink: PrometheusReporter. Differs from Flink: no reporter in each process and no package; latency is a summary.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from flintstream.model.job import JobStatus

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "flintstream_"
STATUSES = tuple(status.name for status in JobStatus)
QUANTILES = {"p50": "0.5", "p95": "0.95", "p99": "0.99"}
Labels = Mapping[str, str]

_JOB = {
    "epoch": ("job_epoch", "gauge", "The newest committed epoch.", 1),
    "epoch_seconds": ("job_epoch_seconds", "gauge", "How long the newest epoch took.", 1),
    "watermark_lag_ms": ("job_watermark_lag_seconds", "gauge", "How far event time is behind the clock.", 1e-3),
    "event_time_skew_ms": ("job_event_time_skew_seconds", "gauge", "How far splits are apart in event time.", 1e-3),
    "records_in": ("job_records_in_total", "counter", "Records that sources have read.", 1),
    "records_out": ("job_records_out_total", "counter", "Records that sinks have got.", 1),
    "records_in_per_second": ("job_records_in_per_second", "gauge", "The same over the last seconds.", 1),
    "records_out_per_second": ("job_records_out_per_second", "gauge", "The same over the last seconds.", 1),
    "late": ("job_late_records_total", "counter", "Records that came too late.", 1),
    "dead_letters": ("job_dead_letters_total", "counter", "Records that could not be processed.", 1),
    "updated_ms": ("job_updated_timestamp_seconds", "gauge", "When the job last told of itself.", 1e-3),
}
_OPERATOR = {
    "records_in": ("operator_records_in_total", "counter", "Records that came in.", 1),
    "records_out": ("operator_records_out_total", "counter", "Records that went out.", 1),
    "bytes_in": ("operator_bytes_in_total", "counter", "Bytes that came in since the driver started.", 1),
    "bytes_out": ("operator_bytes_out_total", "counter", "Bytes that went out since the driver started.", 1),
    "busy_seconds": ("operator_busy_seconds_total", "counter", "Time at work since the driver started.", 1),
    "busy": ("operator_busy_ratio", "gauge", "Share of the last seconds at work, 0 to 1.", 1),
    "waiting": ("operator_waiting_ratio", "gauge", "The rest of it.", 1),
    "slowest": ("operator_slowest", "gauge", "1 if the others wait for this operator.", 1),
    "watermark_lag_ms": ("operator_watermark_lag_seconds", "gauge", "How far event time is behind the clock.", 1e-3),
    "state_entries": ("operator_state_entries", "gauge", "Entries of state.", 1),
    "state_bytes": ("operator_state_bytes", "gauge", "Bytes of state in the checkpoint directory.", 1),
    "late": ("operator_late_records_total", "counter", "Records that came too late.", 1),
    "dead_letters": ("operator_dead_letters_total", "counter", "Records that could not be processed.", 1),
}
_SOURCE = {
    "lag_records": ("source_lag_records", "gauge", "Records that wait to be read.", 1),
    "lag_ms": ("source_lag_seconds", "gauge", "How long the oldest of them has waited.", 1e-3),
}
_CHECKPOINT = {
    "bytes": ("checkpoint_bytes", "gauge", "Bytes that the newest checkpoint has written.", 1),
    "total_bytes": ("checkpoint_total_bytes", "gauge", "Bytes of all state that it names.", 1),
    "seconds": ("checkpoint_seconds", "gauge", "How long it took.", 1),
    "committed_ms": ("checkpoint_timestamp_seconds", "gauge", "When it was complete.", 1e-3),
}
_MEMORY = {
    "driver_bytes": "driver",
    "workers_bytes": "workers",
    "jvm_bytes": "jvm",
}


class Exposition:
    """Gathers series by metric, and writes them out."""

    def __init__(self) -> None:
        self._families: dict[str, tuple[str, str, list[str]]] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set()

    def add(self, name: str, kind: str, about: str, labels: Labels, value: Any, suffix: str = "") -> None:
        """Add a series, unless its value is no number."""
        if isinstance(value, bool):
            value = int(value)
        if not isinstance(value, int | float):
            return
        name = self._name(name, kind)
        _, _, lines = self._families.setdefault(name, (kind, about, []))
        lines.append(f"{name}{suffix}{_labels(labels)} {_number(value)}")

    def _name(self, wanted: str, kind: str) -> str:
        """Return the name of a metric: as wanted, unless another one, of another kind, has it or a part of it."""
        if (wanted, kind) not in self._names:
            name = wanted
            while not self._taken.isdisjoint(_series_of(name, kind)):
                name = f"{name}_{kind}"
            self._taken |= _series_of(name, kind)
            self._names[wanted, kind] = name
        return self._names[wanted, kind]

    def text(self) -> str:
        """Return everything in Prometheus' text format."""
        return "".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for name, (kind, about, lines) in self._families.items():
            yield f"# HELP {name} {_help(about)}\n# TYPE {name} {kind}\n"
            yield from (f"{line}\n" for line in lines)


def _series_of(name: str, kind: str) -> set[str]:
    """Return under which names the series of a metric stand."""
    return {name, *(f"{name}{end}" for end in ("_sum", "_count", "_bucket") if kind in ("summary", "histogram"))}


def exposition(jobs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> str:
    """Return the metrics of jobs, each given as its view and its status document, which may be empty."""
    found = Exposition()
    for view, status in jobs:
        # Not "job": Prometheus has a label of that name for whom it scrapes, and would rename ours.
        labels = {"job_id": str(view.get("id", "")), "job_name": str(view.get("name", ""))}
        shown = str(view.get("status") or status.get("status") or "")
        for name in STATUSES:
            about = "1 for the status that the job has, 0 for all others."
            found.add(f"{PREFIX}job_status", "gauge", about, {**labels, "status": name}, int(name == shown))
        # A driver knows only of restarts within its own life.
        about = "How often the job was started again after a failure."
        found.add(f"{PREFIX}job_restarts_total", "counter", about, labels, view.get("restarts"))
        if status and not _is_beginning(status):
            _add_job(found, labels, status)
    return found.text()


def _is_beginning(status: Mapping[str, Any]) -> bool:
    """Whether a driver follows another and does not know yet behind which epoch it goes on.

    Its totals are 0 until then. Shown, they would seem to begin anew, and all that was counted before would be counted
    again when they are back.
    """
    return (status.get("attempt") or 1) > 1 and not status.get("epoch")


def _add_job(found: Exposition, labels: Labels, status: Mapping[str, Any]) -> None:
    _add_all(found, _JOB, labels, status)
    _add_all(found, _CHECKPOINT, labels, status.get("checkpoint") or {})
    for field, process in _MEMORY.items():
        value = (status.get("memory") or {}).get(field)
        about = "Memory of the job's processes."
        found.add(f"{PREFIX}memory_bytes", "gauge", about, {**labels, "process": process}, value)
    for uid, numbers in (status.get("operators") or {}).items():
        _add_all(found, _OPERATOR, {**labels, "operator": uid}, numbers)
    for uid, numbers in (status.get("sources") or {}).items():
        _add_all(found, _SOURCE, {**labels, "operator": uid}, numbers)
    for uid, sink in (status.get("sinks") or {}).items():
        _add_latency(found, {**labels, "operator": uid}, sink)
    for edge in (status.get("ledger") or {}).get("edges") or ():
        way = {**labels, **{name: str(edge.get(name)) for name in ("edge", "from", "to")}}
        found.add(
            f"{PREFIX}edge_sent_total",
            "counter",
            "Records sent over an exchange since the driver started.",
            way,
            edge.get("sent"),
        )
        found.add(
            f"{PREFIX}edge_received_total",
            "counter",
            "Records that arrived since the driver started.",
            way,
            edge.get("received"),
        )
    for uid, metrics in (status.get("metrics") or {}).items():
        for name, metric in metrics.items():
            # Two names may become one when they are made valid, so the name itself is a label too.
            own = {**labels, "operator": uid, "metric": name}
            _add_metric(found, f"{PREFIX}{valid_name(name)}", name, own, metric)


def _add_all(
    found: Exposition, table: Mapping[str, tuple[str, str, str, float]], labels: Labels, numbers: Mapping[str, Any]
) -> None:
    for field, (name, kind, about, factor) in table.items():
        value = numbers.get(field)
        if isinstance(value, int | float):
            found.add(f"{PREFIX}{name}", kind, about, labels, value * factor if factor != 1 else value)


def _add_latency(found: Exposition, labels: Labels, sink: Mapping[str, Any]) -> None:
    """Add a summary, as Prometheus defines it: quantiles of the newest time, count and sum of all of it."""
    name, about = f"{PREFIX}sink_latency_seconds", "From a record's receipt to its visible output."
    newest, total = sink.get("latency_ms") or {}, sink.get("total_ms") or {}
    for field, quantile in QUANTILES.items():
        if field in newest:
            found.add(name, "summary", about, {**labels, "quantile": quantile}, newest[field] / 1000)
    if total:
        found.add(name, "summary", about, labels, total["sum"] / 1000, "_sum")
        found.add(name, "summary", about, labels, total["count"], "_count")
    if newest:
        most = f"{PREFIX}sink_latency_max_seconds"
        found.add(most, "gauge", "The greatest of the last half minute.", labels, newest["max"] / 1000)


def _add_metric(found: Exposition, name: str, called: str, labels: Labels, metric: Any) -> None:
    """Add a metric of the user's; a counter of Flink's may go down, so here it is a gauge, as Flink has it too."""
    if not isinstance(metric, Mapping):
        found.add(name, "gauge", f"Counter {called}.", labels, metric)
        return
    values: Mapping[str, Any] = metric
    kind = values.get("kind")
    if kind == "gauge":
        for subtask, value in values["values"].items():
            found.add(name, "gauge", f"Gauge {called}.", {**labels, "subtask": str(subtask)}, value)
    elif kind == "meter":
        found.add(f"{name}_total", "counter", f"Events of meter {called}.", labels, values["count"])
        found.add(f"{name}_per_second", "gauge", f"Rate of meter {called}.", labels, values["rate"])
    elif kind == "distribution":
        about = f"Distribution {called}."
        found.add(name, "summary", about, labels, values["sum"], "_sum")
        found.add(name, "summary", about, labels, values["count"], "_count")
        for end in ("min", "max"):
            found.add(f"{name}_{end}", "gauge", f"The {end} of {called}.", labels, values[end])
    elif kind == "histogram":
        _add_histogram(found, name, f"Histogram {called}.", labels, values)


def _add_histogram(found: Exposition, name: str, about: str, labels: Labels, values: Mapping[str, Any]) -> None:
    buckets: Sequence[tuple[float, int]] = values.get("buckets") or ()
    for bound, count in buckets:
        found.add(name, "histogram", about, {**labels, "le": _number(bound)}, count, "_bucket")
    found.add(name, "histogram", about, {**labels, "le": "+Inf"}, values["count"], "_bucket")
    found.add(name, "histogram", about, labels, values["sum"], "_sum")
    found.add(name, "histogram", about, labels, values["count"], "_count")


def valid_name(name: str) -> str:
    """Return a name with an underscore for everything that a metric's name may not have.

    >>> valid_name("user.grüße.per-key"), valid_name("2nd")
    ('user_gr__e_per_key', '_2nd')
    """
    plain = re.sub(r"[^a-zA-Z0-9_:]", "_", name)
    return f"_{plain}" if not plain or plain[0].isdigit() else plain


def _labels(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    """Return a number as Prometheus reads it; whole ones without a point, however large."""
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
