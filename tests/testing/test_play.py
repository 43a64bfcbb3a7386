"""Transcripts of a user's own pipelines."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from flintstream import KeyedProcessFunction, OutputTag, Row, count, tumbling
from flintstream.errors import MismatchError, TranscriptError
from flintstream.testing import play
from flintstream.testing.player import in_words

LATE = OutputTag("late")


def clicks_per_user(clicks, size="10s"):
    windows = clicks.key_by("user").window(tumbling(size)).side_output_late_data(LATE)
    counts = windows.agg(n=count())
    return {"main": counts, "late": counts.get_side_output(LATE)}


TEXT = """
name: clicks are counted by user and window
steps:
  - input: |
      user | t
      ann  | 1
      bob  | 4
      ann  | 9
  - watermark: 10
  - expect: ["ann 0 10000 2", "bob 0 10000 1"]
  - input: "eve | 3"
  - expect_late: ["eve 3000"]
  - counters: {late: 1}
---
name: sizes are arguments
pipeline: {program: clicks, with: {size: 5s}}
steps:
  - input: "user | t\\nann | 1\\nann | 6"
  - end: {}
  - expect: ["ann 0 5000 1", "ann 5000 10000 1"]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "clicks.yaml"
    path.write_text(text)
    return path


def test_every_transcript_is_played_in_every_way(tmp_path: Path):
    path = written(tmp_path, TEXT)
    assert play(path, clicks_per_user) > 10
    assert play(str(path), clicks_per_user, every_way=False) == 2
    second = written(tmp_path, TEXT.partition("---")[2])
    assert play(second, {"clicks": clicks_per_user}) > 4


def test_the_first_difference_is_told_with_its_way_and_step(tmp_path: Path):
    path = written(tmp_path, TEXT.replace("bob 0 10000 1", "bob 0 10000 7"))
    with pytest.raises(MismatchError) as caught:
        play(path, clicks_per_user)
    assert str(caught.value).splitlines() == [
        f"{tmp_path.name}/clicks/clicks are counted by user and window, played as-written: step 3 of 6: output main",
        "  expected {'ann': ['ann 0 10000 2'], 'bob': ['bob 0 10000 7']}",
        "  found    {'ann': ['ann 0 10000 2'], 'bob': ['bob 0 10000 1']}",
    ]


class Order(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value['user']} {value['t']}"


class Forgets(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = 0

    def process_element(self, value, ctx):
        self.seen += 1
        yield f"{value['user']} {self.seen}"


STEPS = """
name: in order
steps:
  - input: "user | t\\nann | 2\\nann | 1\\nann | 3"
  - expect: [{results}]
"""


def test_a_pipeline_that_depends_on_the_order_of_records_says_so(tmp_path: Path):
    def pipeline(clicks):
        return clicks.key_by("user").process(Order())

    text = STEPS.format(results='"ann 2000", "ann 1000", "ann 3000"')
    with pytest.raises(MismatchError, match=r"played reordered.*(?s:.)*ordered: true"):
        play(written(tmp_path, text), pipeline)
    play(written(tmp_path, f"ordered: true{text}"), pipeline)


def test_only_some_way_may_show_what_is_wrong(tmp_path: Path):
    def pipeline(clicks):
        return clicks.key_by("user").process(Forgets())

    text = STEPS.replace("  - expect", '  - input: "ann | 4"\n  - expect').format(
        results='"ann 1", "ann 2", "ann 3", "ann 4"'
    )
    path = written(tmp_path, f"ordered: true{text}")
    assert play(path, pipeline, every_way=False) == 1
    with pytest.raises(MismatchError, match="played restarts"):
        play(path, pipeline)


@dataclasses.dataclass
class Click:
    user: str
    t: int


def test_rows_become_records_and_results_become_text_as_wanted(tmp_path: Path):
    def pipeline(clicks):
        return clicks.map(lambda click: (click.user.upper(), click.t))

    text = STEPS.format(results='"ANN at 2000", "ANN at 1000", "ANN at 3000"')
    path = written(tmp_path, f"ordered: true{text}")
    runs = play(path, pipeline, record=lambda row: Click(**row), show=lambda result: f"{result[0]} at {result[1]}")
    assert runs > 2


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("to  be", "to be"),
        (("a", 1, None), "a 1 -"),
        (Row(user="a", n=2), "a 2"),
        ({"user": "a", "n": [1, 2]}, "a 1 2"),
        (Click("a", 3), "a 3"),
        (1.5, "1.5"),
    ],
)
def test_a_result_is_written_as_its_fields(result: Any, text: str):
    assert in_words(result) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no transcript in"),
        ("name: x\nsteps: []", "expects nothing"),
        ("name: [", "is no YAML"),
        ("name: x\npipeline: {program: other}\nsteps: [{expect: []}]", "there is no program 'other'"),
        ("name: x\npipeline: {window: tumbling}\nsteps: [{expect: []}]", r"the pipeline has unknown \['window'\]"),
        (
            "name: x\npipeline: clicks\nsources: {in: {watermarks: bounded}}\nsteps: [{expect: []}]",
            "watermarks 'bounded' cannot be written here",
        ),
    ],
)
def test_what_is_not_understood_is_refused(text: str, message: str, tmp_path: Path):
    with pytest.raises(TranscriptError, match=message):
        play(written(tmp_path, text), {"clicks": clicks_per_user})
