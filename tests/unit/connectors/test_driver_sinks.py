from __future__ import annotations

import json
import pickle
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream.connectors.driver_sinks import CollectSink, PrintSink
from flintstream.connectors.parcel import merge
from flintstream.errors import SinkError
from flintstream.model.connect import Sink, WriterContext
from flintstream.model.row import Row
from flintstream.model.types import Types
from flintstream.ops.batch import Batch, Values
from flintstream.state.codec import field_of


def batch_of(rows, stamps, timestamps=None):
    columns = [np.array(column, np.int64) for column in zip(*stamps, strict=True)]
    times = np.array(timestamps if timestamps is not None else [0] * len(rows), np.int64)
    return Batch(Values(list(rows)), times, columns)


def part_of(sink: Sink, subtask: int, *batches: Batch, parallelism: int = 1, epoch: int = 1):
    writer = sink.create_writer(WriterContext("job", "out", epoch, subtask, "a", parallelism))
    for batch in batches:
        writer.write_batch(batch)
    return writer.prepare_commit()


def test_records_of_all_subtasks_are_merged_by_stamp():
    sink = CollectSink()
    parts = [
        part_of(sink, 0, batch_of(["b", "d"], [(0, 1, 5), (2, 1, 0)])),
        part_of(sink, 1, batch_of(["a"], [(0, 0, 9)]), batch_of(["c"], [(1, 0, 0)])),
    ]
    sink.create_committer().commit("job", "out", 1, parts)
    assert sink.results == ["a", "b", "c", "d"]


def test_where_stamps_are_equal_as_far_as_they_go_the_shorter_comes_first():
    sink = CollectSink()
    parts = [part_of(sink, 0, batch_of([1, 2], [(0, 0, -7), (0, 1, 0)])), part_of(sink, 1, batch_of([3], [(0, 0)]))]
    merged = merge(parts)
    assert merged.values == [3, 1, 2]
    assert merged.subtasks == [1, 0, 0]


def test_timestamps_come_along():
    part = part_of(CollectSink(), 3, batch_of(["a", "b"], [(1,), (0,)], [10, 20]))
    merged = merge([part])
    assert (merged.values, merged.timestamps, merged.subtasks) == (["b", "a"], [20, 10], [3, 3])


def test_columns_of_even_steps_take_no_room():
    stamps = [(7, 1, place, 0, 0) for place in range(1000)]
    small = part_of(CollectSink(), 0, batch_of([1] * 1000, stamps))
    large = part_of(CollectSink(), 0, batch_of([1] * 1000, [(*stamp[:4], hash(stamp)) for stamp in stamps]))
    assert len(small) < 10_000 < len(large)
    assert merge([small]).values == merge([large]).values == [1] * 1000


def test_a_parcel_of_an_earlier_release_is_read():
    """They had all columns, and no word on steps in the schema."""
    values = pa.array(["a", "b"])
    fields = [field_of("value", values, "str"), *(pa.field(name, pa.int64()) for name in ("timestamp", "s0", "s1"))]
    rows = pa.RecordBatch.from_arrays([values, *map(pa.array, ([10, 20], [5, 5], [1, 0]))], schema=pa.schema(fields))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    stream = sink.getvalue().to_pybytes()
    head = json.dumps({"subtask": 1, "parallelism": 2, "lengths": [len(stream)]}).encode()
    merged = merge([struct.pack("<4sI", b"FSP1", len(head)) + head + stream])
    assert (merged.values, merged.timestamps, merged.subtasks) == (["b", "a"], [20, 10], [1, 1])


VALUES = st.one_of(
    st.integers(), st.floats(allow_nan=False), st.text(), st.none(), st.tuples(st.text(), st.integers()), st.booleans()
)


@settings(deadline=None)
@given(st.lists(st.lists(VALUES, min_size=1, max_size=4), max_size=8), st.integers(1, 3))
def test_any_values_in_any_batches_come_back_in_the_order_of_their_stamps(batches, subtasks):
    sink = CollectSink()
    writers = [sink.create_writer(WriterContext("job", "out", 1, n, "a")) for n in range(subtasks)]
    expected, at = [], 0
    for number, rows in enumerate(batches):
        stamps = [(at + i, 0) for i in range(len(rows))]
        writers[number % subtasks].write_batch(batch_of(rows, stamps))
        at += len(rows)
        expected += rows
    parts = [part for part in (writer.prepare_commit() for writer in writers) if part is not None]
    sink.create_committer().commit("job", "out", 1, parts)
    assert sink.results == expected
    assert list(map(type, sink.results)) == list(map(type, expected))


