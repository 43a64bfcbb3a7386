"""Every exception that Flintstream raises on purpose, in one file so that the tree can be read at a glance.

The moment decides the class (declaring, planning, running, restoring), so users catch by phase::

    FlintstreamError                       everything we raise on purpose
    ├─ DefinitionError (ValueError)        the program is wrong, known while declaring
    │  ├─ DuplicateUidError
    │  ├─ UnknownUidError (LookupError)
    │  ├─ UnknownTagError (LookupError)
    │  ├─ InvalidArgumentError
    │  ├─ DanglingStreamError
    │  ├─ TypeMismatchError (TypeError)
    │  ├─ TranscriptError                  a transcript of flintstream.testing cannot be read
    │  └─ UnserialisableFunctionError (TypeError)
    ├─ PlanError                           the program is fine but cannot be run as asked
    │  └─ UnsupportedError (NotImplementedError)
    ├─ JobError (RuntimeError)             it failed while running
    │  ├─ UserFunctionError                a function of the user raised
    │  ├─ SourceError · SinkError
    │  ├─ CommitError                      the epoch could not be made durable; it may be tried again
    │  ├─ LedgerError                      records were lost or doubled inside an epoch
    │  ├─ FencedError                      another driver owns the job; never try again
    │  ├─ LeaseError                       another driver runs in the same checkpoint directory
    │  └─ LostRuntimeError                 what the job runs on is gone; only a new process can go on
    ├─ StateError (RuntimeError)           state cannot be read or matched
    │  ├─ IncompatibleStateError
    │  ├─ CorruptStateError
    │  └─ SavepointError
    ├─ CheckError (AssertionError)         a check of flintstream.testing has failed
    │  ├─ ContractError                    a source or a sink breaks a rule of its contract
    │  ├─ LawError                         results depend on how the input was cut, spread or interrupted
    │  └─ MismatchError                    a transcript expects something else
    ├─ ManagerError (RuntimeError)         a job manager refuses something, or is not there
    │  ├─ UnknownJobError (LookupError)
    │  ├─ JobStateError                    the job is not at a point where that can be done
    │  ├─ NotLeaderError                   another manager leads; ask that one
    │  ├─ NoManagerError                   nobody answers there
    │  └─ TokenError                       it demands a token
    ├─ UnknownStateError (LookupError)     no state of that name can be looked up
    └─ EnvironmentSetupError (RuntimeError)  this machine or session cannot run the job

Invariant: every class survives pickling with all its attributes, because errors cross the worker boundary.
"""

from __future__ import annotations

import copy
import os
import sysconfig
import traceback
from pathlib import Path
from typing import Any, ClassVar, Self


def describe(what: str, where: str | None = None, remedy: str | None = None) -> str:
    """Join the three clauses of a message: what is wrong; where; what to do about it.

    >>> describe("two operators have uid 'count'", "job.py:31 and job.py:48", "give one another uid")
    "two operators have uid 'count'; job.py:31 and job.py:48; give one another uid"
    """
    return "; ".join(clause for clause in (what, where, remedy) if clause)


class FlintstreamError(Exception):
    """Root of the tree.

    Attributes:
        code: Stable name of the kind of failure; tests and docs rely on it, the wording may improve.
        uid: The operator's uid, if one operator is to blame.
        location: The user's ``file:line``, if one line is to blame.
    """

    code: ClassVar[str] = "flintstream"

    def __init__(self, message: str, *, uid: str | None = None, location: str | None = None) -> None:
        super().__init__(message)
        self.uid = uid
        self.location = location

    def at(self, location: str, uid: str | None = None) -> Self:
        """Return the same error with the user's line in it, before the clause that says what to do."""
        if self.location is not None:
            return self
        what, _, remedy = str(self).rpartition("; ")
        placed = copy.copy(self)
        placed.args = (describe(what or remedy, location, remedy if what else None),)
        placed.location, placed.uid = location, self.uid or uid
        return placed

    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls the class with `args` alone, which loses keyword-only arguments.
        return _restore, (type(self), self.args, self.__dict__)


def _restore(cls: type[FlintstreamError], args: tuple[Any, ...], attributes: dict[str, Any]) -> FlintstreamError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(attributes)
    return error


