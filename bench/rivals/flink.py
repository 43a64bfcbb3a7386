"""Flink for the rivals: a local cluster inside the gateway's JVM, and the steady state read from its REST interface.

A file of its own because the DataStream and the SQL rival run on the same well-tuned Flink.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from report import steady

# Thread mode embeds Python in the JVM, and that Python finds its packages by PYTHONPATH only; the JVM inherits both.
os.environ["PYTHONPATH"] = next(path for path in sys.path if path.endswith("site-packages"))

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


def run(job: JobClient, settings: dict[str, str], warmup_events: float) -> tuple[int, float, dict[str, Any]]:
    """Wait for the job's end and measure it after the warm-up.

    Steady state: between two readings of the number of records that the last operator with input has taken in, the first
    one after the warm-up and the last one before the job ended; start-up and shut-down are outside.

    Returns:
        Events, seconds, and what was seen: completed checkpoints and their mean time.
    """
    base = f"http://localhost:{settings['rest.port']}/jobs/{job.get_job_id()}"
    samples: list[tuple[float, int]] = []
    checkpoints: dict[str, Any] = {}
    while True:
        try:
            details = _get(base)
        except OSError:
            # The cluster goes away with its job.
            if samples:
                break
            time.sleep(POLL)
            continue
        taken = _records_in(details)
        if not samples or taken > samples[-1][1]:
            samples.append((time.monotonic(), taken))
        if details["state"] in {"FAILED", "CANCELED"}:
            raise SystemExit(f"the job ended as {details['state']}; {_get(base + '/exceptions')}")
        if details["state"] == "FINISHED":
            break
        checkpoints = _get(base + "/checkpoints")
        time.sleep(POLL)
    count, seconds = steady(samples, warmup_events)
    return count, seconds, {
        "checkpoints": checkpoints["counts"]["completed"],
        "seconds_per_checkpoint": checkpoints["summary"]["end_to_end_duration"]["avg"] / 1000,
    }


def _records_in(details: dict[str, Any]) -> int:
    return details["vertices"][-1]["metrics"]["read-records"]


def _get(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=5) as reply:
        return json.load(reply)
