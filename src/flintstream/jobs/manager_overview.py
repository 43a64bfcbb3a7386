"""A manager at a glance: slots, jobs by status, throughput, and who plays which of Flink's roles.

Flink: the answer of `/overview`, and its task managers.
"""

from __future__ import annotations

import os
import platform
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from flintstream.engine.restart import now_ms
from flintstream.jobs.leader import Leader, describe_leader
from flintstream.jobs.view import JobView


def overview_of(
    slots: int,
    started_ms: int,
    is_leader: bool,
    leader: Leader | None,
    views: Sequence[JobView],
    statuses: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return it as a document; `statuses` are the reports of jobs that run."""
    running = [view for view in views if not view.has_ended and view.status != "CREATED"]
    rates = {
        name: sum(float(status.get(name) or 0.0) for status in statuses)
        for name in ("records_in_per_second", "records_out_per_second")
    }
    free = max(0, slots - len(running))
    return {
        "version": _version("flintstream"),
        "spark": _version("pyspark"),
        "python": platform.python_version(),
        "is_leader": is_leader,
        "leader": None if leader is None else asdict(leader),
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "started_ms": started_ms,
        "uptime_ms": now_ms() - started_ms,
        "slots": {"total": slots, "used": slots - free, "free": free},
        "jobs": dict(Counter(view.status for view in views)),
        **rates,
        "records_per_second": rates["records_in_per_second"],
        "task_managers": [
            {
                "id": f"{socket.gethostname()}-1",
                "host": socket.gethostname(),
                "slots": slots,
                "free": free,
                "cores": os.cpu_count() or 1,
                "jobs": [view.id for view in running],
            }
        ],
        "roles": {
            "JobManager": describe_leader(leader),
            "Dispatcher": "the same process: takes jobs, keeps them in its database, starts a keeper for each",
            "ResourceManager": f"the same process: {slots} slots, {free} of them free; Spark has its executors",
            "JobMaster": f"a keeper process for each job, {len(running)} at the moment",
            "TaskManager": "the Spark of each job, or its own process on the local runtime",
        },
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