class DefinitionError(FlintstreamError, ValueError):
    """The program is wrong, and that is known while it is being declared."""

    code = "definition"


class DuplicateUidError(DefinitionError):
    """Two operators have the same uid."""

    code = "duplicate-uid"


class UnknownUidError(DefinitionError, LookupError):
    """A uid names no operator of the program."""

    code = "unknown-uid"


class UnknownTagError(DefinitionError, LookupError):
    """An output tag is used that its operator never declared."""

    code = "unknown-tag"


class InvalidArgumentError(DefinitionError):
    """An argument has a value that can never be right."""

    code = "invalid-argument"


class DanglingStreamError(DefinitionError):
    """The program has nothing to run, or a stream that ends in no sink."""

    code = "dangling-stream"


class TypeMismatchError(DefinitionError, TypeError):
    """A declared or inferred type does not fit where it is used."""

    code = "type-mismatch"


class TranscriptError(DefinitionError):
    """A transcript is written in a way that cannot be understood."""

    code = "transcript"


class UnserialisableFunctionError(DefinitionError, TypeError):
    """A user's function cannot be sent to the workers."""

    code = "unserialisable-function"


class PlanError(FlintstreamError):
    """The program is fine, but cannot be run in the way that was asked for."""

    code = "plan"


class UnsupportedError(PlanError, NotImplementedError):
    """Flintstream does not do this; the message names the alternative."""

    code = "unsupported"


class JobError(FlintstreamError, RuntimeError):
    """The job failed while running."""

    code = "job"


class UserFunctionError(JobError):
    """A user's function raised.

    Holds text only, so it crosses process boundaries even where the user's exception class cannot be pickled or
    imported.

    Attributes:
        operator: The operator's name.
        error_type: Name of the class of the user's exception.
        error_message: ``str`` of the user's exception.
        user_traceback: The formatted traceback without Flintstream's and Spark's own frames.
    """

    code = "user-function"

    def __init__(
        self,
        message: str,
        *,
        operator: str = "",
        error_type: str = "",
        error_message: str = "",
        user_traceback: str = "",
        uid: str | None = None,
        location: str | None = None,
    ) -> None:
        super().__init__(message, uid=uid, location=location)
        self.operator = operator
        self.error_type = error_type
        self.error_message = error_message
        self.user_traceback = user_traceback
        if user_traceback:
            self.add_note(user_traceback.rstrip())

    @classmethod
    def from_exception(
        cls, error: BaseException, *, operator: str, uid: str | None = None, declared: str | None = None
    ) -> Self:
        """Describe ``error``, which a function of the user raised inside ``operator``, declared in that line."""
        error_type, error_message = type(error).__qualname__, str(error)
        location = _user_location(error, declared)
        raised = f"{error_type}: {error_message}" if error_message else error_type
        named = f"uid {uid!r}" if uid else None
        where = ", ".join(clause for clause in (named, location) if clause)
        message = describe(
            f"the function of operator {operator!r} raised {raised}",
            where,
            "correct the function, or keep such records away from it",
        )
        return cls(
            message,
            operator=operator,
            error_type=error_type,
            error_message=error_message,
            user_traceback=_user_traceback(error),
            uid=uid,
            location=location,
        )


class SourceError(JobError):
    """A source could not be read."""

    code = "source"


class SinkError(JobError):
    """A sink could not be written or committed."""

    code = "sink"


class CommitError(JobError):
    """An epoch could not be made durable."""

    code = "commit"


class LedgerError(JobError):
    """The ledger of an epoch does not balance: records were lost or doubled on the way."""

    code = "ledger"


class FencedError(JobError):
    """Another driver has committed this epoch; this one must leave without touching a sink."""

    code = "fenced"


class LeaseError(JobError):
    """Another driver runs in the same checkpoint directory; this one does not begin."""

    code = "lease"


class LostRuntimeError(JobError):
    """What the job runs on is gone (Spark's context, or its JVM): the job goes on when a new process takes it up."""

    code = "lost-runtime"


class StateError(FlintstreamError, RuntimeError):
    """State cannot be read, or does not match the program."""

    code = "state"


