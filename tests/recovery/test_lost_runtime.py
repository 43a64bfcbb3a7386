"""Spark that has gone away: one error for all the ways in which Py4J tells of it, which only a new process mends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from flintstream.errors import JobError, LedgerError, LostRuntimeError, SourceError
from flintstream.spark.failures import check_alive, translate, translated


@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("Answer from Java side is empty"),
        ConnectionRefusedError(111, "Connection refused"),
        ConnectionResetError(104, "Connection reset by peer"),
        EOFError("a result was cut short"),
        PySparkException("Job 7 cancelled because SparkContext was shut down"),
        PySparkException("Cannot call methods on a stopped SparkContext."),
    ],
    ids=str,
)
def test_every_way_to_lose_spark_is_one_error(error: Exception):
    with pytest.raises(LostRuntimeError, match=r"Spark has gone away.*start the program again"), translated():
        raise error


def test_an_executor_that_is_lost_again_and_again_is_named_and_may_come_back():
    error = PySparkException("Job aborted due to stage failure: ... ExecutorLostFailure (executor 3 exited ...)")
    found = translate(error)
    assert isinstance(found, SourceError | JobError) and not isinstance(found, LostRuntimeError)
    assert "executors were lost again and again" in str(found)


def test_an_epoch_torn_by_a_lost_executor_is_one_that_runs_again():
    # Seen on a cluster of two executors, one killed while the last stage had begun to read what it had written.
    error = PySparkException(
        "Job aborted due to stage failure: A shuffle map stage with indeterminate output was failed and retried. "
        "However, Spark cannot rollback the ResultStage 5 to re-process the input data, and has to fail this job."
    )
    with pytest.raises(LedgerError, match="an executor was lost when part of the epoch had been read"), translated():
        raise error


class DeadGateway:
    """A Java object behind which there is nobody."""

    def __getattr__(self, name: str) -> Any:
        raise Py4JError(name)


@pytest.mark.parametrize(
    "java",
    [None, DeadGateway(), SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: True))],
    ids=["stopped here", "no JVM", "stopped there"],
)
def test_a_session_whose_context_is_gone_is_noticed_before_an_attempt(java: Any):
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=java))
    with pytest.raises(LostRuntimeError):
        check_alive(session)


def test_a_session_that_runs_is_alive():
    running = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False))
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=running))
    check_alive(session)
