"""What a source cannot read: set apart with its bytes and its position, wherever the log was cut."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from flintstream import (
    CollectSink,
    FileSource,
    LogPart,
    LogSource,
    OutputTag,
    Row,
    SimpleStringSchema,
    TimedRecords,
    Types,
    bounded,
)
from flintstream.connectors.kafka_records import (
    KafkaRecordDeserializationSchema,
    read_leniently,
)
from flintstream.datastream.formats.json import JsonRowDeserializationSchema
from flintstream.errors import UserFunctionError
from flintstream.model.dead_letters import BadRecord

BAD = OutputTag("bad")


class Message:
    """A message as the client of Kafka hands it over."""

    def __init__(self, offset: int, value: bytes | None) -> None:
        self._offset, self._value = offset, value

    def value(self) -> bytes | None:
        return self._value

    def key(self) -> bytes | None:
        return b"key"

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000 + self._offset

    def headers(self) -> None:
        return None


class Json(KafkaRecordDeserializationSchema):
    def deserialize(self, record: Any) -> Any:
        return [json.loads(record.value)]


class Log(LogSource):
    """A log of lines of which some are no JSON."""

    is_lenient = True

    def __init__(self, *lines: bytes) -> None:
        self._lines = lines

    @property
    def is_bounded(self) -> bool:
        return True

    def discover(self, known: Collection[str], is_first: bool) -> Sequence[LogPart]:
        return [LogPart("orders-0", 0, len(self._lines))] if is_first else []

    def available(self, names: Collection[str]) -> Mapping[str, int]:
        return dict.fromkeys(names, len(self._lines))

    def _messages(self, start: int, end: int) -> list[Message]:
        return [Message(offset, self._lines[offset]) for offset in range(start, end)]

    def read_part(self, name: str, start: int, end: int) -> Any:
        messages = self._messages(start, end)
        return TimedRecords([json.loads(each.value() or b"") for each in messages], [0] * len(messages))

    def read_part_leniently(self, name: str, start: int, end: int, errors: tuple[type[Exception], ...]) -> Any:
        return read_leniently(Json(), self._messages(start, end), name, errors)


LINES = (b'{"n": 1, "ts": 1}', b"{", b'{"n": 2, "ts": 2}', b"}", b'{"n": 3, "ts": 3}')


def test_a_bad_record_fails_the_job_by_default(make_env):
    env = make_env("local")
    env.from_source(Log(*LINES)).print()
    with pytest.raises(UserFunctionError, match="JSONDecodeError"):
        env.execute()


@pytest.mark.parametrize("max_records", [0, 1, 2])
@pytest.mark.parametrize("timed", [False, True])
def test_bad_records_of_a_log_are_set_apart(make_env, max_records, timed):
    env, good, bad = make_env("local", max_records=max_records), CollectSink(), CollectSink()
    stream = env.from_source(Log(*LINES), type_info=Types.MAP(Types.STRING(), Types.INT())).uid("log").on_error(BAD)
    stream.get_side_output(BAD).sink_to(bad)
    if timed:
        stream = stream.assign_timestamps_and_watermarks(bounded(0, on="ts")).key_by("n").map(lambda r: r)
    stream.sink_to(good)
    result = env.execute()
    assert sorted(each["n"] for each in good.results) == [1, 2, 3]
    assert [(each.record, each.split, each.position, each.timestamp) for each in bad.results] == [
        (b"{", "orders-0", 1, 1001),
        (b"}", "orders-0", 3, 1003),
    ]
    assert {(each.operator, each.error) for each in bad.results} == {("log", "JSONDecodeError")}
    counts = result.get_accumulator_result("log")
    assert (counts["out"], counts["dead_letters"]) == (3, 2)


def test_a_job_that_skips_skips_bad_records_of_a_source_too(make_env):
    env, good = make_env("local").set_on_error("skip"), CollectSink()
    env.from_source(Log(*LINES)).sink_to(good)
    env.execute()
    assert [each["n"] for each in good.results] == [1, 2, 3]


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (KafkaRecordDeserializationSchema.value_only(SimpleStringSchema()), ["{}", "\ufffd", "ö"], []),
        (
            KafkaRecordDeserializationSchema.value_only(
                JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["n"], [Types.INT()])).build()
            ),
            [None],
            ["ö".encode(), b"\xff"],
        ),
    ],
)
def test_what_a_schema_cannot_read_keeps_its_place(schema, good, bad):
    messages = [Message(7, b"{}"), Message(8, b"\xff"), Message(9, "ö".encode()), Message(10, None)]
    found = read_leniently(schema, messages, "orders-0", (Exception,))
    apart = [each for each in found.records if isinstance(each, BadRecord)]
    assert [each.raw for each in apart] == sorted(bad, key=[each.value() for each in messages].index)
    assert {each.position for each in apart} == {each.offset() for each in messages if each.value() in bad}
    assert len(found.records) - len(apart) == len(good)
    assert len(found.timestamps) == len(found.records)


GOOD_LINES = ['{"id":"a","n":1}', '{"id":"c"}', ' {"n": 6, "more": [1], "id": "f"} ']
BAD_LINES = ["not json", '{"id":"b","n":"x"}', '{"id":"d","n":4}{"id":"e","n":5}', '{"id":', '"x"}', "7"]
"""The fourth and the fifth are one object over two lines; one line with two must not make up for them."""


@pytest.mark.parametrize("max_records", [0, 1, 4])
def test_bad_lines_of_json_files_are_set_apart(make_env, tmp_path, max_records):
    lines = [GOOD_LINES[0], *BAD_LINES[:3], "", GOOD_LINES[1], *BAD_LINES[3:], GOOD_LINES[2]]
    check_files(make_env("local", max_records=max_records), tmp_path, lines)


@pytest.mark.spark
def test_bad_lines_of_json_files_are_set_apart_on_spark(make_env, tmp_path):
    check_files(make_env("spark"), tmp_path, [*GOOD_LINES, *BAD_LINES])


def check_files(env: Any, folder: Any, lines: list[str]) -> None:
    (folder / "lines.json").write_text("\n".join(lines))
    good, bad = CollectSink(), CollectSink()
    rows = env.from_source(FileSource.json(folder / "lines.json", "id STRING, n INT")).uid("files").on_error(BAD)
    rows.sink_to(good)
    rows.get_side_output(BAD).sink_to(bad)
    result = env.execute()
    assert sorted(good.results, key=lambda row: row.id) == [Row(id="a", n=1), Row(id="c", n=None), Row(id="f", n=6)]
    assert sorted(letter.record for letter in bad.results) == sorted(BAD_LINES)
    assert result.get_accumulator_result("files-lines")["dead_letters"] == len(BAD_LINES)


def test_a_thousand_lines_with_one_that_is_bad(make_env, tmp_path):
    (tmp_path / "lines.json").write_text("\n".join([*(f'{{"n":{n}}}' for n in range(1000)), "{"]))
    env = make_env("local").set_on_error("skip")
    rows = env.from_source(FileSource.json(tmp_path, "n BIGINT")).execute_and_collect()
    assert sorted(row.n for row in rows) == list(range(1000))
