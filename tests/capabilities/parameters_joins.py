"""Parameters of joins in time."""

from __future__ import annotations

from typing import Any

from flintstream import CoGroupFunction, OutputTag, Types, bounded, monotonous, tumbling
from flintstream.errors import InvalidArgumentError, TypeMismatchError, UnknownTagError
from tests.capabilities.parameters import ABSENT, Bench, case, named
from tests.capabilities.support import collect

LATE, OTHER = OutputTag("late"), OutputTag("other")
LEFT = [("a", "x", 1), ("b", "x", 2)]
RIGHT = [("a", "x", 3), ("c", "x", 4), ("a", "y", 12)]


def sides(bench: Bench, bound: int = 0) -> tuple[Any, Any]:
    """Return two streams of (key, other key, time)."""
    env = bench.env(1)
    first, second = (env.from_collection(rows) for rows in (LEFT, RIGHT))
    return tuple(each.assign_timestamps_and_watermarks(monotonous(on=2)) for each in (first, second))


def one_stream(bench: Bench) -> tuple[Any, Any]:
    """Return two streams of which each has a record that comes too late: at 20 and 21, and then at 1 and 2."""
    rows = [(side, "x", ts) for ts in (20, 1) for side in ("a", "b")]
    both = bench.env(1).from_collection(rows).assign_timestamps_and_watermarks(bounded(0, on=2))
    return both.filter(lambda row: row[0] == "a"), both.filter(lambda row: row[0] == "b")


def times(pairs: Any) -> list[Any]:
    """Return the times of records in pairs."""
    return sorted((tuple(each and each[2] for each in pair) for pair in pairs), key=repr)


def windows(bench: Bench, other: Any = None, assigner: Any = None, keys: Any = (0, 0), how: Any = ABSENT) -> Any:
    left, right = sides(bench)
    joined = left.join(right if other is None else other, **named("how", how)).where(keys[0]).equal_to(keys[1])
    return joined.window(assigner or tumbling("10ms"))


class Sizes(CoGroupFunction):
    def co_group(self, first, second):
        yield len(list(first)), len(list(second))


def groups(bench: Bench, other: Any = None, assigner: Any = None) -> Any:
    left, right = sides(bench)
    joined = left.co_group(right if other is None else other(left)).where(0).equal_to(0)
    return joined.window(assigner or tumbling("10ms"))


def joined(bench: Bench, how: Any = ABSENT, lower: Any = 0, upper: Any = 5) -> Any:
    left, right = sides(bench)
    return left.key_by(0).interval_join(right.key_by(0), **named("how", how)).between(lower, upper)


def typed(stream: Any) -> Any:
    return str(stream.get_type())


def keys_of(bench: Bench, first: Any, second: Any) -> list[Any]:
    left, right = sides(bench)
    pairs = left.join(right).where(*first).equal_to(*second).window(tumbling("20ms")).apply()
    return times(collect(pairs))


def side_output(bench: Bench, call: str, tag: Any, interval: bool) -> list[Any]:
    """Return what one of the side outputs of a join of records that may come too late has."""
    left, right = one_stream(bench)
    if interval:
        two = left.key_by(1).interval_join(right.key_by(1)).between(5, 9)
        result = getattr(two, call)(tag).process()
    else:
        two = left.join(right).where(1).equal_to(1).window(tumbling("10ms"))
        result = getattr(two, call)(tag).apply()
    return collect(result.get_side_output(LATE))


