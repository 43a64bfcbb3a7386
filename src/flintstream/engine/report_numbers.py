"""Numbers of a report that come out of a manifest and the reports of its tasks: state, files, event time, metrics.

Pure functions, apart from who keeps what over time, so that each can be tried on a manifest made by hand.

Flink: the metrics numRecordsIn, currentInputWatermark, lastCheckpointSize and their kin.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from flintstream.engine.manifest import Manifest
from flintstream.graph.nodes import SinkNode, SourceNode
from flintstream.model.metrics import DistributionResult, HistogramStatistics, MeterResult
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.ops.metric_totals import result_of
from flintstream.ops.metrics import PREFIX
from flintstream.ops.timestamps import LANE_SHIFT
from flintstream.planner.plan import Plan

SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def records_of(plan: Plan, manifest: Manifest | None) -> dict[str, tuple[int, int]]:
    """Return how many records each operator took in and gave out; a source takes in what it gives out."""
    found: dict[str, tuple[int, int]] = {}
    for op in plan.operators:
        counts = {} if manifest is None else manifest.counters.get(op.uid, {})
        given = counts.get("out", 0) + counts.get("side", 0)
        found[op.uid] = (given if isinstance(op.node, SourceNode) else counts.get("in", 0), given)
    return found


def sources_of(plan: Plan) -> list[str]:
    """Return the uids of all sources."""
    return [op.uid for op in plan.operators if isinstance(op.node, SourceNode)]


def sinks_of(plan: Plan) -> list[str]:
    """Return the uids of all sinks."""
    return [op.uid for op in plan.operators if isinstance(op.node, SinkNode)]


def feeding(plan: Plan) -> dict[str, list[int]]:
    """Return the numbers of the sources whose records reach each sink, by the sink's uid."""
    reached: dict[int, set[int]] = {}
    for op in plan.operators:
        mine = {op.id} if isinstance(op.node, SourceNode) else set[int]()
        reached[op.id] = mine.union(*(reached.get(link.source, ()) for link in plan.links_to(op.id)))
    return {op.uid: sorted(reached[op.id]) for op in plan.operators if isinstance(op.node, SinkNode)}


def watermarks_of(plan: Plan, manifest: Manifest | None) -> dict[str, int | None]:
    """Return where event time stands in each operator; None where there is none yet."""
    if manifest is None:
        return {op.uid: None for op in plan.operators}
    owners = {uid: number for number, uid in manifest.lane_owners.items()}
    lanes: dict[int, list[int]] = {}
    for lane, time in manifest.lanes.items():
        lanes.setdefault(lane >> LANE_SHIFT, []).append(MAX_TIMESTAMP if time.finished else time.watermark)
    assigners = {op.assigner: op.uid for op in plan.operators if op.assigner is not None}
    found: dict[str, int | None] = {}
    for op in plan.operators:
        own = {op.assigner} if op.assigner is not None else op.lanes
        numbers = [owners.get(assigners.get(number, "")) for number in own]
        seen = [mark for number in numbers if number is not None for mark in lanes.get(number, ())]
        mark = manifest.watermarks.get(op.uid, min(seen, default=MIN_TIMESTAMP))
        found[op.uid] = None if mark == MIN_TIMESTAMP else mark
    return found


def job_watermark(marks: Mapping[str, int | None]) -> int | None:
    """Return where event time stands in the whole job: where it is least, of those operators that have any."""
    return min((mark for mark in marks.values() if mark is not None), default=None)


def lag_of(mark: int | None, now_ms: float) -> int | None:
    """Return how far event time is behind the clock; None before it begins and when it has ended."""
    return None if mark is None or mark == MAX_TIMESTAMP else int(now_ms) - mark


def event_time_skew(manifest: Manifest | None) -> int | None:
    """Return how far apart the splits are in event time; None if none has any."""
    if manifest is None:
        return None
    marks = [time.watermark for time in manifest.lanes.values() if not time.finished]
    known = [mark for mark in marks if mark not in (MIN_TIMESTAMP, MAX_TIMESTAMP)]
    return max(known) - min(known) if known else None


