"""Jobs as a manager would describe them, made up: numbers that no run gives twice, so that tests can name them."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from flintstream import (
    Configuration,
    OutputTag,
    StreamExecutionEnvironment,
    avg,
    bounded,
    choice,
    normal,
    timestamps,
    tumbling,
)
from flintstream.engine.options import JobOptions
from flintstream.engine.report_plan import Host, plan_document

START_MS = 1_794_800_000_000
"""When the made-up manager was started."""


@cache
def _plan() -> tuple[tuple[str, Any], ...]:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration(), runtime="local").set_parallelism(2)
    readings = env.generate(
        {"sensor": choice(["a", "b"]), "ts": timestamps("2026-01-01", step_ms=10), "temperature": normal(21.0, 4.0)},
        count=10,
    )
    timed = readings.name("readings").uid("readings").assign_timestamps_and_watermarks(bounded("2s", on="ts"))
    late = OutputTag("late")
    hot = timed.uid("times").map(lambda row: row).name("celsius").uid("celsius")
    means = hot.key_by("sensor").window(tumbling("5s")).side_output_late_data(late).agg(mean=avg("temperature"))
    means.name("mean per sensor").uid("means")
    means.print().name("to the terminal").uid("terminal")
    means.get_side_output(late).print().name("late readings").uid("late")
    document = plan_document(env.compile("sensor averages"), JobOptions(), Host(), 1, START_MS, {"means": ["mean"]})
    return tuple(document.items())


def plan() -> dict[str, Any]:
    """The plan of a job with two sinks, a window and a side output, as its driver reports it."""
    return {**dict(_plan()), "configuration": {"parallelism.default": "2", "kafka.password": "******"}}


def view(job: str, name: str, status: str = "RUNNING", **more: Any) -> dict[str, Any]:
    """A job as lists have it."""
    spec = {"program": "averages.py", "module": None, "entry": None, "arguments": ["--fast"], "settings": {}}
    ended = START_MS + 600_000 if status in ("FINISHED", "FAILED", "CANCELED") else None
    return {
        "id": job,
        "name": name,
        "status": status,
        "submitted_ms": START_MS + 1000,
        "started_ms": START_MS + 2000,
        "ended_ms": ended,
        "attempt": 1,
        "restarts": 0,
        "parallelism": 2,
        "checkpoint_dir": "/data/checkpoints/averages",
        "error": None,
        "spec": spec,
        "guarantee": "exactly-once",
        "wanted": "running",
        "scaling": "manual",
        **more,
    }


def status(epoch: int = 120, per_second: float = 48_200.0, slow: str | None = None) -> dict[str, Any]:
    """What a driver reports of a running job."""
    uids = [operator["uid"] for operator in plan()["operators"]]
    operators = {
        uid: {
            "records_in": 5_000_000 + index,
            "records_out": 4_000_000 + index,
            "bytes_in": 90_000_000,
            "bytes_out": 70_000_000,
            "records_in_per_second": per_second / (index + 1),
            "records_out_per_second": per_second / (index + 2),
            "bytes_in_per_second": per_second * 18,
            "bytes_out_per_second": per_second * 12,
            "watermark": START_MS - 2000,
            "watermark_lag_ms": 2140,
            "busy": 0.97 if uid == slow else 0.12 * (index + 1),
            "waiting": 0.02 if uid == slow else 0.3,
            "state_entries": 1200 if uid == "means" else 0,
            "state_bytes": 88_000 if uid == "means" else 0,
            "late": 17 if uid == "means" else 0,
            "dead_letters": 0,
            "slowest": uid == slow,
        }
        for index, uid in enumerate(uids)
    }
    latency = {"p50": 118.0, "p95": 240.0, "p99": 395.0, "max": 610.0, "mean": 131.0, "count": 91_000}
    return {
        "status": "RUNNING",
        "attempt": 1,
        "updated_ms": START_MS + epoch * 1000,
        "started_ms": START_MS + 2000,
        "epoch": epoch,
        "epoch_seconds": 0.42,
        "epoch_started_ms": START_MS + epoch * 1000,
        "watermark": START_MS - 2000,
        "watermark_lag_ms": 2140,
        "event_time_skew_ms": 350,
        "records_in": 5_781_200,
        "records_out": 41_900,
        "records_in_per_second": per_second,
        "records_out_per_second": per_second / 120,
        "late": 17,
        "dead_letters": 3,
        "operators": operators,
        "sources": {
            "readings": {"lag_records": 125_000 if slow else 40, "lag_ms": 2600, "backlog_text": "2.6 s behind"}
        },
        "sinks": {"terminal": {"latency_ms": latency}, "late": {"latency_ms": None}},
        "checkpoint": {
            "epoch": epoch,
            "bytes": 18_400,
            "total_bytes": 412_000,
            "seconds": 0.42,
            "committed_ms": START_MS,
        },
        "ledger": {"edges": [{"edge": 1, "from": "celsius", "to": "means", "sent": 9000, "received": 9000}]},
        "memory": {"driver_bytes": 210_000_000, "workers_bytes": 480_000_000, "jvm_bytes": None},
        "metrics": {
            "celsius": {
                "hot readings": 1234,
                "last": {"kind": "gauge", "values": {"0": 21.5}},
                "sizes": {"kind": "distribution", "count": 3, "sum": 9, "min": 2, "max": 4, "mean": 3.0},
            }
        },
    }


def epochs(count: int = 120) -> list[dict[str, Any]]:
    """A line for every epoch, one a second, with waves in it."""
    return [
        {
            "epoch": number,
            "committed_ms": START_MS + number * 1000,
            "seconds": 0.35 + 0.1 * math.sin(number / 9),
            "records_in": int(46_000 + 6000 * math.sin(number / 11)),
            "records_out": int(400 + 60 * math.cos(number / 7)),
            "bytes": int(18_000 + 2500 * math.sin(number / 5)),
            "total_bytes": 300_000 + 1000 * number,
            "late": number % 7 // 6,
            "watermark": START_MS + number * 1000 - 2000,
            "latency_ms": {
                "terminal": {
                    "p50": 110 + 14 * math.sin(number / 6),
                    "p95": 230 + 25 * math.sin(number / 8),
                    "p99": 380 + 40 * math.sin(number / 9),
                    "max": 600 + 90 * math.sin(number / 4),
                }
            },
            "state_entries": 1000 + number,
        }
        for number in range(1, count + 1)
    ]


def savepoints() -> list[dict[str, Any]]:
    """Two savepoints of a job."""
    shared = {"kind": "savepoint", "rows": 1200, "tags": [], "version": 1, "parent": None, "bytes": 90_000}
    place = "/data/savepoints/averages"
    return [
        {**shared, "path": f"{place}-1", "taken_ms": START_MS, "epoch": 40, "comment": "before the upgrade"},
        {**shared, "path": f"{place}-2", "taken_ms": START_MS + 9000, "epoch": 80, "comment": ""},
    ]


def failure() -> dict[str, Any]:
    """A failure with the user's own line."""
    return {
        "at_ms": START_MS + 50_000,
        "type": "ZeroDivisionError",
        "message": "division by zero",
        "location": "averages.py:41",
        "traceback": 'Traceback (most recent call last):\n  File "averages.py", line 41, in mean\nZeroDivisionError',
        "epoch": 51,
        "restarted": True,
    }
