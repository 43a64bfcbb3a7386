from __future__ import annotations

import csv
import json
import pickle
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream.connectors import files_spool
from flintstream.connectors.files_config import BucketAssigner, Encoder, OutputFileConfig, RollingPolicy
from flintstream.connectors.files_local import LocalFileReader
from flintstream.connectors.files_sink import FileSink
from flintstream.connectors.files_source import FileSource
from flintstream.errors import InvalidArgumentError, SinkError
from flintstream.model.connect import WriterContext
from flintstream.model.row import Row
from flintstream.state.codec import encode

FORMATS = {"parquet": FileSink.parquet, "json": FileSink.json, "csv": FileSink.csv}


@dataclass
class Reading:
    id: str
    value: float


def context(epoch=1, subtask=0, attempt="try", job="job", uid="out"):
    return WriterContext(job, uid, epoch, subtask, attempt)


def staged(sink, *batches, **where):
    """Write each batch as rows and return the committable."""
    writer = sink.create_writer(context(**where))
    for rows in batches:
        writer.write(rows, [0] * len(rows))
    return writer.prepare_commit()


def commit(sink, *parts, epoch=1, job="job", uid="out"):
    sink.create_committer().commit(job, uid, epoch, list(parts))


def visible(folder: Path) -> list[str]:
    return sorted(
        str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and "/." not in f"/{p.relative_to(folder)}"
    )


def hidden(folder: Path) -> list[Path]:
    return sorted(p for p in (folder / ".flintstream").rglob("*") if p.is_file())


def read_all(folder: Path, form: str) -> list[dict]:
    """Read with tools that are not ours."""
    found: list[dict] = []
    for name in visible(folder):
        path = folder / name
        if form == "parquet":
            found += pq.ParquetFile(path).read().to_pylist()
        elif form == "json":
            found += [json.loads(line) for line in path.read_text().split("\n")[:-1]]
        else:
            with path.open(newline="") as file:
                found += list(csv.DictReader(file))
    return found


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_is_visible_before_the_commit_and_everything_after(form, tmp_path):
    sink = FORMATS[form](tmp_path)
    parts = [staged(sink, [("a", 1)], subtask=0), staged(sink, [("b", 2)], subtask=1)]
    assert visible(tmp_path) == []
    commit(sink, *parts)
    assert visible(tmp_path) == [f"part-out-000001-000.{form}", f"part-out-000001-001.{form}"]
    assert [(str(r["f0"]), int(r["f1"])) for r in read_all(tmp_path, form)] == [("a", 1), ("b", 2)]
    assert hidden(tmp_path) == []


def test_a_committable_names_both_paths_and_sizes_and_is_json(tmp_path):
    part = staged(FileSink.json(tmp_path), [("a", 1), ("b", 2)], epoch=7, subtask=3, attempt="7-1-ab")
    folder, name = part["staged"].rsplit("/", 1)
    assert re.fullmatch(r"\.flintstream/staging/job-out-[0-9a-f]{8}", folder)
    assert name == "7-7-1-ab-3.json"
    assert part["final"] == "part-out-000007-003.json"
    assert part["rows"] == 2
    assert part["bytes"] == (tmp_path / part["staged"]).stat().st_size
    assert json.loads(json.dumps(part)) == part


TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(0, 9),
            "n": st.none() | st.integers(-(2**62), 2**62),
            "x": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "s": st.none() | TEXT,
            "b": st.none() | st.booleans(),
        }
    ),
    min_size=1,
    max_size=6,
)
SCHEMA = {"id": int, "n": int, "x": float, "s": str, "b": bool}


@settings(max_examples=50, deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=4), st.sampled_from(sorted(FORMATS)), st.booleans())
def test_records_come_back_from_every_format_whatever_the_batches(batches, form, as_columns):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sink = FORMATS[form](folder, schema=SCHEMA)
        writer = sink.create_writer(context())
        for records in batches:
            if not (as_columns and writer.write_column(*encode(records), None)):
                writer.write(records, [0] * len(records))
        part = writer.prepare_commit()
        commit(sink, part)
        commit(sink, part)
        reader = LocalFileReader(getattr(FileSource, form)(folder, SCHEMA))
        (split,) = reader.splits(1)
        expected = [record for records in batches for record in records]
        assert reader.read(0, 0, split.end).to_pylist() == expected
        if form != "csv":
            assert read_all(folder, form) == expected


