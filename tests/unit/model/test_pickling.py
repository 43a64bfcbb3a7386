"""Every public class of the room can be sent to another process, and nothing is forgotten here."""

from __future__ import annotations

import importlib
import inspect
import operator
import pickle
import pkgutil
import warnings
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

import flintstream.model
from flintstream.model import (
    cep,
    cep_conditions,
    cep_functions,
    cep_skip,
    cep_text,
    functions,
    functions_async,
    functions_join,
    functions_lookup,
    functions_vectorised,
    functions_window,
    joins_reference,
    tags,
    typeinfo,
    watermarks,
)
from flintstream.model.assigners import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flintstream.model.assigners_calendar import CalendarWindows
from flintstream.model.assigners_count import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from flintstream.model.assigners_data import DeltaWindows, UntilWindows
from flintstream.model.cep_text_conditions import ConditionSyntaxError
from flintstream.model.config import Configuration
from flintstream.model.dead_letters import BadRecord, DeadLetter, ErrorPolicy
from flintstream.model.delivery import EAGER, EXACTLY_ONCE, DeliveryGuarantee
from flintstream.model.evictors import CountEvictor, DeltaEvictor, TimeEvictor, TimestampedValue
from flintstream.model.evolution import Evolution
from flintstream.model.guarantee import Guarantee, SinkGuarantee
from flintstream.model.job import CaughtUp, CompletableFuture, JobExecutionResult, JobID
from flintstream.model.job_graph import JobGraph
from flintstream.model.metrics import DistributionResult, HistogramStatistics, MeterResult
from flintstream.model.no_effect import NoEffectWarning
from flintstream.model.panes import Pane, PaneInfo, PaneMode, Panes, PaneTiming
from flintstream.model.positions import Place
from flintstream.model.queryable import Queryable
from flintstream.model.restart import (
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
    NoRestart,
    RestartStrategies,
    RestartStrategyConfiguration,
)
from flintstream.model.row import Row, RowKind
from flintstream.model.serializers import CountWindowSerializer, GlobalWindowSerializer, TimeWindowSerializer
from flintstream.model.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flintstream.model.state_summaries import (
    DistinctCountStateDescriptor,
    QuantilesStateDescriptor,
    ReservoirStateDescriptor,
    SummaryStateDescriptor,
    TopKStateDescriptor,
)
from flintstream.model.state_ttl import StateTtlConfig
from flintstream.model.time import Duration, Instant, Time
from flintstream.model.trigger_algebra import Foreign
from flintstream.model.trigger_moment import Moment, PartContext
from flintstream.model.trigger_terms import after, after_count, after_watermark, each, every, never, on
from flintstream.model.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from flintstream.model.triggers_further import DeltaTrigger, EndOfStreamTrigger, ProcessingTimeoutTrigger
from flintstream.model.types import Types
from flintstream.model.watermark_generators import Watermark
from flintstream.model.watermark_options import LearnedBound, TimeRange, WatermarkAlignment
from flintstream.model.windows import CountWindow, GlobalWindow, TimeWindow


@dataclass
class Reading:
    value: float


class Sum(functions.AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return value + accumulator

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sum)

    def __hash__(self) -> int:
        return 0


def _with_ttl() -> ValueStateDescriptor:
    descriptor = ValueStateDescriptor("v", int)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder("1h").use_event_time().build())
    return descriptor


def _with_strategies() -> StateTtlConfig:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoEffectWarning)
        builder = StateTtlConfig.new_builder("1h").cleanup_full_snapshot()
        return builder.cleanup_incrementally(3, True).cleanup_in_rocksdb_compact_filter(5).build()


