"""PyFlink calls that have no meaning here: accepted, so that a program runs, and answered with one warning each.

`REASONS` is the whole list; docs/support.md shows it, and a test keeps the two together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flintstream.model.no_effect import NoEffectWarning, warn_once, warned

__all__ = ["REASONS", "NoEffectWarning", "warn_no_effect", "without_effect"]

REASONS: dict[str, str] = {
    "set_buffer_timeout": "records travel in whole batches; enable_checkpointing(interval) paces them",
    "disable_operator_chaining": "operators of one level always run in one task",
    "start_new_chain": "operators of one level always run in one task",
    "disable_chaining": "operators of one level always run in one task",
    "slot_sharing_group": "Spark places the tasks",
    "register_slot_sharing_group": "Spark places the tasks",
    "enable_changelog_state_backend": "state is always kept as a changelog",
    "set_default_local_parallelism": "use set_parallelism(n)",
    "set_checkpoint_timeout": "an epoch ends by itself or fails",
    "set_max_concurrent_checkpoints": "an epoch is committed before the next begins",
    "enable_unaligned_checkpoints": "there are no barriers to align",
    "disable_unaligned_checkpoints": "there are no barriers to align",
    "set_force_unaligned_checkpoints": "there are no barriers to align",
    "set_aligned_checkpoint_timeout": "there are no barriers to align",
    "set_alignment_timeout": "there are no barriers to align",
    "set_externalized_checkpoint_retention": "checkpoints in a directory of yours always stay; delete them yourself",
    "enable_closure_cleaner": "Python functions need none",
    "disable_closure_cleaner": "Python functions need none",
    "set_auto_watermark_interval": "watermarks advance with the records, not with a clock",
    "set_latency_tracking_interval": "every epoch reports its latency",
    "set_task_cancellation_interval": "a job is cancelled between two epochs",
    "set_task_cancellation_timeout": "a job is cancelled between two epochs",
    "enable_force_kryo": "there is no Kryo",
    "disable_force_kryo": "there is no Kryo",
    "enable_force_avro": "there is no Avro",
    "disable_force_avro": "there is no Avro",
    "enable_generic_types": "any Python object is accepted",
    "disable_generic_types": "any Python object is accepted; explain() tells what is pickled",
    "enable_object_reuse": "records are never copied between operators of a level",
    "disable_object_reuse": "records are never copied between operators of a level",
    "set_use_snapshot_compression": "state files have a format of their own",
}
"""Call -> why it does nothing."""

_warned = warned


def warn_no_effect(call: str, reason: str | None = None) -> None:
    """Warn, once per process, that `call` does nothing; the warning points at the user's line."""
    warn_once(call, reason or REASONS[call])


def without_effect(call: str) -> Callable[..., Any]:
    """Return a method of that name which warns and returns its object, whatever the arguments."""

    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        warn_no_effect(call)
        return self

    method.__name__ = method.__qualname__ = call
    method.__doc__ = f"Accepted without effect: {REASONS[call]}."
    return method
