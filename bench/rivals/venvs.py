"""The rivals' own virtual environments, made when they are first wanted.

PyFlink pins old versions of what Flintstream uses, stock transformWithState needs protobuf which Flintstream does not,
and Bytewax is a third world: so each lives in an environment of its own, under `FLINTSTREAM_BENCH_HOME` or `.bench` in
the project's root. A change of an environment's requirements makes it anew. Needs the standard library only.

    python bench/rivals/venvs.py flink      prints the interpreter, having made it if needed
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = {
    "flink": ("apache-flink==2.3.0",),
    "bytewax": ("bytewax==0.21.*",),
    "spark": ("pyspark==4.3.0", "pyarrow>=18", "pandas>=2.2,<3", "protobuf>=6.33.5"),
}
# The versions of Python for which these publish wheels.
PYTHONS = {"flink": ((3, 11), (3, 12)), "bytewax": ((3, 11), (3, 12)), "spark": ((3, 11), (3, 12), (3, 13))}


class UnavailableError(Exception):
    """A rival's environment cannot be had on this machine; the text says why and what to do."""


def home() -> Path:
    """Where the environments live."""
    told = os.environ.get("FLINTSTREAM_BENCH_HOME")
    return Path(told).absolute() if told else Path(__file__).resolve().parents[2] / ".bench"


def interpreter(rival: str) -> Path:
    """The Python interpreter of a rival's environment, made on the first call.

    Args:
        rival: a key of `REQUIREMENTS`.

    Raises:
        UnavailableError: no supported Python, or a package cannot be installed.
    """
    directory = home() / rival
    python = directory / "bin" / "python"
    stamp = directory / "requirements.txt"
    wanted = "\n".join(REQUIREMENTS[rival]) + "\n"
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    base = _base_python(rival)
    print(f"making the environment of {rival} in {directory}", file=sys.stderr, flush=True)
    shutil.rmtree(directory, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    (directory.parent / ".gitignore").write_text("*\n")
    _run(rival, [base, "-m", "venv", str(directory)])
    _run(rival, [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS[rival]])
    stamp.write_text(wanted)
    return python


def _base_python(rival: str) -> str:
    """An interpreter that the rival supports: this one if it is, else one on the PATH."""
    supported = PYTHONS[rival]
    if sys.version_info[:2] in supported:
        return sys.executable
    for major, minor in supported:
        name = f"python{major}.{minor}"
        probe = shutil.which(name)
        # A shim may exist for a version that is not installed: only running it tells.
        if probe and subprocess.run([probe, "-c", ""], capture_output=True, check=False).returncode == 0:
            return probe
    versions = " or ".join(f"{major}.{minor}" for major, minor in supported)
    message = f"no Python for the rival {rival}; this is {sys.version.split()[0]}; put Python {versions} on the PATH"
    raise UnavailableError(message)


def _run(rival: str, command: list[str]) -> None:
    """Run one step of making an environment, or say which one failed with the end of what it said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
        packages = ", ".join(REQUIREMENTS[rival])
        message = (
            f"cannot make the environment of the rival {rival}; it needs {packages}; "
            f"check that pip can reach a package index, or leave this rival out:\n{tail}"
        )
        raise UnavailableError(message)


def main() -> None:
    """Print the interpreter of each environment named on the command line, or of all."""
    names = sys.argv[1:] or list(REQUIREMENTS)
    unknown = [name for name in names if name not in REQUIREMENTS]
    if unknown:
        raise SystemExit(f"unknown rival {unknown[0]!r}; known: {', '.join(REQUIREMENTS)}")
    try:
        for name in names:
            print(interpreter(name))
    except UnavailableError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
