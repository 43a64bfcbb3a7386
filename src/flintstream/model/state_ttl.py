"""How long state lives: `StateTtlConfig` as a value, with the builder that Flink users know.

Separate from the descriptors because it is a small language of its own.

Flink: pyflink.datastream.state.StateTtlConfig, nested classes included. Differs from Flink: entries may also expire by
event time, a word that Flink had and took back. Expired entries are gone the moment they expire and leave the state at
the end of that epoch, so the three strategies by which Flink goes looking for them have nothing to do; and what
`ReturnExpiredIfNotCleanedUp` lets through can only be seen with `disable_cleanup_in_background()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from flintstream.errors import InvalidArgumentError
from flintstream.model.location import refused
from flintstream.model.no_effect import warn_once
from flintstream.model.time import Duration, DurationLike, Time, to_millis

_THIRTY_DAYS = Duration.of_days(30)
_CLEANED = "expired entries leave the state at the end of every epoch, and only those are looked at"


@dataclass(frozen=True)
class StateTtlConfig:
    """How long an entry of some state lives, and what happens to it then.

    Example:
        >>> config = StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().build()
        >>> config.get_ttl(), config.get_update_type().name
        (Time(value_ms=3600000), 'OnReadAndWrite')
    """

    class UpdateType(Enum):
        """When the life of an entry begins anew."""

        Disabled = 0
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(Enum):
        """Whether an expired entry that is still there may be read."""

        ReturnExpiredIfNotCleanedUp = 0
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(Enum):
        """The clock by which entries expire: that of the epoch, or the watermark."""

        ProcessingTime = 0
        EventTime = 1

    update_type: StateTtlConfig.UpdateType
    state_visibility: StateTtlConfig.StateVisibility
    ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
    ttl: Time
    cleanup_strategies: StateTtlConfig.CleanupStrategies

    @staticmethod
    def new_builder(ttl: DurationLike) -> StateTtlConfig.Builder:
        """Begin a configuration with the time an entry lives."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> StateTtlConfig.UpdateType:
        """Return when the life of an entry begins anew."""
        return self.update_type

    def get_state_visibility(self) -> StateTtlConfig.StateVisibility:
        """Return whether an expired entry that is still there may be read."""
        return self.state_visibility

    def get_ttl_time_characteristic(self) -> StateTtlConfig.TtlTimeCharacteristic:
        """Return the clock by which entries expire."""
        return self.ttl_time_characteristic

    def get_ttl(self) -> Time:
        """Return how long an entry lives."""
        return self.ttl

    def get_cleanup_strategies(self) -> StateTtlConfig.CleanupStrategies:
        """Return the ways in which expired entries are removed."""
        return self.cleanup_strategies

    def is_enabled(self) -> bool:
        """Say whether entries expire at all."""
        return self.update_type is not StateTtlConfig.UpdateType.Disabled

    class Builder:
        """Collects settings; `build()` ends it."""

        def __init__(self, ttl: DurationLike) -> None:
            self._ttl = _to_ttl(ttl)
            self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
            self._state_visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
            self._ttl_time_characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            self._in_background = True
            self._strategies: dict[
                StateTtlConfig.CleanupStrategies.Strategies, StateTtlConfig.CleanupStrategies.CleanupStrategy
            ] = {}

        def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> StateTtlConfig.Builder:
            """Set when the life of an entry begins anew."""
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """Let the life of an entry begin anew with every write (the default)."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """Let the life of an entry begin anew with every read and write."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: StateTtlConfig.StateVisibility) -> StateTtlConfig.Builder:
            """Set whether an expired entry that is still there may be read."""
            self._state_visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """Let expired entries be read until they are removed."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """Hide expired entries (the default)."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
        ) -> StateTtlConfig.Builder:
            """Set the clock by which entries expire."""
            self._ttl_time_characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """Let entries expire by processing time, the clock of the epoch (the default)."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

        def use_event_time(self) -> StateTtlConfig.Builder:
            """Let entries expire by event time: an entry lives from the timestamp of the record that touched it."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.EventTime)

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Accepted without effect: no snapshot has expired entries, unless clean-up is disabled."""
            warn_once("cleanup_full_snapshot", _CLEANED)
            kinds = StateTtlConfig.CleanupStrategies
            self._strategies[kinds.Strategies.FULL_STATE_SCAN_SNAPSHOT] = kinds.EMPTY_STRATEGY
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool
        ) -> StateTtlConfig.Builder:
            """Accepted without effect: nothing needs to be searched for what has expired."""
            warn_once("cleanup_incrementally", _CLEANED)
            kinds = StateTtlConfig.CleanupStrategies
            strategy = kinds.IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record)
            self._strategies[kinds.Strategies.INCREMENTAL_CLEANUP] = strategy
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
        ) -> StateTtlConfig.Builder:
            """Accepted without effect: there is no RocksDB whose files are merged."""
            warn_once("cleanup_in_rocksdb_compact_filter", _CLEANED)
            kinds = StateTtlConfig.CleanupStrategies
            compaction_time = periodic_compaction_time or _THIRTY_DAYS
            strategy = kinds.RocksdbCompactFilterCleanupStrategy(query_time_after_num_entries, compaction_time)
            self._strategies[kinds.Strategies.ROCKSDB_COMPACTION_FILTER] = strategy
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Let expired entries stay until they are next read or written."""
            self._in_background = False
            return self

        def set_ttl(self, ttl: DurationLike) -> StateTtlConfig.Builder:
            """Set how long an entry lives."""
            self._ttl = _to_ttl(ttl)
            return self

        def build(self) -> StateTtlConfig:
            """Return the finished configuration."""
            return StateTtlConfig(
                self._update_type,
                self._state_visibility,
                self._ttl_time_characteristic,
                self._ttl,
                StateTtlConfig.CleanupStrategies(dict(self._strategies), self._in_background),
            )

    @dataclass(frozen=True)
    class CleanupStrategies:
        """All the ways in which expired entries of one state are removed."""

        class Strategies(Enum):
            """The kinds of clean-up there are."""

            FULL_STATE_SCAN_SNAPSHOT = 0
            INCREMENTAL_CLEANUP = 1
            ROCKSDB_COMPACTION_FILTER = 2

        class CleanupStrategy:
            """One way to get rid of expired entries."""

        @dataclass(frozen=True)
        class EmptyCleanupStrategy(CleanupStrategy):
            """A strategy without settings."""

        @dataclass(frozen=True)
        class IncrementalCleanupStrategy(CleanupStrategy):
            """Looks at a few entries whenever state is used."""

            cleanup_size: int
            for_every_record: bool

            def get_cleanup_size(self) -> int:
                """Return how many entries are looked at each time."""
                return self.cleanup_size

            def run_cleanup_for_every_record(self) -> bool:
                """Say whether it happens for every record, also where no state is used."""
                return self.for_every_record

        @dataclass(frozen=True)
        class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
            """Drops expired entries when files are merged."""

            query_time_after_num_entries: int
            periodic_compaction_time: Duration = _THIRTY_DAYS

            def get_query_time_after_num_entries(self) -> int:
                """Return after how many entries the clock is read again."""
                return self.query_time_after_num_entries

            def get_periodic_compaction_time(self) -> Duration:
                """Return how old a file may become before it is merged for this purpose alone."""
                return self.periodic_compaction_time

        EMPTY_STRATEGY: ClassVar = EmptyCleanupStrategy()

        strategies: Mapping[Strategies, CleanupStrategy]
        in_background: bool

        def is_cleanup_in_background(self) -> bool:
            """Say whether the state backend may clean up in its own way."""
            return self.in_background

        def in_full_snapshot(self) -> bool:
            """Say whether expired entries are left out of full snapshots."""
            return self.Strategies.FULL_STATE_SCAN_SNAPSHOT in self.strategies

        def get_incremental_cleanup_strategy(self) -> IncrementalCleanupStrategy | None:
            """Return the incremental strategy; in the background there always is one."""
            found = self.strategies.get(self.Strategies.INCREMENTAL_CLEANUP)
            if isinstance(found, self.IncrementalCleanupStrategy):
                return found
            return self.IncrementalCleanupStrategy(5, False) if self.in_background else None

        def get_rocksdb_compact_filter_cleanup_strategy(self) -> RocksdbCompactFilterCleanupStrategy | None:
            """Return the strategy for merging files; in the background there always is one."""
            found = self.strategies.get(self.Strategies.ROCKSDB_COMPACTION_FILTER)
            if isinstance(found, self.RocksdbCompactFilterCleanupStrategy):
                return found
            return self.RocksdbCompactFilterCleanupStrategy(1000) if self.in_background else None


def _to_ttl(ttl: DurationLike) -> Time:
    millis = to_millis(ttl)
    if millis <= 0:
        raise refused(InvalidArgumentError, f"a time to live of {ttl!r} is not positive", "give 1 ms or more")
    return Time.milliseconds(millis)
