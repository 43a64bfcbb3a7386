from __future__ import annotations

from typing import Any

import pytest

from flintstream.errors import InvalidArgumentError
from flintstream.model.evictors import CountEvictor, DeltaEvictor, DeltaFunction, Evictor, TimeEvictor, TimestampedValue
from flintstream.model.time import MIN_TIMESTAMP


def left(evictor: Evictor[Any, Any], elements: list[TimestampedValue[Any]]) -> tuple[list[Any], list[Any]]:
    """Return what evicting before and after leave."""
    before, after = list(elements), list(elements)
    context: Any = None
    evictor.evict_before(before, len(before), None, context)
    evictor.evict_after(after, len(after), None, context)
    return [e.get_value() for e in before], [e.get_value() for e in after]


def stamped(*pairs: tuple[Any, int | None]) -> list[TimestampedValue[Any]]:
    return [TimestampedValue(value, timestamp) for value, timestamp in pairs]


def distance(old: float, new: float) -> float:
    return new - old


class Distance(DeltaFunction):
    def get_delta(self, old_data_point: Any, new_data_point: Any) -> float:
        return distance(old_data_point, new_data_point)


ONE_TO_FIVE = stamped(*((i, i) for i in range(1, 6)))
ALL = [1, 2, 3, 4, 5]


def test_count_evictor_keeps_the_last() -> None:
    assert left(CountEvictor.of(2), ONE_TO_FIVE) == ([4, 5], ALL)
    assert left(CountEvictor.of(9), ONE_TO_FIVE) == (ALL, ALL)
    assert left(CountEvictor.of(0), ONE_TO_FIVE) == ([], ALL)


def test_time_evictor_keeps_what_is_younger_than_the_newest_less_the_size() -> None:
    assert left(TimeEvictor.of("2 ms"), ONE_TO_FIVE) == ([4, 5], ALL)
    assert left(TimeEvictor.of(2), stamped((1, 7), (2, 5), (3, 6), (4, -1))) == ([1, 3], [1, 2, 3, 4])
    assert left(TimeEvictor.of(2), stamped((1, None), (2, None))) == ([1, 2], [1, 2])
    assert left(TimeEvictor.of(2), []) == ([], [])


def test_delta_evictor_keeps_what_is_near_the_last() -> None:
    for measure in (distance, Distance()):
        assert left(DeltaEvictor.of(2, measure), ONE_TO_FIVE) == ([4, 5], ALL)
    assert left(DeltaEvictor.of(2, distance), []) == ([], [])


@pytest.mark.parametrize("make", [lambda: CountEvictor.of(1, True), lambda: TimeEvictor.of(1, True)])
def test_evicting_can_wait_until_after_the_function(make: Any) -> None:
    assert left(make(), ONE_TO_FIVE) == (ALL, [5])
    assert left(DeltaEvictor.of(1, distance, True), ONE_TO_FIVE) == (ALL, [5])


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="-1"):
        CountEvictor.of(-1)


def test_a_value_may_have_no_timestamp() -> None:
    assert TimestampedValue("a", 5).get_timestamp() == 5
    assert TimestampedValue("a", 5).has_timestamp()
    for none in (TimestampedValue("a"), TimestampedValue("a", MIN_TIMESTAMP)):
        assert none.get_timestamp() is None
        assert not none.has_timestamp()
    assert TimestampedValue("a", 5) == TimestampedValue("a", 5) != TimestampedValue("a", 6)
    assert len({TimestampedValue("a", 5), TimestampedValue("a", 5)}) == 1
