"""Spark's failures in our words: one exception, with what the user can act on, and never a page of Py4J."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from flintstream.errors import FlintstreamError, JobError, LedgerError, LostRuntimeError, SourceError, describe
from flintstream.planner.plan import Plan

_GONE = r"SparkContext was shut down|stopped SparkContext|SparkContext has been shutdown|Answer from Java side is empty"
_TORN = r"indeterminate output was failed and retried|cannot rollback the (?:Result|ShuffleMap)Stage"
"""A lost executor took with it what some tasks had read and others had not. Run anew, the tasks are other attempts with
other output, and Spark cannot take back what had come of the old: the ledger would say the same of the epoch."""
_CAUSES = (
    (
        r"ExecutorLostFailure|Executor heartbeat timed out|executor \S+ exited",
        "executors were lost again and again",
        "start the job again; look for a lack of memory on the executors",
    ),
    (r"No space left on device", "the disk is full", "free some space and start the job again; nothing is lost"),
    (
        r"Python worker exited unexpectedly|crashed",
        "a Python worker died",
        "start the job again; look for a lack of memory",
    ),
    (r"PATH_NOT_FOUND[^\n]*?: ?([^\s.]+)", "a path does not exist", "name an existing path"),
    (r"OutOfMemoryError", "the JVM ran out of memory", "give spark.driver.memory more, or read less per epoch"),
)


@contextmanager
def translated(plan: Plan | None = None) -> Generator[None]:
    """Turn any exception of Spark's inside the block into a FlintstreamError."""
    try:
        yield
    except FlintstreamError:
        raise
    except (PySparkException, Py4JError, ConnectionError, EOFError) as error:
        raise translate(error) from None


def check_alive(session: SparkSession) -> None:
    """Raise if nothing can be run on a session any more."""
    try:
        # There is no public way to ask; the context forgets its Java side when it is stopped from Python.
        java: Any = session.sparkContext._jsc  # pyright: ignore[reportPrivateUsage]
        is_gone = java is None or bool(java.sc().isStopped())
    except (Py4JError, ConnectionError):
        is_gone = True
    if is_gone:
        raise _gone()


def _gone(reason: str = "") -> LostRuntimeError:
    what = f"Spark has gone away ({reason})" if reason else "Spark has gone away"
    return LostRuntimeError(describe(what, None, "start the program again; the job goes on from its checkpoint"))


def translate(error: Exception) -> FlintstreamError:
    """Return our exception for one of Spark's."""
    if isinstance(error, Py4JNetworkError | ConnectionError | EOFError):
        return _gone()
    try:
        text = _told(error)
    except (Py4JError, ConnectionError):
        return _gone()  # it told of a failure with its last breath
    if re.search(_GONE, text):
        return _gone(first_line(text))
    if re.search(_TORN, text):
        what = "an executor was lost when part of the epoch had been read from it"
        return LedgerError(describe(what, None, "the epoch runs again; look for a lack of memory on the executors"))
    for pattern, what, remedy in _CAUSES:
        if re.search(pattern, text):
            return SourceError(describe(f"{what}: {first_line(text)}", None, remedy))
    failure = JobError(describe(f"Spark could not run the epoch: {first_line(text)}"))
    failure.add_note(text[:4000])
    return failure


def _told(error: Exception) -> str:
    """Return what Spark says of a failure and its causes, one below the other."""
    if not isinstance(error, Py4JJavaError):
        return str(error)
    text = str(error.java_exception)
    cause = error.java_exception.getCause()
    while cause is not None:
        text += f"\n{cause}"
        cause = cause.getCause()
    return text


def first_line(text: str) -> str:
    """Return the first line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:500] if lines else "no reason given"
