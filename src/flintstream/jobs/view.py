"""A job as a manager shows it: a plain value that REST, the command line and the dashboard have in common.

Flink: JobDetails of the REST interface.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from flintstream.jobs.spec import JobSpec

ENDED = frozenset({"FINISHED", "FAILED", "CANCELED"})
"""The states after which nothing more comes, unless someone restarts the job."""
WANTED = ("running", "canceled", "stopped")


@dataclass(frozen=True)
class JobView:
    """A job at one moment.

    Attributes:
        id: 32 hexadecimal digits.
        name: What its program calls it, or what it was submitted as.
        status: One of Flink's: CREATED (it waits for a slot), INITIALIZING, RUNNING, FAILING, RESTARTING, CANCELLING,
            CANCELED, FINISHED, FAILED, RECONCILING (its keeper is gone, and it is being taken up again).
        submitted_ms: When it was submitted.
        started_ms: When its program was first started, None if it still waits.
        ended_ms: When it ended, None if it has not.
        attempt: How many times its driver was started.
        restarts: How many of its failures were followed by a restart.
        parallelism: Of its widest operator, None if that is not known yet.
        checkpoint_dir: Where its state is, None if that is not known yet.
        error: Why it failed, None if it did not.
        spec: What was submitted, without secrets.
        guarantee: "exactly-once", say; None if that is not known yet.
        wanted: What someone asked for: "running", "canceled" or "stopped".
        scaling: "manual", or "auto 1..8" if its parallelism follows its backlog.
    """

    id: str
    name: str
    status: str
    submitted_ms: int
    started_ms: int | None
    ended_ms: int | None
    attempt: int
    restarts: int
    parallelism: int | None
    checkpoint_dir: str | None
    error: str | None
    spec: JobSpec
    guarantee: str | None
    wanted: str
    scaling: str = "manual"

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes of it, unless someone restarts it."""
        return self.status in ENDED

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return {**asdict(self), "spec": self.spec.to_json()}

    @staticmethod
    def from_dict(document: dict[str, Any]) -> JobView:
        """Read what `as_dict` returned; fields that a newer manager has besides are left out."""
        known = {each.name for each in fields(JobView)}
        given: dict[str, Any] = {name: value for name, value in document.items() if name in known}
        given["spec"] = JobSpec.from_json(document["spec"])
        return JobView(**given)
