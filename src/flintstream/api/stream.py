"""The common ground of all streams: where records come from, and how one more operator is put behind them.

`Streamlike[S]` is everything a builder needs to add an operator and to return the stream `S` that it makes. Builders
for windows, keys and connected streams are written against it, not against `DataStream`, which knows them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from flintstream.api.arguments import read_type
from flintstream.api.program import Program
from flintstream.graph.nodes import FORWARD, Exchange, FunctionNode, Node, Upstream
from flintstream.model.functions import Function
from flintstream.model.typeinfo import TypeInformation

S = TypeVar("S")


@dataclass(frozen=True)
class Origin:
    """Where a stream's records come from (a union has several), and their type as far as it is known."""

    program: Program
    upstreams: tuple[Upstream, ...]
    type_info: TypeInformation | None = None

    def over(self, exchange: Exchange) -> Origin:
        """Return the same records, travelling another way."""
        return replace(self, upstreams=tuple(replace(each, exchange=exchange) for each in self.upstreams))

    @property
    def only(self) -> Upstream | None:
        """The only origin, if there is one and its records stay where they are."""
        if len(self.upstreams) != 1 or self.upstreams[0].exchange != FORWARD:
            return None
        return self.upstreams[0]


class Streamlike(Generic[S]):
    """A stream that can be built upon; `result` wraps what a new operator emits into the stream to return."""

    def __init__(self, origin: Origin, result: Callable[[Origin], S]) -> None:
        self.origin = origin
        self.result = result

    def add(self, make: Callable[..., Node], *, emits: TypeInformation | None = None, **attributes: Any) -> S:
        """Put a node behind this stream and return the stream it makes; `emits` is what it emits if not declared."""
        return add_node([self.origin], self.result, make, emits=emits, **attributes)

    def add_function(
        self,
        name: str,
        shape: str,
        function: Function,
        methods: Sequence[str],
        output_type: Any = None,
        inferred: TypeInformation | None = None,
    ) -> S:
        """Put a user's function behind this stream."""
        return self.add(
            FunctionNode,
            emits=inferred,
            name=name,
            shape=shape,
            function=function,
            methods=tuple(methods),
            output_type=read_type(output_type),
        )


def add_node(
    origins: Sequence[Origin],
    result: Callable[[Origin], S],
    make: Callable[..., Node],
    *,
    emits: TypeInformation | None = None,
    **attributes: Any,
) -> S:
    """Put a node behind one or more streams, one input port each."""
    program = origins[0].program
    inputs = tuple(origin.upstreams for origin in origins)
    node = program.declarations.add(lambda number, line: make(id=number, location=line, inputs=inputs, **attributes))
    return result(Origin(program, (Upstream(node.id),), node.output_type or emits))
