"""Reads what the user says of restarts: keys of a configuration, or a strategy of `RestartStrategies`.

Both end as the same keys in the job's settings, so that whichever came last holds. Apart from the other settings
because twelve keys make one value, and an option of a strategy that was not chosen must not be taken in silence.

Flink: the keys `restart-strategy.*`; `setRestartStrategy` of Flink 1.
"""

from __future__ import annotations

from collections.abc import Mapping

from flintstream.api.no_effect import warn_no_effect
from flintstream.model.restart import TYPE, RestartStrategyConfiguration, strategy_of, unused_keys


def read_restart(keys: Mapping[str, str]) -> RestartStrategyConfiguration | None:
    """Return the strategy that the settings name, None if they name none; warn of what it does not use."""
    for key in unused_keys(keys):
        warn_no_effect(f"configuration key {key!r}", f"{TYPE} is {keys.get(TYPE, 'not set')}")
    return strategy_of(keys)
