"""What real PyFlink made of the pipelines, compared with what Flintstream makes of the same modules and the same input.

Records are compared within each stream and key in their order; across keys Flink promises none. The recordings are made
by `make record-flink`; nobody needs Flink to run these tests.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from flintstream import StreamExecutionEnvironment, Types
from tests.conftest import MakeEnv
from tests.differential import recordings
from tests.differential.pipelines.catalog import PIPELINES, record_type

DIFFERENCES: dict[str, str] = tomllib.loads((Path(__file__).parent / "differences.toml").read_text())
ON_SPARK = (
    "connected_keyed_process_with_timers",
    "continuous_trigger_on_session",
    "custom_trigger_on_session",
    "lateness_refires_sliding",
    "sorted_by_timers_with_late_side_output",
    "window_of_a_window",
)


def emitted_by(env: StreamExecutionEnvironment, name: str) -> dict[str, list[Any]]:
    pipeline = PIPELINES[name]
    built = pipeline.build(env.from_collection(pipeline.records, record_type()))
    first, *others = (stream.map(recordings.to_json(key), Types.STRING()) for key, stream in built.items())
    return recordings.by_key(map(json.loads, first.union(*others).execute_and_collect()))


def cases() -> list[Any]:
    marks = {name: pytest.mark.xfail(reason=reason, strict=True) for name, reason in DIFFERENCES.items()}
    return [pytest.param(name, marks=marks.get(name, ())) for name in PIPELINES]


@pytest.mark.parametrize("name", cases())
def test_flintstream_emits_what_flink_emitted(name: str, make_env: MakeEnv) -> None:
    assert emitted_by(make_env("local", 1), name) == recordings.by_key(recordings.read(name).emitted)


@pytest.mark.parametrize("name", cases())
def test_so_it_does_in_small_epochs_and_several_tasks(name: str, make_env: MakeEnv) -> None:
    emitted = emitted_by(make_env("local", 3, max_records=7), name)
    assert emitted == recordings.by_key(recordings.read(name).emitted)


@pytest.mark.spark
@pytest.mark.parametrize("name", ON_SPARK)
def test_so_it_does_on_spark(name: str, make_env: MakeEnv) -> None:
    assert emitted_by(make_env("spark", 2), name) == recordings.by_key(recordings.read(name).emitted)


@pytest.mark.parametrize("name", PIPELINES)
def test_a_recording_is_of_flink_2_3_and_of_the_input_as_it_is(name: str) -> None:
    recording = recordings.read(name)
    assert recording.versions["flink"].startswith("2.3.")
    assert recording.records == [list(record) for record in PIPELINES[name].records]
    assert recording.emitted or name == "global_windows_never_fire"


def test_every_recording_has_its_pipeline_and_every_difference_too() -> None:
    assert {path.stem for path in recordings.FOLDER.glob("*.jsonl")} == set(PIPELINES)
    assert set(DIFFERENCES) <= set(PIPELINES)