def test_a_writer_without_records_has_nothing_to_commit():
    assert part_of(PrintSink(), 0) is None


def test_records_without_stamps_keep_the_order_of_subtasks():
    sink = CollectSink()
    parts = []
    for subtask in (0, 1):
        writer = sink.create_writer(WriterContext("job", "out", 1, subtask, "a"))
        writer.write([f"{subtask}x", f"{subtask}y"], [0, 0])
        parts.append(writer.prepare_commit())
    assert merge(parts).values == ["0x", "0y", "1x", "1y"]


def test_an_epoch_is_collected_once_however_often_it_is_committed():
    sink = CollectSink()
    part = part_of(sink, 0, batch_of(["a"], [(0,)]))
    first = sink.create_committer()
    first.commit("job", "out", 1, [part])
    first.commit("job", "out", 1, [part])
    sink.create_committer().commit("job", "out", 1, [part])
    assert sink.results == ["a"]
    first.commit("job", "out", 2, [part])
    first.commit("job", "other", 1, [part])
    assert list(sink) == ["a", "a", "a"]


def test_a_callback_gets_each_epoch_once_and_the_sink_keeps_nothing():
    seen = []
    sink = CollectSink(lambda epoch, values: seen.append((epoch, values)))
    part = part_of(sink, 0, batch_of(["a", "b"], [(0,), (1,)]))
    committer = sink.create_committer()
    for epoch in (1, 1, 2):
        committer.commit("job", "out", epoch, [part])
    assert seen == [(1, ["a", "b"]), (2, ["a", "b"])]
    assert sink.results == []


def test_a_sink_sent_to_a_worker_leaves_results_and_callback_behind():
    sink = CollectSink(lambda epoch, values: None)
    copy = pickle.loads(pickle.dumps(sink))
    assert copy.results == []
    assert part_of(copy, 0, batch_of(["a"], [(0,)])) is not None


def printed(sink, parts, capsys, epoch=1):
    sink.create_committer().commit("job", "out", epoch, parts)
    return capsys.readouterr()


@pytest.mark.parametrize(
    ("prefix", "parallelism", "line"),
    [(None, 1, "a"), ("in", 1, "in> a"), (None, 4, "3> a"), ("in", 4, "in:3> a")],
)
def test_lines_begin_as_in_pyflink(prefix, parallelism, line, capsys):
    sink = PrintSink(prefix)
    part = part_of(sink, 2, batch_of(["a"], [(0,)]), parallelism=parallelism)
    assert printed(sink, [part], capsys).out == f"{line}\n"


def test_it_prints_rows_and_declared_types_as_pyflink_does(capsys):
    rows = batch_of([Row("a", 1)], [(0,)])
    sink = PrintSink()
    assert printed(sink, [part_of(sink, 0, rows)], capsys).out == "+I[a,1]\n"
    pairs = batch_of([("a", 1)], [(0,)])
    assert printed(sink, [part_of(sink, 0, pairs)], capsys).out == "('a', 1)\n"
    typed = PrintSink(type_info=Types.TUPLE([Types.STRING(), Types.INT()]))
    assert printed(typed, [part_of(typed, 0, pairs)], capsys).out == "(a,1)\n"


def test_it_prints_to_the_standard_error_if_asked_to(capsys):
    sink = PrintSink(to_stderr=True)
    output = printed(sink, [part_of(sink, 0, batch_of([1], [(0,)]))], capsys)
    assert (output.out, output.err) == ("", "1\n")


def test_a_committer_prints_an_epoch_once(capsys):
    sink = PrintSink()
    part = part_of(sink, 0, batch_of([1], [(0,)]))
    committer = sink.create_committer()
    for epoch in (1, 1, 2):
        committer.commit("job", "out", epoch, [part])
    assert capsys.readouterr().out == "1\n1\n"


def test_bytes_that_are_no_parcel_are_refused():
    with pytest.raises(SinkError, match="stored output begins with"):
        merge([b"PAR1xxxxxxxx"])
