"""What a task stages for Kafka is what the publisher reads, however records came and however large they are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.connectors import kafka_write
from flintstream.connectors.kafka_publish import Share
from flintstream.connectors.kafka_write import KafkaTarget, StagingWriter
from flintstream.errors import SinkError
from flintstream.model.connect import WriterContext

TARGET = KafkaTarget("localhost:9092", {}, "prefix")


class Stage:
    """Keeps pieces in memory."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def __call__(self, data: bytes) -> dict[str, Any]:
        self.pieces.append(data)
        return {"piece": len(self.pieces) - 1}


def writer(stage: Stage) -> StagingWriter:
    context = WriterContext("job", "uid", 1, 3, "attempt", incarnation="life", stage=stage)
    return StagingWriter(TARGET, lambda record: record, context)


def read(committable: Any, stage: Stage) -> list[Any]:
    if isinstance(committable, dict):
        pieces = [stage.pieces[piece["piece"]] for piece in committable["pieces"]]
        committable = {"pieces": [lambda data=data: data for data in pieces]}
    rows = [row for batch in Share.of(committable).batches() for row in batch.to_pylist()]
    return [
        (row["topic"], row["key"], row["value"], row["timestamp"], [tuple(h.values()) for h in row["headers"] or ()])
        for row in rows
    ]


bytes_or_none = st.none() | st.binary(max_size=20)
records = st.tuples(
    st.sampled_from(["a", "b", "grün"]),
    bytes_or_none,
    bytes_or_none,
    st.none() | st.lists(st.tuples(st.text(max_size=5), bytes_or_none), max_size=2),
)


@given(st.lists(st.lists(st.tuples(records, st.integers(-1, 10**13)), max_size=5), max_size=6), st.integers(1, 8))
def test_all_records_are_staged_in_order(calls: list[list[Any]], many: int) -> None:
    stage = Stage()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka_write, "_MANY", many)
        patch.setattr(kafka_write, "PIECE_BYTES", 200)
        patch.setattr(kafka_write, "INLINE_BYTES", 2_000)
        one = writer(stage)
        for call in calls:
            one.write([record for record, _ in call], [at for _, at in call])
        committable = one.prepare_commit()
    given_to_it = [pair for call in calls for pair in call]
    if not given_to_it:
        assert committable is None
        return
    expected = [
        (topic, key, value, at if at >= 0 else None, headers or []) for (topic, key, value, headers), at in given_to_it
    ]
    assert read(committable, stage) == expected


def test_large_output_is_staged_in_pieces_of_about_one_size() -> None:
    stage = Stage()
    one = writer(stage)
    one.write([("t", None, bytes(100_000), None)] * 400, [0] * 400)
    committable = one.prepare_commit()
    assert len(committable["pieces"]) >= 4
    assert max(map(len, stage.pieces)) < 2 * kafka_write.PIECE_BYTES
    assert len(read(committable, stage)) == 400


def test_few_large_records_do_not_wait_in_memory_for_more() -> None:
    stage = Stage()
    one = writer(stage)
    for _ in range(20):
        one.write([("t", None, bytes(900_000), None)], [0])
    assert len(stage.pieces) >= 1


@pytest.mark.parametrize(
    "record",
    [
        ("t", b"k", bytes(1_000_000), None),
        ("t", bytes(1_000_001), None, None),
        ("t", None, bytes(999_000), [("name", bytes(1_000))]),
    ],
)
@pytest.mark.parametrize("others", [0, 600])
def test_a_record_that_no_broker_takes_is_refused_while_the_epoch_runs(record: Any, others: int) -> None:
    one = writer(Stage())
    with pytest.raises(SinkError, match=r"a record of 1,000,0\d\d bytes is larger than the 1,000,000"):
        one.write([("t", None, b"small", None)] * others + [record], [0] * (others + 1))
        one.prepare_commit()
