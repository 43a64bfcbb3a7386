"""How large epochs become: bounded in time however slow records are, and mostly records where they are fast."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flintstream.engine.pacing_size import FIRST_RECORDS, FLOORS_PER_EPOCH, MOST_RECORDS, EpochSize
from tests.unit.values import law

TARGET = 2.0


def run(size: EpochSize, epochs: int, seconds):
    """Let epochs of the chosen size take what `seconds(records)` says; return (records, seconds) of each."""
    found = []
    for _ in range(epochs):
        records = size.records
        taken = seconds(records)
        found.append((records, taken))
        size.took(records, taken)
    return found


@law
@given(st.floats(0.001, 3.0), st.floats(1e-7, 0.5), st.floats(0, 10))
def test_epochs_come_to_a_bounded_time_and_are_worth_their_fixed_cost(fixed, each, cold):
    size, goal = EpochSize(TARGET), max(TARGET, FLOORS_PER_EPOCH * fixed)
    first = [cold]

    def seconds(records: int) -> float:
        return fixed + records * each + (first.pop() if first else 0)

    later = run(size, 40, seconds)[25:]
    for records, taken in later:
        assert taken <= 2 * goal or records == 1
        # What every epoch costs anyhow is a small part, unless more records than these are not to be had.
        assert fixed <= taken / 2 or records == MOST_RECORDS or fixed + each > goal / 2


def test_a_sink_that_takes_10_ms_a_record_gets_epochs_of_seconds_after_the_first():
    epochs = run(EpochSize(TARGET), 12, lambda records: 0.3 + 0.01 * records)
    assert epochs[0][0] == FIRST_RECORDS
    assert all(taken <= 2 * TARGET * 1.2 for _, taken in epochs[1:])
    assert sum(records for records, _ in epochs[4:]) / 8 > 100


def test_records_that_become_slow_make_epochs_small_at_once():
    size = EpochSize(TARGET)
    run(size, 10, lambda records: 0.3 + 1e-6 * records)
    assert size.records > 1_000_000
    before = size.records
    size.took(before, before * 0.01)
    assert size.records < 500
    assert all(taken < 3 * TARGET for _, taken in run(size, 10, lambda records: 0.3 + 0.01 * records))


def test_a_slow_first_epoch_is_not_held_against_its_records():
    size, cold = EpochSize(TARGET), [3.0]
    run(size, 8, lambda records: 0.3 + 1e-6 * records + (cold.pop() if cold else 0))
    assert size.records > 1_000_000


def test_an_epoch_with_little_to_read_says_nothing():
    size = EpochSize(TARGET)
    size.took(10, 0.001)
    assert size.records == FIRST_RECORDS


def test_there_is_always_at_least_one_record_and_never_more_than_the_most():
    size = EpochSize(TARGET)
    run(size, 20, lambda records: 100.0 * records)
    assert size.records == 1
    size = EpochSize(TARGET)
    run(size, 30, lambda records: 1e-9 * records)
    assert size.records == MOST_RECORDS
