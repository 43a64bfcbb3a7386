"""What trigger expressions are as values: how they are built, compared, shipped and refused."""

from __future__ import annotations

from typing import Any

import cloudpickle
import pytest

from flintstream.errors import FlintstreamError, InvalidArgumentError, TypeMismatchError
from flintstream.model.trigger_algebra import AllOf, AnyOf, Foreign, InTurn, Repeated
from flintstream.model.trigger_terms import (
    AfterCount,
    after,
    after_count,
    after_watermark,
    each,
    every,
    never,
    on,
    simplified,
)
from flintstream.model.triggers import CountTrigger, EventTimeTrigger, NeverTrigger


def test_operators_build_flat_expressions() -> None:
    one, two, three = after_count(1), after_count(2), after_count(3)
    assert one | two | three == AnyOf((one, two, three))
    assert one & two & three == AllOf((one, two, three))
    assert one.then(two).then(three) == InTurn((one, two, three))
    assert one.repeat() == one.repeat().repeat() == Repeated(one)
    assert (one | two) & three == AllOf((AnyOf((one, two)), three))


def test_flinks_triggers_can_stand_on_either_side() -> None:
    count = CountTrigger(2)
    assert count | each() == AnyOf((Foreign(count, "0"), each()))
    assert each() | count == AnyOf((each(), Foreign(count, "1")))
    assert count & each() == AllOf((Foreign(count, "0"), each()))
    assert each().then(count) == InTurn((each(), Foreign(count, "1")))


def test_every_flink_trigger_has_a_place_of_its_own() -> None:
    count = CountTrigger(2)
    trigger = (each() | count | count).then(count & each())

    def places(part: Any) -> list[str]:
        if isinstance(part, Foreign):
            return [part.namespace]
        return [place for child in part.children() for place in places(child)]

    found = places(after_watermark(trigger, trigger | count))
    assert len(found) == len(set(found)) == 7


def test_expressions_come_back_from_a_pickle_equal() -> None:
    trigger = after_watermark(early=every("1s") | after("5s"), late=each().then(never())) & CountTrigger(3)
    assert cloudpickle.loads(cloudpickle.dumps(trigger)) == trigger


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: after_count(0), InvalidArgumentError, "after_count got 0; {line}; give a number of records"),
        (lambda: after_count(True), InvalidArgumentError, "after_count got True"),
        (lambda: every("0s"), InvalidArgumentError, "Every got a duration of 0 ms; {line}; give 1 ms or more"),
        (lambda: after(-5), InvalidArgumentError, "After got a duration of -5 ms"),
        (lambda: on(None), TypeMismatchError, "use each()"),  # type: ignore[arg-type]
        (lambda: on("vip"), TypeMismatchError, "pass a function such as lambda"),  # type: ignore[arg-type]
        (lambda: each() | 5, TypeMismatchError, "5 is not a trigger; {line}; use triggers such as"),  # type: ignore[operator]
        (lambda: after_watermark(early="1s"), TypeMismatchError, "'1s' is not a trigger"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_trigger_is_refused(build: Any, error: type[FlintstreamError], message: str) -> None:
    with pytest.raises(error) as caught:
        build()
    line = f"test_trigger_terms.py:{build.__code__.co_firstlineno}"
    assert message.format(line=line) in str(caught.value)


def test_an_expression_can_merge_if_all_its_parts_can() -> None:
    assert (after_watermark(early=each()) | CountTrigger(2)).can_merge()
    assert not (each() | NeverTrigger()).can_merge()
    assert not after_watermark(early=NeverTrigger()).can_merge()


def test_who_needs_the_clock() -> None:
    assert every("1s").goes_by_clock
    assert after("1s").then(each()).goes_by_clock
    assert after_watermark(late=each() & after("1s")).goes_by_clock
    assert not every("1s", event_time=True).goes_by_clock
    assert not (after_watermark(early=after_count(2)) | each()).goes_by_clock


def test_the_plain_watermark_trigger_is_flinks() -> None:
    assert simplified(after_watermark()) == EventTimeTrigger()
    assert simplified(after_watermark(late=never())) == after_watermark(late=never())
    assert simplified(after_count(2)) == AfterCount(2)
