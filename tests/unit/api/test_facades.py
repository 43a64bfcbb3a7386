from __future__ import annotations

import builtins
import importlib
import pkgutil

import pytest

import flintstream

# What PyFlink 2.3 exports at each path, as far as Flintstream has it; a program must find it after a rename.
PYFLINK = {
    "common": "Configuration ExecutionConfig TypeInformation TypeSerializer Types Encoder CompletableFuture JobClient "
    "JobExecutionResult JobID JobStatus RestartStrategies RestartStrategyConfiguration Row RowKind WatermarkStrategy "
    "Duration Instant Time",
    "common.restart_strategy": "RestartStrategies RestartStrategyConfiguration",
    "common.typeinfo": "Types TypeInformation RowTypeInfo TupleTypeInfo BasicTypeInfo ListTypeInfo MapTypeInfo",
    "common.types": "Row RowKind",
    "common.time": "Duration Instant Time",
    "common.watermark_strategy": "WatermarkStrategy TimestampAssigner",
    "common.configuration": "Configuration",
    "common.execution_config": "ExecutionConfig",
    "common.job_client": "JobClient",
    "common.job_status": "JobStatus",
    "common.serialization": "SerializationSchema DeserializationSchema SimpleStringSchema ByteArraySchema Encoder "
    "RowFieldExtractorSchema",
    "datastream": "StreamExecutionEnvironment DataStream KeyedStream WindowedStream ConnectedStreams DataStreamSink "
    "MapFunction CoMapFunction FlatMapFunction CoFlatMapFunction ReduceFunction FilterFunction ProcessFunction "
    "KeyedProcessFunction CoProcessFunction KeyedCoProcessFunction WindowFunction ProcessWindowFunction "
    "AggregateFunction BroadcastProcessFunction KeyedBroadcastProcessFunction RuntimeContext TimerService "
    "CheckpointingMode CheckpointConfig ExternalizedCheckpointRetention RuntimeExecutionMode Window TimeWindow "
    "CountWindow GlobalWindow WindowAssigner MergingWindowAssigner TriggerResult Trigger TimeDomain KeySelector "
    "Partitioner OutputTag",
    "datastream.data_stream": "DataStream KeyedStream ConnectedStreams WindowedStream AllWindowedStream DataStreamSink "
    "CloseableIterator",
    "datastream.functions": "RuntimeContext KeyedStateStore Function MapFunction FlatMapFunction FilterFunction "
    "ReduceFunction AggregateFunction KeySelector NullByteKeySelector Partitioner CoMapFunction CoFlatMapFunction "
    "ProcessFunction KeyedProcessFunction CoProcessFunction KeyedCoProcessFunction WindowFunction AllWindowFunction "
    "ProcessWindowFunction ProcessAllWindowFunction PassThroughWindowFunction PassThroughAllWindowFunction "
    "BroadcastProcessFunction KeyedBroadcastProcessFunction",
    "datastream.state": "State ValueState AppendingState MergingState ReducingState AggregatingState ListState "
    "MapState ReadOnlyBroadcastState BroadcastState StateDescriptor ValueStateDescriptor ListStateDescriptor "
    "MapStateDescriptor ReducingStateDescriptor AggregatingStateDescriptor StateTtlConfig OperatorStateStore",
    "datastream.window": "Window TimeWindow CountWindow GlobalWindow WindowAssigner MergingWindowAssigner "
    "TriggerResult Trigger EventTimeTrigger ContinuousEventTimeTrigger ProcessingTimeTrigger "
    "ContinuousProcessingTimeTrigger "
    "PurgingTrigger CountTrigger NeverTrigger CountTumblingWindowAssigner CountSlidingWindowAssigner "
    "TumblingProcessingTimeWindows TumblingEventTimeWindows SlidingProcessingTimeWindows SlidingEventTimeWindows "
    "ProcessingTimeSessionWindows EventTimeSessionWindows DynamicProcessingTimeSessionWindows "
    "DynamicEventTimeSessionWindows GlobalWindows SessionWindowTimeGapExtractor TimeWindowSerializer "
    "CountWindowSerializer GlobalWindowSerializer",
    "datastream.connectors": "Sink Source NumberSequenceSource FileSink FileSource FileSourceBuilder StreamFormat "
    "OutputFileConfig RollingPolicy BucketAssigner",
    "datastream.connectors.base": "Sink Source DeliveryGuarantee",
    "datastream.connectors.file_system": "FileSource FileSourceBuilder StreamFormat FileSink OutputFileConfig "
    "RollingPolicy BucketAssigner",
    "datastream.connectors.jdbc": "JdbcSink JdbcConnectionOptions JdbcExecutionOptions",
    "datastream.connectors.kafka": "KafkaSource KafkaSourceBuilder KafkaSink KafkaSinkBuilder KafkaTopicPartition "
    "KafkaOffsetsInitializer KafkaOffsetResetStrategy KafkaRecordSerializationSchema "
    "KafkaRecordSerializationSchemaBuilder KafkaTopicSelector",
    "datastream.connectors.number_seq": "NumberSequenceSource",
    "datastream.execution_mode": "RuntimeExecutionMode",
    "datastream.output_tag": "OutputTag",
    "datastream.checkpoint_config": "CheckpointConfig",
    "datastream.checkpointing_mode": "CheckpointingMode",
    "datastream.time_domain": "TimeDomain",
    "datastream.timerservice": "TimerService",
    "datastream.async_data_stream": "AsyncDataStream",
    "datastream.async_retry_predicates": ("empty_result_predicate has_exception_predicate exception_type_predicate"),
    "datastream.async_retry_strategies": (
        "RetryPredicate NoRetryStrategy FixedDelayRetryStrategy ExponentialBackoffDelayRetryStrategy NO_RETRY_STRATEGY"
    ),
    "datastream.stream_execution_environment": "StreamExecutionEnvironment",
    "metrics": "MetricGroup Metric Counter Meter Distribution",
}


@pytest.mark.parametrize("path", PYFLINK)
def test_pyflinks_names_stand_at_pyflinks_paths(path):
    module = importlib.import_module(f"flintstream.{path}")
    assert set(PYFLINK[path].split()) <= set(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_every_name_of_a_facade_is_flat_too_and_the_same():
    for facade in ("common", "datastream", "metrics"):
        package = importlib.import_module(f"flintstream.{facade}")
        modules = [package, *(m for _, m in _modules(package))]
        for module in modules:
            # Names such as `choice` or `constant` are clear in their own module only.
            names = [name for name in module.__all__ if name[0].isupper()]
            for name in names:
                assert getattr(flintstream, name) is getattr(module, name), f"{module.__name__}.{name}"
                assert name in flintstream.__all__


def _modules(package):
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield info.name, importlib.import_module(info.name)


def test_star_import_takes_no_builtin_away():
    assert not set(flintstream.__all__) & set(dir(builtins))


def test_short_forms_are_there():
    short = {"tumbling", "sliding", "session", "bounded", "monotonous", "count", "sum_of", "min_of", "max_of", "avg"}
    assert short <= set(flintstream.__all__)
