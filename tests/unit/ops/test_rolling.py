from __future__ import annotations

import pytest

from flintstream.errors import TypeMismatchError
from flintstream.model.row import Row, RowKind
from flintstream.ops.rolling import FieldReduce, StatefulMap, get_part, with_part


@pytest.mark.parametrize("record", [["a", 1], Row(k="a", v=1), {"k": "a", 1: 1}], ids=repr)
def test_a_record_is_never_changed(record):
    before = repr(record)
    FieldReduce("sum", 1).reduce(record, record)
    assert repr(record) == before


def test_a_row_keeps_names_and_kind():
    row = Row.of_kind(RowKind.UPDATE_AFTER, k="a", v=1)
    changed = with_part(row, "v", 5)
    assert (changed.v, changed.k, changed.get_row_kind()) == (5, "a", RowKind.UPDATE_AFTER)


def test_plain_values_have_position_zero_only():
    assert get_part(7, 0) == 7
    assert with_part(7, 0, 8) == 8
    with pytest.raises(TypeMismatchError, match="position 0"):
        get_part(7, "x")


class Held:
    def __init__(self):
        self.held = None

    def value(self):
        return self.held

    def update(self, value):
        self.held = value


def test_a_stateful_map_hands_the_state_on():
    class Context:
        state = Held()

        def get_state(self, descriptor):
            return self.state

    function = StatefulMap(lambda value, state: (state, value))
    function.open(Context())
    assert [function.map(value) for value in (1, 2, 3)] == [None, 1, 2]
