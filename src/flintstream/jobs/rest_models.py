"""What goes into the REST interface and comes out of it, as its OpenAPI description shows it.

Bodies are checked by these models, strictly: what a body has besides is refused, since it would be ignored. Answers are
described by them, not checked: what a driver reports is passed on as it is, and a newer driver may report more.

Flink: the RequestBody and ResponseBody classes of its REST interface.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StringConstraints, model_validator

from flintstream.jobs.spec import MOST_PARALLELISM

JOB = "5f3a1c0de4b24c8f9a7766554433aabb"
_LINE = r"^[^\x00-\x1f\x7f-\x9f]*$"
# A body that spells a number as text was not written by this description.
Text = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=4_000, pattern=_LINE)]
Dotted = Annotated[
    str,
    StringConstraints(strict=True, max_length=1_000, pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"),
]
Name = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200, pattern=_LINE)]
Free = Annotated[str, StringConstraints(strict=True, max_length=4_000)]
Value = Annotated[str, StringConstraints(strict=True, max_length=100_000, pattern=r"^[^\x00]*$")]
Width = Annotated[StrictInt, Field(ge=1, le=MOST_PARALLELISM)]
Millis = Annotated[int | None, Field(description="Milliseconds since 1970.")]


class Body(BaseModel):
    """What a caller sends."""

    model_config = ConfigDict(extra="forbid")


class Answer(BaseModel):
    """What a caller gets."""

    model_config = ConfigDict(extra="allow")


class Problem(Answer):
    """Why a request was refused (RFC 9457)."""

    type: str = Field(description="`urn:flintstream:` and the code.", examples=["urn:flintstream:unknown-job"])
    title: str = Field(description="The status in words.", examples=["Not Found"])
    status: int = Field(examples=[404])
    code: str = Field(description="The stable name of this kind of problem.", examples=["unknown-job"])
    detail: str = Field(description="What is wrong.", examples=["there is no job 5f3a"])
    remedy: str | None = Field(description="What to do about it.", examples=["list them with GET /v1/jobs"])
    errors: list[dict[str, str]] = Field(default=[], description="Each part of a request that does not fit.")


class Explanation(Answer):
    """How a program would run."""

    name: str
    text: str = Field(description="The operators, how each of them runs, and what is guaranteed, for people to read.")
    plan: dict[str, Any] = Field(description="The same as a document: nodes and edges.")


class Submission(Body):
    """A job to be run: a program or a module, and how."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"program": "/home/me/orders.py", "arguments": ["--day", "7"], "parallelism": 2}],
            "oneOf": [
                {"required": [one], "properties": {one: {"type": "string"}, other: {"type": "null"}}}
                for one, other in (("program", "module"), ("module", "program"))
            ],
        },
    )

    program: Text | None = Field(default=None, description="Path of a script; of an upload, its name inside.")
    module: Dotted | None = Field(default=None, description="A module, run as `python -m` would.")
    entry: Dotted | None = Field(default=None, description="A class or function of the program that is called.")
    arguments: list[Value] = Field(default=[], max_length=1_000, description="What the program finds in `sys.argv`.")
    settings: dict[Text, Value] = Field(default={}, description="Settings by Flink's names.")
    name: Name | None = Field(default=None, description="What the job is called.")
    master: Text | None = Field(default=None, description="Spark's master; without one, a Spark of its own here.")
    parallelism: Width | None = Field(default=None, description="Of all operators that name none.")
    savepoint: Text | None = Field(default=None, description="The savepoint that it begins with.")
    allow_non_restored: StrictBool = Field(default=False, description="Whether state without an operator is dropped.")
    working_directory: Text | None = Field(default=None, description="Where the program runs.")
    environment: dict[Text, Value] = Field(default={}, description="Variables besides those of the manager.")
    python_path: list[Text] = Field(default=[], max_length=100, description="Where to import from, first.")

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.program is None) == (self.module is None):
            message = "give either a program or a module"
            raise ValueError(message)
        return self


class CancelBody(Body):
    """Nothing has to be said to cancel a job."""


class SavepointBody(Body):
    """A savepoint to be taken."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"tags": ["nightly"]}]})

    directory: Text | None = Field(
        default=None, description="Where it gets a directory of its own; without one, where the job's savepoints go."
    )
    tags: list[Name] = Field(default=[], max_length=50, description="Words to find it by.")
    comment: Free = Field(default="", description="What else is to be remembered.")


class StopBody(Body):
    """A job to be stopped with a savepoint."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"drain": False}]})

    directory: Text | None = Field(
        default=None, description="Where its last savepoint goes; without one, where the job's savepoints go."
    )
    drain: StrictBool = Field(default=False, description="Whether event time ends first, so that all windows fire.")


