"""Summaries: what they answer, that it depends on the values alone, and that they stay small."""

from __future__ import annotations

import math
import pickle
import random
import statistics
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream import (
    DistinctCountStateDescriptor,
    MapStateDescriptor,
    QuantilesStateDescriptor,
    ReservoirStateDescriptor,
    StateTtlConfig,
    SummaryStateDescriptor,
    Time,
    TopKStateDescriptor,
    ValueStateDescriptor,
)
from flintstream.errors import (
    DefinitionError,
    EnvironmentSetupError,
    IncompatibleStateError,
    InvalidArgumentError,
    UnsupportedError,
)
from flintstream.ops.keyed_store import KeyedStore
from flintstream.ops.operator import OperatorContext
from flintstream.state import summary_sketches
from flintstream.state.backend import KeyedBackend

pytest.importorskip("datasketches")

RESERVOIR, DISTINCT = ReservoirStateDescriptor("r", 5), DistinctCountStateDescriptor("d")
QUANTILES, TOP = QuantilesStateDescriptor("q", compression=20), TopKStateDescriptor("t", 2, capacity=8)
ALL = [RESERVOIR, DISTINCT, QUANTILES, TOP]


def new_backend() -> KeyedBackend:
    return KeyedBackend(128, range(128))


def view(descriptor: SummaryStateDescriptor[Any], backend: KeyedBackend | None = None, key: Any = "k") -> Any:
    """Return the state of one key that a function would get."""
    backend = backend or new_backend()
    backend.key = key
    return KeyedStore(OperatorContext("op", "op", 0, 1, backend), keyed=True).get_summary_state(descriptor)


def restored(backend: KeyedBackend) -> KeyedBackend:
    """Return another process's backend with the state of this one, which has gone through columns."""
    after = new_backend()
    after.apply(backend.snapshot())
    return after


def shown(state: Any) -> Any:
    return state.get(), state.count(), state.to_bytes()


@pytest.mark.parametrize("descriptor", ALL, ids=lambda each: each.name)
@given(values=st.lists(st.integers(0, 40), max_size=700), cuts=st.sets(st.integers(0, 700), max_size=4))
@settings(max_examples=25)
def test_a_summary_depends_on_its_values_alone(descriptor, values, cuts):
    """Restored and read in between or not: the same bytes."""
    whole = view(descriptor)
    backend = new_backend()
    state = view(descriptor, backend)
    for number, value in enumerate(values):
        whole.add(value)
        if number in cuts:
            shown(state)
            backend = restored(backend)
            state = view(descriptor, backend)
        state.add(value)
    assert shown(whole) == shown(state)


@pytest.mark.parametrize("descriptor", ALL, ids=lambda each: each.name)
def test_changelogs_bring_a_summary_forward_and_remove_it(descriptor):
    backend, after = new_backend(), new_backend()
    state, other = view(descriptor, backend), view(descriptor, after)
    for value in range(300):
        state.add(value)
        if value % 100 == 0:
            after.apply(backend.delta())
    after.apply(backend.delta())
    assert shown(other) == shown(state)
    assert backend.delta() == {}
    state.clear()
    after.apply(backend.delta())
    assert (other.count(), other.to_bytes()) == (0, None)
    assert sum(after.entries().values()) == 0


def test_empty_summaries():
    assert view(RESERVOIR).get() == []
    assert view(DISTINCT).get() == 0
    quantiles = view(QUANTILES)
    assert (quantiles.get(), quantiles.quantile(0.5), quantiles.rank(1.0)) == (None, None, None)
    assert (view(TOP).get(), view(TOP).error()) == ([], 0)


def test_keys_have_summaries_of_their_own():
    backend = new_backend()
    first = view(TOP, backend, "a")
    first.add(1)
    assert view(TOP, backend, "b").get() == []
    assert view(TOP, backend, "a").get() == [(1, 1)]


