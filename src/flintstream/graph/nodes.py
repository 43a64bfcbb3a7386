"""The nodes and edges of a declared dataflow, as frozen values.

A node is what one call of the user's declared; it carries the user's line, so that an error hours later can name it.
Virtual steps (`key_by`, `union`, `rebalance`, a side output) are not nodes but properties of the edges they lie on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flintstream.model.cep import Pattern
from flintstream.model.cep_functions import PatternProcessFunction
from flintstream.model.connect import Sink, Source
from flintstream.model.dead_letters import ErrorPolicy
from flintstream.model.delivery import Delivery, DeliveryGuarantee, Isolation
from flintstream.model.functions import AggregateFunction, Function, ReduceFunction
from flintstream.model.joins_reference import JoinDeclaration
from flintstream.model.panes import Panes
from flintstream.model.positions import Place
from flintstream.model.queryable import Queryable
from flintstream.model.state import MapStateDescriptor
from flintstream.model.typeinfo import TypeInformation
from flintstream.model.watermarks import WatermarkStrategy
from flintstream.ops.aggregates import Aggregate
from flintstream.ops.operator import MAIN
from flintstream.ops.selectors import KeySource


@dataclass(frozen=True, slots=True)
class Exchange:
    """How records travel along an edge; FORWARD stays where it is, `imposed` if the user asked for just that."""

    kind: str = "FORWARD"
    key: KeySource | None = None
    partitioner: Callable[[Any, int], int] | None = None
    imposed: bool = False

    @property
    def is_forward(self) -> bool:
        """Whether records stay in their task."""
        return self.kind == "FORWARD"


FORWARD = Exchange()


@dataclass(frozen=True, slots=True)
class Upstream:
    """One origin of an operator's input: a node, which of its outputs, and the way from there."""

    node: int
    tag: str = MAIN
    exchange: Exchange = FORWARD


@dataclass(frozen=True, slots=True)
class Node:
    """What every node has. `inputs` has one tuple of origins per input port (a union has several origins)."""

    id: int
    name: str
    location: str
    inputs: tuple[tuple[Upstream, ...], ...] = ()
    uid: str | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    output_type: TypeInformation | None = None


@dataclass(frozen=True, slots=True)
class SourceNode(Node):
    """Reads records. `native` is a list of column steps that Spark itself runs, in order.

    `start_from` and `until` are where reading begins and ends, if the program says more than the source itself. With
    `is_told` a log hears how far it was read, for whoever watches it there.
    """

    source: Source | None = None
    native: tuple[NativeStep, ...] = ()
    start_from: Place | None = None
    until: Place | None = None
    is_told: bool = True
    on_error: ErrorPolicy | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether it ends by itself."""
        ends = self.until is not None and not self.until.halts
        return ends or (self.source is not None and self.source.is_bounded)


@dataclass(frozen=True, slots=True)
class NativeStep:
    """A projection or filter by column expressions, opaque to all rooms but Spark's."""

    verb: str
    arguments: tuple[Any, ...]
    named: tuple[tuple[str, Any], ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        # Expressions live in the driver's JVM; the workers, who get the plan, never need them.
        return NativeStep, (self.verb, ())


@dataclass(frozen=True, slots=True)
class TimestampsNode(Node):
    """Assigns timestamps and watermarks."""

    strategy: WatermarkStrategy | None = None


@dataclass(frozen=True, slots=True)
class FunctionNode(Node):
    """A user's function. `shape` is map, filter, flat_map, process, keyed_process, reduce; `methods` one per input.

    `on_error` says what becomes of records on which it raises; None for nothing in particular.
    """

    shape: str = "map"
    function: Function | None = None
    methods: tuple[str, ...] = ()
    on_error: ErrorPolicy | None = None


@dataclass(frozen=True, slots=True)
class BroadcastNode(FunctionNode):
    """A user's function of a stream and a broadcast one, which comes by the second port, with the state of that one."""

    states: tuple[MapStateDescriptor, ...] = ()


@dataclass(frozen=True, slots=True)
class ProjectNode(Node):
    """Keeps fields by position."""

    positions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowNode(Node):
    """A keyed window: what it assigns, when it fires, what it computes."""

    assigner: Any = None
    trigger: Any = None
    evictor: Any = None
    allowed_lateness_ms: int = 0
    late_tag: str | None = None
    logs_late: bool = False
    reduce: ReduceFunction | None = None
    aggregate: AggregateFunction | None = None
    apply: Function | None = None
    panes: Panes | None = None
    offset: int = 0
    queryable: Queryable | None = None


@dataclass(frozen=True, slots=True)
class AggregateNode(Node):
    """Aggregates over a window, computed on columns; with `is_bare` a single one, whose results stand alone."""

    assigner: Any = None
    key: KeySource | None = None
    aggregates: tuple[tuple[str, Aggregate], ...] = ()
    is_bare: bool = False
    allowed_lateness_ms: int = 0
    late_tag: str | None = None
    logs_late: bool = False
    queryable: Queryable | None = None


@dataclass(frozen=True, slots=True)
class SortNode(Node):
    """Puts records into the order of event time."""

    late_tag: str | None = None
    logs_late: bool = False


@dataclass(frozen=True, slots=True)
class PatternNode(Node):
    """Looks for a pattern, by event time or by the clock; `tags` are the side outputs it is known to have."""

    pattern: Pattern | None = None
    function: PatternProcessFunction | None = None
    by_clock: bool = False
    late_tag: str | None = None
    miss_tag: str | None = None
    tags: tuple[str, ...] = ()


def logs_late(node: Node) -> bool:
    """Say whether each record that comes too late for a node is logged."""
    return isinstance(node, WindowNode | AggregateNode | SortNode) and node.logs_late


def late_output(node: Node) -> str | None:
    """Return the side output for records that come too late for a node; None: they are dropped."""
    if isinstance(node, FunctionNode) and isinstance(node.function, JoinDeclaration):
        return node.function.late_tag
    return getattr(node, "late_tag", None)


@dataclass(frozen=True, slots=True)
class SinkNode(Node):
    """Writes records to the outside.

    `guarantee` and `isolation` are what the user asks of it, None for nothing; `delivery` is what became of that.
    """

    sink: Sink | None = None
    guarantee: DeliveryGuarantee | None = None
    isolation: Isolation | None = None
    delivery: Delivery | None = None


@dataclass(slots=True)
class StreamGraph:
    """All nodes in the order of their declaration."""

    nodes: dict[int, Node] = field(default_factory=dict[int, Node])

    def add(self, node: Node) -> Node:
        """Add or replace a node."""
        self.nodes[node.id] = node
        return node

    def next_id(self) -> int:
        """Return an id that no node has."""
        return len(self.nodes) + 1

    def downstream(self) -> dict[int, list[int]]:
        """Return who reads each node."""
        readers: dict[int, list[int]] = {node: [] for node in self.nodes}
        for node in self.nodes.values():
            for port in node.inputs:
                for origin in port:
                    readers[origin.node].append(node.id)
        return readers
