from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flintstream.model.tags import OutputTag
from flintstream.model.types import Types
from flintstream.ops.batch import Batch, Values
from flintstream.ops.operator import MAIN
from flintstream.ops.tagging import emit_tagged
from tests.unit.values import law

LATE, ODD = OutputTag("late", Types.INT()), OutputTag("odd", Types.INT())


class Caught:
    """An output that keeps what it gets, by tag."""

    def __init__(self) -> None:
        self.batches: dict[str, Batch] = {}

    def emit(self, batch: Batch, tag: str = MAIN) -> None:
        assert tag not in self.batches
        self.batches[tag] = batch


def emit(rows: list[Any]) -> dict[str, Batch]:
    out, numbers = Caught(), np.arange(len(rows))
    emit_tagged(Batch(Values(rows), numbers + 100, [numbers], numbers - 5), out)
    return out.batches


PLAIN = st.one_of(
    st.integers(), st.just(()), st.tuples(st.integers()), st.tuples(st.integers(), st.integers()), st.text(max_size=2)
)
ROWS = st.lists(st.tuples(st.sampled_from([MAIN, "late", "odd"]), PLAIN), max_size=10)


@law
@given(ROWS)
def test_every_value_leaves_by_its_own_output_in_order(rows: list[tuple[str, Any]]) -> None:
    tags = {"late": LATE, "odd": ODD}
    batches = emit([(tags[tag], value) if tag else value for tag, value in rows])
    for tag in (MAIN, "late", "odd"):
        places = [index for index, (name, _) in enumerate(rows) if name == tag]
        if not places:
            assert tag not in batches
            continue
        batch = batches[tag]
        assert batch.watermarks is not None
        assert batch.values.rows() == [rows[place][1] for place in places]
        assert batch.timestamps.tolist() == [place + 100 for place in places]
        assert batch.stamp[0].tolist() == places
        assert batch.watermarks.tolist() == [place - 5 for place in places]


def test_a_tag_in_another_place_is_a_value_like_any_other() -> None:
    rows = [(LATE,), (LATE, 1, 2), (1, LATE), [LATE, 1], LATE]
    assert emit(rows)[MAIN].values.rows() == rows


def test_a_subclass_of_the_tag_is_a_tag() -> None:
    class Own(OutputTag):
        pass

    assert emit([(Own("own", Types.INT()), 1)])["own"].values.rows() == [1]


def test_nothing_is_emitted_for_nothing() -> None:
    assert emit([]) == {}
