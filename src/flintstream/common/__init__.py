"""Values, types, time and jobs, at the path where PyFlink programs look for them."""

from __future__ import annotations

from flintstream.api.config import ExecutionConfig
from flintstream.connectors.files_config import Encoder
from flintstream.model.config import Configuration
from flintstream.model.job import CompletableFuture, JobClient, JobExecutionResult, JobID, JobStatus
from flintstream.model.restart import RestartStrategies, RestartStrategyConfiguration
from flintstream.model.row import Row, RowKind
from flintstream.model.serializers import TypeSerializer
from flintstream.model.time import Duration, Instant, Time
from flintstream.model.typeinfo import TypeInformation
from flintstream.model.types import Types
from flintstream.model.watermarks import WatermarkStrategy

__all__ = [
    "CompletableFuture",
    "Configuration",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "Time",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "WatermarkStrategy",
]
