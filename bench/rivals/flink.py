"""Flink for the rivals: a local cluster inside the gateway's JVM, and the steady state read from its REST interface.

A file of its own because the DataStream and the SQL rival run on the same well-tuned Flink.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from report import steady

# Thread mode embeds Python in the JVM, and that Python finds its packages by PYTHONPATH only; the JVM inherits both.
os.environ["PYTHONPATH"] = next(path for path in sys.path if path.endswith("site-packages"))
# The heap that stock Spark gets as well.
os.environ["JDK_JAVA_OPTIONS"] = "-Xmx6g"

from pyflink.common import Configuration, JobClient

POLL = 0.2


def tuned(parallelism: int, state: str, directory: Path) -> dict[str, str]:
    """The settings that make Flink quick on one small machine, with a checkpoint every second."""
    with socket.create_server(("localhost", 0)) as probe:
        port = probe.getsockname()[1]
    return {
        "parallelism.default": str(parallelism),
        "taskmanager.numberOfTaskSlots": str(parallelism),
        "taskmanager.memory.managed.size": "1g",
        # Without it every record is copied between chained operators.
        "pipeline.object-reuse": "true",
        "state.backend.type": state,
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": directory.as_uri(),
        "execution.checkpointing.incremental": "true",
        "rest.address": "localhost",
        "rest.bind-port": str(port),
        "rest.port": str(port),
        "metrics.fetcher.update-interval": str(int(POLL * 1000)),
    }


def configuration(settings: dict[str, str]) -> Configuration:
    """The settings as Flink's object."""
    result = Configuration()
    for key, value in settings.items():
        result.set_string(key, value)
    return result


def run(
    job: JobClient, settings: dict[str, str], operator: str, warmup_events: float
) -> tuple[int, float, dict[str, Any]]:
    """Wait for the job's end and measure it after the warm-up.

    Steady state: between two readings of an operator's own counter of the records it has given out, summed over its
    subtasks, the first one after the warm-up and the last one before the job ended; start-up and shut-down are outside.

    Args:
        operator: how the name of the operator whose output is counted begins.

    Returns:
        Events, seconds, and what was seen: completed checkpoints and their mean time.
    """
    base = f"http://localhost:{settings['rest.port']}/jobs/{job.get_job_id()}"
    samples: list[tuple[float, int]] = []
    checkpoints: dict[str, Any] = {}
    counter = ""
    while True:
        try:
            details = _get(base)
            if details["state"] in {"FAILED", "CANCELED"}:
                raise SystemExit(f"the job ended as {details['state']}; {_get(base + '/exceptions')}")
            if details["state"] == "FINISHED":
                break
            counter = counter or _find(base, details["vertices"], operator)
            seen = int(_get(counter)[0]["sum"]) if counter else 0
            checkpoints = _get(base + "/checkpoints")
        except (OSError, IndexError):
            # The cluster goes away with its job, and an operator's counter with its task.
            if samples:
                break
        else:
            if seen > (samples[-1][1] if samples else 0):
                samples.append((time.monotonic(), seen))
        time.sleep(POLL)
    job.get_job_execution_result().result()
    count, seconds = steady(samples, warmup_events)
    done, mean = checkpoints["counts"]["completed"], checkpoints["summary"]["end_to_end_duration"]["avg"]
    return count, seconds, {"checkpoints": done, "seconds_per_checkpoint": mean / 1000}


def _find(base: str, vertices: list[dict[str, Any]], operator: str) -> str:
    """The address of the counter, or an empty string as long as its task does not run."""
    for vertex in vertices:
        url = f"{base}/vertices/{vertex['id']}/subtasks/metrics"
        for name in (found["id"] for found in _get(url)):
            if name.startswith(operator) and name.endswith(".numRecordsOut"):
                return f"{url}?get={urllib.parse.quote(name)}&agg=sum"
    return ""


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=5) as reply:
        return json.load(reply)
