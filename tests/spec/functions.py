"""What transcripts compute in windows, and how results are written down.

A result is a line of text: `key [start,end) value`, times in seconds. Windows that are no stretch
of time are not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from flintstream import (
    AggregateFunction,
    DataStream,
    Pane,
    PaneInfo,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    TimeWindow,
    ValueStateDescriptor,
    avg,
    count,
    max_of,
    min_of,
    sum_of,
)
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from tests.spec.transcript import TranscriptError


def show_time(millis: int) -> str:
    """Return a time in seconds."""
    if millis in (MIN_TIMESTAMP, MAX_TIMESTAMP):
        return "-inf" if millis == MIN_TIMESTAMP else "inf"
    return f"{millis / 1000:.3f}".rstrip("0").rstrip(".")


def show(*parts: Any) -> str:
    """Return parts as one line: windows, lists and all the rest."""
    return " ".join(text for text in map(_show_part, parts) if text)


def _show_part(part: Any) -> str:
    if isinstance(part, TimeWindow):
        return f"[{show_time(part.start)},{show_time(part.end)})"
    if part is None or type(part).__name__ in ("GlobalWindow", "CountWindow"):
        return ""
    if isinstance(part, list):
        return ",".join(map(str, part))
    if isinstance(part, float):
        return f"{part:g}"
    return str(part)


def show_late(row: dict[str, Any]) -> str:
    """Return a record as it came."""
    return show(row.get("key"), show_time(row["t"]), row["v"])


class Fold(AggregateFunction):
    """Folds the numbers `v` by a function."""

    def __init__(self, fold: Callable[[list[Any]], Any]) -> None:
        self._fold = fold

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: dict[str, Any], accumulator: list[Any]) -> list[Any]:
        return [self._fold([*accumulator, value["v"]])]

    def get_result(self, accumulator: list[Any]) -> Any:
        return accumulator[0] if accumulator else 0

    def merge(self, acc_a: list[Any], acc_b: list[Any]) -> list[Any]:
        return [self._fold([*acc_a, *acc_b])]


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Distinct(AggregateFunction):
    """Counts different values."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        return sorted({*accumulator, value["v"]})

    def get_result(self, accumulator: list[Any]) -> int:
        return len(accumulator)

    def merge(self, acc_a: list[Any], acc_b: list[Any]) -> list[Any]:
        return sorted({*acc_a, *acc_b})


Contents = Callable[[Any, list[Any]], Any]
"""What to show of a window, from its context and its elements."""


def values(context: Any, elements: list[Any]) -> list[Any]:
    return [element["v"] for element in elements]


def only(context: Any, elements: list[Any]) -> Any:
    (element,) = elements
    return element["v"] if isinstance(element, dict) else element


def with_watermark(context: Any, elements: list[Any]) -> str:
    return f"{_show_part(values(context, elements))} at {show_time(context.current_watermark())}"


def with_clock(context: Any, elements: list[Any]) -> str:
    return f"{_show_part(values(context, elements))} at {show_time(context.current_processing_time())}"


def with_firings(context: Any, elements: list[Any]) -> str:
    """Show how often the window has fired and how many windows of the key have, by state of both kinds."""
    mine = context.window_state().get_state(ValueStateDescriptor("firings"))
    all_windows = context.global_state().get_state(ValueStateDescriptor("firings of all"))
    for state in (mine, all_windows):
        state.update((state.value() or 0) + 1)
    return f"{_show_part(values(context, elements))} firing {mine.value()} of {all_windows.value()}"


class Show(ProcessWindowFunction):
    """Emits a line for a window of a key."""

    def __init__(self, contents: Contents, paned: bool = False) -> None:
        self._contents = contents
        self._paned = paned

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[str]:
        pane = show_pane(context.pane()) if self._paned else None
        yield show(key, context.window(), self._contents(context, list(elements)), pane)

    def clear(self, context: Any) -> None:
        if self._contents is with_firings:
            context.window_state().get_state(ValueStateDescriptor("firings")).clear()


class ShowAll(ProcessAllWindowFunction):
    """Emits a line for a window of the whole stream."""

    def __init__(self, contents: Contents, paned: bool = False) -> None:
        self._contents = contents
        self._paned = paned

    def process(self, context: Any, elements: Iterable[Any]) -> Iterable[str]:
        pane = show_pane(context.pane()) if self._paned else None
        yield show(context.window(), self._contents(context, list(elements)), pane)


def show_pane(info: PaneInfo) -> str:
    """Return a pane's timing and number, and whether it is known to be the last."""
    return f"{info.timing.name} {info.number}{' last' if info.last else ''}"


def show_retraction(pane: Pane[str]) -> str:
    return f"{pane.value} retracted" if pane.info.is_retraction else pane.value


AGGREGATES: dict[str, AggregateFunction] = {
    "sum": Fold(sum),
    "max": Fold(max),
    "min": Fold(min),
    "count": Count(),
    "distinct": Distinct(),
}
PROCESSES: dict[str, Contents] = {
    "list": values,
    "sorted": lambda context, elements: sorted(values(context, elements)),
    "watermark": with_watermark,
    "clock": with_clock,
    "firings": with_firings,
}
COLUMNS = {
    "agg(sum)": sum_of("v"),
    "agg(count)": count(),
    "agg(max)": max_of("v"),
    "agg(min)": min_of("v"),
    "agg(avg)": avg("v"),
}


def add_up(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    return {**left, "v": left["v"] + right["v"]}


def evaluate(windowed: Any, how: str, is_all: bool, panes: str | None) -> tuple[DataStream, DataStream]:
    """Return what a window gives, and the same as text."""
    form = partial(ShowAll if is_all else Show, paned=panes is not None)
    if how in AGGREGATES:
        result = windowed.aggregate(AGGREGATES[how], form(only))
    elif how in PROCESSES:
        result = windowed.process(form(PROCESSES[how]))
    elif how == "reduce":
        result = windowed.reduce(add_up, form(only))
    elif how == "plain reduce":
        result = windowed.reduce(add_up)
        return result.uid("window"), result.map(lambda row: show(row.get("key"), row["v"])).uid("as text")
    elif how in COLUMNS:
        result = windowed.agg(value=COLUMNS[how])
        return result.uid("window"), result.map(show_columns).uid("as text")
    else:
        raise TranscriptError(f"windows cannot be evaluated by {how!r}")
    result = result.uid("window")
    return result, result.map(show_retraction).uid("as text") if panes == "retracting" else result


def show_columns(row: Any) -> str:
    names = row.as_dict()
    window = TimeWindow(names["window_start"], names["window_end"]) if "window_start" in names else None
    return show(names.get("key"), window, names["value"])
