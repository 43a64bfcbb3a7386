"""Sources and sinks, at the path where PyFlink programs look for them."""

from __future__ import annotations

from flintstream.connectors.files_config import (
    BucketAssigner,
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from flintstream.connectors.files_sink import FileSink
from flintstream.connectors.files_source import FileSource, FileSourceBuilder, StreamFormat
from flintstream.connectors.sequence import NumberSequenceSource
from flintstream.model.connect import Sink, Source

__all__ = [
    "BucketAssigner",
    "DefaultRollingPolicy",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "NumberSequenceSource",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
    "Sink",
    "Source",
    "StreamFormat",
]