@settings(deadline=None)
@given(RECORDS.map(lambda records: [tuple(record[name] for name in SCHEMA) for record in records]))
def test_one_column_and_many_single_rows_give_the_same_file(records):
    with tempfile.TemporaryDirectory() as name:
        sink = FileSink.json(name)
        by_row = sink.create_writer(context(subtask=0))
        by_column = sink.create_writer(context(subtask=1))
        assert by_column.write_column(*encode(records), None)
        for record in records:
            by_row.write([record], [0])
        one, other = by_row.prepare_commit(), by_column.prepare_commit()
        assert Path(name, one["staged"]).read_bytes() == Path(name, other["staged"]).read_bytes()


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([("a", 1.5)], {"f0": "a", "f1": 1.5}),
        ([{"id": "a", "value": 1.5}], {"id": "a", "value": 1.5}),
        ([Row(id="a", value=1.5)], {"id": "a", "value": 1.5}),
        ([Reading("a", 1.5)], {"id": "a", "value": 1.5}),
        (["a"], {"value": "a"}),
        ([[1, 2]], {"value": [1, 2]}),
    ],
)
@pytest.mark.parametrize("form", ["parquet", "json"])
def test_any_kind_of_record_has_its_columns(records, expected, form, tmp_path):
    sink = FORMATS[form](tmp_path)
    commit(sink, staged(sink, records))
    assert read_all(tmp_path, form) == [expected]


@pytest.mark.parametrize("form", FORMATS)
def test_batches_of_different_schemas_become_one_file(form, tmp_path):
    sink = FORMATS[form](tmp_path)
    batches = [{"a": None, "b": 1}], [{"a": "x", "b": 2.5}], [{"b": 3, "c": True}]
    commit(sink, staged(sink, *batches))
    assert len(visible(tmp_path)) == 1
    reader = LocalFileReader(getattr(FileSource, form)(tmp_path))
    assert reader.read(0, 0, 3).to_pylist() == [
        {"a": None, "b": 1.0, "c": None},
        {"a": "x", "b": 2.5, "c": None},
        {"a": None, "b": 3.0, "c": True},
    ]


def test_types_that_do_not_go_together_are_an_error_that_names_the_field(tmp_path):
    with pytest.raises(SinkError, match="field 'a' is int64 in some records and string in others"):
        staged(FileSink.parquet(tmp_path), [{"a": 1}], [{"a": "x"}])
    assert visible(tmp_path) == []


def test_numbers_that_a_common_type_cannot_hold_are_an_error_that_names_the_field(tmp_path):
    with pytest.raises(SinkError, match="field 'a' has values of int64 that cannot be double"):
        staged(FileSink.parquet(tmp_path), [{"a": 2**62 + 1}], [{"a": 1.5}])


def test_a_declared_schema_gives_the_types_of_every_file(tmp_path):
    sink = FileSink.parquet(tmp_path, schema="a DOUBLE, b STRING, c DATE")
    commit(sink, staged(sink, [{"a": 1}]))
    (name,) = visible(tmp_path)
    assert pq.read_schema(tmp_path / name).types == [pa.float64(), pa.string(), pa.date32()]
    with pytest.raises(SinkError, match="field 'z' is not in the declared schema"):
        staged(sink, [{"a": 1, "z": 2}], epoch=2)
    with pytest.raises(SinkError, match="field 'a' has values of string"):
        staged(sink, [{"a": "x"}], epoch=3)


def test_csv_cannot_hold_lists_or_bytes_and_says_so(tmp_path):
    with pytest.raises(SinkError, match=r"field 'tags' is .* which CSV cannot hold"):
        staged(FileSink.csv(tmp_path), [{"tags": ["a"]}])
    with pytest.raises(SinkError, match="field 'value' is binary, which CSV cannot hold"):
        staged(FileSink.csv(tmp_path), [b"a"])


def test_csv_has_a_header_and_a_delimiter_as_asked(tmp_path):
    for folder, sink, text in [
        ("a", FileSink.csv(tmp_path / "a"), '"f0","f1"\n"x;",\n"",1\n'),
        ("b", FileSink.csv(tmp_path / "b", header=False), '"x;",\n"",1\n'),
        ("c", FileSink.csv(tmp_path / "c", delimiter=";"), '"f0";"f1"\n"x;";\n"";1\n'),
    ]:
        commit(sink, staged(sink, [("x;", None), ("", 1)]))
        assert (tmp_path / folder / "part-out-000001-000.csv").read_text() == text


def test_parquet_is_compressed_as_asked(tmp_path):
    for compression in ("zstd", "none"):
        sink = FileSink.parquet(tmp_path / compression, compression=compression)
        commit(sink, staged(sink, [("a", 1)]))
        (name,) = visible(tmp_path / compression)
        found = pq.ParquetFile(tmp_path / compression / name).metadata.row_group(0).column(0).compression
        assert found.lower() == {"none": "uncompressed"}.get(compression, compression)


