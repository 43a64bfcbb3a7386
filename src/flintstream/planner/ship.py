"""A plan as bytes for the workers, and a clear word about functions that cannot travel.

When a function cannot be pickled, its captured variables are tried one by one, because the name of the variable is what
the user needs to hear.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from typing import Any, cast

import cloudpickle

from flintstream.errors import UnserialisableFunctionError, describe
from flintstream.graph.nodes import (
    AggregateNode,
    FunctionNode,
    Node,
    PatternNode,
    SinkNode,
    SourceNode,
    TimestampsNode,
    WindowNode,
)
from flintstream.model.cep_functions import user_functions
from flintstream.model.functions import Function
from flintstream.planner.classes import ClassRecorder
from flintstream.planner.plan import Plan, PlannedOperator

_DEPTH = 4
"""How far to look into objects for the variable at fault."""


def pack_plan(plan: Plan) -> bytes:
    """Return a plan as bytes that `pickle.loads` reads.

    Raises:
        UnserialisableFunctionError: names the operator, its line and the captured variable at fault.
    """
    try:
        return cloudpickle.dumps(plan)
    except Exception:
        check_functions(plan, everything=True)
        raise


def check_functions(plan: Plan, everything: bool = False) -> tuple[type, ...]:
    """Raise if a function of the user cannot be sent to workers; with `everything` look at sources and sinks too.

    Return the classes that the functions take with them.
    """
    classes: dict[type, None] = {}
    for op in plan.operators:
        for what, part in _parts(op.node, everything):
            error = _pickling_error(part, classes)
            if error is not None:
                raise _unserialisable(op, what, part, error)
        for link in plan.links_to(op.id):
            for what, part in (("the key selector", link.exchange.key), ("the partitioner", link.exchange.partitioner)):
                error = None if part is None else _pickling_error(part, classes)
                if error is not None:
                    raise _unserialisable(op, what, part, error)
    return tuple(classes)


def closes_something(plan: Plan) -> bool:
    """Whether any function of the user has something to do when its task ends."""
    functions: list[Any] = []
    for node in (op.node for op in plan.operators):
        if isinstance(node, FunctionNode):
            functions.append(node.function)
        elif isinstance(node, WindowNode):
            functions += [node.reduce, node.aggregate, getattr(node.apply, "function", node.apply)]
        elif isinstance(node, PatternNode) and node.pattern is not None:
            functions += [*node.pattern.functions, *user_functions(node.function)]
    return any(isinstance(each, Function) and type(each).close is not Function.close for each in functions)


def _parts(node: Node, everything: bool) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a node that come from the user, each with what to call it."""
    if isinstance(node, FunctionNode):
        yield "the function", node.function
    elif isinstance(node, TimestampsNode):
        yield "the watermark strategy", node.strategy
    elif isinstance(node, WindowNode):
        yield "the window function", (node.reduce, node.aggregate, node.apply)
        yield "the window assigner", node.assigner
        yield "the trigger", node.trigger
        yield "the evictor", node.evictor
    elif isinstance(node, AggregateNode):
        yield "the window assigner", node.assigner
        yield "the aggregate", [option for _, each in node.aggregates for option in each.options]
    elif isinstance(node, PatternNode):
        yield "the pattern", node.pattern
        yield "the function", node.function
    elif everything and isinstance(node, SinkNode):
        yield "the sink", node.sink
    elif everything and isinstance(node, SourceNode):
        yield "the source", node.source


def _pickling_error(part: Any, classes: dict[type, None] | None = None) -> Exception | None:
    recorder = ClassRecorder()
    try:
        recorder.dump(part)
    except Exception as error:  # a __reduce__ of the user may raise anything
        return error
    if classes is not None:
        classes.update(recorder.found)
    return None


def _unserialisable(op: PlannedOperator, what: str, part: Any, error: Exception) -> UnserialisableFunctionError:
    culprit = find_culprit(part)
    holds = f": {culprit[0]} is {_in_short(culprit[1])}" if culprit is not None else f" ({error})"
    remedy = "make it in open(), or inside the function, instead of capturing it"
    if culprit is not None and _is_of_spark(culprit[1]):
        remedy = "Spark itself can only be used in the driver: compute there, and capture the result"
    message = describe(
        f"{what} of operator {op.node.name!r} cannot be sent to workers{holds}", op.node.location, remedy
    )
    return UnserialisableFunctionError(message, uid=op.uid, location=op.node.location)


def find_culprit(part: Any, depth: int = _DEPTH) -> tuple[str, Any] | None:
    """Return name and value of the innermost captured variable or attribute that cannot be pickled, or None."""
    for name, value in _captured(part):
        if _pickling_error(value) is not None:
            inner = find_culprit(value, depth - 1) if depth > 1 and not _is_of_spark(value) else None
            return inner if inner is not None else (name, value)
    return None


def _is_of_spark(value: Any) -> bool:
    """Whether it is a session, a context, a DataFrame: things whose insides say nothing to the user."""
    return type(value).__module__.split(".")[0] == "pyspark"


def _captured(part: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a function or an object takes with it, by name."""
    if isinstance(part, tuple | list):
        yield from (("an element", each) for each in cast("list[Any]", part))
        return
    if isinstance(part, functools.partial):
        yield "the function of the partial", part.func
        yield from ((f"argument {index}", value) for index, value in enumerate(part.args))
        yield from ((f"argument {name!r}", value) for name, value in part.keywords.items())
        return
    function = inspect.unwrap(getattr(part, "__func__", part)) if inspect.isroutine(part) else None
    if inspect.isfunction(function):
        closure = inspect.getclosurevars(function)
        for names in (closure.nonlocals, closure.globals):
            yield from ((f"variable {name!r}", value) for name, value in names.items())
        yield from ((f"default {index}", value) for index, value in enumerate(function.__defaults__ or ()))
    if inspect.ismethod(part):
        yield "self", part.__self__
    names = {**getattr(part, "__dict__", {}), **_slots(part)} if function is None else {}
    yield from ((f"attribute {name!r}", value) for name, value in names.items())


def _slots(part: Any) -> dict[str, Any]:
    names = [name for cls in type(part).__mro__ for name in getattr(cls, "__slots__", ())]
    return {name: getattr(part, name) for name in names if hasattr(part, name)}


def _in_short(value: Any) -> str:
    return f"a {type(value).__module__}.{type(value).__qualname__}"
