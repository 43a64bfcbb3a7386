"""A pass that gives operators the job's way to treat errors, where they have none of their own.

If the job's dead letters go to a sink, the pass adds it behind all of them, as if the user had taken each side output,
united them and written them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flintstream.connectors.files_source import FileSource
from flintstream.graph.nodes import FunctionNode, Node, SinkNode, SourceNode, Upstream
from flintstream.model.connect import LogSource, Sink
from flintstream.model.dead_letters import ErrorPolicy
from flintstream.model.joins_reference import JoinDeclaration
from flintstream.ops.dead_letters import AsText
from flintstream.ops.dead_letters_json import JsonLines
from flintstream.planner.build_trying import JSON_LINES, SHAPES

TAG = "#dead-letters"
"""The side output of an operator whose dead letters go where the job's go."""


@dataclass(frozen=True, slots=True)
class DeadLetterDefault:
    """What a job does with records on which a function raises; `location` is the line that said so."""

    policy: ErrorPolicy
    sink: Sink | None
    location: str


def goes_on(node: Node) -> bool:
    """Whether a node can go on after an error."""
    if isinstance(node, SourceNode):
        return _is_json(node) or (isinstance(node.source, LogSource) and node.source.is_lenient)
    # Kinds of their own (joins, broadcast state) keep more than a journal can undo.
    return type(node) is FunctionNode and node.shape in SHAPES and not isinstance(node.function, JoinDeclaration)


def _is_json(node: SourceNode) -> bool:
    """Whether a node reads JSON lines of known columns, which can be parsed here as well as by Spark."""
    source = node.source
    is_known = isinstance(source, FileSource) and source.format == "json" and source.schema is not None
    return is_known and not node.native


def place_dead_letters(nodes: Sequence[Node], default: DeadLetterDefault | None) -> list[Node]:
    """Return the nodes, those without a policy with the job's, and the sink of its dead letters behind them."""
    placed = list(nodes) if default is None else _with_default(nodes, default)
    number = 1 + max(node.id for node in placed)
    return [part for index, node in enumerate(placed) for part in _with_parser(node, number + index)]


def _with_parser(node: Node, number: int) -> list[Node]:
    """Return a source of JSON lines that goes on as one of text, which gets the number, and what parses it."""
    policy = node.on_error if isinstance(node, SourceNode) else None
    if not isinstance(node, SourceNode) or policy is None or not policy.errors or not _is_json(node):
        return [node]
    assert isinstance(node.source, FileSource) and node.source.schema is not None
    text = replace(node, id=number, source=node.source.as_text(), on_error=None, output_type=None)
    uid = None if node.uid is None else f"{node.uid}-lines"
    name, inputs, function = f"{node.name} lines", ((Upstream(number),),), JsonLines(node.source.schema)
    parser = FunctionNode(node.id, name, node.location, inputs, uid, output_type=node.output_type, shape=JSON_LINES)
    return [text, replace(parser, function=function, on_error=policy)]


def _with_default(nodes: Sequence[Node], default: DeadLetterDefault) -> list[Node]:
    placed: list[Node] = []
    takers: list[Upstream] = []
    for node in nodes:
        if isinstance(node, FunctionNode | SourceNode) and node.on_error is None and goes_on(node):
            node = replace(node, on_error=default.policy)
            takers.append(Upstream(node.id, TAG))
        placed.append(node)
    if default.sink is None or not takers:
        return placed
    number = 1 + max(node.id for node in nodes)
    text = FunctionNode(
        number, "Dead Letters", default.location, (tuple(takers),), "dead-letters", function=AsText(), methods=("map",)
    )
    ways, name = ((Upstream(number),),), type(default.sink).__name__
    end = SinkNode(number + 1, name, default.location, ways, "dead-letters-sink", sink=default.sink)
    return [*placed, text, end]