SAMPLES: list[Any] = [
    Queryable("counts", uncommitted=True),
    BadRecord(b"{", "0", 3, "ValueError", "no JSON", ""),
    DeadLetter(1, "ValueError", "no", "", "map", 5, "k", "0", 3),
    ErrorPolicy("letters", (ValueError,)),
    EAGER,
    Guarantee(DeliveryGuarantee.EXACTLY_ONCE, "", ()),
    SinkGuarantee("out", "out", "job.py:3", EXACTLY_ONCE, DeliveryGuarantee.EXACTLY_ONCE, ""),
    CaughtUp(3, 100, 1.5),
    Place(5, (("0", 3),), True),
    ExponentialDelayRestart(5, 50, 2.0, 500, 0.0, 3),
    FailureRateRestart(3, 500, 5),
    FixedDelayRestart(3, 5),
    NoRestart(),
    functions_join.TaggedUnion(5, second=True),
    Duration.of_seconds(1), Time.seconds(1), Instant(1, 2), Row(a=1),
    typeinfo.TypeInformation(), Types.INT(), Types.SQL_DATE(), Types.PICKLED_BYTE_ARRAY(),
    Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.BASIC_ARRAY(Types.STRING()), Types.OBJECT_ARRAY(Types.INT()),
    Types.LIST(Types.INT()), Types.MAP(Types.INT(), Types.INT()), Types.TUPLE([Types.INT()]), Types.ROW([Types.INT()]),
    Types.DICT({"a": Types.INT().as_nullable()}), Types.DATACLASS(Reading),
    functions.as_map_function(str), functions.as_flat_map_function(str), functions.as_filter_function(bool),
    functions.as_reduce_function(max), functions.as_key_selector(len), functions.as_partitioner(operator.mod),
    _with_ttl(), StateDescriptor("s", None), ListStateDescriptor("l"), MapStateDescriptor("m", str, int),
    ReducingStateDescriptor("r", max, int), AggregatingStateDescriptor("a", Sum()),
    SummaryStateDescriptor("s"), ReservoirStateDescriptor("s", 5), DistinctCountStateDescriptor("d"),
    QuantilesStateDescriptor("q"), TopKStateDescriptor("t"), MeterResult(1, 0.5), DistributionResult(1, 2, 2, 2),
    HistogramStatistics(1, 2, 4, 2, 2, ((2.0, 1),)),
    _with_strategies(), Evolution({"old": "new"}, ("shop:Bill",)),
    tags.OutputTag("late", Types.INT()),
    TimeWindow(0, 5), CountWindow(1), GlobalWindow.get(),
    TimeWindowSerializer(), CountWindowSerializer(), GlobalWindowSerializer(),
    EventTimeTrigger(), ProcessingTimeTrigger(), ContinuousEventTimeTrigger(5), ContinuousProcessingTimeTrigger(5),
    CountTrigger(5), PurgingTrigger(CountTrigger(5)), NeverTrigger(),
    DeltaTrigger(5, operator.sub), ProcessingTimeoutTrigger(CountTrigger(5), 9), EndOfStreamTrigger(),
    after_watermark(CountTrigger(5)), after_count(5), after("1s"), every("1s"), on(bool), never(),
    Foreign(CountTrigger(5)), each() | each(), each() & each(), each().then(each()), each().repeat(),
    PaneInfo(PaneTiming.LATE, 3), Pane(1, PaneInfo(PaneTiming.EARLY, 0), TimeWindow(0, 5)), Panes(PaneMode.RETRACTING),
    TumblingEventTimeWindows(5), TumblingProcessingTimeWindows(5), SlidingEventTimeWindows(5, 2),
    SlidingProcessingTimeWindows(5, 2), EventTimeSessionWindows(5), ProcessingTimeSessionWindows(5),
    DynamicEventTimeSessionWindows(int), DynamicProcessingTimeSessionWindows(int), GlobalWindows(),
    CountTumblingWindowAssigner(5), CountSlidingWindowAssigner(5, 2),
    CalendarWindows("day", "Europe/Berlin"), DeltaWindows(5, abs), UntilWindows(bool),
    CountEvictor(5), TimeEvictor(5, True), DeltaEvictor(0.5, operator.sub), TimestampedValue("a", 5),
    watermarks.bounded("2s", on="ts").with_idleness("5s"), watermarks.CallableTimestampAssigner(max),
    watermarks.FieldTimestampAssigner("ts"), Watermark(5), LearnedBound(0.9), WatermarkAlignment("g", 5),
    TimeRange(1, 2),
    cep_functions.NearMiss({}, "a", "b"), cep_skip.AfterMatchSkipStrategy(),
    Configuration().set_integer("a", 1), JobID.generate(), JobExecutionResult(JobID.generate(), 5),
]  # fmt: skip