def test_a_sample_is_everything_while_that_is_little():
    state = view(RESERVOIR)
    for value in "abcd":
        state.add(value)
    assert (sorted(state.get()), state.count()) == (["a", "b", "c", "d"], 4)


def test_a_sample_is_uniform():
    """Each of 50 values is in a sample of 5 with a probability of 1/10: 200 of 2000 keys, give or take 5 deviations."""
    backend = new_backend()
    seen: Counter[int] = Counter()
    for key in range(2000):
        state = view(RESERVOIR, backend, key)
        for value in range(50):
            state.add(value)
        assert len(state.get()) == 5
        seen.update(state.get())
    assert sum(seen.values()) == 10_000
    deviation = math.sqrt(2000 * 0.1 * 0.9)
    assert max(abs(seen[value] - 200) for value in range(50)) < 5 * deviation


def test_another_seed_is_another_sample():
    samples = []
    for seed in (0, 1):
        state = view(ReservoirStateDescriptor("r", 5, seed=seed))
        for value in range(100):
            state.add(value)
        samples.append(sorted(state.get()))
    assert samples[0] != samples[1]


def test_a_merged_sample_is_of_both_in_proportion():
    """900 values of one summary and 100 of another: about one in ten is of the latter."""
    of_second = 0
    backend = new_backend()
    for key in range(400):
        first = view(ReservoirStateDescriptor("r", 10), backend, ("a", key))
        for value in range(900):
            first.add(value)
        second = view(ReservoirStateDescriptor("r", 10), backend, ("b", key))
        for value in range(1000, 1100):
            second.add(value)
        data = second.to_bytes()
        backend.key = ("a", key)
        second.merge(data)
        assert (second.count(), len(second.get())) == (1000, 10)
        of_second += sum(value >= 1000 for value in second.get())
    assert 300 < of_second < 500


@pytest.mark.parametrize(("descriptor", "error"), [(DISTINCT, 0.02), (DistinctCountStateDescriptor("e", 0.1), 0.1)])
def test_a_distinct_count_is_as_exact_as_asked_for(descriptor, error):
    state = view(descriptor)
    for value in range(100_000):
        state.add(f"user {value % 20_000}")
    assert abs(state.get() - 20_000) < 4 * error * 20_000
    assert state.count() == 100_000


def test_equal_values_count_once_whatever_their_type():
    state = view(DISTINCT)
    for value in (1, 1.0, True, "1", b"1", None, (1, 2), [1, 2], {"a": 1}, (1.0, 2.0)):
        state.add(value)
    assert state.get() == 7


def test_a_merged_distinct_count_counts_what_both_have_once():
    state, other = view(DISTINCT), view(DISTINCT)
    for value in range(6000):
        state.add(value)
        other.add(value + 3000)
    state.merge(other.to_bytes())
    assert abs(state.get() - 9000) < 4 * 0.02 * 9000
    assert state.count() == 12_000


def test_quantiles_are_near_the_exact_ones_and_most_so_at_the_ends():
    rng = random.Random(1)
    values = [rng.gauss(0.0, 1.0) for _ in range(30_000)]
    state = view(QuantilesStateDescriptor("q", (0.0, 0.01, 0.5, 0.99, 1.0)))
    for value in values:
        state.add(value)
    values.sort()
    least, first, median, last, greatest = state.get()
    assert (least, greatest) == (values[0], values[-1])
    for found, share, error in ((first, 0.01, 0.001), (median, 0.5, 0.02), (last, 0.99, 0.001)):
        rank = sum(value < found for value in values) / len(values)
        assert abs(rank - share) < error
    assert abs(state.rank(statistics.median(values)) - 0.5) < 0.02
    assert state.quantile(0.5) == median


def test_reading_quantiles_leaves_them_as_they_are():
    state, read = view(QUANTILES), view(QUANTILES)
    for value in range(1000):
        state.add(value)
        read.add(value)
        read.get()
    assert state.to_bytes() == read.to_bytes()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_quantiles_of_what_is_no_number_are_refused(value):
    with pytest.raises(InvalidArgumentError, match="finite number"):
        view(QUANTILES).add(value)


