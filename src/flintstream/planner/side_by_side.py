"""Several versions of a program as one graph that reads its input once.

Apart from the compiler, which sees one graph and needs not know: sources that all versions have by the same uid become
one, everything behind them stays apart under the version's name. What every operator is called in its own version is
kept, because that is where the state of a savepoint is to be found.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import cloudpickle

from flintstream.errors import DefinitionError, describe
from flintstream.graph.nodes import Node, SinkNode, SourceNode, StreamGraph
from flintstream.model.connect import Sink
from flintstream.planner.compile import reachable
from flintstream.planner.uids import assign_uids

SEPARATOR = ":"
_LOG = logging.getLogger("flintstream")


@dataclass(frozen=True, slots=True)
class Output:
    """A sink of one version: its node in the common graph, its uid in the version, and where it would have written."""

    version: str
    uid: str
    node: int
    sink: Sink


@dataclass(slots=True)
class SideBySide:
    """The common graph; `origins` says what each uid in it is called in its own version."""

    graph: StreamGraph = field(default_factory=StreamGraph)
    origins: dict[str, str] = field(default_factory=dict[str, str])
    outputs: list[Output] = field(default_factory=list[Output])
    sources: dict[str, SourceNode] = field(default_factory=dict[str, SourceNode])


def side_by_side(versions: Mapping[str, StreamGraph]) -> SideBySide:
    """Return the graphs of all versions as one.

    Raises:
        DefinitionError: two versions mean different sources by one uid.
    """
    merged = SideBySide()
    numbers: dict[tuple[str, int], int] = {}
    nodes: list[tuple[str, Node, str]] = []
    for version, graph in versions.items():
        mine = reachable(graph)
        uids = assign_uids(mine)
        nodes += [(version, node, uids[node.id]) for node in mine]
    # Sources first: what reads them comes behind, whichever version it is of.
    for version, node, uid in nodes:
        if isinstance(node, SourceNode):
            numbers[version, node.id] = _share(merged, node, uid)
    for version, node, uid in nodes:
        if isinstance(node, SourceNode):
            continue
        number = merged.graph.next_id()
        numbers[version, node.id] = number
        inputs = tuple(
            tuple(replace(origin, node=numbers[version, origin.node]) for origin in port) for port in node.inputs
        )
        own = f"{version}{SEPARATOR}{uid}"
        merged.graph.add(replace(node, id=number, inputs=inputs, uid=own))
        merged.origins[own] = uid
        if isinstance(node, SinkNode):
            assert node.sink is not None
            merged.outputs.append(Output(version, uid, number, node.sink))
    return merged


def _share(merged: SideBySide, node: SourceNode, uid: str) -> int:
    """Return the number of a source in the common graph, which may have it already."""
    known = merged.sources.get(uid)
    if known is None:
        known = replace(node, id=merged.graph.next_id(), uid=uid)
        merged.graph.add(known)
        merged.sources[uid] = known
        merged.origins[uid] = uid
    elif type(known.source) is not type(node.source) or known.native != node.native:
        what = f"two versions mean different sources by uid {uid!r}"
        where = f"{known.location} and {node.location}"
        raise DefinitionError(describe(what, where, "give different sources different uids"), location=node.location)
    elif known.source is not node.source and cloudpickle.dumps(known.source) != cloudpickle.dumps(node.source):
        text = "the source %r is not declared alike in all versions (%s, %s); all of them read the first"
        _LOG.warning(text, uid, known.location, node.location)
    return known.id
