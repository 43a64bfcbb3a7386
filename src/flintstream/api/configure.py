"""Reads a `Configuration` into the job's settings: one table of the keys that mean something here.

Keys that begin with `spark.` are Spark's and go to the session that is started. Any other key is warned about once.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from flintstream.api.config import CheckpointConfig
from flintstream.api.no_effect import warn_no_effect
from flintstream.api.settings import (
    MOST_KEY_GROUPS,
    JobSettings,
    check_count,
    check_duration,
    check_guarantee,
    check_runtime,
)
from flintstream.engine.options import StartFrom
from flintstream.engine.source_rate import SourceRate
from flintstream.errors import InvalidArgumentError, describe
from flintstream.graph.location import users_line
from flintstream.model.config import CheckpointingMode, Configuration, RuntimeExecutionMode
from flintstream.model.restart import check_key, known_keys

Setter = Callable[[JobSettings, str, str], None]
LEAST_LEASE_MS = 100
"""Below this a busy machine would be taken for a dead one."""


def apply_given(settings: JobSettings, given: str | None) -> None:
    """Take over what the command line was given for this program (`flintstream run -D key=value`), as JSON."""
    if given:
        apply_configuration(settings, Configuration.from_dict(json.loads(given)))


def apply_configuration(settings: JobSettings, configuration: Configuration) -> None:
    """Take over every key of a configuration.

    Raises:
        InvalidArgumentError: a value is not what its key needs.
    """
    for key, value in configuration.to_dict().items():
        setter = KEYS.get(key)
        if setter is not None:
            setter(settings, key, value)
        elif key.startswith("spark."):
            settings.spark[key] = value
        else:
            warn_no_effect(f"configuration key {key!r}", "Flintstream does not know it; docs/support.md has the list")


def _integer(attribute: str, least: int = 1, most: int | None = None) -> Setter:
    def set_integer(settings: JobSettings, key: str, value: str) -> None:
        try:
            number: int | str = int(value)
        except ValueError:
            number = value
        setattr(settings, attribute, check_count(key, number, least, most))

    return set_integer


def _duration(attribute: str) -> Setter:
    def set_duration(settings: JobSettings, key: str, value: str) -> None:
        setattr(settings, attribute, check_duration(key, int(value) if value.isdigit() else value))

    return set_duration


def _boolean(attribute: str) -> Setter:
    def set_boolean(settings: JobSettings, key: str, value: str) -> None:
        if value.lower() not in ("true", "false"):
            raise _refused(key, value, "true or false")
        setattr(settings, attribute, value.lower() == "true")

    return set_boolean


def _text(attribute: str) -> Setter:
    def set_text(settings: JobSettings, key: str, value: str) -> None:
        setattr(settings, attribute, value)

    return set_text


def _mode(settings: JobSettings, key: str, value: str) -> None:
    names = [mode.name for mode in RuntimeExecutionMode]
    if value.upper() not in names:
        raise _refused(key, value, " or ".join(names))
    settings.mode = RuntimeExecutionMode[value.upper()]


def _checkpointing_mode(settings: JobSettings, key: str, value: str) -> None:
    names = [mode.name for mode in CheckpointingMode]
    if value.upper() not in names:
        raise _refused(key, value, " or ".join(names))
    CheckpointConfig(settings).set_checkpointing_mode(CheckpointingMode[value.upper()])


def _guarantee(settings: JobSettings, key: str, value: str) -> None:
    settings.guarantee = check_guarantee(value)


def _runtime(settings: JobSettings, key: str, value: str) -> None:
    settings.runtime = check_runtime(value)


def _start_from(settings: JobSettings, key: str, value: str) -> None:
    settings.start_from = StartFrom(value, location=users_line())


def _claim_mode(settings: JobSettings, key: str, value: str) -> None:
    """Accept the one mode there is: a savepoint stays its owner's, and the job writes all state anew."""
    if value.upper() != "NO_CLAIM":
        raise _refused(key, value, "NO_CLAIM: a savepoint is read once, and never changed or deleted by a job")


def _refused(key: str, value: str, wanted: str) -> InvalidArgumentError:
    line = users_line()
    return InvalidArgumentError(describe(f"{key} is {value!r}", line, f"set it to {wanted}"), location=line)


def _lease(settings: JobSettings, key: str, value: str) -> None:
    _duration("lease_ms")(settings, key, value)
    if settings.lease_ms < LEAST_LEASE_MS:
        raise _refused(key, value, f"{LEAST_LEASE_MS} ms or more")


def _source_rate(settings: JobSettings, key: str, value: str) -> None:
    SourceRate(value)
    settings.source_rate = value


def _restart(settings: JobSettings, key: str, value: str) -> None:
    check_key(key, value)
    settings.restart[key] = value


KEYS: dict[str, Setter] = {
    "execution.runtime-mode": _mode,
    "parallelism.default": _integer("parallelism"),
    "pipeline.name": _text("name"),
    "pipeline.max-parallelism": _integer("max_parallelism", most=MOST_KEY_GROUPS),
    "execution.checkpointing.interval": _duration("interval_ms"),
    "execution.checkpointing.min-pause": _duration("min_pause_ms"),
    "execution.checkpointing.dir": _text("checkpoint_dir"),
    "state.checkpoints.dir": _text("checkpoint_dir"),
    "flintstream.checkpoint-root": _text("checkpoint_root"),
    "execution.checkpointing.num-retained": _integer("retained"),
    "state.checkpoints.num-retained": _integer("retained"),
    "execution.checkpointing.tolerable-failed-checkpoints": _integer("tolerable_failures", least=0),
    "execution.checkpointing.mode": _checkpointing_mode,
    "flintstream.guarantee": _guarantee,
    "flintstream.runtime": _runtime,
    "flintstream.deterministic-order": _boolean("deterministic"),
    "flintstream.epoch.max-records": _integer("max_records", least=0),
    "flintstream.source.rate": _source_rate,
    "flintstream.metrics": _boolean("metrics"),
    "flintstream.state.entries-in-memory": _integer("state_entries_in_memory"),
    "flintstream.progress": _boolean("progress"),
    "flintstream.lease.timeout": _lease,
    **dict.fromkeys(known_keys(), _restart),
    "execution.state-recovery.ignore-unclaimed-state": _boolean("drop_orphans"),
    "execution.state-recovery.path": _start_from,
    "execution.state-recovery.claim-mode": _claim_mode,
    "flintstream.state-recovery.trust": _boolean("trust_state"),
    "execution.checkpointing.savepoint-dir": _text("savepoint_dir"),
    "state.savepoints.dir": _text("savepoint_dir"),
}
