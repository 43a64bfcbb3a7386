"""PyFlink's path of Source and Sink, with what those who write their own need."""

from __future__ import annotations

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
from flintstream.model.delivery import Delivery, DeliveryGuarantee, Isolation

__all__ = [
    "Committer",
    "Delivery",
    "DeliveryGuarantee",
    "Isolation",
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
