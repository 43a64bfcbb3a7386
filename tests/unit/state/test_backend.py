"""The backend counts all state that it holds, whether or not an operator has asked for it yet."""

from __future__ import annotations

from flintstream.state.backend import KeyedBackend
from flintstream.state.table import Table


def backend_with(*steps: dict[str, int | None]) -> KeyedBackend:
    """Return a restored backend whose table `op/sum` nobody has claimed; None removes a key."""
    before = KeyedBackend(8, range(8))
    after = KeyedBackend(8, range(8))
    table = before.table("op/sum", lambda: Table("sum"))
    for step in steps:
        for key, value in step.items():
            table.delete(key) if value is None else table.put(key, value)
        after.apply(before.delta())
    return after


def test_state_that_nobody_has_claimed_is_counted():
    assert backend_with({"a": 1, "b": 2}, {"b": 3, "c": 4}).entries() == {"op/sum": 3}


def test_what_was_removed_is_not_counted_and_counts_follow_later_changes():
    backend = backend_with({"a": 1, "b": 2}, {"a": None})
    assert backend.entries() == {"op/sum": 1}
    other = KeyedBackend(8, range(8))
    other.table("op/sum", lambda: Table("sum")).put("z", 1)
    backend.apply(other.delta())
    assert backend.entries() == {"op/sum": 2}


def test_a_claimed_table_is_counted_once():
    backend = backend_with({"a": 1})
    backend.entries()
    backend.table("op/sum", lambda: Table("sum")).put("b", 2)
    assert backend.entries() == {"op/sum": 2}