INNER, WITH_LEFT = [(1, 3)], [(1, 3), (2, None)]
case(
    "JoinOperations.join.how",
    lambda b, how: times(collect(windows(b, how=how).apply())),
    (ABSENT, INNER),
    ("left", WITH_LEFT),
    ("right", [(1, 3), (None, 12), (None, 4)]),
    ("outer", InvalidArgumentError),
)
case(
    "JoinOperations.join.other",
    lambda b, same: times(
        collect(
            (lambda left: left.join(left if same else sides(b)[1]))(sides(b)[0])
            .where(0)
            .equal_to(0)
            .window(tumbling("10ms"))
            .apply()
        )
    ),
    (True, [(1, 1), (2, 2)]),
    (False, TypeMismatchError),
)
case(
    "JoinOperations.co_group.other",
    lambda b, same: sorted(collect(groups(b, (lambda left: left) if same else None).apply(Sizes()))),
    (True, [(1, 1), (1, 1)]),
    (False, [(0, 1), (0, 1), (1, 0), (1, 1)]),
)
case(
    "TwoStreams.where.key_selector",
    lambda b, key: keys_of(b, (key,), (1,)),
    (1, [(1, 3), (1, 4), (2, 3), (2, 4)]),
    (0, []),
)
case(
    "TwoStreams.equal_to.key_selector",
    lambda b, key: keys_of(b, (1,), (key,)),
    (1, [(1, 3), (1, 4), (2, 3), (2, 4)]),
    (0, []),
)
case(
    "TwoStreams.where.key_type",
    lambda b, kind: keys_of(b, (0, kind), (0, Types.STRING())),
    (None, [(1, 12), (1, 3)]),
    (Types.INT(), TypeMismatchError),
)
case(
    "TwoStreams.equal_to.key_type",
    lambda b, kind: keys_of(b, (0, Types.STRING()), (0, kind)),
    (None, [(1, 12), (1, 3)]),
    (Types.INT(), TypeMismatchError),
)
case(
    "JoinedStreams.window.assigner",
    lambda b, size: times(collect(windows(b, assigner=tumbling(size)).apply())),
    ("10ms", INNER),
    ("20ms", [(1, 12), (1, 3)]),
)
case(
    "JoinedWindows.apply.func",
    lambda b, func: collect(windows(b).apply(func)),
    (None, [(LEFT[0], RIGHT[0])]),
    (lambda a, b: a[2] + b[2], [4]),
    (3, TypeMismatchError),
)
case(
    "JoinedWindows.apply.output_type",
    lambda b, kind: typed(windows(b).apply(lambda a, b: 1, kind)),
    (None, str(Types.PICKLED_BYTE_ARRAY())),
    (Types.INT(), str(Types.INT())),
)
case(
    "TwoStreamWindows.side_output_left_late_data.output_tag",
    lambda b, tag: side_output(b, "side_output_left_late_data", tag, interval=False),
    (LATE, [("a", "x", 1)]),
    ("late", TypeMismatchError),
    (OTHER, []),
)
case(
    "TwoStreamWindows.side_output_right_late_data.output_tag",
    lambda b, tag: side_output(b, "side_output_right_late_data", tag, interval=False),
    (LATE, [("b", "x", 1)]),
    ("late", TypeMismatchError),
    (OTHER, []),
)
case(
    "CoGroupedStreams.window.assigner",
    lambda b, size: sorted(collect(groups(b, assigner=tumbling(size)).apply(Sizes()))),
    ("10ms", [(0, 1), (0, 1), (1, 0), (1, 1)]),
    ("20ms", [(0, 1), (1, 0), (1, 2)]),
)
case(
    "CoGroupedWindows.apply.func",
    lambda b, func: sorted(collect(groups(b).apply(func))),
    (Sizes(), [(0, 1), (0, 1), (1, 0), (1, 1)]),
    (lambda first, second: [len(first)], [0, 0, 1, 1]),
)
case(
    "CoGroupedWindows.apply.output_type",
    lambda b, kind: typed(groups(b).apply(Sizes(), kind)),
    (None, str(Types.PICKLED_BYTE_ARRAY())),
    (Types.INT(), str(Types.INT())),
)
case(
    "KeyedJoinOperations.interval_join.how",
    lambda b, how: times(collect(joined(b, how).process())),
    (ABSENT, INNER),
    ("left", WITH_LEFT),
    ("full", [(1, 3), (2, None), (None, 12), (None, 4)]),
    ("outer", InvalidArgumentError),
)
case(
    "KeyedJoinOperations.interval_join.other",
    lambda b, keyed: times(
        collect(
            (lambda two: two[0].key_by(0).interval_join(two[1].key_by(0) if keyed else two[1]).between(0, 5).process())(
                sides(b)
            )
        )
    ),
    (True, INNER),
    (False, TypeMismatchError),
)
case(
    "IntervalJoin.between.lower_bound",
    lambda b, lower: times(collect(joined(b, lower=lower, upper=20).process())),
    (0, [(1, 12), (1, 3)]),
    ("3ms", [(1, 12)]),
)
case(
    "IntervalJoin.between.upper_bound",
    lambda b, upper: times(collect(joined(b, upper=upper).process())),
    (5, INNER),
    ("11ms", [(1, 12), (1, 3)]),
    (-1, InvalidArgumentError),
)
case(
    "IntervalJoined.process.func",
    lambda b, func: collect(joined(b).process(func)),
    (None, [(LEFT[0], RIGHT[0])]),
    (lambda a, b: a[2] + b[2], [4]),
    (3, TypeMismatchError),
)
case(
    "IntervalJoined.process.output_type",
    lambda b, kind: typed(joined(b).process(lambda a, b: 1, kind)),
    (None, str(Types.PICKLED_BYTE_ARRAY())),
    (Types.INT(), str(Types.INT())),
)
for call, expected in {
    "side_output_left_late_data": ("a", "x", 1),
    "side_output_right_late_data": ("b", "x", 1),
    "side_output_left_unmatched": ("a", "x", 20),
    "side_output_right_unmatched": ("b", "x", 20),
}.items():
    case(
        f"IntervalJoined.{call}.output_tag",
        lambda b, tag, call=call: side_output(b, call, tag, interval=True),
        (LATE, [expected]),
        (OTHER, UnknownTagError),
        ("late", TypeMismatchError),
    )
