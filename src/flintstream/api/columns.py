"""Column expressions behind a source: they become part of it, so that Spark runs them, and its optimiser sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flintstream.api.arguments import located
from flintstream.api.stream import Origin
from flintstream.errors import DefinitionError, InvalidArgumentError, describe
from flintstream.graph.nodes import NativeStep, SourceNode, Upstream
from flintstream.model.connect import LogSource


def add_columns(origin: Origin, verb: str, columns: Sequence[Any], named: Mapping[str, Any]) -> Origin:
    """Return the records of a copy of the source with one more column step; the source itself stays as it is.

    Raises:
        DefinitionError: something other than column steps stands between the source and here.
    """
    if not columns and not named:
        raise located(InvalidArgumentError(describe(f"{verb}() got no column", remedy="name one")))
    source = None if origin.only is None else origin.program.declarations.node(origin.only.node)
    if not isinstance(source, SourceNode):
        before = "a union or an exchange" if source is None else repr(source.name)
        what = f"{verb}(...) runs in Spark, right behind a source, but here it stands behind {before}"
        remedy = f"put {verb}(...) before it, and watermarks behind with assign_timestamps_and_watermarks(...)"
        raise located(DefinitionError(describe(what, remedy=f"{remedy}, or use map, filter")))
    if isinstance(source.source, LogSource):
        what = f"{verb}(...) runs in Spark, and the records of {source.name!r} are read in Python"
        raise located(DefinitionError(describe(what, remedy="use map, filter")))
    step = NativeStep(verb, tuple(columns), tuple(named.items()))
    copy = origin.program.declarations.add(
        lambda number, line: replace(source, id=number, location=line, native=(*source.native, step))
    )
    return Origin(origin.program, (Upstream(copy.id),))
