"""Programs of joins with reference data. With one source, the column `side` says whether a record is `L` or `R`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flintstream import Change, DataStream, OutputTag, count, tumbling
from tests.spec.functions import show, show_late, show_time
from tests.spec.programs import program

LATE, LATE_VERSIONS = OutputTag("late"), OutputTag("late-versions")
ALONE, RIGHT_ALONE = OutputTag("left alone"), OutputTag("right alone")


def on_left(row: dict[str, Any]) -> bool:
    return row["side"] == "L"


def on_right(row: dict[str, Any]) -> bool:
    return row["side"] == "R"


def sides(left: DataStream, right: DataStream | None) -> tuple[Any, Any]:
    if right is None:
        left, right = left.filter(on_left).uid("left side"), left.filter(on_right).uid("right side")
    return left.key_by("key"), right.key_by("key")


def is_nothing(row: dict[str, Any]) -> bool:
    return row["v"] is None


def with_version(left: dict[str, Any], version: dict[str, Any] | None) -> str:
    return show(left["key"], show_time(left["t"]), left["v"], "none" if version is None else version["v"])


@program
def temporal_join(
    left: DataStream, right: DataStream | None = None, how: str = "inner", as_of: str = "event"
) -> dict[str, DataStream]:
    records, versions = sides(left, right)
    joined = records.temporal_join(versions, how=how, as_of=as_of).ends_when(is_nothing)
    if as_of == "processing":
        return {"main": joined.apply(with_version).uid("join")}
    joined = joined.side_output_left_late_data(LATE).side_output_right_late_data(LATE_VERSIONS)
    result = joined.apply(with_version).uid("join")
    late = {"late": LATE, "late versions": LATE_VERSIONS}
    return {"main": result} | {n: result.get_side_output(tag).map(show_late).uid(n) for n, tag in late.items()}


def with_other(left: dict[str, Any] | None, right: dict[str, Any] | None) -> str:
    some = left or right
    assert some is not None
    return show(some["key"], shown(left), shown(right))


def shown(row: dict[str, Any] | None) -> str:
    if row is None:
        return "none"
    return f"{'-' if row['t'] is None else show_time(row['t'])}:{row['v']}"


def show_change(change: Change[str]) -> str:
    key, _, rest = change.value.partition(" ")
    return f"{key} {change.kind} {rest}"


@program
def regular_join(
    left: DataStream,
    right: DataStream | None = None,
    how: str = "inner",
    ttl: str | None = None,
    ttl_time: str = "event",
    changelog: bool = False,
) -> DataStream:
    records, others = sides(left, right)
    joined = records.regular_join(others, ttl=ttl, how=how, ttl_time=ttl_time)
    if not changelog:
        return joined.apply(with_other).uid("join")
    return joined.changelog().apply(with_other).uid("join").map(show_change).uid("text")


@program
def joined_then_counted(left: DataStream, right: DataStream) -> DataStream:
    """The results' timestamps are what a window behind the join sees."""
    records, others = sides(left, right)
    pairs = records.regular_join(others, ttl="1h").apply(lambda one, other: {"key": one["key"]}).uid("join")
    counts = pairs.key_by("key").window(tumbling("10s")).agg(n=count()).uid("count")
    return counts.map(lambda row: show(row.key, show_time(row.window_start), row.n)).uid("text")


@program
def unmatched(left: DataStream, join: str) -> dict[str, DataStream]:
    """An inner join whose unmatched records go to side outputs."""
    records, others = sides(left, None)
    if join == "regular":
        joined = records.regular_join(others, ttl="10s").side_output_right_unmatched(RIGHT_ALONE)
        results = joined.side_output_left_unmatched(ALONE).apply(with_other).uid("join")
        right = {"right": results.get_side_output(RIGHT_ALONE).map(show_late).uid("right as text")}
    else:
        joined = records.temporal_join(others, as_of=join).side_output_left_unmatched(ALONE)
        results, right = joined.apply(with_version).uid("join"), {}
    return {"main": results, "left": results.get_side_output(ALONE).map(show_late).uid("left as text"), **right}


PEOPLE = {"ada": ["x", "y"], "bob": ["z"]}


def people(key: str) -> list[str] | None:
    return PEOPLE.get(key)


def with_found(row: dict[str, Any], found: str | None) -> str:
    return show(row["key"], row["v"], "none" if found is None else found)


@program
def lookup_join(stream: DataStream, how: str = "inner") -> DataStream:
    return stream.lookup_join(people, on="key", how=how).apply(with_found).uid("lookup")


@program
def static_join(stream: DataStream, how: str = "inner") -> DataStream:
    table = pa.table({"key": ["ada", "ada", "bob", None], "found": ["x", "y", "z", "w"]})
    joined = stream.join_static(table, on="key", how=how).uid("static")
    return joined.map(lambda row: show(row.key, row.v, *row.as_dict().get("found") or "-")).uid("text")
