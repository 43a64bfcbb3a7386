"""What metrics of many subtasks and epochs are together: small documents that JSON can hold, and how they are folded.

Separate from the handles that functions use, because the driver folds and the workers record. All but gauges fold in
any order to the same, so totals depend neither on parallelism nor on how the input was cut. A histogram's buckets grow
by a constant factor, so that a value is known up to a relative error; of each sign at most `MOST_BUCKETS` in a row are
kept, counted from the greatest: what is smaller falls into the last of them.

Flink: HistogramStatistics and MeterView of org.apache.flink.metrics.
Differs from Flink: histograms have all values in a bounded space, not a sample of the latest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from flintstream.model.metrics import DistributionResult, HistogramStatistics, MeterResult, Number

Document = dict[str, Any]
"""A metric's change in an epoch, or its total; a JSON value with a `kind`."""

MOST_BUCKETS = 2048
_SLOTS = 12
"""A meter's time span is cut into so many slots; its rate is exact up to one of them."""


def spread_of(values: Sequence[Number]) -> Document:
    """Return count, sum, least and greatest of some values."""
    return {"kind": "distribution", "count": len(values), "sum": sum(values), "min": min(values), "max": max(values)}


def histogram_of(values: Sequence[Number], relative_error: float) -> Document:
    """Return how some values are spread."""
    step = _step(relative_error)
    negative: dict[str, int] = {}
    positive: dict[str, int] = {}
    zeros = 0
    for value in values:
        if not value:
            zeros += 1
            continue
        buckets = positive if value > 0 else negative
        bucket = str(math.ceil(math.log(abs(value)) / step))
        buckets[bucket] = buckets.get(bucket, 0) + 1
    spread = {**spread_of(values), "kind": "histogram", "squares": sum(value * value for value in values)}
    shape = {"zeros": zeros, "negative": _bounded(negative), "positive": _bounded(positive)}
    return {**spread, "error": relative_error, **shape}


def fold(total: Document | None, part: Document, now: int) -> Document:
    """Return a total with what an epoch of processing time `now` adds to it."""
    kind = part["kind"]
    if total is not None and total["kind"] != kind:
        total = None  # the program has changed since, and gives the name to another kind of metric
    if kind == "gauge":
        return {"kind": "gauge", "values": {**(total or part)["values"], **part["values"]}}
    if kind == "meter":
        return _fold_meter(total, part, now)
    if total is None or total.get("error") != part.get("error"):
        return part
    return _fold_spread(total, part)


def _fold_meter(total: Document | None, part: Document, now: int) -> Document:
    width = part["span"] * 1000 // _SLOTS
    slot = now // width
    known: Mapping[str, int] = total["slots"] if total is not None and total["span"] == part["span"] else {}
    slots = {name: count for name, count in known.items() if slot - _SLOTS < int(name)}
    slots[str(slot)] = slots.get(str(slot), 0) + part["count"]
    return {**part, "count": (total["count"] if total else 0) + part["count"], "slots": slots}


def _fold_spread(total: Document, part: Document) -> Document:
    folded = {**part, "count": total["count"] + part["count"], "sum": total["sum"] + part["sum"]}
    folded |= {"min": min(total["min"], part["min"]), "max": max(total["max"], part["max"])}
    if part["kind"] == "histogram":
        folded |= {name: total[name] + part[name] for name in ("squares", "zeros")}
        folded |= {name: _added(total[name], part[name]) for name in ("negative", "positive")}
    return folded


def _added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return _bounded({name: one.get(name, 0) + other.get(name, 0) for name in one.keys() | other.keys()})


def _bounded(buckets: dict[str, int]) -> dict[str, int]:
    """Put what is below the row of buckets that is kept into the lowest of them, and the buckets in order."""
    by_index = {int(name): count for name, count in buckets.items()}
    if not by_index:
        return {}
    lowest = max(by_index) - MOST_BUCKETS + 1
    kept = {index: count for index, count in by_index.items() if index >= lowest}
    beneath = sum(count for index, count in by_index.items() if index < lowest)
    if beneath:
        kept[lowest] = kept.get(lowest, 0) + beneath
    return {str(index): kept[index] for index in sorted(kept)}


def result_of(total: Document) -> Any:
    """Return a total as the job's result shows it."""
    kind = total["kind"]
    if kind == "gauge":
        values = {int(subtask): value for subtask, value in total["values"].items()}
        return {subtask: values[subtask] for subtask in sorted(values)}
    if kind == "meter":
        return MeterResult(total["count"], sum(total["slots"].values()) / total["span"])
    if kind == "distribution":
        return DistributionResult(total["count"], total["sum"], total["min"], total["max"])
    return statistics_of(total)


def statistics_of(total: Document | None) -> HistogramStatistics:
    """Return a histogram's total as the user reads it."""
    if total is None:
        return HistogramStatistics(0, 0, 0, None, None, ())
    step = _step(total["error"])
    weights = [(-_middle(int(name), step), count) for name, count in reversed(total["negative"].items())]
    if total["zeros"]:
        weights.append((0.0, total["zeros"]))
    weights += [(_middle(int(name), step), count) for name, count in total["positive"].items()]
    spread = (total["count"], total["sum"], total["squares"], total["min"], total["max"])
    return HistogramStatistics(*spread, tuple(weights))


def _step(relative_error: float) -> float:
    """Return the width of a bucket on a logarithmic scale."""
    return math.log((1.0 + relative_error) / (1.0 - relative_error))


def _middle(index: int, step: float) -> float:
    """Return what is equally far, relatively, from both ends of a bucket."""
    try:
        return 2.0 * math.exp(index * step) / (math.exp(step) + 1.0)
    except OverflowError:  # the last bucket of all floats reaches beyond them
        return 2.0 * (math.exp((index - 1) * step) / (1.0 + math.exp(-step)))
