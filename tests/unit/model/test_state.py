"""State handles' shorthand, descriptors, and time to live."""

from __future__ import annotations

import operator
import pickle
from typing import Any

import pytest

from flintstream.errors import InvalidArgumentError, TypeMismatchError
from flintstream.model.functions import AggregateFunction, ReduceFunction
from flintstream.model.no_effect import NoEffectWarning, warned
from flintstream.model.state import (
    AggregatingStateDescriptor,
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReadOnlyBroadcastState,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flintstream.model.state_ttl import StateTtlConfig
from flintstream.model.time import Duration, Time
from flintstream.model.types import Types


class Sum(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return value + accumulator

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Greatest(ReduceFunction):
    def reduce(self, value1: int, value2: int) -> int:
        return max(value1, value2)


class _DictBacked:
    def __init__(self) -> None:
        self.held: dict[Any, Any] = {}

    def clear(self) -> None:
        self.held.clear()

    def get(self, key: Any) -> Any:
        return self.held.get(key)

    def contains(self, key: Any) -> bool:
        return key in self.held

    def items(self) -> Any:
        return self.held.items()

    def keys(self) -> Any:
        return self.held.keys()

    def values(self) -> Any:
        return self.held.values()

    def is_empty(self) -> bool:
        return not self.held

    def put(self, key: Any, value: Any) -> None:
        self.held[key] = value

    def put_all(self, dict_value: Any) -> None:
        self.held.update(dict_value)

    def remove(self, key: Any) -> None:
        self.held.pop(key, None)


class DictMap(_DictBacked, MapState[Any, Any]):
    pass


class DictBroadcast(_DictBacked, BroadcastState[Any, Any]):
    pass


@pytest.mark.parametrize("state", [DictMap(), DictBroadcast()])
def test_map_state_reads_and_writes_like_a_dict(state: Any) -> None:
    state["a"] = 1
    state["b"] = 2
    assert (state["a"], state["missing"], "b" in state, list(state)) == (1, None, True, ["a", "b"])
    del state["a"]
    assert "a" not in state


def test_broadcast_state_can_be_read_where_only_reading_is_allowed() -> None:
    assert isinstance(DictBroadcast(), ReadOnlyBroadcastState)
    assert not hasattr(ReadOnlyBroadcastState, "put")
    assert not hasattr(ReadOnlyBroadcastState, "__setitem__")


def test_list_state_can_be_iterated() -> None:
    class Fixed(ListState[int]):
        def get(self) -> list[int]:
            return [1, 2]

        def add(self, value: int) -> None: ...
        def update(self, values: Any) -> None: ...
        def add_all(self, values: Any) -> None: ...
        def clear(self) -> None: ...

    assert list(Fixed()) == [1, 2]


def test_descriptors_know_the_type_of_the_whole_state() -> None:
    assert ValueStateDescriptor("v", Types.LONG()).type_info == Types.LONG()
    assert ListStateDescriptor("l", Types.STRING()).type_info == Types.LIST(Types.STRING())
    assert MapStateDescriptor("m", Types.STRING(), Types.INT()).type_info == Types.MAP(Types.STRING(), Types.INT())
    assert ReducingStateDescriptor("r", max, Types.LONG()).type_info == Types.LONG()
    assert AggregatingStateDescriptor("a", Sum(), Types.LONG()).type_info == Types.LONG()


def test_types_of_descriptors_are_optional_and_may_be_python_types() -> None:
    assert ValueStateDescriptor("v").type_info is None
    assert ListStateDescriptor("l").type_info is None
    assert MapStateDescriptor("m").type_info is None
    assert MapStateDescriptor("m", str).type_info == Types.MAP(Types.STRING(), Types.PICKLED_BYTE_ARRAY())
    assert ReducingStateDescriptor("r", max).type_info is None
    assert AggregatingStateDescriptor("a", Sum()).type_info is None
    assert ValueStateDescriptor("v", int).type_info == Types.LONG()
    with pytest.raises(TypeMismatchError):
        ValueStateDescriptor("v", object)


def test_a_reducing_descriptor_takes_a_callable_or_a_function_object() -> None:
    greatest = Greatest()
    assert ReducingStateDescriptor("r", greatest).get_reduce_function() is greatest
    assert ReducingStateDescriptor("r", operator.add).get_reduce_function().reduce(1, 2) == 3
    with pytest.raises(TypeMismatchError):
        ReducingStateDescriptor("r", 5)  # type: ignore[arg-type]


def test_an_aggregating_descriptor_takes_an_aggregate_function_only() -> None:
    total = Sum()
    assert AggregatingStateDescriptor("a", total).get_agg_function() is total
    with pytest.raises(TypeMismatchError, match="state 'a' got"):
        AggregatingStateDescriptor("a", max)  # type: ignore[arg-type]


def test_a_descriptor_needs_a_name() -> None:
    with pytest.raises(InvalidArgumentError):
        ValueStateDescriptor("")
    assert ValueStateDescriptor("v").get_name() == "v"


def test_descriptors_are_equal_by_what_they_describe() -> None:
    ttl = StateTtlConfig.new_builder("1h").build()
    plain, same, other = (ValueStateDescriptor("v", kind) for kind in (int, int, str))
    assert plain == same and hash(plain) == hash(same)
    assert plain != other
    same.enable_time_to_live(ttl)
    assert plain != same
    assert same.ttl_config == ttl
    assert ReducingStateDescriptor("r", max) == pickle.loads(pickle.dumps(ReducingStateDescriptor("r", max)))
    assert ReducingStateDescriptor("r", max) != ReducingStateDescriptor("r", min)


def test_ttl_defaults_are_those_of_flink() -> None:
    config = StateTtlConfig.new_builder(Time.seconds(5)).build()
    assert config.get_ttl() == Time.seconds(5)
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    assert config.is_enabled()
    strategies = config.get_cleanup_strategies()
    assert strategies.is_cleanup_in_background()
    assert not strategies.in_full_snapshot()
    incremental = strategies.get_incremental_cleanup_strategy()
    assert incremental is not None
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (5, False)
    compaction = strategies.get_rocksdb_compact_filter_cleanup_strategy()
    assert compaction is not None
    assert compaction.get_query_time_after_num_entries() == 1000
    assert compaction.get_periodic_compaction_time() == Duration.of_days(30)


@pytest.mark.filterwarnings("ignore::flintstream.NoEffectWarning")
def test_every_ttl_setting_reaches_the_config() -> None:
    builder = (
        StateTtlConfig.new_builder(1)
        .set_ttl("2h")
        .update_ttl_on_read_and_write()
        .return_expired_if_not_cleaned_up()
        .use_processing_time()
        .cleanup_full_snapshot()
        .cleanup_incrementally(7, True)
        .cleanup_in_rocksdb_compact_filter(9, Duration.of_days(1))
        .disable_cleanup_in_background()
    )
    config = builder.build()
    assert config.ttl == Time.hours(2)
    assert config.update_type is StateTtlConfig.UpdateType.OnReadAndWrite
    assert config.state_visibility is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
    kinds = StateTtlConfig.CleanupStrategies
    strategies = config.cleanup_strategies
    assert not strategies.is_cleanup_in_background()
    assert strategies.in_full_snapshot()
    assert strategies.get_incremental_cleanup_strategy() == kinds.IncrementalCleanupStrategy(7, True)
    assert strategies.get_rocksdb_compact_filter_cleanup_strategy() == kinds.RocksdbCompactFilterCleanupStrategy(
        9, Duration.of_days(1)
    )
    assert builder.update_ttl_on_create_and_write().never_return_expired().build() != config


def test_without_background_there_is_only_the_named_cleanup() -> None:
    strategies = StateTtlConfig.new_builder(1).disable_cleanup_in_background().build().cleanup_strategies
    assert strategies.get_incremental_cleanup_strategy() is None
    assert strategies.get_rocksdb_compact_filter_cleanup_strategy() is None


def test_a_disabled_ttl_says_so() -> None:
    assert not StateTtlConfig.new_builder(1).set_update_type(StateTtlConfig.UpdateType.Disabled).build().is_enabled()


def test_a_ttl_must_be_positive() -> None:
    with pytest.raises(InvalidArgumentError, match="'0s'"):
        StateTtlConfig.new_builder("0s")


@pytest.mark.parametrize(
    ("call", "arguments"),
    [("cleanup_full_snapshot", ()), ("cleanup_incrementally", (5, True)), ("cleanup_in_rocksdb_compact_filter", (5,))],
)
def test_strategies_that_have_nothing_to_do_warn_at_the_users_line(call: str, arguments: tuple[Any, ...]) -> None:
    warned.discard(call)
    with pytest.warns(NoEffectWarning, match=f"{call} has no effect: expired entries leave") as caught:
        getattr(StateTtlConfig.new_builder("1h"), call)(*arguments)
    assert caught[0].filename == __file__


def test_a_ttl_goes_by_event_time_if_told_so() -> None:
    clocks = StateTtlConfig.TtlTimeCharacteristic
    builder = StateTtlConfig.new_builder("1h").use_event_time()
    assert builder.build().get_ttl_time_characteristic() is clocks.EventTime
    assert builder.use_processing_time().build().get_ttl_time_characteristic() is clocks.ProcessingTime
