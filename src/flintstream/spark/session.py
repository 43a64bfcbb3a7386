"""Spark sessions: the embedded one that a job gets by default, and the checks on one that a user brings.

Everything Flintstream knows about Spark's settings is in this file. They come in three kinds: what the embedded session
is started with, what is set on the stream's own session whoever started Spark (`runtime_settings`), and the few things
that a user's session must bring because they cannot be changed any more (`required_settings`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.errors import AnalysisException, PySparkRuntimeError
from pyspark.sql import SparkSession, is_remote

from flintstream.errors import EnvironmentSetupError, InvalidArgumentError, describe
from flintstream.spark.java import spark_java_home

MINIMUM_SPARK = (4, 1)

_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

# A stream runs for ever; Spark keeps these histories for its web page alone, which is off.
_SHORT_HISTORIES = {
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "40",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "20",
}

_SOCKETS = "spark.python.unix.domain.socket"
_LONGEST_SOCKET_FOLDER = 60
"""A socket's path has room for about 100 characters, and Spark's names for them take 42."""

_CONNECT = describe(
    "Flintstream cannot run on Spark Connect",
    None,
    "give it a classic session: unset SPARK_REMOTE, and build the session with .master(...) instead of .remote(...)",
)


def runtime_settings(parallelism: int) -> dict[str, str]:
    """Return the settings of the stream's own session; all of them can be set while Spark runs.

    Args:
        parallelism: The number of partitions behind an exchange.
    """
    return {
        # Event time travels as integers; the time zone is for what users print.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(parallelism),
        # It may merge the partitions that `repartitionById` made, and partitions are owners of state.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        # Any other value makes Spark measure every row.
        "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
        # A stage that runs again with another result must take its consumers with it.
        "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
        "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
    }


def embedded_settings(parallelism: int, app_name: str, extra: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the embedded session is started with; those in ``extra`` win."""
    settings = {
        # A plain local[k] never tries a failed task again.
        "spark.master": f"local[{parallelism},4]",
        "spark.app.name": app_name,
        "spark.default.parallelism": str(parallelism),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # What is shuffled goes through this machine's memory and is gone a moment later: it is not worth squeezing.
        "spark.shuffle.compress": "false",
        "spark.shuffle.spill.compress": "false",
        # The default options come before the extra ones, so users may still add options of their own.
        "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
        **_SHORT_HISTORIES,
        **runtime_settings(parallelism),
    }
    settings.update(extra)
    if settings["spark.master"].startswith("local"):
        settings.setdefault("spark.driver.bindAddress", "127.0.0.1")
        settings.setdefault("spark.driver.host", "127.0.0.1")
        settings = {**_socket_settings(), **settings}
    return settings


def _socket_settings() -> dict[str, str]:
    """Let Spark and its Python workers talk over Unix sockets, where there is a short enough path for them.

    Over TCP they wait some 40 ms for each other's acknowledgements in every small stage.
    """
    folders = [folder for folder in (tempfile.gettempdir(), "/tmp") if len(folder) <= _LONGEST_SOCKET_FOLDER]
    usable = [folder for folder in folders if os.access(folder, os.W_OK | os.X_OK)]
    if not hasattr(socket, "AF_UNIX") or not usable:
        return {}
    return {f"{_SOCKETS}.enabled": "true", f"{_SOCKETS}.dir": usable[0]}


def create_session(parallelism: int, app_name: str, extra: Mapping[str, str]) -> SparkSession:
    """Return a quiet session of our own, with Java, Python and every setting right.

    If Spark already runs in this process, its context is kept and only the session is new, so that the settings of
    other sessions stay as they are. Nothing is printed but Spark's errors; ``FLINTSTREAM_SPARK_LOG=warn`` in the
    environment shows more.

    Raises:
        InvalidArgumentError: ``parallelism`` is less than one.
        EnvironmentSetupError: There is no Java, Java did not start, Spark Connect is asked for, or a setting in
            ``extra`` can no longer be changed.
    """
    if parallelism < 1:
        message = describe(f"parallelism is {parallelism}", None, "give a number of 1 or more")
        raise InvalidArgumentError(message)
    if is_remote() or os.environ.get("SPARK_REMOTE"):
        raise EnvironmentSetupError(_CONNECT)
    if SparkContext._active_spark_context is not None:  # pyright: ignore[reportPrivateUsage]  # no public way to ask
        session = SparkSession.builder.getOrCreate()
        check_session(session)
        session = session.newSession()
        configure(session, {**runtime_settings(parallelism), **extra})
        return session
    return _start(embedded_settings(parallelism, app_name, {**submitted_settings(), **extra}))


