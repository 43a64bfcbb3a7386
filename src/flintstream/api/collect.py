"""Results that come back to the program: an iterator over a running job, which can be closed early."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from flintstream.errors import JobError
from flintstream.model.job import JobClient

_EPOCHS_AHEAD = 16
_POLL_SECONDS = 0.05


class Mailbox:
    """Takes the results of committed epochs from the job's thread; a job that is too far ahead waits."""

    def __init__(self) -> None:
        self._epochs: queue.Queue[list[Any]] = queue.Queue(_EPOCHS_AHEAD)
        self._closed = False

    def put(self, epoch: int, values: list[Any]) -> None:
        """Called with each epoch's results, once."""
        while not self._closed:
            try:
                self._epochs.put(values, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return

    def get(self, timeout: float) -> list[Any] | None:
        """Return the results of the next epoch, or None if there are none yet."""
        try:
            return self._epochs.get(timeout=timeout) if timeout else self._epochs.get_nowait()
        except queue.Empty:
            return None

    def close(self) -> None:
        """Take nothing more."""
        self._closed = True


class CloseableIterator(Iterator[Any]):
    """The records of a stream as they are committed; leaving the `with` block, or `close()`, cancels the job.

    >>> from flintstream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    >>> with env.from_collection([1, 2, 3]).map(lambda x: x * x).execute_and_collect() as results:
    ...     print(list(results))
    [1, 4, 9]
    """

    def __init__(self, client: JobClient, mailbox: Mailbox) -> None:
        self._client = client
        self._mailbox = mailbox
        self._ready: Iterator[Any] = iter(())
        self._is_closed = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self) -> Any:
        """Return the next record; raise StopIteration at the end, or what made the job fail."""
        while True:
            for value in self._ready:
                return value
            if self._is_closed:
                raise StopIteration
            # Asked before looking into the mailbox: a job that has ended puts nothing more into it.
            ended = self._client.get_job_execution_result().done()
            values = self._mailbox.get(0 if ended else _POLL_SECONDS)
            if values is not None:
                self._ready = iter(values)
            elif ended:
                try:
                    self._client.get_job_execution_result().result()
                except JobError as error:
                    raise error.with_traceback(None) from None
                raise StopIteration

    def close(self) -> None:
        """Cancel the job if it still runs, and wait until it has stopped."""
        if not self._is_closed:
            self._is_closed = True
            self._ready = iter(())
            self._mailbox.close()
            self._client.cancel().result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
