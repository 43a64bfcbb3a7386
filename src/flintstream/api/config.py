"""The two config objects that PyFlink programs hold: views of the job's settings under PyFlink's names.

Flink: pyflink.common.ExecutionConfig and pyflink.datastream.CheckpointConfig.
"""

from __future__ import annotations

from collections.abc import Mapping

from flintstream.api.no_effect import warn_no_effect, without_effect
from flintstream.api.settings import MOST_KEY_GROUPS, JobSettings, check_count, check_duration
from flintstream.model.config import CheckpointingMode, ExternalizedCheckpointRetention
from flintstream.model.delivery import DeliveryGuarantee
from flintstream.model.time import DurationLike


class ExecutionConfig:
    """How the jobs of an environment run; get it by `env.get_config()`."""

    def __init__(self, settings: JobSettings) -> None:
        self._settings = settings

    def get_parallelism(self) -> int:
        """Return the parallelism of operators that name none."""
        return self._settings.default_parallelism()

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Set the parallelism of operators that name none."""
        self._settings.parallelism = check_count("parallelism", parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups, which no parallelism exceeds."""
        return self._settings.max_parallelism

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Set the number of key groups; it stays the same for the life of a job's state."""
        self._settings.max_parallelism = check_count("max parallelism", max_parallelism, most=MOST_KEY_GROUPS)
        return self

    def get_global_job_parameters(self) -> dict[str, str]:
        """Return the parameters that functions read with `RuntimeContext.get_job_parameter`."""
        return dict(self._settings.parameters)

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, object]) -> ExecutionConfig:
        """Set the parameters that functions read with `RuntimeContext.get_job_parameter`; values become text."""
        self._settings.parameters = {key: str(value) for key, value in global_job_parameters_dict.items()}
        return self

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Let operators without a uid get one from their name and place; this is the default."""
        self._settings.needs_uids = False
        return self

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Refuse to run a job in which an operator has no uid."""
        self._settings.needs_uids = True
        return self

    def has_auto_generated_uids_enabled(self) -> bool:
        """Say whether operators may go without a uid."""
        return not self._settings.needs_uids

    enable_closure_cleaner = without_effect("enable_closure_cleaner")
    disable_closure_cleaner = without_effect("disable_closure_cleaner")
    set_auto_watermark_interval = without_effect("set_auto_watermark_interval")
    set_latency_tracking_interval = without_effect("set_latency_tracking_interval")
    set_task_cancellation_interval = without_effect("set_task_cancellation_interval")
    set_task_cancellation_timeout = without_effect("set_task_cancellation_timeout")
    enable_force_kryo = without_effect("enable_force_kryo")
    disable_force_kryo = without_effect("disable_force_kryo")
    enable_force_avro = without_effect("enable_force_avro")
    disable_force_avro = without_effect("disable_force_avro")
    enable_generic_types = without_effect("enable_generic_types")
    disable_generic_types = without_effect("disable_generic_types")
    enable_object_reuse = without_effect("enable_object_reuse")
    disable_object_reuse = without_effect("disable_object_reuse")
    set_use_snapshot_compression = without_effect("set_use_snapshot_compression")


class CheckpointConfig:
    """How the jobs of an environment keep their state; get it by `env.get_checkpoint_config()`.

    Every epoch ends in a checkpoint, so the interval between checkpoints is the interval between epochs.
    """

    def __init__(self, settings: JobSettings) -> None:
        self._settings = settings

    def is_checkpointing_enabled(self) -> bool:
        """Say whether an interval was set."""
        return self._settings.interval_ms is not None

    def get_checkpoint_interval(self) -> int:
        """Return the least time between two checkpoints in ms, -1 if none was set."""
        return -1 if self._settings.interval_ms is None else self._settings.interval_ms

    def set_checkpoint_interval(self, checkpoint_interval: DurationLike) -> CheckpointConfig:
        """Set the least time between the starts of two epochs; below what an epoch takes they run back to back."""
        self._settings.interval_ms = check_duration("the checkpoint interval", checkpoint_interval)
        return self

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return AT_LEAST_ONCE if that is what is asked of sinks, else EXACTLY_ONCE."""
        is_less = self._settings.guarantee is DeliveryGuarantee.AT_LEAST_ONCE
        return CheckpointingMode.AT_LEAST_ONCE if is_less else CheckpointingMode.EXACTLY_ONCE

    get_checkpointing_consistency_mode = get_checkpointing_mode

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Ask sinks for AT_LEAST_ONCE, as `env.set_guarantee(...)` does, or let each work as it does by itself.

        State counts every record exactly once, whatever is asked of sinks.
        """
        is_less = checkpointing_mode is CheckpointingMode.AT_LEAST_ONCE
        self._settings.guarantee = DeliveryGuarantee.AT_LEAST_ONCE if is_less else None
        return self

    def get_checkpoint_storage_dir(self) -> str | None:
        """Return the directory of the checkpoints, or None if state ends with the job."""
        return self._settings.checkpoint_dir

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Keep checkpoints in this directory; a job that finds some there goes on from the newest."""
        self._settings.checkpoint_dir = str(checkpoint_path)
        return self

    def get_min_pause_between_checkpoints(self) -> int:
        """Return the least time between the starts of two epochs that was asked for besides the interval, in ms."""
        return self._settings.min_pause_ms

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: DurationLike) -> CheckpointConfig:
        """Set a least time between the starts of two epochs; the greater of this and the interval holds."""
        self._settings.min_pause_ms = check_duration("the pause", min_pause_between_checkpoints)
        return self

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Return how many commits in a row may fail before the job does."""
        return self._settings.tolerable_failures

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """Set how many commits in a row may fail before the job does."""
        number = check_count("the number of tolerable failures", tolerable_checkpoint_failure_number, least=0)
        self._settings.tolerable_failures = number
        return self

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Return RETAIN_ON_CANCELLATION if there is a directory: its checkpoints stay."""
        if self._settings.checkpoint_dir is None:
            return ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        return ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION

    def set_externalized_checkpoint_retention(
        self, checkpoint_retention: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Accept RETAIN_ON_CANCELLATION, which is what happens, and anything else with a warning."""
        if checkpoint_retention is not ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION:
            warn_no_effect("set_externalized_checkpoint_retention")
        return self

    set_checkpoint_timeout = without_effect("set_checkpoint_timeout")
    set_max_concurrent_checkpoints = without_effect("set_max_concurrent_checkpoints")
    enable_unaligned_checkpoints = without_effect("enable_unaligned_checkpoints")
    disable_unaligned_checkpoints = without_effect("disable_unaligned_checkpoints")
    set_force_unaligned_checkpoints = without_effect("set_force_unaligned_checkpoints")
    set_aligned_checkpoint_timeout = without_effect("set_aligned_checkpoint_timeout")
    set_alignment_timeout = without_effect("set_alignment_timeout")