def submitted_settings() -> dict[str, str]:
    """Return what `spark-submit` was told, the master above all, if this program was started by it.

    What the program says itself wins, as in any Spark program; so does what epochs rely on, since a cluster's own
    defaults often say otherwise.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()  # pyright: ignore[reportPrivateUsage]  # joins the JVM that started us
    relied_on = runtime_settings(1)
    settings = {name: value for name, value in SparkConf().getAll() if name not in relied_on}
    if settings.get("spark.app.name") == Path(sys.argv[0]).name:
        # Not a name that anyone gave: the job has a better one.
        del settings["spark.app.name"]
    return settings


def configure(session: SparkSession, settings: Mapping[str, str]) -> None:
    """Set ``settings`` on a running session.

    Raises:
        EnvironmentSetupError: Some of them are fixed when Spark starts, and have another value.
    """
    fixed: list[str] = []
    for name, value in settings.items():
        try:
            session.conf.set(name, value)
        except AnalysisException:
            current = session.sparkContext.getConf().get(name)
            if current != value:
                fixed.append(f"{name} is {current or 'not set'}, wanted {value}")
    if fixed:
        message = describe(
            "these settings cannot be changed while Spark runs",
            ", ".join(fixed),
            "stop the running session first, or start it with them",
        )
        raise EnvironmentSetupError(message)


def required_settings() -> dict[str, str]:
    """Return what a user's own session must bring, by name, because it is fixed when Spark starts."""
    return {
        "session": "a running classic session, not Spark Connect",
        "Spark version": "{}.{} or newer".format(*MINIMUM_SPARK),
        "PYSPARK_PYTHON": f"a Python {_python_version()} with flintstream installed",
    }


def check_session(session: SparkSession) -> list[str]:
    """Check that a user's own session can run a job.

    Returns:
        Advice: what will work, but not well.

    Raises:
        EnvironmentSetupError: It cannot; the message names each setting, its value and the one that is wanted.
    """
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise EnvironmentSetupError(_CONNECT)
    if not isinstance(session, SparkSession):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user may give anything
        message = describe(f"{session!r:.100} is not a Spark session", None, "give a SparkSession, or none")
        raise EnvironmentSetupError(message)
    context = session.sparkContext
    if context._jsc is None:  # pyright: ignore[reportPrivateUsage]  # no public way to ask
        message = describe("the Spark session was stopped", None, "build a new one, or give none")
        raise EnvironmentSetupError(message)
    found = {"Spark version": None if _is_recent(session.version) else session.version}
    if (context.master or "").startswith("local"):
        # What the workers of a cluster have can only be seen there; here it is this machine.
        found["PYSPARK_PYTHON"] = _complaint_about_python(context.pythonExec)
    wanted = required_settings()
    wrong = [f"{name} is {value}, wanted {wanted[name]}" for name, value in found.items() if value]
    if wrong:
        message = describe(
            "this Spark session cannot run the job", ", ".join(wrong), "start the session again with these set right"
        )
        raise EnvironmentSetupError(message)
    return _advice(context)


def _advice(context: SparkContext) -> list[str]:
    advice: list[str] = []
    if re.fullmatch(r"local(\[[^,\]]*\])?", context.master or ""):
        advice.append(f"spark.master is {context.master!r}, which never tries a failed task again; use local[k,4]")
    if context.getConf().get("spark.python.worker.reuse", "true") == "false":
        advice.append("spark.python.worker.reuse is 'false', so every task reads its state again; set it to 'true'")
    if context.getConf().get(f"{_SOCKETS}.enabled", "false") != "true":
        advice.append(f"{_SOCKETS}.enabled is not 'true', which makes every epoch some 80 ms longer; set it")
    return advice


def _start(settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _launch_environment(local=settings["spark.master"].startswith("local")):
        try:
            session = builder.getOrCreate()
        except PySparkRuntimeError as error:
            if error.getCondition() != "JAVA_GATEWAY_EXITED":
                raise
            message = describe(
                "Java ended before Spark had started",
                f"JAVA_HOME was {os.environ['JAVA_HOME']}",
                "see what it printed above; a Java option or a setting that it refuses is the usual reason",
            )
            raise EnvironmentSetupError(message) from error
    check_session(session)
    bridge = logging.getLogger("py4j")
    if bridge.level == logging.NOTSET:
        # A program that logs its own INFO must not find every connection of ours in between.
        bridge.setLevel(logging.WARNING)
    return session


@contextlib.contextmanager
def _launch_environment(*, local: bool) -> Generator[None, None, None]:
    """Set what Spark reads from the environment while it starts, and put everything back."""
    additions = {
        "JAVA_HOME": str(spark_java_home()),
        # The default is whatever `python3` is on the PATH, which seldom has our packages.
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PYSPARK_DRIVER_PYTHON": os.environ.get("PYSPARK_DRIVER_PYTHON", sys.executable),
    }
    if local:
        additions["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
    before = {name: os.environ.get(name) for name in additions}
    os.environ.update(additions)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _is_recent(version: str) -> bool:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2]) >= MINIMUM_SPARK


def _python_version() -> str:
    return "{}.{}".format(*sys.version_info)


def _complaint_about_python(executable: str) -> str | None:
    """Return what is wrong with the interpreter that Spark starts workers with, or None."""
    path = shutil.which(executable)
    if path is None:
        return f"{executable!r}, which does not exist"
    # Not `samefile`: two virtual environments may link to one binary.
    if Path(path) == Path(sys.executable):
        return None
    probe = "import sys, pyarrow, flintstream; print('{}.{}'.format(*sys.version_info))"
    answer = subprocess.run([path, "-c", probe], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        reason = answer.stderr.strip().splitlines()[-1:] or ["it does not run"]
        return f"{path!r}, where {reason[0]}"
    version = answer.stdout.strip()
    return None if version == _python_version() else f"{path!r}, which is Python {version}"
