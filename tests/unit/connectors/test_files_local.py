from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import pickle
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream.connectors.files_local import LocalFileReader, list_files
from flintstream.connectors.files_source import FileSource, StreamFormat
from flintstream.errors import InvalidArgumentError, SourceError, UnsupportedError
from flintstream.state.codec import decode, kind_of_arrow


def put(path, content, age=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return path


def everything(source):
    reader = LocalFileReader(source)
    (split,) = reader.splits(4)
    return reader.read(0, split.start, split.end).to_pylist()


def test_files_are_read_oldest_first_then_by_path_and_hidden_ones_are_skipped(tmp_path):
    put(tmp_path / "b", "3\n", age=5)
    put(tmp_path / "a", "4\n", age=5 - 1)
    put(tmp_path / "c" / "d", "1\n", age=9)
    put(tmp_path / "c" / "e", "2\n", age=9)
    put(tmp_path / "_x", "no\n")
    put(tmp_path / ".hidden" / "y", "no\n")
    assert everything(FileSource.text(tmp_path)) == ["1", "2", "3", "4"]


def test_paths_may_be_files_folders_addresses_and_patterns(tmp_path):
    put(tmp_path / "a.txt", "a")
    put(tmp_path / "b.log", "b")
    assert [p.name for p in list_files([f"{tmp_path}/*.txt"])] == ["a.txt"]
    assert [p.name for p in list_files([f"file://{tmp_path}/b.log"])] == ["b.log"]
    assert [p.name for p in list_files([str(tmp_path), f"{tmp_path}/a.txt"])] == ["a.txt", "b.log"]
    with pytest.raises(SourceError, match="there is nothing to read at"):
        list_files([f"{tmp_path}/*.csv"])
    with pytest.raises(SourceError, match="there is nothing to read at"):
        list_files([f"{tmp_path}/none"])
    with pytest.raises(UnsupportedError):
        list_files(["s3://bucket/x"])


def test_lines_end_as_java_reads_them_and_keep_other_characters(tmp_path):
    put(tmp_path / "a", "one\r\ntwo\rthree\n\nfive\x0c\u2028still\nlast")
    assert everything(FileSource.text(tmp_path)) == ["one", "two", "three", "", "five\x0c\u2028still", "last"]


def test_text_has_a_charset(tmp_path):
    put(tmp_path / "a", "é".encode("latin-1"))
    assert everything(FileSource.text(tmp_path, "latin-1")) == ["é"]
    with pytest.raises(SourceError, match=r"cannot read .*/a"):
        everything(FileSource.text(tmp_path))


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".deflate", zlib.compress)],
)
def test_compressed_files_are_known_by_their_suffix(suffix, compress, tmp_path):
    put(tmp_path / "text" / f"a{suffix}", compress(b"one\ntwo\n"))
    put(tmp_path / "json" / f"a{suffix}", compress(b'{"a":1}\n'))
    assert everything(FileSource.text(tmp_path / "text")) == ["one", "two"]
    assert everything(FileSource.json(tmp_path / "json")) == [{"a": 1}]
    put(tmp_path / "text" / f"b{suffix}", b"not compressed")
    with pytest.raises(SourceError, match=f"cannot read .*b{suffix}"):
        everything(FileSource.text(tmp_path / "text"))


def test_json_has_the_schema_of_all_its_files(tmp_path):
    put(tmp_path / "a", '{"a":1,"b":null}\n', age=2)
    put(tmp_path / "b", '{"a":1.5,"b":"2026-01-01T00:00:00"}\n{"c":[true]}\n', age=1)
    put(tmp_path / "c", "\n")
    put(tmp_path / "d", "")
    assert everything(FileSource.json(tmp_path)) == [
        {"a": 1.0, "b": None, "c": None},
        {"a": 1.5, "b": "2026-01-01T00:00:00", "c": None},
        {"a": None, "b": None, "c": [True]},
    ]


def test_json_with_a_schema_takes_its_fields_only(tmp_path):
    put(tmp_path / "a", '{"n":1,"x":{"deep":1}}\n{"s":"u"}\n')
    assert everything(FileSource.json(tmp_path, "s STRING, n DOUBLE")) == [{"s": None, "n": 1.0}, {"s": "u", "n": None}]


def test_files_that_do_not_go_together_are_an_error_that_names_the_field(tmp_path):
    put(tmp_path / "a", '{"a":1}\n')
    put(tmp_path / "b", '{"a":"x"}\n')
    with pytest.raises(SourceError, match="field 'a' is int64 in some records and string in others; declare a schema"):
        LocalFileReader(FileSource.json(tmp_path)).splits(1)


def test_a_line_that_is_no_json_is_an_error_that_names_the_file(tmp_path):
    put(tmp_path / "a", '{"a":\n')
    with pytest.raises(SourceError, match=r"cannot read .*/a"):
        everything(FileSource.json(tmp_path))


