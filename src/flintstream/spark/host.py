"""What Spark tells of itself for a job's report: its version, its own page, how many tasks run at once, its memory.

Flink: the task managers and slots of a cluster, as its overview shows them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from flintstream.engine.measures import memory_of
from flintstream.engine.report_plan import Host


def host_of(session: SparkSession) -> Host:
    """Return what a job on a session runs on."""
    context = session.sparkContext
    slots, memory = context.defaultParallelism, _jvm_memory(context)
    return Host("spark", str(context.master), slots, session.version, context.uiWebUrl, memory)


def _jvm_memory(context: Any) -> Callable[[], int | None]:
    """Return who tells the memory of the driver's JVM, which runs on this machine."""
    pid: int | None = None
    with suppress(Py4JError, OSError):
        pid = int(context._jvm.java.lang.ProcessHandle.current().pid())
    return lambda: None if pid is None else memory_of(pid)
