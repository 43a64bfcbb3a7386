"""A job as its client sees it: identity, status, result, and a handle that answers with futures.

Flink: JobID, JobStatus, JobExecutionResult, CompletableFuture and JobClient of pyflink.common.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar, cast

from flintstream.errors import InvalidArgumentError, describe
from flintstream.model.dead_letters import DEAD_LETTERS
from flintstream.model.guarantee import Guarantee
from flintstream.model.job_graph import JobGraph

T = TypeVar("T")


class JobStatus(Enum):
    """Where a job is in its life."""

    CREATED = 0
    RUNNING = 1
    FAILING = 2
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    FINISHED = 6
    RESTARTING = 7
    SUSPENDED = 8
    RECONCILING = 9

    def is_globally_terminal_state(self) -> bool:
        """Say whether the job is over and nobody will take it up again."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Say whether the job is over here; a suspended one may be taken up elsewhere."""
        return self is JobStatus.SUSPENDED or self.is_globally_terminal_state()


@dataclass(frozen=True)
class JobID:
    """Identifies a job: 32 hexadecimal digits."""

    hex: str

    def __post_init__(self) -> None:
        if len(self.hex) != 32 or set(self.hex) - set("0123456789abcdef"):
            raise InvalidArgumentError(
                describe(f"{self.hex!r} is not a job id", remedy="give 32 hexadecimal digits in lower case")
            )

    @staticmethod
    def generate() -> JobID:
        """Return a new, random id."""
        return JobID(uuid.uuid4().hex)

    def __str__(self) -> str:
        return self.hex


def _no_accumulators() -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class JobExecutionResult:
    """What is known of a job that ended."""

    job_id: JobID
    net_runtime_ms: int
    accumulators: Mapping[str, Any] = field(default_factory=_no_accumulators)

    def get_job_id(self) -> JobID:
        """Return the job's id."""
        return self.job_id

    def get_net_runtime(self) -> int:
        """Return how long the job ran, in ms."""
        return self.net_runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Return the result of one accumulator, None if there is none of that name."""
        return self.accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Return the results of all accumulators."""
        return dict(self.accumulators)

    def __str__(self) -> str:
        late, dead = self._counted("late"), self._counted(DEAD_LETTERS)
        told = "".join(f", {count:,} late records in {uid!r}" for uid, count in late.items())
        told += "".join(f", {count:,} records that {uid!r} could not process" for uid, count in dead.items())
        return f"job {self.job_id} ran for {self.net_runtime_ms} ms{told}"

    def _counted(self, name: str) -> dict[str, int]:
        """Return a counter by operator, where it is not 0."""
        counters = {uid: cast("dict[str, Any]", of) for uid, of in self.accumulators.items() if isinstance(of, dict)}
        return {uid: counts[name] for uid, counts in counters.items() if counts.get(name)}


@dataclass(frozen=True)
class CaughtUp:
    """Says that a job has read what its sources held, and goes on with what comes.

    Attributes:
        epoch: The epoch that took the last of it.
        records: How many records were waiting when the job started; those of streams that Spark reads are not counted.
        seconds: How long it took since then.
    """

    epoch: int
    records: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"has caught up: {self.records:,} records in {self.seconds:.1f} s, by epoch {self.epoch}; it goes on live"
        )


class CompletableFuture(Generic[T]):
    """A result that comes later, with PyFlink's methods over a `concurrent.futures.Future`."""

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    @staticmethod
    def completed(value: T) -> CompletableFuture[T]:
        """Return a future that is done already."""
        future: Future[T] = Future()
        future.set_result(value)
        return CompletableFuture(future)

    def cancel(self) -> bool:
        """Try to cancel, and say whether it worked."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Say whether it was cancelled."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Say whether there is a result, an exception or a cancellation."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result and return it, or raise what went wrong; `timeout` is in seconds."""
        return self._future.result(timeout)

    def exception(self) -> BaseException | None:
        """Return what went wrong, without waiting; None if nothing did so far."""
        if not self._future.done():
            return None
        return CancelledError() if self._future.cancelled() else self._future.exception()

    def add_done_callback(self, function: Callable[[CompletableFuture[T]], Any]) -> None:
        """Call `function` with this future once it is done; at once if it is."""
        self._future.add_done_callback(lambda _: function(self))

    def __repr__(self) -> str:
        return f"CompletableFuture({self._future})"


class JobClient(ABC):
    """A handle on a job that was started."""

    @abstractmethod
    def get_job_id(self) -> JobID:
        """Return the job's id."""

    @abstractmethod
    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Ask where the job is in its life."""

    @abstractmethod
    def cancel(self) -> CompletableFuture[None]:
        """Cancel the job; the future is done when it has stopped."""

    @abstractmethod
    def trigger_savepoint(
        self, savepoint_directory: str | None = None, *, tags: Sequence[str] = (), comment: str = ""
    ) -> CompletableFuture[str]:
        """Ask for a savepoint at the end of the epoch at hand, while the job goes on; the answer is its path.

        Args:
            savepoint_directory: Where it gets a directory of its own; without it, where the environment says.
            tags: Words to find it by.
            comment: What else is to be remembered of it.
        """

    @abstractmethod
    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        *,
        tags: Sequence[str] = (),
        comment: str = "",
    ) -> CompletableFuture[str]:
        """Stop the job with a savepoint; the answer is its path, when the job has ended.

        If the savepoint cannot be written the job goes on, and the future raises.

        Args:
            advance_to_end_of_event_time: Whether to drain the job: all windows and event-time timers fire before. Only
                for a job that is to end for good.
            savepoint_directory: Where it gets a directory of its own; without it, where the environment says.
            tags: Words to find it by.
            comment: What else is to be remembered of it.
        """

    @abstractmethod
    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Ask for counters and metrics by operator, as the last committed epoch left them; also while the job runs."""

    @abstractmethod
    def metrics(self) -> dict[str, Any]:
        """Return where the job stands now, as one document that JSON can hold.

        It has rates, latency by sink, backlog by source, and for each operator its records, bytes, event time, state
        and how busy it is; `docs/how-to/metrics.md` explains every number.
        """

    @abstractmethod
    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Ask for the result; the future is done when the job ends, and raises if the job failed."""

    @abstractmethod
    def graph(self) -> JobGraph:
        """Return the job's dataflow as a picture, with the numbers of this moment; a notebook shows it by itself."""

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Return what the job promises from end to end, with its weakest link."""

    @abstractmethod
    def caught_up(self) -> CompletableFuture[CaughtUp]:
        """Ask for the word that the job has read all that its sources held, and goes on live; see `CaughtUp`.

        A job whose input ends has caught up at its end at the latest; one that is cancelled before cancels this.
        """
