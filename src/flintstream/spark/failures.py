"""Spark's failures in our words: one exception, with what the user can act on, and never a page of Py4J."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from flintstream.errors import FlintstreamError, JobError, SourceError, describe
from flintstream.planner.plan import Plan

_CAUSES = (
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
    except (PySparkException, Py4JError) as error:
        raise translate(error) from None


def translate(error: Exception) -> FlintstreamError:
    """Return our exception for one of Spark's."""
    if isinstance(error, Py4JNetworkError):
        return JobError(describe("Spark has gone away", None, "start the job again; it goes on from its checkpoint"))
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception.getCause()
        while cause is not None:
            text += f"\n{cause}"
            cause = cause.getCause()
    for pattern, what, remedy in _CAUSES:
        if re.search(pattern, text):
            return SourceError(describe(f"{what}: {first_line(text)}", None, remedy))
    failure = JobError(describe(f"Spark could not run the epoch: {first_line(text)}"))
    failure.add_note(text[:4000])
    return failure


def first_line(text: str) -> str:
    """Return the first line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:500] if lines else "no reason given"
