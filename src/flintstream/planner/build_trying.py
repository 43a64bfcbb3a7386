"""Nodes whose function may fail to the operators that go on then; beside `build.py`, which builds the others."""

from __future__ import annotations

from typing import Any

from flintstream.errors import UnsupportedError, describe
from flintstream.graph.nodes import FunctionNode
from flintstream.model.dead_letters import ErrorPolicy
from flintstream.model.functions_vectorised import Vectorized
from flintstream.ops.dead_letters import TryingFilter, TryingFlatMap, TryingMap, TryingProcess, TryingVectorised
from flintstream.ops.dead_letters_json import JsonLines, ParsingOperator
from flintstream.ops.dead_letters_keyed import TryingKeyedFunction, TryingKeyedProcess, TryingReduce
from flintstream.ops.operator import Operator
from flintstream.ops.vectorised import VectorisedFilter, VectorisedFlatMap, VectorisedMap

VECTORISED = {
    "vectorised_map": VectorisedMap,
    "vectorised_filter": VectorisedFilter,
    "vectorised_flat_map": VectorisedFlatMap,
}
_WITHOUT_KEYS = {"map": TryingMap, "flat_map": TryingFlatMap, "process": TryingProcess}
_WITH_KEYS = ("keyed_map", "keyed_filter", "keyed_flat_map")
SHAPES = frozenset([*VECTORISED, *_WITHOUT_KEYS, *_WITH_KEYS, "filter", "keyed_process", "reduce"])
"""The shapes of functions that can go on."""
JSON_LINES = "vectorised_json"
"""The shape of what parses the lines of a file source that goes on."""


def build_trying(node: FunctionNode, function: Any, policy: ErrorPolicy, batch_mode: bool) -> Operator:
    """Return a new operator that treats what its function raises by a policy."""
    shape = node.shape
    if shape in _WITHOUT_KEYS:
        return _WITHOUT_KEYS[shape](policy, function, node.methods)
    if shape in _WITH_KEYS:
        return TryingKeyedFunction(policy, function, shape.removeprefix("keyed_"))
    if shape in VECTORISED:
        assert isinstance(function, Vectorized)
        return TryingVectorised(policy, VECTORISED[shape](function, node.methods[0], node.output_type))
    if shape == JSON_LINES:
        assert isinstance(function, JsonLines)
        return ParsingOperator(policy, function)
    if shape == "filter":
        return TryingFilter(policy, function)
    if shape == "keyed_process":
        return TryingKeyedProcess(policy, function, node.methods)
    if shape == "reduce":
        return TryingReduce(policy, function, batch_mode)
    raise UnsupportedError(describe(f"shape {shape!r} cannot go on after an error", node.location))