def test_merged_quantiles_are_those_of_all_values():
    state, other = view(QuantilesStateDescriptor("q")), view(QuantilesStateDescriptor("q"))
    for value in range(5000):
        state.add(value)
        other.add(value + 5000)
    state.merge(other.to_bytes())
    assert state.count() == 10_000
    assert abs(state.quantile(0.5) - 5000) < 200


@given(values=st.lists(st.integers(0, 30), max_size=300), capacity=st.integers(2, 12))
@settings(max_examples=100)
def test_the_commonest_values_keep_their_promises(values, capacity):
    state = view(TopKStateDescriptor("t", 2, capacity=capacity))
    for value in values:
        state.add(value)
    exact, error = Counter(values), state.error()
    found = state.get()
    assert all(exact[value] <= count <= exact[value] + error for value, count in found)
    assert error <= 2 * len(values) / capacity
    all_found = dict(view_of_all(state, capacity))
    assert all(value in all_found for value, count in exact.items() if count > error)
    assert found == sorted(found, key=lambda pair: -pair[1])[:2]


def view_of_all(state: Any, capacity: int) -> Any:
    """Return all that a summary watches: another view of the same bytes, which gives more of them."""
    every = view(TopKStateDescriptor("t", capacity, capacity=capacity))
    every.merge(state.to_bytes())
    return every.get()


@given(
    first=st.lists(st.integers(0, 20), max_size=100),
    second=st.lists(st.integers(0, 20), max_size=100),
)
@settings(max_examples=50)
def test_merged_the_commonest_keep_their_promises(first, second):
    state, other = view(TOP), view(TOP)
    for value in first:
        state.add(value)
    for value in second:
        other.add(value)
    state.merge(other.to_bytes())
    exact = Counter(first) + Counter(second)
    assert all(exact[value] <= count <= exact[value] + state.error() for value, count in state.get())
    assert state.count() == len(first) + len(second)


def test_without_purges_the_commonest_are_exact_and_equals_have_one_order():
    state = view(TopKStateDescriptor("t", 3))
    for value in ["b", "a", "c", "c", "d"]:
        state.add(value)
    assert (state.get(), state.error()) == ([("c", 2), ("a", 1), ("b", 1)], 0)


LIMITS = [
    (ReservoirStateDescriptor("r", 100), lambda n: n, 2_000),
    (DistinctCountStateDescriptor("d"), lambda n: n, 4_300),
    (QuantilesStateDescriptor("q"), lambda n: float(n * 7919 % 100_003), 7_000),
    (TopKStateDescriptor("t", 10), lambda n: n * n % 10_007, 1_700),
]


@pytest.mark.parametrize(("descriptor", "value", "most"), LIMITS, ids=lambda each: getattr(each, "name", None))
def test_a_summary_stays_small_however_much_is_added(descriptor: Any, value: Callable[[int], Any], most: int):
    """Sizes do not grow from ten thousand values on; `most` is in bytes."""
    backend = new_backend()
    state = view(descriptor, backend)
    sizes = []
    for number in range(60_000):
        state.add(value(number))
        if number % 1000 == 0:
            sizes.append(len(state.to_bytes()))
    assert max(sizes) < most
    assert max(sizes[10:]) < 1.5 * max(sizes[:10])
    assert sum(batch.nbytes for batch in backend.snapshot().values()) < most + 500
    assert backend.entries() == {f"op/{descriptor.name}": 1}