@pytest.mark.parametrize("form", FORMATS)
def test_more_than_fits_into_memory_waits_on_disk_in_order(form, tmp_path, monkeypatch):
    monkeypatch.setattr(files_spool.Spool.__init__, "__defaults__", (None, 100))
    sink = FORMATS[form](tmp_path)
    writer = sink.create_writer(context())
    for number in range(50):
        writer.write([{"a": None if number < 20 else f"x{number}", "n": number}], [0])
    assert any(".spill" in path.name for path in hidden(tmp_path))
    commit(sink, writer.prepare_commit())
    assert [int(record["n"]) for record in read_all(tmp_path, form)] == list(range(50))
    assert hidden(tmp_path) == []


def test_a_part_size_ends_files_early(tmp_path):
    for folder, sink in [
        ("json", FileSink.json(tmp_path / "json", part_size=100)),
        ("text", FileSink(tmp_path / "text", Encoder.simple_string_encoder(), part_size=20)),
    ]:
        writer = sink.create_writer(context())
        for number in range(30):
            writer.write([number], [0])
        parts = writer.prepare_commit()
        assert len(parts) > 2
        assert sum(part["rows"] for part in parts) == 30
        commit(sink, parts)
        commit(sink, parts)
        assert len(visible(tmp_path / folder)) == len(parts)
        assert hidden(tmp_path / folder) == []
    names = visible(tmp_path / "text")
    assert names[:2] == ["part-out-000001-000", "part-out-000001-000-1"]
    lines = [(tmp_path / "text" / name).read_text().split() for name in names]
    assert sorted(int(line) for part in lines for line in part) == list(range(30))
    assert all(len("\n".join(part)) <= 22 for part in lines)


def test_a_row_format_writes_text_into_hourly_buckets_by_default(tmp_path):
    sink = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    commit(sink, staged(sink, ["a", Row("b", 1)], [3]))
    (name,) = visible(tmp_path)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d--\d\d/part-out-000001-000", name)
    assert (tmp_path / name).read_text() == "a\n+I[b,1]\n3\n"


def test_every_setting_of_the_builder_takes_effect(tmp_path):
    builder = (
        FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder("latin-1"))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_output_file_config(OutputFileConfig("reading", ".txt"))
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    )
    sink = builder.build()
    commit(sink, staged(sink, ["é"]))
    assert (tmp_path / "reading-out-000001-000.txt").read_bytes() == b"\xe9\n"


def test_the_short_forms_take_buckets_and_names(tmp_path):
    sink = FileSink.json(
        tmp_path,
        bucket_assigner=BucketAssigner.date_time_bucket_assigner("'year='yyyy"),
        output_file_config=OutputFileConfig("r", ".jsonl"),
    )
    commit(sink, staged(sink, [1]))
    assert re.fullmatch(r"year=\d{4}/r-out-000001-000\.jsonl", visible(tmp_path)[0])


def test_a_rolling_policy_by_time_and_a_check_interval_warn_that_they_do_nothing(tmp_path):
    builder = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    with pytest.warns(UserWarning, match="rollover_interval and inactivity_interval have no effect"):
        builder.with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=10))
    with pytest.warns(UserWarning, match="with_bucket_check_interval"):
        builder.with_bucket_check_interval(1000)
    assert builder.build().part_size == 10


@pytest.mark.parametrize("form", FORMATS)
def test_committing_twice_is_committing_once(form, tmp_path):
    sink = FORMATS[form](tmp_path)
    parts = [staged(sink, [("a", n)], subtask=n) for n in range(3)]
    # A driver that died after the first of three renames.
    (tmp_path / parts[0]["staged"]).rename(tmp_path / parts[0]["final"])
    commit(sink, *parts)
    commit(sink, *parts)
    assert len(read_all(tmp_path, form)) == 3


def test_a_file_that_is_neither_staged_nor_final_is_an_error_that_names_both(tmp_path):
    sink = FileSink.json(tmp_path)
    part = staged(sink, [1])
    (tmp_path / part["staged"]).unlink()
    with pytest.raises(SinkError) as caught:
        commit(sink, part)
    assert str(tmp_path / part["staged"]) in str(caught.value)
    assert str(tmp_path / part["final"]) in str(caught.value)


def test_a_lost_file_is_not_mistaken_for_that_of_an_earlier_run(tmp_path):
    sink = FileSink.json(tmp_path)
    commit(sink, staged(sink, ["of an earlier run"]))
    part = staged(sink, [1], attempt="other")
    (tmp_path / part["staged"]).unlink()
    with pytest.raises(SinkError, match="output is lost"):
        commit(sink, part)


def test_a_new_run_without_a_checkpoint_adds_to_the_files_of_the_earlier_one(tmp_path):
    sink = FileSink.json(tmp_path)
    commit(sink, staged(sink, [1], attempt="1-1-aa"))
    again = staged(sink, [22], attempt="1-1-bb")
    commit(sink, again)
    commit(sink, again)
    assert sorted(record["value"] for record in read_all(tmp_path, "json")) == [1, 22]


