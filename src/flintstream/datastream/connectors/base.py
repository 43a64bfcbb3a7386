"""PyFlink's path of Source and Sink, with what those who write their own need."""

from __future__ import annotations

from flintstream.connectors.delivery import DeliveryGuarantee
from flintstream.model.connect import (
    Committer,
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

__all__ = [
    "Committer",
    "DeliveryGuarantee",
    "LogPart",
    "LogSource",
    "Sink",
    "SinkWriter",
    "Source",
    "Split",
    "SplitSource",
    "TimedRecords",
    "WriterContext",
]
