"""Settings of what a job measures of itself."""

from __future__ import annotations

from flintstream import CollectSink
from flintstream.errors import InvalidArgumentError
from tests.capabilities.parameters import Bench, case


def has_measured(bench: Bench, wanted: str) -> bool:
    """Say whether a job knows how long its operator was at work."""
    env = bench.env(1, settings={"flintstream.metrics": wanted})
    env.from_collection(range(100)).map(str).uid("map").sink_to(CollectSink())
    job = env.execute_async()
    job.get_job_execution_result().result()
    return job.metrics()["operators"]["map"]["busy_seconds"] > 0


case(
    "Configuration['flintstream.metrics']", has_measured, ("true", True), ("false", False), ("no", InvalidArgumentError)
)
