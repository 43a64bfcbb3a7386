"""Runs the named checks one after the other and ends with a table of how each went.

Every check runs even if one before it failed, so that one round shows everything there is to mend. Quick checks speak
only when they fail; the tests speak always. Tests run in two processes side by side: most of what they do on Spark is
to wait, so even on two cores that halves their time.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

_BIN = Path(sys.executable).parent
_PYTEST = [sys.executable, "-m", "pytest", "--doctest-modules", "src", "tests"]
_TWO_AT_ONCE = ["--numprocesses", "2", "--dist", "worksteal"]

_COMMANDS: dict[str, list[str]] = {
    "format": [str(_BIN / "ruff"), "format", "--check", "--quiet", "."],
    "lint": [str(_BIN / "ruff"), "check", "--quiet", "."],
    "types": [str(_BIN / "pyright")],
    "imports": [str(_BIN / "lint-imports")],
    "sizes": [sys.executable, "tools/check_sizes.py"],
    "api": [sys.executable, "tools/check_api.py"],
    "quick-tests": [*_PYTEST, *_TWO_AT_ONCE, "-m", "not spark and not slow and not kafka"],
    "tests": [*_PYTEST, *_TWO_AT_ONCE, "-m", "not slow"],
    "slow-tests": [*_PYTEST, "-m", "slow"],
}
_SPEAKING = {"quick-tests", "tests", "slow-tests"}


def run(name: str) -> tuple[bool, float]:
    """Run one check; return whether it passed and how many seconds it took."""
    print(f"== {name}", flush=True)
    start = time.monotonic()
    done = subprocess.run(_COMMANDS[name], capture_output=name not in _SPEAKING, text=True, check=False)
    if done.returncode != 0 and name not in _SPEAKING:
        print(done.stdout + done.stderr, flush=True)
    return done.returncode == 0, time.monotonic() - start


def main(names: list[str]) -> int:
    """Run the checks in ``names``; return the exit status."""
    unknown = [name for name in names if name not in _COMMANDS]
    if unknown or not names:
        print(f"usage: checks.py {' '.join(_COMMANDS)}", file=sys.stderr)
        return 2
    results = {name: run(name) for name in names}
    print("== summary")
    for name, (passed, seconds) in results.items():
        print(f"{'passed' if passed else 'FAILED'}  {seconds:6.1f} s  {name}")
    return 0 if all(passed for passed, _ in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