class RescaleBody(Body):
    """Another parallelism for a job, or bounds within which it follows its backlog."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"parallelism": 4}, {"parallelism": "auto", "most": 8}]}
    )

    parallelism: Width | Literal["auto"] = Field(description='A number, or "auto" to follow the backlog.')
    least: Width | None = Field(default=None, description="The least that auto takes, 1 by default.")
    most: Width | None = Field(default=None, description="The most that auto takes, the manager's slots by default.")

    @model_validator(mode="after")
    def _bounds_are_for_auto(self) -> Self:
        if self.parallelism != "auto" and (self.least is not None or self.most is not None):
            message = 'least and most need parallelism "auto"'
            raise ValueError(message)
        if self.least is not None and self.most is not None and self.least > self.most:
            message = "least is more than most"
            raise ValueError(message)
        return self


class RestartBody(Body):
    """How a job is started again."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"savepoint": None}]})

    savepoint: Text | None = Field(default=None, description="From this savepoint; without one, where it stood.")
    allow_non_restored: StrictBool = Field(default=False, description="Whether state without an operator is dropped.")


class SessionBody(Body):
    """The manager's token, for a browser that cannot send headers with each request."""

    token: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=1_000)]


class JobNow(Answer):
    """How fast a job is just now."""

    epoch: int | None = None
    records_in_per_second: float | None = None
    records_out_per_second: float | None = None
    watermark_lag_ms: float | None = None
    updated_ms: Millis = None


class Job(Answer):
    """A job."""

    id: str = Field(pattern="^[0-9a-f]{32}$", examples=[JOB])
    name: str
    status: str = Field(description="As in Flink: CREATED, RUNNING, RESTARTING, FAILED, CANCELED, FINISHED, ...")
    submitted_ms: int
    started_ms: Millis = None
    ended_ms: Millis = None
    attempt: int = Field(description="How many times its driver was started.")
    restarts: int = Field(description="How many failures were followed by a restart.")
    parallelism: int | None = None
    checkpoint_dir: str | None = None
    error: str | None = Field(default=None, description="Why it failed.")
    spec: dict[str, Any] = Field(description="What was submitted; secrets are stars.")
    guarantee: str | None = None
    wanted: str = Field(description="What somebody asked for: running, canceled or stopped.")
    status_now: JobNow | None = Field(default=None, description="In lists: how fast it is just now.")


class Jobs(Answer):
    """All jobs, the newest first."""

    jobs: list[Job]


class OperationAnswer(Answer):
    """Something that was asked for."""

    id: str = Field(pattern="^[0-9a-f]{32}$")
    job: str
    kind: Literal["cancel", "stop", "savepoint", "rescale", "restart"]
    status: Literal["running", "done", "failed"]
    started_ms: int
    ended_ms: Millis
    result: dict[str, Any] | None = Field(description="What came of it: `path` of a savepoint, `job` else.")
    problem: Problem | None


class Savepoints(Answer):
    """The savepoints that were taken of a job, the newest first."""

    savepoints: list[dict[str, Any]]


class Status(Answer):
    """What a job's driver reported last; empty before its first report. All rates are over the last ten seconds."""

    status: str | None = None
    epoch: int | None = None
    watermark: int | None = None
    watermark_lag_ms: float | None = None
    records_in: int | None = None
    records_out: int | None = None
    records_in_per_second: float | None = None
    records_out_per_second: float | None = None
    late: int | None = None
    operators: dict[str, dict[str, Any]] = Field(default={}, description="Each operator's numbers, by its uid.")
    sources: dict[str, dict[str, Any]] = Field(default={}, description="How far each source lags behind.")
    sinks: dict[str, dict[str, Any]] = Field(default={}, description="The latency of each sink, in percentiles.")


class Plan(Answer):
    """The dataflow that a job runs; empty until its driver has compiled it."""

    name: str | None = None
    runtime: str | None = None
    parallelism: int | None = None
    operators: list[dict[str, Any]] = []
    edges: list[dict[str, Any]] = []


class Epochs(Answer):
    """Epochs that were committed, oldest first."""

    epochs: list[dict[str, Any]]


class Exceptions(Answer):
    """What failed, the newest last."""

    exceptions: list[dict[str, Any]]


class History(Answer):
    """The states that a job went through, oldest first."""

    history: list[dict[str, Any]]


class LogAnswer(Answer):
    """A piece of what a job printed."""

    text: str
    offset: int = Field(description="The position of its first byte; later than asked for if older parts are deleted.")
    next_offset: int = Field(description="Where to go on.")
    size: int = Field(description="The position behind the last byte.")
    first: int = Field(description="The position of the oldest byte that is still there.")


class Configuration(Answer):
    """The settings that a job runs with; secrets are stars."""

    configuration: dict[str, Any]


class Overview(Answer):
    """The manager, its slots and its jobs."""
