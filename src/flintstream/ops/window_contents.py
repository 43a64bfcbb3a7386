"""What a window holds: one value that grows with every record, or the records themselves.

The operator asks four questions and never looks inside: what does the first record make, what does one more, what do
two windows that merge, and what does the window's function get. None stands for nothing, as it does in all state.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from flintstream.model.functions import AggregateFunction, ReduceFunction, entry_point
from flintstream.state.table import Table


@dataclass(frozen=True, slots=True)
class Contents:
    """How contents come about; `result` is the list of elements that a firing window shows, or None for no result.

    `empty` is what a window shows whose records were all evicted.
    """

    first: Callable[[Any], Any]
    add: Callable[[Any, Any], Any]
    merge: Callable[[Any, Any], Any]
    result: Callable[[Any], list[Any] | None]
    empty: Callable[[], list[Any] | None]


class TimedAggregate(AggregateFunction):
    """An aggregate whose values are `(record, timestamp)` pairs."""


def reduced(function: ReduceFunction) -> Contents:
    """Return contents that are reduced to one value as records come."""
    reduce = entry_point(function, "reduce")
    return Contents(lambda value: value, reduce, reduce, lambda held: [held], lambda: None)


def aggregated(function: AggregateFunction) -> Contents:
    """Return contents that are an accumulator."""
    create, add, get_result = function.create_accumulator, function.add, function.get_result

    def result(held: Any) -> list[Any] | None:
        value = get_result(held)
        return None if value is None else [value]

    return Contents(
        lambda value: add(value, create()),
        lambda held, value: add(value, held),
        function.merge,
        result,
        lambda: result(create()),
    )


def collected() -> Contents:
    """Return contents that are the records themselves, in the order they came."""

    def add(held: list[Any], value: Any) -> list[Any]:
        held.append(value)
        return held

    def merge(into: list[Any], other: list[Any]) -> list[Any]:
        into.extend(other)
        return into

    # A copy: the function may sort or empty its list, and the window may fire again.
    return Contents(lambda value: [value], add, merge, list, list)


def fold(contents: Contents, values: Sequence[Any]) -> list[Any] | None:
    """Return what a window shows that held exactly these records; None if there is no result."""
    if not values:
        return contents.empty()
    held = functools.reduce(contents.add, values[1:], contents.first(values[0]))
    return None if held is None else contents.result(held)


def merge_into(table: Table, key: Any, target: Any, sources: Iterable[Any], merge: Callable[[Any, Any], Any]) -> None:
    """Move what a key holds for the windows `sources` into what it holds for `target`.

    The sources become one before they join the target, as in Flink, so that sums of floats come out alike.
    """
    merged: Any = None
    for source in sources:
        held = table.data[key, source]
        if held is not None:
            table.delete((key, source))
            merged = held if merged is None else merge(merged, held)
    if merged is not None:
        held = table.data[key, target]
        table.put((key, target), merged if held is None else merge(held, merged))
