"""The DataStream API, at the path where PyFlink programs look for it."""

from __future__ import annotations

from flintstream.api.async_data_stream import AsyncDataStream
from flintstream.api.broadcast import BroadcastConnectedStream, BroadcastStream
from flintstream.api.collect import CloseableIterator
from flintstream.api.config import CheckpointConfig
from flintstream.api.connected import ConnectedStreams
from flintstream.api.datastream import DataStream, KeyedStream
from flintstream.api.environment import StreamExecutionEnvironment
from flintstream.api.sink import DataStreamSink
from flintstream.api.windowed import AllWindowedStream, WindowedStream
from flintstream.model.config import CheckpointingMode, ExternalizedCheckpointRetention, RuntimeExecutionMode
from flintstream.model.context import RuntimeContext, TimeDomain, TimerService
from flintstream.model.functions import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ReduceFunction,
)
from flintstream.model.functions_async import AsyncFunction, AsyncRetryPredicate, AsyncRetryStrategy
from flintstream.model.functions_broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from flintstream.model.functions_co import CoFlatMapFunction, CoMapFunction, CoProcessFunction, KeyedCoProcessFunction
from flintstream.model.functions_process import KeyedProcessFunction, ProcessFunction
from flintstream.model.functions_window import ProcessWindowFunction, WindowFunction
from flintstream.model.tags import OutputTag
from flintstream.model.triggers import Trigger, TriggerResult
from flintstream.model.window_assigner import MergingWindowAssigner, WindowAssigner
from flintstream.model.windows import CountWindow, GlobalWindow, TimeWindow, Window

__all__ = [
    "AggregateFunction",
    "AllWindowedStream",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "CheckpointConfig",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "CountWindow",
    "DataStream",
    "DataStreamSink",
    "ExternalizedCheckpointRetention",
    "FilterFunction",
    "FlatMapFunction",
    "GlobalWindow",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "MergingWindowAssigner",
    "OutputTag",
    "Partitioner",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "StreamExecutionEnvironment",
    "TimeDomain",
    "TimeWindow",
    "TimerService",
    "Trigger",
    "TriggerResult",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
]
