"""PyFlink's path of state and its descriptors."""

from __future__ import annotations

from flintstream.model.context import OperatorStateStore
from flintstream.model.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    AppendingState,
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    MergingState,
    ReadOnlyBroadcastState,
    ReducingState,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from flintstream.model.state_summaries import (
    DistinctCountState,
    DistinctCountStateDescriptor,
    QuantilesState,
    QuantilesStateDescriptor,
    ReservoirState,
    ReservoirStateDescriptor,
    SummaryState,
    SummaryStateDescriptor,
    TopKState,
    TopKStateDescriptor,
)
from flintstream.model.state_ttl import StateTtlConfig

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "DistinctCountState",
    "DistinctCountStateDescriptor",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "OperatorStateStore",
    "QuantilesState",
    "QuantilesStateDescriptor",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "ReservoirState",
    "ReservoirStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "SummaryState",
    "SummaryStateDescriptor",
    "TopKState",
    "TopKStateDescriptor",
    "ValueState",
    "ValueStateDescriptor",
]
