"""Flintstream: the stream-processing model of Apache Flink for Python, on PySpark.

Every public name stands here; `flintstream.common`, `.datastream` and `.metrics` have them at PyFlink's paths.
"""

from __future__ import annotations

from flintstream.api.aggregates import (
    approx_count_distinct,
    approx_quantile,
    avg,
    collect_list,
    computed_by,
    count,
    count_distinct,
    first_of,
    last_of,
    max_of,
    median,
    min_of,
    quantile,
    stddev,
    sum_of,
    top_n,
    variance,
)
from flintstream.api.async_data_stream import AsyncDataStream
from flintstream.api.broadcast import BroadcastConnectedStream, BroadcastStream
from flintstream.api.collect import CloseableIterator
from flintstream.api.config import CheckpointConfig, ExecutionConfig
from flintstream.api.connected import ConnectedStreams
from flintstream.api.datastream import DataStream, KeyedStream
from flintstream.api.environment import StreamExecutionEnvironment
from flintstream.api.experiment import Experiment, experiment, what_if
from flintstream.api.experiment_report import Comparison, Difference, compare_outputs, output_hash
from flintstream.api.joins import CoGroupedStreams, CoGroupedWindows, JoinedStreams, JoinedWindows
from flintstream.api.joins_interval import IntervalJoin, IntervalJoined
from flintstream.api.joins_reference import LookupJoined, RegularJoined, TemporalJoined
from flintstream.api.no_effect import NoEffectWarning
from flintstream.api.queryable import QueryableStateClient, StateAnswer, StatePage
from flintstream.api.queryable_stream import QueryableStateStream
from flintstream.api.repair import Correction, Repair, repair
from flintstream.api.replay import Outputs, positions_in
from flintstream.api.savepoint_writer import SavepointWriter
from flintstream.api.sink import DataStreamSink
from flintstream.api.state_diff import SavepointDiff, StateDifference
from flintstream.api.state_tables import SavepointReader, StateInfo, savepoint
from flintstream.api.windowed import AllWindowedStream, WindowedStream
from flintstream.connectors.collection import CollectionSource
from flintstream.connectors.datagen import DataGeneratorSource
from flintstream.connectors.datagen_fields import (
    Field,
    choice,
    constant,
    integers,
    normal,
    sequence,
    timestamps,
    uniform,
)
from flintstream.connectors.dict_sink import DictSink
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
from flintstream.connectors.formats import (
    ByteArraySchema,
    DeserializationSchema,
    RowFieldExtractorSchema,
    SerializationSchema,
    SimpleStringSchema,
)
from flintstream.connectors.formats_avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from flintstream.connectors.formats_json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from flintstream.connectors.kafka_offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from flintstream.connectors.kafka_records import KafkaRecord, KafkaRecordDeserializationSchema
from flintstream.connectors.kafka_sink import (
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaTopicSelector,
)
from flintstream.connectors.kafka_source import KafkaSource, KafkaSourceBuilder
from flintstream.connectors.postgres_lookup import JdbcLookup
from flintstream.connectors.postgres_options import JdbcConnectionOptions, JdbcExecutionOptions
from flintstream.connectors.postgres_sink import JdbcSink
from flintstream.connectors.postgres_source import JdbcSource
from flintstream.connectors.redis_lookup import RedisLookup
from flintstream.connectors.redis_sink import RedisSink
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
from flintstream.model.assigners_calendar import CalendarWindows, calendar
from flintstream.model.assigners_count import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from flintstream.model.assigners_data import DataWindows, DeltaWindows, UntilWindows
from flintstream.model.config import (
    CheckpointingMode,
    Configuration,
    ExternalizedCheckpointRetention,
    RuntimeExecutionMode,
)
from flintstream.model.connect import (
    Committer,
    HeldTable,
    LogPart,
    LogSource,
    Sink,
    SinkWriter,
    Source,
    Split,
    SplitSource,
    TimedRecords,
    WriterContext,
)
from flintstream.model.context import KeyedStateStore, OperatorStateStore, RuntimeContext, TimeDomain, TimerService
from flintstream.model.dead_letters import DeadLetter
from flintstream.model.delivery import Delivery, DeliveryGuarantee, Isolation
from flintstream.model.evictors import CountEvictor, DeltaEvictor, DeltaFunction, Evictor, TimeEvictor, TimestampedValue
from flintstream.model.evolution import evolves
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
from flintstream.model.functions_async import (
    NO_RETRY_STRATEGY,
    AsyncFunction,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    NoRetryStrategy,
    RetryPredicate,
)
from flintstream.model.functions_broadcast import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedStateFunction,
)
from flintstream.model.functions_co import CoFlatMapFunction, CoMapFunction, CoProcessFunction, KeyedCoProcessFunction
from flintstream.model.functions_join import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    ProcessJoinFunction,
    TaggedUnion,
)
from flintstream.model.functions_lookup import AsyncLookupFunction, LookupCache, LookupFunction
from flintstream.model.functions_process import KeyedProcessFunction, ProcessFunction
from flintstream.model.functions_vectorised import Groups, VectorizedAggregateFunction, vectorized
from flintstream.model.functions_window import (
    AllWindowFunction,
    PassThroughAllWindowFunction,
    PassThroughWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flintstream.model.guarantee import Guarantee, SinkGuarantee
from flintstream.model.job import CaughtUp, CompletableFuture, JobClient, JobExecutionResult, JobID, JobStatus
from flintstream.model.job_graph import JobGraph
from flintstream.model.joins_reference import Change
from flintstream.model.metrics import (
    Counter,
    Distribution,
    DistributionResult,
    Histogram,
    HistogramStatistics,
    Meter,
    MeterResult,
    Metric,
    MetricGroup,
)
from flintstream.model.panes import Pane, PaneInfo, PaneTiming
from flintstream.model.restart import RestartStrategies, RestartStrategyConfiguration
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
from flintstream.model.state_summaries import (
    DistinctCountState,
    DistinctCountStateDescriptor,
    QuantilesState,
    QuantilesStateDescriptor,
    ReservoirState,
    ReservoirStateDescriptor,
    SummaryState,
    SummaryStateDescriptor,
    TopKState,
    TopKStateDescriptor,
)
from flintstream.model.state_ttl import StateTtlConfig
from flintstream.model.tags import OutputTag
from flintstream.model.time import Duration, Instant, Time
from flintstream.model.trigger_algebra import TriggerExpression
from flintstream.model.trigger_terms import after, after_count, after_watermark, each, every, never, on
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
from flintstream.model.triggers_further import DeltaTrigger, EndOfStreamTrigger, ProcessingTimeoutTrigger
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
from flintstream.model.watermark_generators import Watermark, WatermarkGenerator, WatermarkOutput
from flintstream.model.watermarks import TimestampAssigner, WatermarkStrategy, bounded, monotonous
from flintstream.model.window_assigner import MergingWindowAssigner, WindowAssigner
from flintstream.model.windows import CountWindow, GlobalWindow, TimeWindow, Window

__all__ = [
    "NO_RETRY_STRATEGY",
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AllWindowFunction",
    "AllWindowedStream",
    "AppendingState",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncLookupFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "BaseBroadcastProcessFunction",
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastState",
    "BroadcastStream",
    "BucketAssigner",
    "ByteArraySchema",
    "CalendarWindows",
    "CaughtUp",
    "Change",
    "CheckpointConfig",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoGroupedStreams",
    "CoGroupedWindows",
    "CoMapFunction",
    "CoProcessFunction",
    "CollectSink",
    "CollectionSource",
    "Committer",
    "Comparison",
    "CompletableFuture",
    "Configuration",
    "ConnectedStreams",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "Correction",
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
    "DataWindows",
    "DataclassTypeInfo",
    "DeadLetter",
    "DefaultRollingPolicy",
    "Delivery",
    "DeliveryGuarantee",
    "DeltaEvictor",
    "DeltaFunction",
    "DeltaTrigger",
    "DeltaWindows",
    "DeserializationSchema",
    "DictSink",
    "DictTypeInfo",
    "Difference",
    "DiscardingSink",
    "DistinctCountState",
    "DistinctCountStateDescriptor",
    "Distribution",
    "DistributionResult",
    "Duration",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "Encoder",
    "EndOfStreamTrigger",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "ExecutionConfig",
    "Experiment",
    "ExponentialBackoffDelayRetryStrategy",
    "ExternalizedCheckpointRetention",
    "Field",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FilterFunction",
    "FixedDelayRetryStrategy",
    "FlatJoinFunction",
    "FlatMapFunction",
    "FlintstreamError",
    "Function",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "Groups",
    "Guarantee",
    "HeldTable",
    "Histogram",
    "HistogramStatistics",
    "Instant",
    "IntervalJoin",
    "IntervalJoined",
    "Isolation",
    "JdbcConnectionOptions",
    "JdbcExecutionOptions",
    "JdbcLookup",
    "JdbcSink",
    "JdbcSource",
    "JobClient",
    "JobExecutionResult",
    "JobGraph",
    "JobID",
    "JobStatus",
    "JoinFunction",
    "JoinedStreams",
    "JoinedWindows",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecord",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateFunction",
    "KeyedStateStore",
    "KeyedStream",
    "ListState",
    "ListStateDescriptor",
    "ListTypeInfo",
    "LogPart",
    "LogSource",
    "LookupCache",
    "LookupFunction",
    "LookupJoined",
    "MapFunction",
    "MapState",
    "MapStateDescriptor",
    "MapTypeInfo",
    "MergingState",
    "MergingWindowAssigner",
    "Meter",
    "MeterResult",
    "Metric",
    "MetricGroup",
    "NeverTrigger",
    "NoEffectWarning",
    "NoRetryStrategy",
    "NullByteKeySelector",
    "NumberSequenceSource",
    "ObjectArrayTypeInfo",
    "OnCheckpointRollingPolicy",
    "OperatorStateStore",
    "OutputFileConfig",
    "OutputTag",
    "Outputs",
    "Pane",
    "PaneInfo",
    "PaneTiming",
    "Partitioner",
    "PassThroughAllWindowFunction",
    "PassThroughWindowFunction",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "PrintSink",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "QuantilesState",
    "QuantilesStateDescriptor",
    "QueryableStateClient",
    "QueryableStateStream",
    "ReadOnlyBroadcastState",
    "RedisLookup",
    "RedisSink",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "RegularJoined",
    "Repair",
    "ReservoirState",
    "ReservoirStateDescriptor",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "RetryPredicate",
    "RollingPolicy",
    "Row",
    "RowFieldExtractorSchema",
    "RowKind",
    "RowTypeInfo",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SavepointDiff",
    "SavepointReader",
    "SavepointWriter",
    "SerializationSchema",
    "SessionWindowTimeGapExtractor",
    "SimpleStringSchema",
    "Sink",
    "SinkGuarantee",
    "SinkWriter",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "Source",
    "Split",
    "SplitSource",
    "SqlTimeType",
    "SqlTimeTypeInfo",
    "State",
    "StateAnswer",
    "StateDescriptor",
    "StateDifference",
    "StateInfo",
    "StatePage",
    "StateTtlConfig",
    "StreamExecutionEnvironment",
    "StreamFormat",
    "SummaryState",
    "SummaryStateDescriptor",
    "TaggedUnion",
    "TemporalJoined",
    "Time",
    "TimeDomain",
    "TimeEvictor",
    "TimeWindow",
    "TimeWindowSerializer",
    "TimedRecords",
    "TimerService",
    "TimestampAssigner",
    "TimestampedValue",
    "TopKState",
    "TopKStateDescriptor",
    "Trigger",
    "TriggerExpression",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "TupleTypeInfo",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "UntilWindows",
    "ValueState",
    "ValueStateDescriptor",
    "VectorizedAggregateFunction",
    "Watermark",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
    "WriterContext",
    "after",
    "after_count",
    "after_watermark",
    "approx_count_distinct",
    "approx_quantile",
    "avg",
    "bounded",
    "calendar",
    "choice",
    "collect_list",
    "compare_outputs",
    "computed_by",
    "constant",
    "count",
    "count_distinct",
    "each",
    "every",
    "evolves",
    "experiment",
    "first_of",
    "integers",
    "last_of",
    "max_of",
    "median",
    "min_of",
    "monotonous",
    "never",
    "normal",
    "on",
    "output_hash",
    "positions_in",
    "quantile",
    "repair",
    "savepoint",
    "sequence",
    "session",
    "sliding",
    "stddev",
    "sum_of",
    "timestamps",
    "top_n",
    "tumbling",
    "uniform",
    "variance",
    "vectorized",
    "what_if",
]
