"""Ends code of the user's between any two of its lines, as the end of its process would.

A tracing function counts the lines that are about to run and raises at the one that was asked for. What is raised is no
`Exception`, so that whoever handles errors does not handle it; `finally` and `with` still run, which in a process that
is killed they would not.
"""

from __future__ import annotations

import inspect
import linecache
import os
import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from flintstream.testing.sinks import SimulatedCrash


def home_of(method: Any) -> str:
    """Return the folder of the file in which a method is written."""
    code = getattr(inspect.unwrap(method), "__code__", None)
    return "" if code is None else os.path.dirname(code.co_filename)  # noqa: PTH120 - a file of no name has a folder too


def steps_of(action: Callable[[], object], home: str) -> int:
    """Run an action; return how many lines of code in that folder it ran."""
    counter = _Counter(home, None)
    counter.run(action)
    return counter.steps


def dies_at(step: int, action: Callable[[], object], home: str) -> bool:
    """Run an action that ends before that line; return False if it came to its end before."""
    counter = _Counter(home, step)
    try:
        counter.run(action)
    except SimulatedCrash:
        return True
    return False


def some_steps(steps: int, most: int, rng: random.Random) -> list[int]:
    """Return the lines at which to end an action: all, or if they are too many some, the first and last among them."""
    if steps <= most:
        return list(range(steps))
    if most < len(ends := (0, steps - 1)):
        return rng.sample(range(steps), most)
    return sorted([*ends, *rng.sample(range(1, steps - 1), most - len(ends))])


class _Counter:
    def __init__(self, home: str, last: int | None) -> None:
        self._home = home
        self._last = last
        self.steps = 0

    def run(self, action: Callable[[], object]) -> None:
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            action()
        finally:
            sys.settrace(before)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if os.path.dirname(name) != self._home or name == __file__:  # noqa: PTH120 - called for every call there is
            return None
        before = 0

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal before
            if event == "line":
                if not _leaves_block(name, before, frame.f_lineno):
                    self._step()
                before = frame.f_lineno
            return line

        return line

    def _step(self) -> None:
        if self.steps == self._last:
            raise SimulatedCrash
        self.steps += 1


def _leaves_block(name: str, before: int, number: int) -> bool:
    """Whether a line is run for the second time to leave its `with`: what is raised there would not leave it at all."""
    return before > number and linecache.getline(name, number).lstrip().startswith(("with ", "async with "))
