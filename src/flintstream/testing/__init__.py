"""The test kit: harnesses for functions and pipelines, transcripts, the batching law, contracts of sources and sinks.

For tests, in any test runner; nothing here is needed to run a job. What a check finds wrong is a `CheckError`, which is
an `AssertionError`.
"""

from __future__ import annotations

from flintstream.errors import CheckError, ContractError, LawError, MismatchError, TranscriptError
from flintstream.testing.batching import check_batching
from flintstream.testing.committed import Timer
from flintstream.testing.contract import Checked
from flintstream.testing.function_harness import FunctionHarness
from flintstream.testing.harness import PipelineHarness
from flintstream.testing.play_file import play
from flintstream.testing.sink_contract import check_sink
from flintstream.testing.source_contract import check_source

__all__ = [
    "CheckError",
    "Checked",
    "ContractError",
    "FunctionHarness",
    "LawError",
    "MismatchError",
    "PipelineHarness",
    "Timer",
    "TranscriptError",
    "check_batching",
    "check_sink",
    "check_source",
    "play",
]
