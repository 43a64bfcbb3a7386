"""Complex event processing: patterns in streams, at the path that Flink's module has; PyFlink has none."""

from __future__ import annotations

from flintstream.api.cep import CEP, PatternStream
from flintstream.model.cep import Pattern, WithinType
from flintstream.model.cep_conditions import ConditionContext, IterativeCondition, SimpleCondition
from flintstream.model.cep_functions import (
    NearMiss,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    TimedOutPartialMatchHandler,
)
from flintstream.model.cep_skip import AfterMatchSkipStrategy

__all__ = [
    "CEP",
    "AfterMatchSkipStrategy",
    "ConditionContext",
    "IterativeCondition",
    "NearMiss",
    "Pattern",
    "PatternFlatSelectFunction",
    "PatternFlatTimeoutFunction",
    "PatternProcessFunction",
    "PatternSelectFunction",
    "PatternStream",
    "PatternTimeoutFunction",
    "SimpleCondition",
    "TimedOutPartialMatchHandler",
    "WithinType",
]
