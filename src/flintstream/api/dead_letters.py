"""What becomes of records on which a user's function raises, as the user says it: per operator, or for a whole job.

Flink: it has none; there such a record fails the job, again after each restart, until a function catches the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, cast

from flintstream.api.arguments import located
from flintstream.api.operator import Declared
from flintstream.errors import InvalidArgumentError, TypeMismatchError, UnsupportedError, describe
from flintstream.graph.location import users_line
from flintstream.model.connect import Sink
from flintstream.model.dead_letters import FAIL, ErrorPolicy
from flintstream.model.tags import OutputTag
from flintstream.planner.dead_letters import TAG, DeadLetterDefault, goes_on

Errors = type[Exception] | Sequence[type[Exception]]


class GoesOn(Declared):
    """An operator that need not fail with its function."""

    def on_error(self, action: str | OutputTag, errors: Errors = Exception) -> Self:
        """Choose what becomes of records on which this operator's function raises.

        What the failed call has emitted and done to state and timers is undone. Dead letters are `DeadLetter`s.

        >>> from flintstream import OutputTag, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> numbers = env.from_collection(["1", "x", "2"]).map(int).on_error(bad := OutputTag("bad"))
        >>> _ = numbers.print()
        >>> _ = numbers.get_side_output(bad).map(lambda letter: f"{letter.record}: {letter.error}").print("bad")
        >>> _ = env.execute()
        1
        2
        bad> x: ValueError

        Args:
            action: "fail" the job, which is the default, "skip" the record, or the tag of a side output.
            errors: The exceptions that are a record's fault; any other fails the job.
        """
        number = self._operator("on_error")
        node = self._program.declarations.node(number)
        if not goes_on(node):
            line = users_line()
            what = f"{node.name!r} cannot go on after an error"
            remedy = (
                "let a map or a process function before it take what may be wrong, and put on_error(...) behind that"
            )
            raise UnsupportedError(describe(what, line, remedy), location=line)
        return self._change("on_error", on_error=_read_policy(action, errors))


def _read_policy(action: Any, errors: Any) -> ErrorPolicy:
    kinds = read_errors(errors)
    if isinstance(action, OutputTag):
        return ErrorPolicy(action.tag_id, kinds)
    if action not in ("fail", "skip"):
        what = f"records cannot be treated by {action!r:.100}"
        raise located(InvalidArgumentError(describe(what, remedy='use "fail", "skip" or an OutputTag')))
    return FAIL if action == "fail" else ErrorPolicy(None, kinds)


def read_errors(errors: Any) -> tuple[type[Exception], ...]:
    """Return classes of exceptions, or refuse what is none."""
    kinds = cast("tuple[Any, ...]", (errors,) if isinstance(errors, type) else tuple(errors))
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            what = f"{kind!r:.100} is not a class of exceptions"
            raise located(TypeMismatchError(describe(what, remedy="give some, as in errors=(ValueError, KeyError)")))
    if not kinds:
        raise located(InvalidArgumentError(describe("errors= names none", remedy="name some, or leave it out")))
    return kinds


def read_default(action: Any, errors: Any) -> DeadLetterDefault | None:
    """Return what a job does with errors where an operator says nothing."""
    kinds = read_errors(errors)
    if isinstance(action, Sink):
        return DeadLetterDefault(ErrorPolicy(TAG, kinds), action, users_line())
    if action not in ("fail", "skip"):
        what = f"records cannot be treated by {action!r:.100}"
        raise located(InvalidArgumentError(describe(what, remedy='use "fail", "skip" or a Sink')))
    return None if action == "fail" else DeadLetterDefault(ErrorPolicy(None, kinds), None, users_line())
