"""A reader who looks at the output all the time, while the job that writes it is crashed again and again."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.faults.matrix import Undisturbed

SINKS = ("files", "parcels")


class Reader:
    """Complains of every file that is not of a committed epoch, is not what it will be in the end, or goes away.

    What is visible is thus always a part of the right result, so no row of it is there twice.
    """

    def __init__(self, folder: Path, expected: Undisturbed) -> None:
        self._output = folder / "output"
        self._manifests = folder / "checkpoints" / "manifests"
        self._expected = expected
        self._seen: set[str] = set()
        self.looks = 0
        self.complaints: list[str] = []

    def look(self, step: str = "") -> None:
        """Look once."""
        self.looks += 1
        visible = {f"{sink}/{name}" for sink in SINKS for name in _names(self._output / sink)}
        for name in self._seen - visible:
            self.complaints.append(f"{name} went away at {step!r}")
        # In this order: an epoch that is visible was committed before now.
        committed = self._committed() if visible - self._seen else 0
        for name in visible - self._seen:
            if int(name.rsplit("-", 2)[1]) > committed:
                self.complaints.append(f"{name} is visible at {step!r}, and epoch {committed} is the newest")
            elif (self._output / name).read_bytes() != self._expected.files.get(name):
                self.complaints.append(f"{name} has other rows than it should at {step!r}")
        self._seen |= visible

    def _committed(self) -> int:
        return max((int(name.partition(".")[0]) for name in _names(self._manifests)), default=0)

    def assert_content(self) -> None:
        """Check that it has seen something, and nothing to complain of."""
        assert not self.complaints, self.complaints
        assert self.looks and self._seen


def _names(folder: Path) -> list[str]:
    """Return the files in a folder that are not hidden."""
    try:
        return [path.name for path in folder.iterdir() if path.name[0] != "."]
    except FileNotFoundError:
        return []


class Watch:
    """A reader in a thread of its own."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader")

    def _run(self) -> None:
        while not self._over.wait(0.005):
            self._reader.look()

    def __enter__(self) -> Reader:
        self._thread.start()
        return self._reader

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        self._reader.look("the end")