def test_csv_with_and_without_header_and_schema(tmp_path):
    put(tmp_path / "h", 'id;n\n"a\nb";1\n"";\n')
    put(tmp_path / "n", "a,1\nb,2.5\n")
    named = everything(FileSource.csv(tmp_path / "h", delimiter=";"))
    assert named == [{"id": "a\nb", "n": 1}, {"id": "", "n": None}]
    typed = everything(FileSource.csv(tmp_path / "h", {"n": float, "z": str}, delimiter=";"))
    assert typed == [{"n": 1.0, "z": None}, {"n": None, "z": None}]
    assert everything(FileSource.csv(tmp_path / "n", header=False)) == [{"f0": "a", "f1": 1.0}, {"f0": "b", "f1": 2.5}]
    declared = everything(FileSource.csv(tmp_path / "n", "id STRING, n STRING", header=False))
    assert declared == [{"id": "a", "n": "1"}, {"id": "b", "n": "2.5"}]


def test_a_csv_column_is_typed_by_all_its_values(tmp_path):
    put(tmp_path / "a", "n\n" + "1\n" * 700_000 + "x\n")
    reader = LocalFileReader(FileSource.csv(tmp_path))
    assert reader.schema == pa.schema([("n", pa.string())])


def test_parquet_files_of_different_schemas(tmp_path):
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", None]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": [1.5]}), tmp_path / "b.parquet")
    os.utime(tmp_path / "a.parquet", (1, 1))
    expected = [{"a": 1.0, "b": "x"}, {"a": 2.0, "b": None}, {"a": 1.5, "b": None}]
    assert everything(FileSource.parquet(tmp_path)) == expected
    (tmp_path / "c.parquet").write_text("no")
    with pytest.raises(SourceError, match=r"cannot read .*/c.parquet"):
        everything(FileSource.parquet(tmp_path))


@settings(deadline=None)
@given(st.data())
def test_a_range_is_the_same_in_any_cut(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("cuts")
    counts = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    number = 0
    for index, count in enumerate(counts):
        lines = [json.dumps({"n": number + i, "x": index or None}) for i in range(count)]
        put(folder / f"f{index}", "\n".join(lines), age=-index)
        number += count
    reader = LocalFileReader(FileSource.json(folder, "n BIGINT, x BIGINT"))
    (split,) = reader.splits(1)
    assert split.end == number
    cuts = sorted(data.draw(st.lists(st.integers(0, number), max_size=4)))
    pieces = [
        pickle.loads(pickle.dumps(reader)).read(0, a, b).to_pylist()
        for a, b in zip([0, *cuts], [*cuts, number], strict=True)
    ]
    assert [record["n"] for piece in pieces for record in piece] == list(range(number))


def test_the_list_of_files_is_fixed_when_the_splits_are_made(tmp_path):
    put(tmp_path / "a", "1\n2\n", age=1)
    reader = LocalFileReader(FileSource.text(tmp_path))
    assert reader.splits(1)[0].end == 2
    put(tmp_path / "0", "0\n", age=9)
    assert pickle.loads(pickle.dumps(reader)).read(0, 0, 2).to_pylist() == ["1", "2"]


def test_a_format_has_its_options_without_being_told(tmp_path):
    put(tmp_path / "lines", "é\n")
    put(tmp_path / "table", 'id,"n"\n"a""b",1\n')
    assert everything(FileSource(StreamFormat("text"), tmp_path / "lines")) == ["é"]
    assert everything(FileSource(StreamFormat("csv"), tmp_path / "table")) == [{"id": 'a"b', "n": 1}]
    assert everything(FileSource(StreamFormat("text", {"charset": "latin-1"}), tmp_path / "lines")) == ["Ã©"]
    with pytest.raises(InvalidArgumentError, match="no file format 'xml'; use one of text, json, csv, parquet"):
        FileSource(StreamFormat("xml"), tmp_path)


def test_records_are_seen_as_strings_and_rows(tmp_path):
    put(tmp_path / "t", "a\n")
    put(tmp_path / "j", '{"id":"a","n":1}\n')
    lines = LocalFileReader(FileSource.text(tmp_path / "t")).read(0, 0, 1)
    assert decode(lines, kind_of_arrow(lines.type)) == ["a"]
    rows = LocalFileReader(FileSource.json(tmp_path / "j")).read(0, 0, 1)
    (row,) = decode(rows, kind_of_arrow(rows.type))
    assert row.as_dict() == {"id": "a", "n": 1}


def test_an_empty_folder_has_no_records(tmp_path):
    reader = LocalFileReader(FileSource.text(tmp_path))
    assert reader.is_bounded
    assert reader.splits(1)[0].end == 0
    assert reader.read(0, 0, 0).to_pylist() == []


def test_watching_for_new_files_is_left_to_spark(tmp_path):
    with pytest.raises(UnsupportedError, match="monitor_continuously"):
        LocalFileReader(FileSource.text(tmp_path, monitor="1s"))
