"""The batching law: micro-batches, partitions and restarts are invisible.

With one split a program's outputs are a function of its records alone, to the order of records and the last late one.
With several splits the same holds for programs that do not depend on how splits interleave, and in deterministic order
for every program.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from flintstream import CollectSink, Configuration, StreamExecutionEnvironment, bounded
from flintstream.errors import DefinitionError
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from tests.capabilities.support import Lists
from tests.laws.programs import ALL, ANY_ORDER, broadcast, windows_process
from tests.laws.runs import Input, Life, Way, lateness, run

# Finding the smallest failing example takes longer than the test itself, and must not be cut short.
pytestmark = pytest.mark.timeout(900)
PLAIN = Way()


def local_env(parallelism: int, *, max_records: int, checkpoint_dir: Any) -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict({"flintstream.epoch.max-records": str(max_records)})
    env = StreamExecutionEnvironment.get_execution_environment(configuration, runtime="local")
    return env.set_parallelism(parallelism).set_checkpoint_dir(str(checkpoint_dir))


def numbered(splits: list[list[tuple[str, int]]], start: int = 0) -> list[list[dict[str, Any]]]:
    """Turn (key, timestamp) pairs into records whose `n` is unique, so that no two can be taken for each other."""
    numbers = iter(range(start, 10**6))
    return [[{"key": key, "ts": ts, "n": next(numbers)} for key, ts in split] for split in splits]


PAIRS = st.tuples(st.sampled_from("abc"), st.integers(0, 60))
SPLIT = st.lists(PAIRS, max_size=25)
LONG_SPLIT = st.lists(PAIRS, min_size=8, max_size=30)
SPLITS = st.builds(lambda first, others: [first, *others], LONG_SPLIT, st.lists(SPLIT, max_size=2))
LIVES = st.builds(
    Life,
    max_records=st.integers(1, 30),
    parallelism=st.integers(1, 3),
    stop_after=st.one_of(st.none(), st.integers(1, 4)),
    fuse=st.one_of(st.none(), st.integers(0, 40)),
)


@st.composite
def ways(draw: st.DrawFn, deterministic: bool = False) -> Way:
    lives = draw(st.lists(LIVES, min_size=0, max_size=3))
    last = Life(draw(st.integers(1, 30)), draw(st.integers(1, 3)))
    return Way((*lives, last), deterministic)


def law(examples: int) -> Any:
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    # Explaining a failure runs it hundreds of times more.
    phases = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]
    return settings(max_examples=examples, deadline=None, suppress_health_check=slow, phases=phases)


@pytest.mark.parametrize("program", ALL)
@law(3)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), way=ways())
def test_one_split_has_one_result(program, split, bound, way):
    records = Input(numbered([split]), bound=bound)
    assert run(program, records, way, local_env) == run(program, records, PLAIN, local_env)


@pytest.mark.parametrize("program", ANY_ORDER)
@law(6)
@given(left=SPLITS, right=SPLITS, way=ways())
def test_splits_may_interleave_as_they_like_if_the_program_does_not_care(program, left, right, way):
    records = Input(
        numbered(left), numbered(right, 100), bound=max(lateness(numbered(left)), lateness(numbered(right)))
    )
    some, other = run(program, records, way, local_env), run(program, records, PLAIN, local_env)
    assert {name: counted(values) for name, values in some.items()} == {
        name: counted(values) for name, values in other.items()
    }
    assert not any(values for name, values in some.items() if name.endswith("late"))


@pytest.mark.parametrize("program", ALL)
@law(3)
@given(left=SPLITS, right=SPLITS, bound=st.integers(0, 12), way=ways(deterministic=True))
def test_deterministic_order_has_one_result_for_every_program(program, left, right, bound, way):
    records = Input(numbered(left), numbered(right, 100), bound)
    assert run(program, records, way, local_env) == run(program, records, Way(deterministic=True), local_env)


@law(8)
@given(split=LONG_SPLIT, bound=st.integers(0, 12), way=ways())
def test_windows_are_what_flink_says_they_are(split, bound, way):
    """The law compares runs with each other; this compares them with Flink's rules, written down record by record."""
    (records,) = numbered([split])
    results = run(windows_process, Input([records], bound=bound), way, local_env)
    main, late = flinks_windows(records, bound, size=10, lateness=5)
    assert counted(results["windows_process main"]) == counted(main)
    assert results["windows_process late"] == late


