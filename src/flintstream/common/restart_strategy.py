"""PyFlink's path of RestartStrategies."""

from __future__ import annotations

from flintstream.model.restart import RestartStrategies, RestartStrategyConfiguration

__all__ = [
    "RestartStrategies",
    "RestartStrategyConfiguration",
]
