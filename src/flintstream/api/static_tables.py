"""Reads the table of `join_static`, and decides who joins: Spark right behind a source, or an operator of ours.

Apart from the other joins, since this one alone may become part of a source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa

from flintstream.api.arguments import located
from flintstream.api.stream import Origin, Streamlike
from flintstream.errors import DefinitionError, InvalidArgumentError, TypeMismatchError, UnsupportedError, describe
from flintstream.graph.location import users_line
from flintstream.graph.nodes import FunctionNode, NativeStep, SourceNode, Upstream
from flintstream.model.connect import SplitSource
from flintstream.ops.join_static import StaticJoin

S = TypeVar("S")


def join_with_table(stream: Streamlike[S], table: Any, on: str | Sequence[str], how: str) -> S:
    """Put a join with a table behind a stream."""
    is_frame = hasattr(table, "isStreaming")
    found = _frame(table) if is_frame else _arrow_table(table)
    columns: list[str] = list(found.columns if is_frame else found.column_names)
    names = _names(on, columns)
    origin = stream.origin
    source = None if origin.only is None else origin.program.declarations.node(origin.only.node)
    if origin.program.runtime == "spark" and isinstance(source, SourceNode) and (is_frame or not is_ranged(source)):
        return stream.result(_natively(origin, source, found, names, how))
    if is_frame:
        raise _refused(isinstance(source, SourceNode))
    return stream.add(FunctionNode, name="Static Join", shape="static_join", function=StaticJoin(how, found, names))


def is_ranged(source: SourceNode) -> bool:
    """Whether tasks of ours read a source, and no column step of Spark's follows."""
    return isinstance(source.source, SplitSource) and not source.native


def _natively(origin: Origin, source: SourceNode, table: Any, on: tuple[str, ...], how: str) -> Origin:
    """Return the records of a copy of the source, which Spark joins with the table as it reads them."""
    step = NativeStep("join", (table,), (("on", on), ("how", how)))
    copy = origin.program.declarations.add(
        lambda number, line: replace(source, id=number, location=line, native=(*source.native, step))
    )
    return Origin(origin.program, (Upstream(copy.id),))


def _refused(is_behind_source: bool) -> Exception:
    if not is_behind_source:
        what = "join_static(...) with a Spark DataFrame runs in Spark, right behind a source, and not here"
        remedy = "put it there and watermarks behind it, or pass df.toArrow(), of which each task then has a copy"
        return located(DefinitionError(describe(what, remedy=remedy)))
    what = "a Spark DataFrame can only be read on Spark, and this program runs in-process"
    line = users_line()
    remedy = "pass an Arrow or a pandas table, or use runtime='spark'"
    return UnsupportedError(describe(what, line, remedy), location=line)


def _frame(frame: Any) -> Any:
    if frame.isStreaming:
        what = "the table of join_static(...) is a streaming DataFrame"
        remedy = "use env.from_dataframe(...) for it, and a temporal or a regular join"
        raise located(InvalidArgumentError(describe(what, remedy=remedy)))
    return frame


def _arrow_table(table: Any) -> pa.Table:
    """Return an Arrow or a pandas table as an Arrow table without dictionaries."""
    if type(table).__module__.startswith("pandas.") and hasattr(table, "columns"):
        table = pa.Table.from_pandas(table, preserve_index=False)
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        what = f"a {type(table).__name__} is not a table"
        raise located(TypeMismatchError(describe(what, remedy="pass a Spark or a pandas DataFrame, or an Arrow table")))
    columns = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def _names(on: Any, columns: Sequence[str]) -> tuple[str, ...]:
    names = (on,) if isinstance(on, str) else tuple(on)
    missing = [name for name in names if name not in columns]
    if missing or not names:
        what = f"on= names {', '.join(map(repr, missing)) or 'no field'}, and the table has {', '.join(columns)}"
        raise located(InvalidArgumentError(describe(what, remedy="name fields that records and table have")))
    return names
