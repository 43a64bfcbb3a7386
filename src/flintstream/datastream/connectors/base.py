"""PyFlink's path of Source and Sink, with what those who write their own need."""

from __future__ import annotations

from flintstream.model.connect import Committer, Sink, SinkWriter, Source, Split, SplitSource, WriterContext

__all__ = [
    "Committer",
    "Sink",
    "SinkWriter",
    "Source",
    "Split",
    "SplitSource",
    "WriterContext",
]
