"""PyFlink's path of the streams."""

from __future__ import annotations

from flintstream.api.broadcast import BroadcastConnectedStream, BroadcastStream
from flintstream.api.collect import CloseableIterator
from flintstream.api.connected import ConnectedStreams
from flintstream.api.datastream import DataStream, KeyedStream
from flintstream.api.joins import CoGroupedStreams, CoGroupedWindows, JoinedStreams, JoinedWindows
from flintstream.api.joins_interval import IntervalJoin, IntervalJoined
from flintstream.api.sink import DataStreamSink
from flintstream.api.windowed import AllWindowedStream, WindowedStream

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CloseableIterator",
    "CoGroupedStreams",
    "CoGroupedWindows",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "IntervalJoin",
    "IntervalJoined",
    "JoinedStreams",
    "JoinedWindows",
    "KeyedStream",
    "WindowedStream",
]
