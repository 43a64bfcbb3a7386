"""What a task measures of itself: the time of each operator without that of the operators it calls, and bytes.

Batches are measured, never records: one look at the clock when work passes from one operator to another. Time in which
a task waits for rows, or for whoever takes its own, is nobody's. In a file of its own because both ways into a level
(sources and the inbox) measure, and because the driver reads the same numbers.

Flink: busyTimeMsPerSecond, numBytesIn and numBytesOut of a task. Differs from Flink: by operator, chained or not.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from flintstream.ops.batch import Batch, Values

NOBODY = 0
"""Stands for the number of an operator while none is at work."""
TIMES_PER_BATCH = 16
MEMORY_SECONDS = 1.0
"""How old what is told of a process' memory may be."""


class Measure(NamedTuple):
    """What an operator did in one task: how long it worked, and how many bytes it was given and gave."""

    busy: float
    bytes_in: int
    bytes_out: int


class Worker(NamedTuple):
    """The process in which a task ran, and how much memory it has."""

    host: str
    pid: int
    memory: int


class Meters:
    """The measures of one task; those of an epoch in which nothing is to be measured stay empty."""

    def __init__(self) -> None:
        self.is_on = False
        self.node = NOBODY
        self._since = 0.0
        self._busy: dict[int, float] = {}
        self._in: dict[int, int] = {}
        self._out: dict[int, int] = {}
        self.times: dict[tuple[int, int], list[int]] = {}
        """When records of a log came by their own account: of some of each split, by source and split."""

    def begin(self, is_on: bool) -> None:
        """Begin an epoch."""
        self.is_on = is_on
        self.node, self._since = NOBODY, time.perf_counter()
        for measures in (self._busy, self._in, self._out, self.times):
            measures.clear()

    def turn_to(self, node: int) -> int:
        """Let the time from now on be that of an operator; return whose it was."""
        before = self.node
        if self.is_on:
            now = time.perf_counter()
            self._busy[before] = self._busy.get(before, 0.0) + now - self._since
            self.node, self._since = node, now
        return before

    def enter(self, node: int, batch: Batch) -> int:
        """Turn to an operator that is given a batch inside its level; return whose time it was."""
        if self.is_on:
            self._in[node] = self._in.get(node, 0) + batch.values.size()
        return self.turn_to(node)

    def received(self, node: int, size: int) -> None:
        """Count what came to an operator over an exchange."""
        self._in[node] = self._in.get(node, 0) + size

    def gave(self, node: int, batch: Batch) -> None:
        """Count what an operator emits."""
        if self.is_on:
            self._out[node] = self._out.get(node, 0) + batch.values.size()

    def reading(self, source: int, split: int, parts: Iterable[Values]) -> Iterator[Values]:
        """Yield what a source reads; its time is the source's, until someone else turns to himself."""
        parts = iter(parts)
        while True:
            self.turn_to(source)
            values = next(parts, None)
            if values is None:
                break
            if self.is_on:
                size = values.size()
                self._in[source] = self._in.get(source, 0) + size
                self._out[source] = self._out.get(source, 0) + size
                self._note_times(source, split, values)
            yield values
        self.turn_to(NOBODY)

    def _note_times(self, source: int, split: int, values: Values) -> None:
        if values.timestamps is not None and len(values.timestamps):
            count = len(values.timestamps)
            chosen = np.linspace(0, count - 1, min(count, TIMES_PER_BATCH)).astype(np.int64)
            self.times.setdefault((source, split), []).extend(values.timestamps[chosen].tolist())

    def told(self) -> dict[int, Measure]:
        """Return the measures of the epoch so far, by operator."""
        self.turn_to(self.node)
        nodes = (self._busy.keys() | self._in.keys() | self._out.keys()) - {NOBODY}
        return {
            node: Measure(self._busy.get(node, 0.0), self._in.get(node, 0), self._out.get(node, 0))
            for node in sorted(nodes)
        }


def this_worker() -> Worker:
    """Return this process with its memory, as it was within the last second."""
    return _worker(os.getpid(), int(time.monotonic() / MEMORY_SECONDS))


@lru_cache(maxsize=1)
def _worker(pid: int, moment: int) -> Worker:
    # Asking the system takes longer than a small task; the moment is there to ask it again now and then.
    return Worker(socket.gethostname(), pid, memory_of(pid) or 0)


def memory_of(pid: int) -> int | None:
    """Return how many bytes of memory a process of this machine has; None where the system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return None
