"""What each guarantee loses and doubles in a real system, if the driver dies between two steps of an epoch's commit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flintstream import Configuration, Sink, StreamExecutionEnvironment
from tests.capabilities.support import Lists
from tests.delivery.deaths import die_and_recover

BEFORE, AFTER = "before the manifest", "after the manifest"
ALL = [0, 1, 2, 3, 4, 5]
# Epochs are (0, 1), (2, 3), (4, 5); the job dies in the second.
CASES = [
    ("exactly-once", BEFORE, [0, 1], ALL),
    ("exactly-once", AFTER, [0, 1], ALL),
    ("at-least-once", BEFORE, [0, 1, 2, 3], [0, 1, 2, 2, 3, 3, 4, 5]),
    ("at-least-once", AFTER, [0, 1, 2, 3], ALL),
    ("at-most-once", BEFORE, [0, 1], ALL),
    ("at-most-once", AFTER, [0, 1], [0, 1, 4, 5]),
]


def at_death_and_end(
    make: Callable[[], Sink],
    record: Callable[[int], Any],
    look: Callable[[], list[int]],
    guarantee: str,
    phase: str,
    folder: Path,
) -> tuple[list[int], list[int]]:
    """Write numbers as records with a guarantee, die and recover; return what is there at the death and at the end."""

    def new_env() -> StreamExecutionEnvironment:
        settings = Configuration.from_dict({"flintstream.epoch.max-records": "2"})
        env = StreamExecutionEnvironment.get_execution_environment(settings, runtime="local")
        return env.set_parallelism(1).set_checkpoint_dir(str(folder))

    def declare(env: StreamExecutionEnvironment) -> None:
        env.from_source(Lists(ALL)).map(record).sink_to(make(), guarantee=guarantee).uid("out")

    return die_and_recover(new_env, declare, phase, lambda: sorted(look()))
