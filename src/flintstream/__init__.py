"""Flintstream: the stream-processing model of Apache Flink for Python, on PySpark.

Every public name stands here; `flintstream.common`, `.datastream` and `.metrics` have them at PyFlink's paths.
"""

from __future__ import annotations

from flintstream.api.aggregates import avg, count, max_of, min_of, sum_of
from flintstream.api.collect import CloseableIterator
from flintstream.api.config import CheckpointConfig, ExecutionConfig
from flintstream.api.connected import ConnectedStreams
from flintstream.api.datastream import DataStream, KeyedStream
from flintstream.api.environment import StreamExecutionEnvironment
from flintstream.api.no_effect import NoEffectWarning
from flintstream.api.sink import DataStreamSink
from flintstream.api.windowed import AllWindowedStream, WindowedStream
from flintstream.connectors.collection import CollectionSource
from flintstream.connectors.datagen import DataGeneratorSource
from flintstream.connectors.datagen_fields import Field
from flintstream.connectors.discard import DiscardingSink
from flintstream.connectors.driver_sinks import CollectSink, PrintSink
from flintstream.connectors.files_config import (
    BucketAssigner,
    DefaultRollingPolicy,
    Encoder,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from flintstream.connectors.files_sink import FileSink
from flintstream.connectors.files_source import FileSource, FileSourceBuilder, StreamFormat
from flintstream.connectors.sequence import NumberSequenceSource
from flintstream.errors import FlintstreamError
from flintstream.model.assigners import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    session,
    sliding,
    tumbling,
)
from flintstream.model.assigners_count import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from flintstream.model.config import (
    CheckpointingMode,
    Configuration,
    ExternalizedCheckpointRetention,
    RuntimeExecutionMode,
)
from flintstream.model.connect import Committer, Sink, SinkWriter, Source, Split, SplitSource, WriterContext
from flintstream.model.context import KeyedStateStore, OperatorStateStore, RuntimeContext, TimeDomain, TimerService
from flintstream.model.evictors import CountEvictor, DeltaEvictor, DeltaFunction, Evictor, TimeEvictor, TimestampedValue
from flintstream.model.functions import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeySelector,
    MapFunction,
    NullByteKeySelector,
    Partitioner,
    ReduceFunction,
)
from flintstream.model.functions_broadcast import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from flintstream.model.functions_co import CoFlatMapFunction, CoMapFunction, CoProcessFunction, KeyedCoProcessFunction
from flintstream.model.functions_process import KeyedProcessFunction, ProcessFunction
from flintstream.model.functions_window import (
    AllWindowFunction,
    PassThroughAllWindowFunction,
    PassThroughWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flintstream.model.job import CompletableFuture, JobClient, JobExecutionResult, JobID, JobStatus
from flintstream.model.metrics import Counter, Distribution, Meter, Metric, MetricGroup
from flintstream.model.row import Row, RowKind
from flintstream.model.serializers import (
    CountWindowSerializer,
    GlobalWindowSerializer,
    TimeWindowSerializer,
    TypeSerializer,
)
from flintstream.model.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    AppendingState,
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    MergingState,
    ReadOnlyBroadcastState,
    ReducingState,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from flintstream.model.state_ttl import StateTtlConfig
from flintstream.model.tags import OutputTag
from flintstream.model.time import Duration, Instant, Time
from flintstream.model.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from flintstream.model.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DataclassTypeInfo,
    DictTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeType,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from flintstream.model.types import Types
from flintstream.model.watermarks import TimestampAssigner, WatermarkStrategy, bounded, monotonous
from flintstream.model.window_assigner import MergingWindowAssigner, WindowAssigner
from flintstream.model.windows import CountWindow, GlobalWindow, TimeWindow, Window

__all__ = [
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AllWindowFunction",
    "AllWindowedStream",
    "AppendingState",
    "BaseBroadcastProcessFunction",
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "BroadcastProcessFunction",
    "BroadcastState",
    "BucketAssigner",
    "CheckpointConfig",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "CollectSink",
    "CollectionSource",
    "Committer",
    "CompletableFuture",
    "Configuration",
    "ConnectedStreams",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "Counter",
    "DataGeneratorSource",
    "DataStream",
    "DataStreamSink",
    "DataclassTypeInfo",
    "DefaultRollingPolicy",
    "DeltaEvictor",
    "DeltaFunction",
    "DictTypeInfo",
    "DiscardingSink",
    "Distribution",
    "Duration",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "Encoder",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "ExecutionConfig",
    "ExternalizedCheckpointRetention",
    "Field",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FilterFunction",
    "FlatMapFunction",
    "FlintstreamError",
    "Function",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateStore",
    "KeyedStream",
    "ListState",
    "ListStateDescriptor",
    "ListTypeInfo",
    "MapFunction",
    "MapState",
    "MapStateDescriptor",
    "MapTypeInfo",
    "MergingState",
    "MergingWindowAssigner",
    "Meter",
    "Metric",
    "MetricGroup",
    "NeverTrigger",
    "NoEffectWarning",
    "NullByteKeySelector",
    "NumberSequenceSource",
    "ObjectArrayTypeInfo",
    "OnCheckpointRollingPolicy",
    "OperatorStateStore",
    "OutputFileConfig",
    "OutputTag",
    "Partitioner",
    "PassThroughAllWindowFunction",
    "PassThroughWindowFunction",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "PrintSink",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "ReadOnlyBroadcastState",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "RollingPolicy",
    "Row",
    "RowKind",
    "RowTypeInfo",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SessionWindowTimeGapExtractor",
    "Sink",
    "SinkWriter",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "Source",
    "Split",
    "SplitSource",
    "SqlTimeType",
    "SqlTimeTypeInfo",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "StreamExecutionEnvironment",
    "StreamFormat",
    "Time",
    "TimeDomain",
    "TimeEvictor",
    "TimeWindow",
    "TimeWindowSerializer",
    "TimerService",
    "TimestampAssigner",
    "TimestampedValue",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "TupleTypeInfo",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "ValueState",
    "ValueStateDescriptor",
    "WatermarkStrategy",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
    "WriterContext",
    "avg",
    "bounded",
    "count",
    "max_of",
    "min_of",
    "monotonous",
    "session",
    "sliding",
    "sum_of",
    "tumbling",
]
