"""Patterns obey the batching law: cuts, parallelism and restarts change neither matches nor their order."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import DataStream, OutputTag
from flintstream.cep import (
    CEP,
    AfterMatchSkipStrategy,
    Pattern,
    PatternProcessFunction,
    TimedOutPartialMatchHandler,
)
from tests.laws.programs import LATE, Outputs
from tests.laws.runs import Input, run
from tests.laws.test_batching_law import LONG_SPLIT, PLAIN, SPLITS, law, local_env, numbered, ways

pytestmark = pytest.mark.timeout(900)
MISSES = OutputTag("misses")


class SayMatches(PatternProcessFunction):
    """Tells all there is to know about matches."""

    def process_match(self, match, ctx):
        yield "match", _numbers(match), ctx.timestamp()


class Say(SayMatches, TimedOutPartialMatchHandler):
    """Tells all there is to know about matches and partial matches that timed out."""

    def process_timed_out_match(self, match, ctx):
        yield "timeout", _numbers(match), ctx.timestamp()


def _numbers(match: Any) -> list[Any]:
    return [(name, [record["n"] for record in records]) for name, records in match.items()]


def _is(rest: int) -> Any:
    return lambda record: record["n"] % 3 == rest


def _leaves(rest: int) -> Any:
    number = pc.field("n")
    return number - pc.divide(number, 3) * 3 == rest


def _outputs(stream: Any, pattern: Pattern) -> Outputs:
    main = CEP.pattern(stream, pattern).side_output_late_data(LATE).near_misses(MISSES).process(Say())
    misses = main.get_side_output(MISSES).map(lambda miss: (miss.pattern, miss.reason, _numbers(miss.match)))
    return {"main": main, "late": main.get_side_output(LATE), "misses": misses}


def three_steps(left: DataStream, right: DataStream) -> Outputs:
    return _outputs(left.key_by("key"), _three_steps())


def _three_steps() -> Pattern:
    pattern = Pattern.begin("a").where(_is(0)).followed_by("b").where(_is(1)).followed_by_any("c").where(_is(2))
    return pattern.within("15ms")


def three_steps_unheard(left: DataStream, right: DataStream) -> Outputs:
    """The same, and nobody hears of what comes to nothing: partial matches need not end at a moment of their own."""
    return {"main": CEP.pattern(left.key_by("key"), _three_steps()).process(SayMatches())}


def three_steps_in_columns(left: DataStream, right: DataStream) -> Outputs:
    """The same, by conditions that are computed on columns; one of them asks records too."""
    pattern = Pattern.begin("a").where(_leaves(0)).followed_by("b").where(_leaves(1)).where(lambda record: True)
    return _outputs(left.key_by("key"), pattern.followed_by_any("c").where(_leaves(2)).within("15ms"))


def three_steps_as_objects(left: DataStream, right: DataStream) -> Outputs:
    """The same, in records that are no columns, so that the same conditions are asked of each."""
    mixed = left.map(lambda record: record if record["n"] % 2 else {**record, "odd": False})
    pattern = Pattern.begin("a").where(_leaves(0)).followed_by("b").where(_leaves(1)).followed_by_any("c")
    return _outputs(mixed.key_by("key"), pattern.where(_leaves(2)).within("15ms"))


def loops_that_skip(left: DataStream, right: DataStream) -> Outputs:
    skip = AfterMatchSkipStrategy.skip_past_last_event()
    pattern = Pattern.begin("a", skip).where(_is(0)).one_or_more().followed_by("b").where(_is(1))
    return _outputs(left.key_by("key"), pattern.within("20ms"))


def what_does_not_follow(left: DataStream, right: DataStream) -> Outputs:
    return _outputs(left.key_by("key"), Pattern.begin("a").where(_is(0)).not_followed_by("b").where(_is(1)).within(9))


def without_keys(left: DataStream, right: DataStream) -> Outputs:
    return _outputs(left, Pattern.begin("a").where(_is(0)).next("b").where(_is(1)).optional().next("c").within(30))


PROGRAMS = [
    three_steps,
    three_steps_unheard,
    three_steps_in_columns,
    loops_that_skip,
    what_does_not_follow,
    without_keys,
]


@pytest.mark.parametrize("program", PROGRAMS)
@law(6)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), way=ways())
def test_one_split_has_one_result(program, split, bound, way):
    records = Input(numbered([split]), bound=bound)
    assert run(program, records, way, local_env) == run(program, records, PLAIN, local_env)


@law(10)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), way=ways())
def test_conditions_on_columns_are_conditions(split, bound, way):
    records = Input(numbered([split]), bound=bound)
    main, late, misses = run(three_steps, records, PLAIN, local_env).values()
    assert list(run(three_steps_in_columns, records, way, local_env).values()) == [main, late, misses]
    by_records = list(run(three_steps_as_objects, records, way, local_env).values())
    assert [by_records[0], by_records[2]] == [main, misses]


@law(10)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), way=ways())
def test_matches_are_the_same_whether_or_not_anybody_hears_of_the_others(split, bound, way):
    records = Input(numbered([split]), bound=bound)
    heard = run(three_steps, records, PLAIN, local_env)["three_steps main"]
    unheard = run(three_steps_unheard, records, way, local_env)["three_steps_unheard main"]
    assert unheard == [each for each in heard if each[0] == "match"]


@law(6)
@given(left=SPLITS, way=ways(deterministic=True))
def test_in_deterministic_order_splits_do_not_matter(left, way):
    records = Input(numbered(left), bound=5)
    plain = run(PROGRAMS, records, type(way)(deterministic=True), local_env)
    assert run(PROGRAMS, records, way, local_env) == plain
