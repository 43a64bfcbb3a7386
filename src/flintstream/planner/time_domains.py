"""Finds out whether a job uses processing time, so that epochs run for it even when no input comes."""

from __future__ import annotations

from typing import Any

from flintstream.graph.nodes import FunctionNode, PatternNode, TimestampsNode, WindowNode
from flintstream.model.joins_reference import JoinDeclaration
from flintstream.model.trigger_algebra import Foreign
from flintstream.model.trigger_machine import Part
from flintstream.model.triggers import PurgingTrigger
from flintstream.planner.plan import Plan

_TELLTALES = {"register_processing_time_timer", "current_processing_time"}


def uses_processing_time(plan: Plan) -> bool:
    """Whether any window or function of the plan works by the clock; functions are judged by the names they call."""
    for op in plan.operators:
        node = op.node
        if isinstance(node, WindowNode) and (not node.assigner.is_event_time() or _goes_by_clock(node.trigger)):
            return True
        if isinstance(node, PatternNode) and (node.by_clock or _mentions(node.function)):
            return True
        # A generator may mark its split idle, and what that lets happen must not wait for a record.
        if isinstance(node, TimestampsNode) and node.strategy is not None and node.strategy.generator is not None:
            return True
        if isinstance(node, FunctionNode) and (_mentions(node.function) or _is_clock_join(node)):
            return True
    return False


def _is_clock_join(node: FunctionNode) -> bool:
    """Whether a join keeps its records by the clock."""
    return isinstance(node.function, JoinDeclaration) and node.function.goes_by_clock


def _goes_by_clock(trigger: Any) -> bool:
    """Whether a trigger, or one within it, works by the clock."""
    if isinstance(trigger, Foreign):
        return _goes_by_clock(trigger.trigger)
    if isinstance(trigger, Part):
        return trigger.goes_by_clock or any(map(_goes_by_clock, trigger.children()))
    if isinstance(trigger, PurgingTrigger):
        return _goes_by_clock(trigger.nested_trigger)
    return _mentions(trigger)


def _mentions(thing: Any) -> bool:
    methods = [getattr(member, "__code__", None) for kind in type(thing).__mro__ for member in vars(kind).values()]
    return any(_names(code) & _TELLTALES for code in methods if code is not None)


def _names(code: Any) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            names |= _names(constant)
    return names
