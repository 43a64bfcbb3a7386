"""Parameters of patterns and pattern streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc

from flintstream import CollectSink, OutputTag, Types, monotonous
from flintstream.cep import CEP, AfterMatchSkipStrategy, Pattern, PatternProcessFunction, WithinType
from flintstream.errors import DefinitionError, InvalidArgumentError, TypeMismatchError, UnknownTagError
from tests.capabilities.parameters import ABSENT, Bench, case, named

A, ALL = Types.INT(), "abxb"
SIDE, OTHER = OutputTag("side"), OutputTag("other")
SKIP = AfterMatchSkipStrategy


def stream(bench: Bench, letters: str) -> Any:
    """Return letters as (number, letter), one each millisecond."""
    records = bench.of(*({"n": n, "letter": letter} for n, letter in enumerate(letters)))
    return records.assign_timestamps_and_watermarks(monotonous(on="n"))


def numbers(match: Any) -> list[int]:
    return [record["n"] for records in match.values() for record in records]


def named_numbers(match: Any) -> dict[str, list[int]]:
    return {name: [record["n"] for record in records] for name, records in match.items()}


def is_(letter: str) -> Callable[[Any], bool]:
    return lambda record: record["letter"] == letter


def found(bench: Bench, pattern: Pattern, letters: str = "ab", select: Any = numbers) -> list[Any]:
    return list(CEP.pattern(stream(bench, letters), pattern).select(select).execute_and_collect())


def a() -> Pattern:
    return Pattern.begin("a").where(is_("a"))


def ab(skip: Any = None) -> Pattern:
    return Pattern.begin("a", skip).where(is_("a")).followed_by("b").where(is_("b"))


def repeated(bench: Bench, call: str, *arguments: int) -> list[Any]:
    return found(bench, getattr(a(), call)(*arguments), "aaa")


def timed(bench: Bench, call: str, tag: Any, function: Any, timeout: Any = None, output_type: Any = None) -> Any:
    """Return what a pattern gives, and what timed out."""
    matches = CEP.pattern(stream(bench, "abxax"), ab().within("2ms"))
    name = "pattern_timeout_function" if call == "select" else "pattern_flat_timeout_function"
    options = {"timed_out_partial_matches_tag": tag, name: timeout}
    result = getattr(matches, call)(function, output_type, **(options if timeout is not None else {}))
    main, side = CollectSink(), CollectSink()
    result.sink_to(main)
    if timeout is not None:
        result.get_side_output(SIDE).sink_to(side)
    result.get_execution_environment().execute("timed")
    return main.results, side.results


def side_of(matches: Any) -> list[Any]:
    """Return the numbers in a side output."""
    side = matches.select(numbers).get_side_output(SIDE)
    return [getattr(each, "reason", None) or each["n"] for each in side.execute_and_collect()]


def late(bench: Bench, tag: Any) -> list[Any]:
    records = bench.of(*({"n": n, "letter": "a"} for n in (9, 3)))
    records = records.assign_timestamps_and_watermarks(monotonous(on="n"))
    return side_of(CEP.pattern(records, a()).side_output_late_data(tag))


class Count(PatternProcessFunction):
    def __init__(self, factor: int = 1) -> None:
        self._factor = factor

    def process_match(self, match, ctx):
        yield self._factor * len(numbers(match))


def processed(bench: Bench, function: Any, output_type: Any = None) -> list[Any]:
    return list(CEP.pattern(stream(bench, "ab"), ab()).process(function, output_type).execute_and_collect())


for call, results in {
    "next": ({"a": [0], "n": [1]}, {"a": [0], "m": [1]}),
    "followed_by": ({"a": [0], "n": [1]}, {"a": [0], "m": [1]}),
    "followed_by_any": ({"a": [0], "n": [1]}, {"a": [0], "m": [1]}),
}.items():

    def named_so(bench: Bench, name: Any, call: str = call) -> list[Any]:
        return found(bench, getattr(a(), call)(name), select=named_numbers)

    case(f"Pattern.{call}.name", named_so, ("n", [results[0]]), ("m", [results[1]]), ("a", DefinitionError))

for call, word in (("not_next", "x"), ("not_followed_by", "x")):

    def forbidden(bench: Bench, name: Any, call: str = call) -> list[Any]:
        pattern = getattr(a(), call)(name).where(is_("x")).followed_by("b").where(is_("b"))
        return found(bench, pattern, "axbab")

    case(f"Pattern.{call}.name", forbidden, (word, [[3, 4]]), ("a", DefinitionError))

case(
    "Pattern.begin.name",
    lambda bench, name: found(bench, Pattern.begin(name).times(1), select=named_numbers),
    ("n", [{"n": [0]}, {"n": [1]}]),
    (Pattern.begin("m"), [{"m": [0]}, {"m": [1]}]),
    (3, TypeMismatchError),
)
case(
    "Pattern.begin.after_match_skip_strategy",
    lambda bench, skip: found(bench, ab(skip), "aab"),
    (None, [[0, 2], [1, 2]]),
    (SKIP.skip_past_last_event(), [[0, 2]]),
)
case(
    "Pattern.where.condition",
    lambda bench, condition: found(bench, Pattern.begin("a").where(condition)),
    (len, [[0], [1]]),
    (lambda record: record["n"] > 0, [[1]]),
    (lambda record, ctx: ctx.timestamp() < 1, [[0]]),
    (pc.field("letter") == "b", [[1]]),
    (pc.field("n") + 1, TypeMismatchError),
    (pc.field("absent") == 1, TypeMismatchError),
    (3, TypeMismatchError),
)
case(
    "Pattern.or_.condition",
    lambda bench, condition: found(bench, a().or_(condition), "abx"),
    (is_("b"), [[0], [1]]),
    (is_("x"), [[0], [2]]),
)
case(
    "Pattern.subtype.subtype_class",
    lambda bench, cls: found(bench, a().subtype(cls)),
    (dict, [[0]]),
    (str, []),
    ("dict", TypeMismatchError),
)
case(
    "Pattern.until.until_condition",
    lambda bench, until: found(bench, a().one_or_more().until(until), "aba"),
    (is_("x"), [[0], [0, 2], [2]]),
    (is_("b"), [[0], [2]]),
)
case(
    "Pattern.within.window_time",
    lambda bench, time: found(bench, ab().within(time), "axb"),
    ("2ms", []),
    (3, [[0, 2]]),
    (0, InvalidArgumentError),
)
case(
    "Pattern.within.within_type",
    lambda bench, kind: found(bench, ab().followed_by("x").where(is_("x")).within("3ms", kind), "abcx"),
    (WithinType.FIRST_AND_LAST, []),
    (WithinType.PREVIOUS_AND_CURRENT, [[0, 1, 3]]),
)
case(
    "Pattern.times.times",
    lambda bench, times: repeated(bench, "times", times),
    (2, [[0, 1], [1, 2]]),
    (3, [[0, 1, 2]]),
    (0, InvalidArgumentError),
)
case(
    "Pattern.times.to_times",
    lambda bench, to: repeated(bench, "times", 2, *([] if to is ABSENT else [to])),
    (ABSENT, [[0, 1], [1, 2]]),
    (3, [[0, 1], [0, 1, 2], [1, 2]]),
    (1, InvalidArgumentError),
)
case(
    "Pattern.times_or_more.times",
    lambda bench, times: repeated(bench, "times_or_more", times),
    (2, [[0, 1], [0, 1, 2], [1, 2]]),
    (3, [[0, 1, 2]]),
)
for call, last in (("skip_to_first", [[0, 1, 2], [1, 2]]), ("skip_to_last", [[0, 1, 2], [1, 2]])):

    def skipping(bench: Bench, name: str, call: str = call) -> list[Any]:
        pattern = Pattern.begin("a", getattr(SKIP, call)(name)).where(is_("a")).times(1, 2).consecutive()
        return found(bench, pattern.next("b").where(is_("b")), "aab")

    case(
        f"AfterMatchSkipStrategy.{call}.pattern_name",
        skipping,
        ("a", last),
        ("b", [[0, 1, 2]]),
        ("z", InvalidArgumentError),
    )
case(
    "CEP.pattern.input",
    lambda bench, letters: list(CEP.pattern(stream(bench, letters), ab()).select(numbers).execute_and_collect()),
    ("ab", [[0, 1]]),
    ("ba", []),
)
case(
    "CEP.pattern.pattern",
    lambda bench, pattern: found(bench, pattern),
    (a(), [[0]]),
    (ab(), [[0, 1]]),
    ("ab", TypeMismatchError),
    (a().not_followed_by("b"), DefinitionError),
)
case("PatternStream.side_output_late_data.late_data_output_tag", late, (SIDE, [3]), (OTHER, UnknownTagError))
case(
    "PatternStream.near_misses.output_tag",
    lambda bench, tag: side_of(CEP.pattern(stream(bench, "ax"), a().next("b").where(is_("b"))).near_misses(tag)),
    (SIDE, ["condition"]),
    (OTHER, UnknownTagError),
    ("side", TypeMismatchError),
)
case(
    "PatternStream.select.function",
    lambda bench, function: found(bench, ab(), select=function),
    (numbers, [[0, 1]]),
    (len, [2]),
    (3, TypeMismatchError),
)
case(
    "PatternStream.flat_select.function",
    lambda bench, function: timed(bench, "flat_select", None, function),
    (numbers, ([0, 1], [])),
    (lambda match: list(match), (["a", "b"], [])),
)
for call, one in (("select", lambda value: value), ("flat_select", lambda value: [value])):
    made = f"PatternStream.{call}"
    timeout_name = "pattern_timeout_function" if call == "select" else "pattern_flat_timeout_function"

    def typed(bench: Bench, output_type: Any, call: str = call, one: Any = one) -> Any:
        return timed(bench, call, None, lambda match: one(len(match)), output_type=output_type)

    def tagged(bench: Bench, tag: Any, call: str = call, one: Any = one) -> Any:
        return timed(bench, call, tag, lambda match: one(len(match)), lambda match, time: one(time))

    def ended(bench: Bench, function: Any, call: str = call, one: Any = one) -> Any:
        return timed(bench, call, SIDE, lambda match: one(len(match)), lambda match, time: one(function(match, time)))

    case(f"{made}.output_type", typed, (None, ([2], [])), (Types.STRING(), TypeMismatchError))
    case(f"{made}.timed_out_partial_matches_tag", tagged, (SIDE, ([2], [5])), (OTHER, UnknownTagError))
    case(
        f"{made}.{timeout_name}",
        ended,
        (lambda match, time: time, ([2], [5])),
        (lambda match, time: numbers(match), ([2], [[3]])),
    )
case(
    "PatternStream.process.pattern_process_function",
    processed,
    (Count(), [2]),
    (Count(3), [6]),
    (len, TypeMismatchError),
)
case(
    "PatternStream.process.output_type",
    lambda bench, declared: processed(bench, Count(), **named("output_type", declared)),
    (ABSENT, [2]),
    (Types.STRING(), TypeMismatchError),
)
case(
    "Pattern.parse.text",
    lambda bench, text: found(bench, Pattern.parse(text), "aab"),
    ("PATTERN (A B) DEFINE A AS letter = 'a', B AS letter = 'b'", [[1, 2]]),
    ("PATTERN (A+ B) DEFINE A AS letter = 'a', B AS letter = 'b'", [[0, 1, 2]]),
    ("PATTERN A", InvalidArgumentError),
)