def flinks_windows(records: list[Any], bound: int, size: int, lateness: int) -> tuple[list[Any], list[Any]]:
    """Return what tumbling windows of one split emit, and which records are late."""
    held: dict[tuple[str, int], list[int]] = {}
    fired: Counter[tuple[str, int]] = Counter()
    main, late, watermark, newest = [], [], MIN_TIMESTAMP, MIN_TIMESTAMP

    def fire(window: tuple[str, int]) -> None:
        fired[window] += 1
        main.append((window[0], window[1], window[1] + size, list(held[window]), fired[window], watermark))

    for record in [*records, None]:
        if record is not None:
            window = record["key"], record["ts"] // size * size
            last = window[1] + size - 1
            if last + lateness <= watermark:
                late.append(record)
                continue
            held.setdefault(window, []).append(record["n"])
            if last <= watermark:
                fire(window)
            newest = max(newest, record["ts"])
        before, watermark = watermark, MAX_TIMESTAMP if record is None else max(watermark, newest - bound - 1)
        for window in sorted(held):
            if before < window[1] + size - 1 <= watermark:
                fire(window)
            if window[1] + size - 1 + lateness <= watermark:
                del held[window], fired[window]
    return main, late


@pytest.mark.parametrize(("before", "after"), [(3, 1), (1, 3), (2, 3)])
def test_what_all_instances_hold_comes_back_once_to_each_of_the_new_ones(before, after):
    """The left split is far ahead, so that its records wait for the right one when the job is rescaled."""
    left, right = numbered([[("a", 100 + n) for n in range(12)]]), numbered([[("b", n) for n in range(12)]], 100)
    lives = [Life(8, before, stop_after=2), Life(100, after)]
    found = run(broadcast, Input(left, right), Way(lives, deterministic=True), local_env)
    assert [n for _, n, _ in found["broadcast main"]] == [0, *range(100, 112), *range(1, 12)]


def test_deterministic_order_refuses_a_union_of_broadcast_and_other_streams():
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local").deterministic_order()
    stream = env.from_source(Lists([1], [2]))
    stream.broadcast().union(stream.rebalance()).sink_to(CollectSink())
    with pytest.raises(DefinitionError, match=r"union of a broadcast stream and others.*test_batching_law\.py:\d+"):
        env.execute()


def test_deterministic_order_refuses_idleness_by_the_clock():
    """Who is idle depends on when a job runs, so that its results would, too."""
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local").deterministic_order()
    env.from_source(Lists([{"ts": 1}]), watermark=bounded(0, on="ts").with_idleness("1s")).sink_to(CollectSink())
    with pytest.raises(DefinitionError, match=r"idle.*test_batching_law\.py:\d+"):
        env.execute()


def counted(values: list[Any]) -> Counter[str]:
    return Counter(map(repr, values))


def some_splits(rng: random.Random, splits: int) -> list[list[tuple[str, int]]]:
    return [[(rng.choice("abc"), at + rng.randrange(12)) for at in range(0, 80, 4)] for _ in range(splits)]


@pytest.mark.spark
@pytest.mark.parametrize("seed", [1, 2])
def test_one_split_has_one_result_on_spark(make_env, seed):
    """All programs as one job: cut, spread, killed between epochs and within one, against one epoch in-process."""
    rng = random.Random(seed)
    records = Input(numbered(some_splits(rng, 1)), bound=4)
    lives = [
        Life(7, rng.randint(1, 3), stop_after=1),
        Life(6, 2, fuse=rng.randrange(8, 19)),
        Life(8, rng.randint(1, 3)),
    ]
    spark = run(ALL, records, Way(lives), lambda *args, **named: make_env("spark", *args, **named))
    assert spark == run(ALL, records, PLAIN, local_env)


@pytest.mark.spark
def test_splits_may_interleave_as_they_like_on_spark(make_env):
    rng = random.Random(3)
    records = Input(numbered(some_splits(rng, 2)), numbered(some_splits(rng, 1), 100), bound=12)
    lives = [Life(20, 2, stop_after=1), Life(25, 3)]
    spark = run(ANY_ORDER, records, Way(lives), lambda *args, **named: make_env("spark", *args, **named))
    local = run(ANY_ORDER, records, PLAIN, local_env)
    assert {name: counted(values) for name, values in spark.items()} == {
        name: counted(values) for name, values in local.items()
    }


@pytest.mark.spark
@pytest.mark.parametrize("seed", [4, 5])
def test_deterministic_order_has_one_result_on_spark(make_env, seed):
    rng = random.Random(seed)
    records = Input(numbered(some_splits(rng, 2)), numbered(some_splits(rng, 1), 100), bound=3)
    lives = [Life(20, rng.randint(1, 3), stop_after=1), Life(25, rng.randint(1, 3))]
    way = Way(lives, deterministic=True)
    spark = run(ALL, records, way, lambda *args, **named: make_env("spark", *args, **named))
    assert spark == run(ALL, records, Way(deterministic=True), local_env)
