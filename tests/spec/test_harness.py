"""The harness itself: wrong transcripts fail, each with what is wrong with it, and the variants are what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spec.gaps import wrong_gaps
from tests.spec.job import InProcess
from tests.spec.play import Mismatch, by_key, play
from tests.spec.transcript import (
    FOLDER,
    End,
    Expect,
    Feed,
    Restart,
    Transcript,
    TranscriptError,
    load_all,
    load_file,
    read_transcript,
)
from tests.spec.variants import joined, one_by_one, reordered, rescaled, variants_of, with_restarts

WRONG = list(load_file(FOLDER / "harness" / "must_fail.yaml"))
SUM = {"window": "tumbling(10s)", "apply": "sum"}


@pytest.mark.parametrize("transcript", [pytest.param(each, id=each.id) for each in WRONG])
def test_a_wrong_transcript_fails(transcript: Transcript, tmp_path: Path):
    assert transcript.fails
    with pytest.raises((Mismatch, TranscriptError)) as caught:
        play(transcript, transcript.steps, 2, InProcess(), tmp_path)
    assert transcript.fails in str(caught.value)


def document(*steps: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"name": "n", "about": "a", "pipeline": SUM, "steps": [*steps, {"expect": []}], **keys}


def read(*steps: dict[str, Any], **keys: Any) -> Transcript:
    return read_transcript(document(*steps, **keys), "place")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (document(color="red"), "unknown ['color']"),
        (document({"wait": 5}), "there is no step 'wait'"),
        (document({"input": "a | 1 | 2", "watermark": 3}), "a step is one key"),
        (document({"input": "a | 1"}), "has 2 cells for the columns key | t | v"),
        (document({"input": "split | key | t | v\n1 | a | 1 | 1"}), "has 1 splits, and no number 1"),
        (document({"input": {"right": "a | 1 | 1"}}), "there is no source 'right'"),
        (document({"input": "a | 1 | 1"}, sources={"x": {}, "y": {}}), "input must name one of the sources x, y"),
        (document({"watermark": 1}, sources={"in": {"watermarks": "monotonous"}}), "makes its watermarks by itself"),
        (document({"restart": {"hard": True}}), "restart: unknown ['hard']"),
        (document({"state": {"keys": 0}}), "state: unknown ['keys']"),
        (document({"expect": "a 1"}), "results are a list"),
        (document(sources={"in": {"parts": 2}}), "source in: unknown ['parts']"),
        ({"name": "n", "about": "a", "pipeline": SUM}, "has no ['steps']"),
        ({"name": "n", "about": "a", "pipeline": SUM, "steps": [{"end": {}}]}, "expects nothing"),
    ],
)
def test_what_is_not_understood_is_refused(wrong: dict[str, Any], message: str):
    with pytest.raises(TranscriptError) as caught:
        read_transcript(wrong, "place")
    assert message in str(caught.value)


def test_a_table_keeps_its_columns_until_it_says_others():
    first, second, third = read({"input": "key | t | v | w\na | 1 | 2 | x"}, {"input": "b | 2ms | 2.5 | -"}).steps
    assert isinstance(first, Feed) and first.lines[0].row == {"key": "a", "t": 1000, "v": 2, "w": "x"}
    assert isinstance(second, Feed) and second.lines[0].row == {"key": "b", "t": 2, "v": 2.5, "w": None}
    assert isinstance(third, Expect)


def test_a_mark_without_a_name_is_for_every_split():
    (feed, _) = read({"watermark": 3}, sources={"x": {"splits": 2}, "y": {}}).steps
    assert isinstance(feed, Feed)
    assert [(line.source, line.split, line.row["watermark"]) for line in feed.lines] == [
        ("x", 0, 3000),
        ("x", 1, 3000),
        ("y", 0, 3000),
    ]


def sample(**keys: Any) -> Transcript:
    rows = "\n".join(f"a | {n} | {n}" for n in range(6))
    return read({"input": rows}, {"watermark": 3}, {"input": rows}, {"end": {}}, **keys)


def test_restarts_stand_between_every_two_steps_until_the_end():
    kinds = [type(step).__name__ for step in with_restarts(sample())]
    assert kinds == ["Feed", "Restart", "Feed", "Restart", "Feed", "Restart", "End", "Expect"]
    assert {step.parallelism for step in rescaled(sample()) if isinstance(step, Restart)} == {1, 2, 3}


def test_cuts_keep_every_line_in_order():
    lines = [line for step in sample().steps if isinstance(step, Feed) for line in step.lines]
    for cut in (one_by_one, joined):
        assert [line for step in cut(sample()) if isinstance(step, Feed) for line in step.lines] == lines
    assert [len(step.lines) for step in one_by_one(sample()) if isinstance(step, Feed)] == [1] * 13
    assert [len(step.lines) for step in joined(sample()) if isinstance(step, Feed)] == [13]


def test_records_change_places_only_between_watermarks():
    (feed, end, _) = reordered(sample())
    assert isinstance(feed, Feed) and isinstance(end, End)
    values = [line.row.get("v", "mark") for line in feed.lines]
    assert values[6] == "mark"
    assert sorted(values[:6]) == sorted(values[7:]) == list(range(6))
    assert values[:6] != list(range(6))


def test_splits_are_not_joined_and_ordered_input_is_not_shuffled():
    names = {way.name for way in variants_of(sample())}
    assert {"reordered", "joined", "restarts", "rescaled", "one-by-one", "parallelism-1"} <= names
    assert "reordered" not in {way.name for way in variants_of(sample(ordered=True))}
    two = sample(sources={"in": {"splits": 2}})
    assert joined(two) == list(two.steps)


def test_results_are_compared_by_key():
    assert by_key(["b 1", "a 2", "b 0"]) == {"a": ["a 2"], "b": ["b 1", "b 0"]}
    assert by_key(["[0,1) 2", "[1,2) 1"]) == {"": ["[0,1) 2", "[1,2) 1"]}


def test_gaps_name_transcripts_and_reasons():
    assert wrong_gaps({name for transcript in load_all() for name in (transcript.id, transcript.page)}) == []


ELSEWHERE = {37: "an example with random numbers", 54: "one line of a program is changed, which is about savepoints"}


def test_every_capability_of_time_and_windows_has_a_transcript():
    wanted = {*range(21, 56), 97} - set(ELSEWHERE)
    found = {row for transcript in load_all() for row in transcript.rows}
    assert wanted - found == set()
    assert not found & set(ELSEWHERE)