def test_staged_files_of_dead_attempts_go_with_the_next_commit(tmp_path):
    sink = FileSink.json(tmp_path)
    dead = [staged(sink, [1], attempt="dead"), staged(sink, [1], epoch=2, attempt="dead")]
    ahead = staged(sink, [1], epoch=3)
    other_job = staged(sink, [1], job="job-out", uid="x")
    other_sink = staged(sink, [1], job="job", uid="out-x")
    commit(sink, staged(sink, [2], epoch=2), epoch=2)
    kept = {path.relative_to(tmp_path).as_posix() for path in hidden(tmp_path)}
    assert kept == {part["staged"] for part in (ahead, other_job, other_sink)}
    assert not kept & {part["staged"] for part in dead}


@pytest.mark.parametrize("form", ["parquet", "json", "csv", "text"])
def test_an_aborted_writer_leaves_nothing(form, tmp_path):
    sink = FORMATS[form](tmp_path, part_size=1) if form in FORMATS else FileSink(tmp_path, Encoder(), part_size=2)
    writer = sink.create_writer(context())
    for number in range(3):
        writer.write([number], [0])
    assert hidden(tmp_path)
    writer.abort()
    assert hidden(tmp_path) == []


def test_a_writer_without_records_has_nothing_to_commit(tmp_path):
    assert staged(FileSink.json(tmp_path)) is None
    assert staged(FileSink.parquet(tmp_path), []) is None
    assert staged(FileSink(tmp_path, Encoder())) is None


def test_names_of_jobs_and_operators_may_hold_anything(tmp_path):
    sink = FileSink.json(tmp_path / "out")
    where = {"job": "../my job", "uid": "a/b é"}
    commit(sink, staged(sink, [1], **where), **where)
    (name,) = visible(tmp_path / "out")
    assert re.fullmatch(r"part-a_b__-[0-9a-f]{8}-000001-000\.json", name)
    assert hidden(tmp_path / "out") == []
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize("form", ["parquet", "json", "csv", "text"])
def test_a_full_disk_is_one_error_with_the_path_and_what_to_do(form, tmp_path):
    sink = FORMATS[form](tmp_path) if form in FORMATS else FileSink(tmp_path, Encoder())
    writer = sink.create_writer(context())
    path = writer._path
    path.symlink_to("/dev/full")
    with pytest.raises(SinkError) as caught:
        writer.write(["x" * 100_000], [0])
        writer.prepare_commit()
    assert str(path) in str(caught.value)
    assert "No space left" in str(caught.value)
    assert "free space" in str(caught.value)


def test_a_directory_that_cannot_be_is_one_error_with_the_path(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="give a directory that the driver and all workers can write to") as caught:
        FileSink.json(tmp_path / "file").create_writer(context())
    assert str(tmp_path / "file") in str(caught.value)


def test_addresses_are_read_or_refused(tmp_path):
    assert FileSink.json(f"file://{tmp_path}/a%20b").base_path == f"{tmp_path}/a b"
    assert Path(FileSink.json("out").base_path) == Path.cwd() / "out"
    assert FileSink.json("s3://bucket/x").base_path == "s3://bucket/x"
    with pytest.raises(InvalidArgumentError, match="on this machine; leave them out"):
        FileSink.json("out", storage_options={"key": "k"})
    with pytest.raises(InvalidArgumentError):
        FileSink.json("")


@pytest.mark.parametrize(
    "make",
    [
        lambda: FileSink.parquet("out", compression="rar"),
        lambda: FileSink.csv("out", delimiter=""),
        lambda: FileSink.csv("out", delimiter='"'),
        lambda: FileSink.json("out", part_size=0),
        lambda: FileSink.json("out", schema="a NOTHING"),
    ],
)
def test_options_that_can_never_be_right_are_refused(make):
    with pytest.raises(InvalidArgumentError):
        make()


def test_a_sink_can_be_sent_to_a_worker(tmp_path):
    for sink in (
        FileSink.parquet(tmp_path, schema={"a": int}),
        FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build(),
    ):
        copy = pickle.loads(pickle.dumps(sink))
        assert vars(copy).keys() == vars(sink).keys()
        assert staged(copy, [{"a": 1}]) is not None
        assert repr(copy) == repr(sink)


def test_a_file_that_another_driver_publishes_meanwhile_is_published(tmp_path, monkeypatch):
    sink = FileSink.json(tmp_path)
    writer = sink.create_writer(context())
    writer.write([{"n": 1}], [0])
    part = writer.prepare_commit()
    rename = Path.rename

    def overtaken(self, target):
        monkeypatch.setattr(Path, "rename", rename)
        sink.create_committer().commit("job", "out", 1, [part])
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", overtaken)
    sink.create_committer().commit("job", "out", 1, [part])
    (published,) = [path for path in tmp_path.rglob("*.json") if ".flintstream" not in path.parts]
    assert published.read_text() == '{"n":1}\n'