OTHERS = [
    (ReservoirStateDescriptor("r", 5), ReservoirStateDescriptor("r", 6)),
    (ReservoirStateDescriptor("r", 5), ReservoirStateDescriptor("r", 5, seed=1)),
    (DistinctCountStateDescriptor("r"), DistinctCountStateDescriptor("r", 0.05)),
    (QuantilesStateDescriptor("r"), QuantilesStateDescriptor("r", compression=100)),
    (TopKStateDescriptor("r"), TopKStateDescriptor("r", capacity=50)),
    (TopKStateDescriptor("r"), ReservoirStateDescriptor("r", 160)),
]


@pytest.mark.parametrize(("before", "after"), OTHERS)
def test_other_settings_fit_neither_what_is_restored_nor_what_is_merged(before, after):
    backend = new_backend()
    state = view(before, backend)
    state.add(1)
    with pytest.raises(InvalidArgumentError, match="merged into"):
        view(after).merge(state.to_bytes())
    with pytest.raises(IncompatibleStateError, match="'r' of an earlier run is not"):
        view(after, restored(backend)).get()


def test_how_many_values_are_read_may_change():
    backend = new_backend()
    for value in range(5):
        view(TopKStateDescriptor("t", 2, capacity=40), backend).add(value)
    assert len(view(TopKStateDescriptor("t", 4, capacity=40), restored(backend)).get()) == 4


def test_state_of_another_kind_is_no_summary():
    backend = new_backend()
    backend.key = "k"
    store = KeyedStore(OperatorContext("op", "op", 0, 1, backend), keyed=True)
    store.get_state(ValueStateDescriptor("r")).update(1)
    with pytest.raises(DefinitionError, match=r"'r' is asked for by ValueStateDescriptor.* and by Reservoir"):
        store.get_summary_state(RESERVOIR)
    store.get_summary_state(TOP)
    for get, descriptor in ((store.get_state, ValueStateDescriptor), (store.get_map_state, MapStateDescriptor)):
        with pytest.raises(DefinitionError, match="'t' is asked for by TopK"):
            get(descriptor("t"))
    with pytest.raises(IncompatibleStateError, match="'r' of an earlier run is not"):
        view(RESERVOIR, restored(backend)).add(2)


def test_a_stream_without_keys_has_no_summaries():
    store = KeyedStore(OperatorContext("op", "op", 0, 1, new_backend()), keyed=False)
    with pytest.raises(DefinitionError, match="without keys"):
        store.get_summary_state(RESERVOIR)


def test_a_summary_cannot_expire():
    with pytest.raises(UnsupportedError, match=r"'r' was given a time to live.*timer"):
        ReservoirStateDescriptor("r", 5).enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())


@pytest.mark.parametrize(
    "make",
    [
        lambda: ReservoirStateDescriptor("x", 0),
        lambda: DistinctCountStateDescriptor("x", 0.0),
        lambda: DistinctCountStateDescriptor("x", 0.5),
        lambda: QuantilesStateDescriptor("x", (0.5, 1.5)),
        lambda: QuantilesStateDescriptor("x", compression=5),
        lambda: TopKStateDescriptor("x", 0),
        lambda: TopKStateDescriptor("x", 5, capacity=4),
        lambda: TopKStateDescriptor(""),
    ],
)
def test_settings_that_make_no_sense_are_refused(make):
    with pytest.raises(InvalidArgumentError):
        make()


def test_without_the_library_it_is_named(monkeypatch):
    import builtins

    load = builtins.__import__

    def no_datasketches(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "datasketches":
            raise ImportError(name)
        return load(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_datasketches)
    with pytest.raises(EnvironmentSetupError, match=r"flintstream\[sketches\]"):
        view(DISTINCT)
    view(RESERVOIR).add(1)


def test_what_is_sent_elsewhere_is_plain():
    """No class of ours or of the library's: a summary can be merged by another release."""
    state = view(QUANTILES)
    state.add(1.5)
    kind, _, count, data, waiting = pickle.loads(state.to_bytes())
    assert (kind, count, type(data), waiting) == ("quantiles", 1, bytes, [1.5])
    assert summary_sketches.BLOCK == 256  # another number gives other results for state that is there
