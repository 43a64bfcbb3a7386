"""Python's search for garbage in a worker process that holds a job's state.

Spark's worker collects garbage after every task, which is a walk through all objects there are. State is millions of
them and none is garbage: objects without cycles go as soon as nobody needs them. So at the end of a task only what it
made is looked at, then whatever is there is put out of the collector's sight. All of it is gone through rarely, when
much is new: with nothing but the libraries in memory that alone takes longer than most epochs of a quiet stream.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

LEAST_NEW = 100_000
"""So many objects more than there were are no reason yet to look for garbage among them."""
MOST_TASKS = 1024
"""After so many tasks all is gone through in any case: objects that come and go in equal numbers hide garbage."""


class Collector:
    """Decides when garbage is looked for, by about the same rule as Python: once a quarter of all objects is new."""

    def __init__(self) -> None:
        self._old = self._new = self._tasks = 0

    @contextmanager
    def at_rest(self) -> Generator[None]:
        """Let no garbage be looked for while a task runs; a task makes millions of small objects and no cycles."""
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            self._tidy_up()
            if was_enabled:
                gc.enable()

    def _tidy_up(self) -> None:
        made = gc.get_count()[0]
        self._new += made - gc.collect(0)
        self._tasks += 1
        gc.freeze()
        if self._tasks < MOST_TASKS and not self._has_grown():
            return
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._old, self._new, self._tasks = gc.get_freeze_count(), 0, 0

    def _has_grown(self) -> bool:
        allowed = LEAST_NEW + self._old // 4
        if self._new > allowed:
            # What went between tasks was not counted. To count all is a walk too, but one that looks at nothing.
            self._new = gc.get_freeze_count() - self._old
        return self._new > allowed


COLLECTOR = Collector()
"""This process's own."""