class IncompatibleStateError(StateError):
    """State was written with a type or a layout that this program cannot read."""

    code = "incompatible-state"


class CorruptStateError(StateError):
    """Stored bytes are damaged, cut short or missing."""

    code = "corrupt-state"


class SavepointError(StateError):
    """A savepoint could not be taken, found or restored."""

    code = "savepoint"


class CheckError(FlintstreamError, AssertionError):
    """A check of `flintstream.testing` has failed: what is being tested does not do what it should."""

    code = "check"


class ContractError(CheckError):
    """A source or a sink breaks a rule of its contract.

    Attributes:
        rule: The rule, as the kit lists it.
    """

    code = "contract"

    def __init__(self, message: str, *, rule: str = "", uid: str | None = None, location: str | None = None) -> None:
        super().__init__(message, uid=uid, location=location)
        self.rule = rule


class LawError(CheckError):
    """The results of a pipeline depend on how its input was cut into epochs, on parallelism or on restarts."""

    code = "law"


class MismatchError(CheckError):
    """What a pipeline gave is not what a transcript expects."""

    code = "mismatch"


class EnvironmentSetupError(FlintstreamError, RuntimeError):
    """This machine or this Spark session cannot run the job: no Java, Spark Connect, wrong settings."""

    code = "environment-setup"


class UnknownStateError(FlintstreamError, LookupError):
    """No state of that name can be looked up from outside: it is not there, or not marked as queryable."""

    code = "unknown-state"


class ManagerError(FlintstreamError, RuntimeError):
    """A job manager refuses what it was asked for, or cannot do it."""

    code = "manager"


class UnknownJobError(ManagerError, LookupError):
    """The manager has no such job."""

    code = "unknown-job"


class JobStateError(ManagerError):
    """The job is not at a point of its life where that can be done."""

    code = "job-state"


class NotLeaderError(ManagerError):
    """This manager stands by; another one leads.

    Attributes:
        url: Where the one that leads is to be found, if that is known.
    """

    code = "not-leader"

    def __init__(
        self, message: str, *, url: str | None = None, uid: str | None = None, location: str | None = None
    ) -> None:
        super().__init__(message, uid=uid, location=location)
        self.url = url


class NoManagerError(ManagerError):
    """Nobody answers where a job manager should be."""

    code = "no-manager"


class TokenError(ManagerError):
    """The manager demands a token, and was given none or a wrong one."""

    code = "token"


_OWN_DIRECTORY = f"{Path(__file__).parent}{os.sep}"
_ENGINE_PARTS = ("/pyspark/", "/pyspark.zip/", "/py4j/")
# `sysconfig` gives site-packages as well as the standard library.
_LIBRARY_DIRECTORIES = tuple(
    f"{path}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib") if (path := sysconfig.get_path(name))
)


def _is_engine_file(filename: str) -> bool:
    path = filename.replace("\\", "/")
    return filename.startswith(_OWN_DIRECTORY) or any(part in path for part in _ENGINE_PARTS)


def _without_engine_frames(stack: traceback.StackSummary) -> traceback.StackSummary:
    kept = [frame for frame in stack if not _is_engine_file(frame.filename)]
    # A function that comes with Flintstream (the demo's, say) has no other frames.
    return traceback.StackSummary.from_list(kept or list(stack))


def _user_location(error: BaseException, declared: str | None = None) -> str | None:
    stack = traceback.extract_tb(error.__traceback__)
    if declared is not None and all(_is_engine_file(frame.filename) for frame in stack):
        # Our own code could not work with what the user gave it: then the line to look at is where that was.
        return declared
    frames = _without_engine_frames(stack)
    if not frames:
        return None
    # The innermost frame may be in a library that the user called: the line to look at is the call.
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARY_DIRECTORIES)]
    last = (own or frames)[-1]
    return f"{last.filename}:{last.lineno}"


def _user_traceback(error: BaseException) -> str:
    report = traceback.TracebackException.from_exception(error)
    pending: list[traceback.TracebackException | None] = [report]
    while pending:
        part = pending.pop()
        if part is not None:
            part.stack = _without_engine_frames(part.stack)
            pending += [part.__cause__, part.__context__, *(part.exceptions or ())]
    return "".join(report.format())