def state_bytes(manifest: Manifest | None) -> dict[str, int]:
    """Return the bytes of files in which each operator's state is.

    Operators of a level share their files; each has the part that its entries are of all.
    """
    if manifest is None:
        return {}
    by_level: dict[int, int] = {}
    for place, handle in manifest.state.items():
        level = int(place.partition("/")[0])
        by_level[level] = by_level.get(level, 0) + sum(file.length for file in handle.files)
    entries: dict[int, int] = {}
    for uid, (level, _) in manifest.layout.items():
        entries[level] = entries.get(level, 0) + manifest.entries.get(uid, 0)
    return {
        uid: by_level.get(level, 0) * manifest.entries.get(uid, 0) // entries[level]
        for uid, (level, _) in manifest.layout.items()
        if entries[level]
    }


def files_of(manifest: Manifest | None) -> dict[tuple[str, int], int]:
    """Return the lengths of all state files, by path and place in it."""
    handles = () if manifest is None else manifest.state.values()
    return {(file.path, file.offset): file.length for handle in handles for file in handle.files}


def user_metrics(manifest: Manifest | None) -> dict[str, dict[str, Any]]:
    """Return the users' metrics by operator, as JSON can hold them; counters are plain numbers."""
    if manifest is None:
        return {}
    found: dict[str, dict[str, Any]] = {}
    for uid, counts in manifest.counters.items():
        own = {name: count for name, count in counts.items() if name.startswith(PREFIX)}
        if own:
            found.setdefault(uid, {}).update(own)
    for uid, metrics in manifest.metrics.items():
        for name, total in metrics.items():
            found.setdefault(uid, {})[name] = _metric(result_of(total))
    return found


def _metric(result: Any) -> dict[str, Any]:
    if isinstance(result, MeterResult):
        return {"kind": "meter", "count": result.count, "rate": result.rate}
    if isinstance(result, DistributionResult):
        spread = {"count": result.count, "sum": result.sum, "min": result.min, "max": result.max}
        return {"kind": "distribution", **spread, "mean": result.mean}
    if isinstance(result, HistogramStatistics):
        spread = {"count": result.count, "sum": result.sum, "min": result.min, "max": result.max}
        shares = {name: result.get_quantile(share) for name, share in SHARES.items()}
        return {"kind": "histogram", **spread, "mean": result.get_mean(), **shares, "buckets": buckets_of(result)}
    return {"kind": "gauge", "values": {str(subtask): value for subtask, value in result.items()}}


def buckets_of(statistics: HistogramStatistics) -> list[tuple[float, int]]:
    """Return pairs (bound, how many are not above it); bounds are 1, 2 and 5 of each power of ten that is needed.

    They are the same in every job and at every time, apart from how far the row of them reaches.
    """
    bounds = _bounds([value for value, _ in statistics.weights])
    counts = [sum(weight for value, weight in statistics.weights if value <= bound) for bound in bounds]
    return list(zip(bounds, counts, strict=True))


def _bounds(values: Sequence[float]) -> list[float]:
    positive = [value for value in values if value > 0]
    negative = [-value for value in values if value < 0]
    below = [-bound for bound in reversed(_series(negative))]
    zero = [0.0] if len(positive) + len(negative) < len(values) or (positive and negative) else []
    return [*below, *zero, *_series(positive)]


def _series(values: Sequence[float]) -> list[float]:
    """Return the bounds that numbers above 0 need: from one that is not above the least to one not below the most."""
    if not values:
        return []
    least, most = min(values), max(values)
    powers = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(most)) + 1)
    every = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    first = max((index for index, bound in enumerate(every) if bound <= least), default=0)
    last = next((index for index, bound in enumerate(every) if bound >= most), len(every) - 1)
    return every[first : last + 1]
