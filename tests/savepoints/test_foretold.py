"""State that a restart will refuse is told of when it is written; an attempt of the same process refuses nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from flintstream import (
    CollectSink,
    Configuration,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from flintstream.errors import IncompatibleStateError

TRUST = {"flintstream.state-recovery.trust": "true"}
RESTARTS = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0"}


class Frames(KeyedProcessFunction):
    """Keeps the numbers so far in a frame of pandas, whose class is a library's and more than its fields."""

    failed: bool = False

    def __init__(self, fails_at: int | None) -> None:
        self._fails_at = fails_at

    def open(self, runtime_context: RuntimeContext) -> None:
        self._frame = runtime_context.get_state(ValueStateDescriptor("frame"))

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        if value == self._fails_at and not Frames.failed:
            Frames.failed = True
            msg = "once"
            raise RuntimeError(msg)
        held = self._frame.value()
        frame = pd.DataFrame({"n": [value]}) if held is None else pd.concat([held, pd.DataFrame({"n": [value]})])
        self._frame.update(frame)
        yield int(frame["n"].sum())


def run(folder: Path, uid: str, settings: dict[str, str], count: int = 6, fails_at: int | None = None) -> list[int]:
    Frames.failed = False
    configuration = Configuration.from_dict({"flintstream.epoch.max-records": "2", **settings})
    env = StreamExecutionEnvironment.get_execution_environment(configuration, runtime="local").set_parallelism(1)
    env.set_checkpoint_dir(str(folder))
    sink = CollectSink()
    numbers = env.from_collection(list(range(1, count + 1)))
    numbers.key_by(lambda number: "all").process(Frames(fails_at)).uid(uid).sink_to(sink).uid("out")
    env.execute("frames")
    return sink.results


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_warning_names_the_state_and_what_to_set(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path, "warned", {})
    (warning,) = told(caplog)
    assert "a restart will not read state 'warned/frame': state names pandas.core.frame.DataFrame" in warning
    assert "'flintstream.state-recovery.trust': 'true'" in warning


def test_who_trusts_is_not_warned_and_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(RuntimeError, match="once"):
        run(tmp_path, "trusted", TRUST, fails_at=5)
    assert not told(caplog)
    assert run(tmp_path, "trusted", TRUST)[-2:] == [15, 21]


def test_what_was_foretold_happens_and_nothing_is_lost(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="once"):
        run(tmp_path, "foretold", {}, fails_at=5)
    with pytest.raises(IncompatibleStateError, match=r"pandas\.core\.frame\.DataFrame"):
        run(tmp_path, "foretold", {})
    assert run(tmp_path, "foretold", TRUST)[-2:] == [15, 21]


def test_an_attempt_of_the_same_process_believes_what_that_has_written(tmp_path: Path) -> None:
    assert run(tmp_path, "again", RESTARTS, fails_at=5) == [1, 3, 6, 10, 15, 21]
