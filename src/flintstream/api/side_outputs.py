"""Which operators can have a given side output: a tag that can never be emitted is a mistake worth telling."""

from __future__ import annotations

from flintstream.errors import UnknownTagError, describe
from flintstream.graph.location import users_line
from flintstream.graph.nodes import AggregateNode, FunctionNode, Node, PatternNode, SortNode, SourceNode, WindowNode
from flintstream.graph.nodes_join import IntervalJoinNode
from flintstream.model.cep_functions import Selection
from flintstream.model.joins_reference import JoinDeclaration
from flintstream.model.tags import OutputTag

_EMIT_TAGS = ("process", "keyed_process", "broadcast", "keyed_broadcast")


def check_emits(node: Node, tag: OutputTag) -> None:
    """Raise if no record of this operator can ever go to a tag's side output."""
    policy = node.on_error if isinstance(node, FunctionNode | SourceNode) else None
    if policy is not None and policy.tag == tag.tag_id:
        return
    if isinstance(node, IntervalJoinNode) and node.join is not None:
        known = (*node.join.late_tags, *node.join.unmatched_tags)
        possible = node.function is not None or tag.tag_id in known
    elif isinstance(node, FunctionNode):
        possible = node.shape in _EMIT_TAGS
        if isinstance(node.function, JoinDeclaration):
            possible = tag.tag_id in node.function.tags or node.function.is_custom
    elif isinstance(node, WindowNode):
        possible = node.apply is not None or node.late_tag == tag.tag_id
    elif isinstance(node, PatternNode):
        possible = not isinstance(node.function, Selection) or tag.tag_id in node.tags
    else:
        possible = isinstance(node, AggregateNode | SortNode) and node.late_tag == tag.tag_id
    if not possible:
        line = users_line()
        what = f"{node.name!r} never emits to side output {tag.tag_id!r}"
        remedy = "yield it in a process function, or name it in on_error(...), or in side_output_late_data(...)"
        raise UnknownTagError(describe(what, line, remedy), location=line)
