"""Parameters of joins with reference data."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from flintstream import LookupCache, OutputTag, Types, bounded
from flintstream.errors import TypeMismatchError, UserFunctionError
from flintstream.ops import lookup as lookups
from tests.capabilities.parameters import ABSENT, Bench, case, epochs_of, named
from tests.capabilities.support import Lists, collect

KEYED, ANY = "KeyedReferenceJoins", "ReferenceJoins"
TEMPORAL, REGULAR, LOOKUP, CACHE = "TemporalJoined", "RegularJoined", "LookupJoined", "LookupCache"
INT, TEXT = Types.INT(), Types.STRING()
ONE, OTHER = OutputTag("one"), OutputTag("other")
ROWS = [
    {"of": "price", "k": 3, "ts": 1, "n": 40},
    {"of": "price", "k": 1, "ts": 1, "n": 10},
    {"of": "order", "k": 1, "ts": 7, "n": 1},
    {"of": "price", "k": 1, "ts": 5, "n": 20},
    {"of": "order", "k": 2, "ts": 8, "n": 2},
    {"of": "order", "k": 1, "ts": 6, "n": 3},
    {"of": "order", "k": 1, "ts": 30, "n": 4},
    {"of": "order", "k": 1, "ts": 9, "n": 5},
    {"of": "price", "k": 1, "ts": 4, "n": 30},
]


def numbers(left: Any, right: Any) -> tuple[Any, Any]:
    return None if left is None else left["n"], None if right is None else right["n"]


def left_number(left: Any, right: Any) -> int:
    return left["n"]


def sides(bench: Bench) -> tuple[Any, Any]:
    stream = bench.env(1).from_source(Lists(ROWS), bounded(5, on="ts"))
    orders, prices = (stream.filter(lambda row, of=of: row["of"] == of) for of in ("order", "price"))
    return orders.key_by("k"), prices.key_by("k")


def temporal(bench: Bench, **settings: Any) -> Any:
    left, right = sides(bench)
    return left.temporal_join(right, **settings)


def regular(bench: Bench, ttl: Any = 4, **settings: Any) -> Any:
    left, right = sides(bench)
    return left.regular_join(right, ttl, **settings)


def other_side(bench: Bench, n: int) -> Any:
    left, right = sides(bench)
    return left, right.map(lambda row: {**row, "n": row["n"] + n}).key_by("k")


def tagged(joined: Any, tag: OutputTag) -> list[int]:
    return [row["n"] for row in collect(joined.apply(numbers).get_side_output(tag))]


case(
    f"{KEYED}.temporal_join.other",
    lambda b, n: collect((lambda pair: pair[0].temporal_join(pair[1]).apply(numbers))(other_side(b, n))),
    (0, [(3, 20), (1, 20), (4, 20)]),
    (1, [(3, 21), (1, 21), (4, 21)]),
)
case(
    f"{KEYED}.temporal_join.how",
    lambda b, how: collect(temporal(b, **named("how", how)).apply(numbers)),
    (ABSENT, [(3, 20), (1, 20), (4, 20)]),
    ("left", [(3, 20), (1, 20), (2, None), (4, 20)]),
)
case(
    f"{KEYED}.temporal_join.as_of",
    lambda b, as_of: collect(temporal(b, **named("as_of", as_of)).apply(numbers)),
    (ABSENT, [(3, 20), (1, 20), (4, 20)]),
    ("processing", [(1, 10), (3, 20), (4, 20), (5, 20)]),
)
case(
    f"{TEMPORAL}.ends_when.condition",
    lambda b, n: collect(temporal(b).ends_when(lambda price: price["n"] == n).apply(numbers)),
    (0, [(3, 20), (1, 20), (4, 20)]),
    (20, [(4, 30)]),
)
case(
    f"{TEMPORAL}.side_output_left_late_data.output_tag",
    lambda b, tag: tagged(temporal(b).side_output_left_late_data(tag), ONE),
    (ONE, [5]),
    (OTHER, []),
)
case(
    f"{TEMPORAL}.side_output_right_late_data.output_tag",
    lambda b, tag: tagged(temporal(b).side_output_right_late_data(tag), ONE),
    (ONE, [30]),
    (OTHER, []),
)
case(
    "ReferenceJoined.side_output_left_unmatched.output_tag",
    lambda b, tag: tagged(temporal(b).side_output_left_unmatched(tag), ONE),
    (ONE, [2]),
    (OTHER, []),
)
case(
    f"{REGULAR}.side_output_right_unmatched.output_tag",
    lambda b, tag: tagged(regular(b).side_output_right_unmatched(tag), ONE),
    (ONE, [40]),
    (OTHER, []),
)
for owner, start in ((TEMPORAL, temporal), (REGULAR, regular)):
    case(
        f"{owner}.apply.func",
        lambda b, func, start=start: len(collect(start(b).apply(func))) and collect(start(b).apply(func))[0],
        (left_number, 3 if owner == TEMPORAL else 1),
        (numbers, (3, 20) if owner == TEMPORAL else (1, 10)),
    )
    case(
        f"{owner}.apply.output_type",
        lambda b, t, start=start: sorted(collect(start(b).apply(left_number, t))),
        (INT, [1, 3, 4] if owner == TEMPORAL else [1, 1, 3, 3, 4, 4, 4]),
        (TEXT, TypeMismatchError),
    )
BEFORE = [(1, 10), (1, 20), (3, 10), (3, 20), (4, 10), (4, 20)]
case(
    f"{KEYED}.regular_join.other",
    lambda b, n: collect((lambda pair: pair[0].regular_join(pair[1], 4).apply(numbers))(other_side(b, n))),
    (0, [*BEFORE, (4, 30)]),
    (1, [(left, right + 1) for left, right in [*BEFORE, (4, 30)]]),
)
case(
    f"{KEYED}.regular_join.ttl",
    lambda b, ttl: collect(regular(b, ttl).apply(numbers)),
    (4, [*BEFORE, (4, 30)]),
    (1, [(1, 10), (1, 20), (3, 20), (4, 20), (4, 30)]),
    (None, [*BEFORE, (5, 10), (5, 20), (1, 30), (3, 30), (4, 30), (5, 30)]),
)
case(
    f"{KEYED}.regular_join.how",
    lambda b, how: sorted(collect(regular(b, **named("how", how)).apply(numbers)), key=str),
    (ABSENT, [*BEFORE, (4, 30)]),
    ("left", [*BEFORE[:2], (2, None), *BEFORE[2:], (4, 30), (5, None)]),
    ("right", [*BEFORE, (4, 30), (None, 40)]),
    ("full", [*BEFORE[:2], (2, None), *BEFORE[2:], (4, 30), (5, None), (None, 40)]),
)
case(
    f"{KEYED}.regular_join.ttl_time",
    lambda b, clock: len(collect(regular(b, **named("ttl_time", clock)).apply(numbers))),
    (ABSENT, 7),
    ("processing", 12),
)


def people(key: int) -> Any:
    return {1: "Ada", 2: ["Bob", "Ben"]}.get(key)


def keys(bench: Bench, *numbers: int) -> Any:
    return bench.env(1).from_collection([(n, n + 1) for n in numbers or (1, 2, 3)])


case(
    f"{ANY}.lookup_join.lookup",
    lambda b, lookup: collect(keys(b).lookup_join(lookup, on=0).apply(lambda row, found: found)),
    (people, ["Ada", "Bob", "Ben"]),
    (str, ["1", "2", "3"]),
)
case(
    f"{ANY}.lookup_join.on",
    lambda b, on: collect(keys(b).lookup_join(people, on=on).apply(lambda row, found: (row[0], found))),
    (0, [(1, "Ada"), (2, "Bob"), (2, "Ben")]),
    (1, [(1, "Bob"), (1, "Ben")]),
)
case(
    f"{ANY}.lookup_join.how",
    lambda b, how: collect(keys(b).lookup_join(people, 0, **named("how", how)).apply(lambda row, found: found)),
    (ABSENT, ["Ada", "Bob", "Ben"]),
    ("left", ["Ada", "Bob", "Ben", None]),
)
case(
    f"{LOOKUP}.apply.func",
    lambda b, func: collect(keys(b, 1).lookup_join(people, on=0).apply(func)),
    (None, [((1, 2), "Ada")]),
    (lambda row, found: found, ["Ada"]),
)
case(
    f"{LOOKUP}.apply.output_type",
    lambda b, t: collect(keys(b, 1).lookup_join(people, on=0).apply(lambda row, found: found, t)),
    (TEXT, ["Ada"]),
    (INT, TypeMismatchError),
)


def slowly(key: int) -> Any:
    """Answer when the clock has gone on, so that the next epoch is later than this one."""
    until = time.time() + 0.003
    while time.time() < until:
        pass
    return people(key)


def misses(bench: Bench, cache: LookupCache | None, *numbers: int) -> int:
    """Return how often is asked for keys that come in an epoch each."""
    joined = bench.env(1, max_records=1).from_collection([(n,) for n in numbers]).lookup_join(slowly, 0, how="left")
    joined = joined if cache is None else joined.with_cache(cache)
    return epochs_of(joined.apply().uid("join")).counts("join", "lookup_misses")


case(f"{LOOKUP}.with_cache.cache", lambda b, cache: misses(b, cache, 1, 1, 1), (None, 3), (LookupCache(), 1))
case(f"{CACHE}.__init__.max_rows", lambda b, rows: misses(b, LookupCache(rows), 1, 3, 1, 3), (1, 4), (2, 2))
for name in ("expire_after_write", "expire_after_access"):
    case(
        f"{CACHE}.__init__.{name}",
        lambda b, duration, name=name: misses(b, LookupCache(**named(name, duration)), 1, 1, 1),
        (ABSENT, 1),
        ("1h", 1),
        ("1ms", 3),
    )
case(
    f"{CACHE}.__init__.cache_missing_key",
    lambda b, kept: misses(b, LookupCache(cache_missing_key=kept), 3, 3, 1, 1),
    (True, 2),
    (False, 3),
)


def after_failures(bench: Bench, retries: int, delay: Any = ABSENT) -> tuple[Any, list[float]]:
    """Look a key up that fails twice, and return what was found and how long was waited."""
    failures, waits = [ConnectionError(), ConnectionError()], list[float]()

    def flaky(key: int) -> Any:
        if failures:
            raise failures.pop()
        return people(key)

    joined = keys(bench, 1).lookup_join(flaky, on=0).with_retries(retries, **named("delay", delay))
    with patch.object(lookups, "time", SimpleNamespace(sleep=waits.append)):
        return collect(joined.apply(lambda row, found: found)), waits


case(
    f"{LOOKUP}.with_retries.retries",
    lambda b, retries: after_failures(b, retries)[0],
    (1, UserFunctionError),
    (2, ["Ada"]),
)
case(
    f"{LOOKUP}.with_retries.delay",
    lambda b, delay: after_failures(b, 2, delay)[1],
    (ABSENT, [0.0, 0.0]),
    ("2s", [2.0, 2.0]),
)


def most_at_once(bench: Bench, capacity: int) -> int:
    """Return how many lookups of a batch are under way at once."""
    running, most = list[int](), list[int]()

    async def found(key: int) -> int:
        running.append(key)
        most.append(len(running))
        for _ in range(100):
            await asyncio.sleep(0)
        running.remove(key)
        return key

    collect(keys(bench, *range(10)).lookup_join(found, on=0).with_capacity(capacity).apply())
    return max(most)


case(f"{LOOKUP}.with_capacity.capacity", most_at_once, (1, 1), (4, 4))

NAMES = pa.table({"k": [1, 2], "name": ["Ada", "Bob"]})
ONES = [{"a": 1, "b": 1}, {"a": 1, "b": 5}]
PAIRS = pa.table({"a": [1, 1], "b": [1, 2]})
CITIES = pa.table({"k": [2, 3], "name": ["Bonn", "Cork"]})


case(
    f"{ANY}.join_static.table",
    lambda b, table: [row.name for row in collect(b.of({"k": 1}, {"k": 2}).join_static(table, on="k"))],
    (NAMES, ["Ada", "Bob"]),
    (CITIES, ["Bonn"]),
)
case(
    f"{ANY}.join_static.on",
    lambda b, on: [row.b for row in collect(b.of(*ONES).join_static(PAIRS, on, "left_semi"))],
    ("a", [1, 5]),
    (["a", "b"], [1]),
)
case(
    f"{ANY}.join_static.how",
    lambda b, how: [row.name for row in collect(b.of({"k": 2}, {"k": 4}).join_static(NAMES, "k", **named("how", how)))],
    (ABSENT, ["Bob"]),
    ("left", ["Bob", None]),
)
