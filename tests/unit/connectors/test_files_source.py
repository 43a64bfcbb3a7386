from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from flintstream.connectors.files_source import FileSource, StreamFormat
from flintstream.errors import InvalidArgumentError
from flintstream.model.time import Duration


def test_it_is_built_as_in_pyflink():
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format("latin-1"), "/a", "/b")
    source = builder.build()
    assert source.is_bounded
    assert (source.format, source.options) == ("text", {"charset": "latin-1"})
    assert source.paths == ("/a", "/b")
    watched = builder.monitor_continuously(Duration.of_seconds(5)).build()
    assert not watched.is_bounded
    assert watched.discovery_interval_ms == 5000
    assert builder.process_static_file_set().build().is_bounded


def test_the_short_forms_say_the_same():
    text = FileSource.text("/a", monitor="10s", files_per_epoch=2)
    assert (text.format, text.discovery_interval_ms, text.files_per_epoch) == ("text", 10_000, 2)
    csv = FileSource.csv(["/a", Path("/b")], "x INT", header=False, delimiter=";")
    assert (csv.format, csv.options) == ("csv", {"header": False, "sep": ";", "escape": '"', "multiLine": True})
    assert FileSource.csv("/a", multi_line=False).options["multiLine"] is False
    assert (csv.paths, csv.schema) == (("/a", "/b"), pa.schema([("x", pa.int32())]))
    assert FileSource.json("/a", {"x": int}).schema == pa.schema([("x", pa.int64())])
    assert FileSource.parquet("/a").schema is None
    assert FileSource.json("/a").files_per_epoch is None


def test_plain_paths_become_absolute_and_addresses_stay():
    paths = FileSource.text(["in/*.txt", "s3://bucket/x", "file:/x"]).paths
    assert paths == (str(Path.cwd() / "in/*.txt"), "s3://bucket/x", "file:/x")


@pytest.mark.parametrize(
    "make",
    [
        lambda: FileSource.text([]),
        lambda: FileSource.text(""),
        lambda: FileSource.text("a", "klingon"),
        lambda: FileSource.text("a", monitor=0),
        lambda: FileSource.text("a", files_per_epoch=0),
        lambda: FileSource.csv("a", delimiter="ab"),
        lambda: FileSource.json("a", "x NOTHING"),
    ],
)
def test_arguments_that_can_never_be_right_are_refused(make):
    with pytest.raises(InvalidArgumentError):
        make()


def test_it_can_be_sent_to_a_worker_and_shows_itself():
    source = pickle.loads(pickle.dumps(FileSource.csv("/a", "x INT")))
    assert (source.paths, source.schema.names) == (("/a",), ["x"])
    assert repr(source) == "FileSource(csv, /a)"
