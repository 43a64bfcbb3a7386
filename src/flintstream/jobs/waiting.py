"""Waiting for what other processes do, so that nobody waits for ever: neither past a deadline nor past the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from flintstream.errors import JobStateError, ManagerError, describe

T = TypeVar("T")
LOOK_SECONDS = 0.1


class Patience:
    """Lets threads wait for conditions, until it ends."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Whether nobody waits any more."""
        return self._is_over

    def news(self) -> None:
        """Let all who wait look again."""
        with self._news:
            self._news.notify_all()

    def end(self) -> None:
        """Let nobody wait any more."""
        self._is_over = True
        self.news()

    def until(self, condition: Callable[[], T | None], timeout: float, what: str) -> T:
        """Return what a condition returns as soon as it is not None.

        Raises:
            JobStateError: that takes longer than `timeout` seconds.
            ManagerError: the manager leaves.
        """
        deadline = time.monotonic() + timeout
        while (found := condition()) is None:
            if self._is_over:
                raise ManagerError(describe("the manager leaves", None, "ask the next one"))
            if time.monotonic() > deadline:
                late = f"{what} within {timeout:g} s"
                raise JobStateError(describe(late, None, "it may still come about; look again, or wait longer"))
            with self._news:
                self._news.wait(LOOK_SECONDS)
        return found

    def apart(self, work: Callable[[], T], timeout: float, what: str) -> T:
        """Return what `work` returns, which may block longer than the manager stays."""
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(work())
            except BaseException as error:
                answer.set_exception(error)

        threading.Thread(target=run, name="flintstream-asking", daemon=True).start()
        self.until(lambda: True if answer.done() else None, timeout, what)
        return answer.result()