# No value to compare: these hold nothing, and only have to arrive.
PATTERN = cep.Pattern.begin("a").where(bool)
SELECTION = cep_functions.Selection(None, len, is_flat=False)
TEXT = cep_text.read_pattern_text("PATTERN (a) DEFINE a AS x > 1")
WITHOUT_VALUE: list[Any] = [
    RestartStrategies(),
    RestartStrategyConfiguration(),
    functions_join.CallableJoin(max),
    functions_join.CallableCoGroup(max),
    functions_join.PairUp(),
    watermarks.TimestampExpression(pc.field("ts") * 1000),
    functions.NullByteKeySelector(),
    functions.FromCallable(len),
    PATTERN,
    PATTERN.stages[0],
    PATTERN.stages[0].condition,
    cep_conditions.IsInstance(int),
    cep_conditions.as_condition(pc.field("x") > 1).test,
    SELECTION,
    cep_functions.TimedSelection(SELECTION, SELECTION, tags.OutputTag("late")),
    TEXT,
    TEXT.variables[0],
    TEXT.conditions["a"].test,
    functions_window.PassThroughWindowFunction(),
    functions_window.PassThroughAllWindowFunction(),
    functions_async.NoRetryStrategy(),
    functions_async.FixedDelayRetryStrategy(3, 5, len, callable),
    functions_async.ExponentialBackoffDelayRetryStrategy(3, 5, 50, 2.0, len, callable),
    functions_async.RetryPredicate(len, callable),
    functions_async.CallableAsync(len),
    functions_async.AsyncCalls(functions_async.CallableAsync(len)),
    functions_vectorised.Vectorized(len, "arrow", Types.LONG()),
    functions_vectorised.Groups(np.array([0, 1]), 2),
    functions_lookup.LookupCache(5, "1s"),
    functions_lookup.CallableLookup(len),
    functions_lookup.CallableAsyncLookup(len),
    joins_reference.Change(RowKind.DELETE, 1),
    joins_reference.JoinDeclaration("inner", functions_join.PairUp()),
    joins_reference.TemporalJoin("left", False, bool, ("late", None), functions_join.PairUp()),
    joins_reference.RegularJoin("full", 5, True, False, functions_join.CallableJoin(max)),
    JobGraph("<svg/>", "1 operator"),
    Types(),
]

# A future waits for a thread of this process, moments pass; two other modules have tests and an owner of their own.
NOT_SENT = {CompletableFuture, ConditionSyntaxError, Moment, NoEffectWarning, PartContext}
OTHER_MODULES = {"connect", "record"}


def public_concrete_classes() -> set[type[Any]]:
    found: set[type[Any]] = set()
    for info in pkgutil.iter_modules(flintstream.model.__path__):
        if info.name in OTHER_MODULES:
            continue
        module = importlib.import_module(f"flintstream.model.{info.name}")
        for name, member in vars(module).items():
            defined_here = inspect.isclass(member) and member.__module__ == module.__name__
            if defined_here and not name.startswith("_"):
                found.add(member)
    return {cls for cls in found if not inspect.isabstract(cls) and not getattr(cls, "_is_protocol", False)}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_a_value_comes_back_equal(sample: Any) -> None:
    assert pickle.loads(pickle.dumps(sample)) == sample


@pytest.mark.parametrize("sample", WITHOUT_VALUE, ids=lambda sample: type(sample).__name__)
def test_an_object_without_value_comes_back(sample: Any) -> None:
    assert type(pickle.loads(pickle.dumps(sample))) is type(sample)


def test_no_public_class_is_forgotten() -> None:
    sampled = {type(sample) for sample in (*SAMPLES, *WITHOUT_VALUE)}
    enums = {cls for cls in public_concrete_classes() if issubclass(cls, Enum)}
    bases = {functions.Function, *_marks()}
    assert public_concrete_classes() - sampled - enums - bases - NOT_SENT == set()
    for member in (member for cls in enums for member in cls):
        assert pickle.loads(pickle.dumps(member)) is member


def _marks() -> set[type[Any]]:
    from flintstream.model.functions_broadcast import BaseBroadcastProcessFunction
    from flintstream.model.metrics import Metric

    return {Metric, BaseBroadcastProcessFunction}


def test_a_future_is_not_sent() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(CompletableFuture(Future[int]()))
