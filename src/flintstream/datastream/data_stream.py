"""PyFlink's path of the streams."""

from __future__ import annotations

from flintstream.api.collect import CloseableIterator
from flintstream.api.connected import ConnectedStreams
from flintstream.api.datastream import DataStream, KeyedStream
from flintstream.api.sink import DataStreamSink
from flintstream.api.windowed import AllWindowedStream, WindowedStream

__all__ = [
    "AllWindowedStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "WindowedStream",
]
