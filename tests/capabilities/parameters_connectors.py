"""Parameters of sources, sinks and generated fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flintstream import (
    BucketAssigner,
    CollectionSource,
    CollectSink,
    DataGeneratorSource,
    Encoder,
    FileSink,
    FileSource,
    NumberSequenceSource,
    OutputFileConfig,
    PrintSink,
    RollingPolicy,
    StreamFormat,
    Types,
    choice,
    constant,
    integers,
    normal,
    sequence,
    timestamps,
    uniform,
)
from flintstream.connectors.files_format import CsvFormat, JsonFormat
from flintstream.errors import InvalidArgumentError, SourceError, TypeMismatchError
from tests.capabilities.parameters import ABSENT, Bench, case, epochs_of, named, warned
from tests.capabilities.support import collect


def read(bench: Bench, source: Any) -> list[Any]:
    return collect(bench.env().from_source(source))


def generated(bench: Bench, **arguments: Any) -> list[Any]:
    arguments = {"fields": {"n": sequence()}, "count": 3, "splits": 1, **arguments}
    if arguments.get("generator") is not None:
        arguments.pop("fields")
    return [row if isinstance(row, int) else row.n for row in read(bench, DataGeneratorSource(**arguments))]


def epochs_at(bench: Bench, rate: float | None) -> bool:
    source = DataGeneratorSource(generator=lambda i: i, count=10, rate=rate, splits=1)
    return len(epochs_of(bench.env().from_source(source).map(str))) > 1


def splits_of(bench: Bench, splits: int) -> int:
    source = DataGeneratorSource(generator=lambda i: i, count=9, splits=splits)
    epochs = epochs_of(bench.env().from_source(source).uid("numbers").map(str))
    return len(epochs.manifests[-1].positions["numbers"])


def file_with(bench: Bench, content: str | bytes, name: str = "a") -> Path:
    path = bench.folder() / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows_of(bench: Bench, source: FileSource) -> list[Any]:
    return [tuple(row) if not isinstance(row, str) else row for row in read(bench, source)]


def two_files(bench: Bench, chosen: list[str]) -> list[Any]:
    folder = bench.folder()
    for name in ("a", "b"):
        (folder / name).write_text(f"{name}\n")
    return sorted(rows_of(bench, FileSource(StreamFormat.text_line_format(), [folder / name for name in chosen])))


def built(bench: Bench, charset: str) -> list[Any]:
    path = file_with(bench, "é".encode("latin-1"))
    return rows_of(bench, FileSource.for_record_stream_format(StreamFormat.text_line_format(charset), str(path)).build())


def parquet(bench: Bench, schema: Any, number: int = 1) -> list[Any]:
    path = bench.folder() / "a.parquet"
    pq.write_table(pa.table({"x": [number], "y": ["b"]}), path)
    return rows_of(bench, FileSource.parquet(path, schema))


def ever_ends(bench: Bench, monitor: Any) -> bool:
    """A source that looks for new files never ends, so batch mode refuses it."""
    return FileSource.text(file_with(bench, "a\n"), **named("monitor", monitor)).is_bounded


def epochs_for_files(bench: Bench, files: int | None) -> int:
    folder = bench.folder()
    for name in "abc":
        (folder / name).write_text(f"{name}\n")
    stream = bench.env().from_source(FileSource.text(folder, files_per_epoch=files)).map(str)
    return sum(1 for manifest in epochs_of(stream).manifests if not manifest.finished)


def written(bench: Bench, make: Any, *records: Any) -> dict[str, str]:
    """Return the visible files that a sink has written, by name."""
    folder = bench.folder()
    stream = bench.of(*(records or (("a", 1),)))
    stream.sink_to(make(folder)).uid("out")
    stream.get_execution_environment().execute()
    files = [path for path in folder.rglob("*") if path.is_file() and not _is_hidden(path.relative_to(folder))]
    return {str(path.relative_to(folder)): path.read_bytes().decode("latin-1") for path in sorted(files)}


def parts_of(bench: Bench, part_size: int | None) -> int:
    """Return how many files an epoch of two batches makes: columns are never cut within a batch."""
    folder, env = bench.folder(), bench.env(max_records=300_000)
    env.generate({"n": sequence()}, count=300_000, splits=1).sink_to(FileSink.parquet(folder, part_size=part_size))
    env.execute()
    return len(list(folder.glob("*.parquet")))


def _is_hidden(path: Path) -> bool:
    return any(part[0] in "._" for part in path.parts)


def folder_of(bench: Bench, name: str) -> list[str]:
    return [Path(path).parts[0] for path in written(bench, lambda folder: FileSink.json(folder / name))]


def compression(bench: Bench, codec: str) -> str:
    folder = bench.folder()
    stream = bench.of(("a", 1))
    stream.sink_to(FileSink.parquet(folder, compression=codec))
    stream.get_execution_environment().execute()
    (path,) = folder.glob("*.parquet")
    return pq.ParquetFile(path).metadata.row_group(0).column(0).compression


def text_sink(bench: Bench, call: str, value: Any, *records: Any) -> dict[str, str]:
    def make(folder: Path) -> FileSink:
        builder = FileSink.for_row_format(folder, Encoder.simple_string_encoder())
        builder = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        return getattr(builder, call)(value).build()

    return written(bench, make, *records)


def collected(bench: Bench, listens: bool) -> tuple[list[Any], list[Any]]:
    heard: list[Any] = []
    sink = CollectSink(lambda epoch, values: heard.append((epoch, values))) if listens else CollectSink()
    stream = bench.of(1)
    stream.sink_to(sink)
    stream.get_execution_environment().execute()
    return sink.results, heard


def printed(bench: Bench, **arguments: Any) -> tuple[str, str]:
    stream = bench.of(True)
    stream.sink_to(PrintSink(**arguments))
    bench.printed()
    stream.get_execution_environment().execute()
    return bench.printed()


def field_of(field: Any) -> list[Any]:
    return field.column(np.arange(1000), key=7).to_pylist()


def span(field: Any) -> tuple[int, int]:
    """Return the least and the greatest whole number below the values of a field."""
    values = field_of(field)
    return int(np.floor(min(values))), int(np.floor(max(values)))


def about(field: Any) -> tuple[int, int]:
    """Return mean and spread of a field's values, roughly."""
    values = field_of(field)
    return round(float(np.mean(values))), round(float(np.std(values)))


JSON_FILE, CSV_FILE = '{"x": 1, "y": "b"}\n', "x,y\n1,b\n"

case("CollectionSource.__init__.collection", lambda b, c: read(b, CollectionSource(c)), ([1], [1]), ("ab", ["a", "b"]))
case("CollectionSource.__init__.type_info", lambda b, t: read(b, CollectionSource([1], t)), (None, [1]), (Types.DOUBLE(), [1.0]), (Types.STRING(), TypeMismatchError))
case("NumberSequenceSource.__init__.start", lambda b, n: sorted(read(b, NumberSequenceSource(n, 3))), (1, [1, 2, 3]), (3, [3]))
case("NumberSequenceSource.__init__.end", lambda b, n: sorted(read(b, NumberSequenceSource(1, n))), (1, [1]), (2, [1, 2]))
case("DataGeneratorSource.__init__.fields", lambda b, f: generated(b, fields={"n": f}), (sequence(), [0, 1, 2]), (constant(4), [4, 4, 4]))
case("DataGeneratorSource.__init__.generator", lambda b, g: generated(b, generator=g), (lambda i: i * i, [0, 1, 4]), (lambda i: -i, [0, -1, -2]))
case("DataGeneratorSource.__init__.count", lambda b, n: generated(b, count=n), (1, [0]), (2, [0, 1]))
case("DataGeneratorSource.__init__.rate", epochs_at, (None, False), (40.0, True))
case("DataGeneratorSource.__init__.seed", lambda b, s: generated(b, fields={"n": uniform()}, seed=s) == generated(b, fields={"n": uniform()}, seed=1), (1, True), (2, False))
case("DataGeneratorSource.__init__.splits", splits_of, (1, 1), (3, 3))
case("sequence.start", lambda b, n: field_of(sequence(n))[:2], (0, [0, 1]), (5, [5, 6]))
case("uniform.low", lambda b, n: span(uniform(n, 10)), (0.0, (0, 9)), (8.0, (8, 9)))
case("uniform.high", lambda b, n: span(uniform(0, n)), (1.0, (0, 0)), (5.0, (0, 4)))
case("integers.low", lambda b, n: span(integers(n, 10)), (0, (0, 9)), (8, (8, 9)))
case("integers.high", lambda b, n: span(integers(0, n)), (1, (0, 0)), (5, (0, 4)))
case("normal.mean", lambda b, n: about(normal(n, 1)), (0, (0, 1)), (50, (50, 1)))
case("normal.std", lambda b, n: about(normal(0, n)), (0, (0, 0)), (1, (0, 1)))
case("choice.values", lambda b, v: sorted(set(field_of(choice(v)))), (["a"], ["a"]), (["a", "b"], ["a", "b"]))
case("choice.weights", lambda b, w: sorted(set(field_of(choice(["a", "b"], w)))), (None, ["a", "b"]), ([0, 1], ["b"]))
case("timestamps.start", lambda b, n: field_of(timestamps(n))[:2], (0, [0, 1]), (7, [7, 8]))
case("timestamps.step_ms", lambda b, n: field_of(timestamps(0, n))[:2], (1, [0, 1]), (10, [0, 10]))
case("timestamps.jitter_ms", lambda b, t: sorted(field_of(timestamps(0, 1, t))) == field_of(timestamps(0, 1, t)), (0, True), ("1s", False))
case("constant.value", lambda b, v: field_of(constant(v))[:2], (1, [1, 1]), ("a", ["a", "a"]))

case("FileSource.__init__.form", lambda b, form: rows_of(b, FileSource(form, file_with(b, CSV_FILE))), (StreamFormat.text_line_format(), ["x,y", "1,b"]), (StreamFormat("csv", {"header": True, "sep": ",", "escape": '"', "multiLine": True}), [(1, "b")]))
case("FileSource.__init__.paths", two_files, (["a"], ["a"]), (["a", "b"], ["a", "b"]))
case("FileSource.__init__.schema", lambda b, s: rows_of(b, FileSource(StreamFormat("json"), file_with(b, JSON_FILE), schema=s)), (None, [(1, "b")]), ("y STRING", [("b",)]))
case("FileSource.__init__.monitor", lambda b, t: FileSource(StreamFormat("json"), "x", monitor=t).is_bounded, (None, True), ("1s", False))
case("FileSource.__init__.files_per_epoch", epochs_for_files, (None, 1), (1, 3), on_spark=True)
case("FileSource.for_record_stream_format.stream_format", built, ("UTF-8", SourceError), ("latin-1", ["é"]))
case("FileSource.for_record_stream_format.paths", lambda b, n: sorted(rows_of(b, FileSource.for_record_stream_format(StreamFormat.text_line_format(), *(str(file_with(b, f"{i}\n")) for i in range(n))).build())), (1, ["0"]), (2, ["0", "1"]))
case("StreamFormat.text_line_format.charset_name", built, ("UTF-8", SourceError), ("latin-1", ["é"]), ("klingon", InvalidArgumentError))
case("StreamFormat.__init__.name", lambda b, name: rows_of(b, FileSource(StreamFormat(name, {"charset": "UTF-8"}), file_with(b, JSON_FILE))), ("json", [(1, "b")]), ("text", [JSON_FILE.strip()]))
case("StreamFormat.__init__.options", lambda b, sep: rows_of(b, FileSource(StreamFormat("csv", {"header": True, "sep": sep, "escape": '"', "multiLine": True}), file_with(b, CSV_FILE))), (",", [(1, "b")]), (";", [("1,b",)]))
case("FileSourceBuilder.monitor_continuously.discovery_interval", lambda b, t: FileSource.for_record_stream_format(StreamFormat.text_line_format(), "x").monitor_continuously(t).build().discovery_interval_ms, ("1s", 1000), ("2s", 2000))
case("FileSource.text.path", lambda b, text: rows_of(b, FileSource.text(file_with(b, text))), ("a\nb\n", ["a", "b"]), ("c", ["c"]))
case("FileSource.text.charset_name", lambda b, c: rows_of(b, FileSource.text(file_with(b, "é".encode("latin-1")), c)), ("UTF-8", SourceError), ("latin-1", ["é"]))
case("FileSource.text.options", ever_ends, (ABSENT, True), ("1s", False))
case("FileSource.json.path", lambda b, text: rows_of(b, FileSource.json(file_with(b, text))), (JSON_FILE, [(1, "b")]), ('{"x": 2}', [(2,)]))
case("FileSource.json.schema", lambda b, s: rows_of(b, FileSource.json(file_with(b, JSON_FILE), s)), (None, [(1, "b")]), ("y STRING", [("b",)]))
case("FileSource.json.options", lambda b, t: FileSource.json("x", monitor=t).is_bounded, (None, True), ("1s", False))
case("FileSource.csv.path", lambda b, text: rows_of(b, FileSource.csv(file_with(b, text))), (CSV_FILE, [(1, "b")]), ("x\n2\n", [(2,)]))
case("FileSource.csv.schema", lambda b, s: rows_of(b, FileSource.csv(file_with(b, CSV_FILE), s)), (None, [(1, "b")]), ("x DOUBLE, y STRING", [(1.0, "b")]))
case("FileSource.csv.header", lambda b, h: rows_of(b, FileSource.csv(file_with(b, CSV_FILE), "x STRING, y STRING", h)), (True, [("1", "b")]), (False, [("x", "y"), ("1", "b")]))
case("FileSource.csv.delimiter", lambda b, d: rows_of(b, FileSource.csv(file_with(b, CSV_FILE), delimiter=d)), (",", [(1, "b")]), (";", [("1,b",)]))
case("FileSource.csv.multi_line", lambda b, m: len(rows_of(b, FileSource.csv(file_with(b, 'x,y\n1,"b\nc"\n'), "x STRING, y STRING", multi_line=m))), (True, 1), (False, 2), on_spark=True)
case("FileSource.csv.options", lambda b, t: FileSource.csv("x", monitor=t).is_bounded, (None, True), ("1s", False))
case("FileSource.parquet.path", lambda b, n: parquet(b, None, n), (1, [(1, "b")]), (2, [(2, "b")]))
case("FileSource.parquet.schema", parquet, (None, [(1, "b")]), ("y STRING", [("b",)]))
case("FileSource.parquet.options", lambda b, t: FileSource.parquet("x", monitor=t).is_bounded, (None, True), ("1s", False))

case("FileSink.__init__.base_path", lambda b, name: [Path(p).parts[0] for p in written(b, lambda f: FileSink(f / name, JsonFormat()))], ("one", ["one"]), ("two", ["two"]))
case("FileSink.__init__.form", lambda b, form: list(written(b, lambda f: FileSink(f, form)).values()), (JsonFormat(), ['{"f0":"a","f1":1}\n']), (CsvFormat(True, ","), ['"f0","f1"\n"a",1\n']))
case("FileSink.__init__.schema", lambda b, s: list(written(b, lambda f: FileSink.json(f, schema=s)).values()), (None, ['{"f0":"a","f1":1}\n']), ("f0 STRING, f1 DOUBLE", ['{"f0":"a","f1":1.0}\n']))
case("FileSink.__init__.output_file_config", lambda b, c: list(written(b, lambda f: FileSink.json(f, output_file_config=c))), (None, ["part-out-000001-000.json"]), (OutputFileConfig("x", ".y"), ["x-out-000001-000.y"]))
case("FileSink.__init__.bucket_assigner", lambda b, a: len(Path(next(iter(written(b, lambda f: FileSink.json(f, bucket_assigner=a))))).parts), (None, 1), (BucketAssigner.date_time_bucket_assigner("yyyy/MM"), 3))
case("FileSink.__init__.part_size", parts_of, (None, 1), (100, 2))
case("FileSink.parquet.base_path", lambda b, name: [Path(p).parts[0] for p in written(b, lambda f: FileSink.parquet(f / name))], ("one", ["one"]), ("two", ["two"]))
case("FileSink.parquet.compression", compression, ("snappy", "SNAPPY"), ("zstd", "ZSTD"))
case("FileSink.parquet.options", lambda b, c: list(written(b, lambda f: FileSink.parquet(f, output_file_config=c))), (None, ["part-out-000001-000.parquet"]), (OutputFileConfig("x", ".y"), ["x-out-000001-000.y"]))
case("FileSink.json.base_path", folder_of, ("one", ["one"]), ("two", ["two"]))
case("FileSink.json.options", lambda b, c: list(written(b, lambda f: FileSink.json(f, output_file_config=c))), (None, ["part-out-000001-000.json"]), (OutputFileConfig("x", ".y"), ["x-out-000001-000.y"]))
case("FileSink.csv.base_path", lambda b, name: [Path(p).parts[0] for p in written(b, lambda f: FileSink.csv(f / name))], ("one", ["one"]), ("two", ["two"]))
case("FileSink.csv.header", lambda b, h: list(written(b, lambda f: FileSink.csv(f, h)).values()), (True, ['"f0","f1"\n"a",1\n']), (False, ['"a",1\n']))
case("FileSink.csv.delimiter", lambda b, d: list(written(b, lambda f: FileSink.csv(f, delimiter=d)).values()), (",", ['"f0","f1"\n"a",1\n']), (";", ['"f0";"f1"\n"a";1\n']))
case("FileSink.csv.options", lambda b, c: list(written(b, lambda f: FileSink.csv(f, output_file_config=c))), (None, ["part-out-000001-000.csv"]), (OutputFileConfig("x", ".y"), ["x-out-000001-000.y"]))
case("FileSink.for_row_format.base_path", lambda b, name: [Path(p).parts[0] for p in written(b, lambda f: FileSink.for_row_format(f / name, Encoder()).build())], ("one", ["one"]), ("two", ["two"]))
case("FileSink.for_row_format.encoder", lambda b, c: list(written(b, lambda f: FileSink.for_row_format(f, Encoder.simple_string_encoder(c)).build(), "é").values()), ("latin-1", ["é\n"]), ("UTF-8", ["Ã©\n"]))
case("FileSink.RowFormatBuilder.with_bucket_check_interval.interval", lambda b, n: n is not ABSENT and warned(lambda: FileSink.for_row_format("x", Encoder()).with_bucket_check_interval(n)), (ABSENT, False), (5, True))
case("FileSink.RowFormatBuilder.with_bucket_assigner.bucket_assigner", lambda b, a: len(Path(next(iter(text_sink(b, "with_bucket_assigner", a)))).parts), (BucketAssigner.base_path_bucket_assigner(), 1), (BucketAssigner.date_time_bucket_assigner("yyyy/MM"), 3))
case("FileSink.RowFormatBuilder.with_output_file_config.output_file_config", lambda b, c: list(text_sink(b, "with_output_file_config", c)), (OutputFileConfig("x", ".y"), ["x-out-000001-000.y"]), (OutputFileConfig("z", ""), ["z-out-000001-000"]))
case("FileSink.RowFormatBuilder.with_rolling_policy.rolling_policy", lambda b, n: len(text_sink(b, "with_rolling_policy", RollingPolicy(n), *["a" * 50] * 20)) > 1, (None, False), (100, True))
case("RollingPolicy.__init__.part_size", lambda b, n: len(text_sink(b, "with_rolling_policy", RollingPolicy(n), *["a" * 50] * 20)) > 1, (None, False), (100, True))
case("RollingPolicy.default_rolling_policy.part_size", lambda b, n: RollingPolicy.default_rolling_policy(n).part_size, (5, 5), (6, 6), (0, InvalidArgumentError))
case("RollingPolicy.default_rolling_policy.rollover_interval", lambda b, n: warned(lambda: FileSink.for_row_format("x", Encoder()).with_rolling_policy(RollingPolicy.default_rolling_policy(5, n))), (5, True), (0, InvalidArgumentError))
case("RollingPolicy.default_rolling_policy.inactivity_interval", lambda b, n: warned(lambda: FileSink.for_row_format("x", Encoder()).with_rolling_policy(RollingPolicy.default_rolling_policy(5, 5, n))), (5, True), (0, InvalidArgumentError))
case("OutputFileConfig.__init__.part_prefix", lambda b, p: list(text_sink(b, "with_output_file_config", OutputFileConfig(p, ""))), ("x", ["x-out-000001-000"]), ("y", ["y-out-000001-000"]))
case("OutputFileConfig.__init__.part_suffix", lambda b, s: list(text_sink(b, "with_output_file_config", OutputFileConfig("x", s))), (".a", ["x-out-000001-000.a"]), (".b", ["x-out-000001-000.b"]))
case("OutputFileConfig.OutputFileConfigBuilder.with_part_prefix.prefix", lambda b, p: list(text_sink(b, "with_output_file_config", OutputFileConfig.builder().with_part_prefix(p).build())), ("x", ["x-out-000001-000"]), ("y", ["y-out-000001-000"]))
case("OutputFileConfig.OutputFileConfigBuilder.with_part_suffix.suffix", lambda b, s: list(text_sink(b, "with_output_file_config", OutputFileConfig.builder().with_part_suffix(s).build())), (".a", ["part-out-000001-000.a"]), (".b", ["part-out-000001-000.b"]))
case("BucketAssigner.__init__.format", lambda b, f: len(Path(next(iter(text_sink(b, "with_bucket_assigner", BucketAssigner(f))))).parts), ("", 1), ("yyyy/MM", 3))
case("BucketAssigner.__init__.timezone_id", lambda b, z: _bucket(b, BucketAssigner("HH", z)) == _bucket(b, BucketAssigner("HH", "UTC")), ("UTC", True), ("GMT-08:00", False))
case("BucketAssigner.date_time_bucket_assigner.format_str", lambda b, f: len(_bucket(b, BucketAssigner.date_time_bucket_assigner(f))), ("yyyy", 4), ("yy", 2))
case("BucketAssigner.date_time_bucket_assigner.timezone_id", lambda b, z: _bucket(b, BucketAssigner.date_time_bucket_assigner("HH", z)) == _bucket(b, BucketAssigner("HH", "UTC")), ("UTC", True), ("GMT-08:00", False))
case("Encoder.__init__.charset_name", lambda b, c: list(written(b, lambda f: FileSink.for_row_format(f, Encoder(c)).build(), "é").values()), ("latin-1", ["é\n"]), ("UTF-8", ["Ã©\n"]))
case("Encoder.simple_string_encoder.charset_name", lambda b, c: list(written(b, lambda f: FileSink.for_row_format(f, Encoder.simple_string_encoder(c)).build(), "é").values()), ("latin-1", ["é\n"]), ("UTF-8", ["Ã©\n"]))
case("CollectSink.__init__.on_epoch", collected, (False, ([1], [])), (True, ([], [(1, [1])])))
case("PrintSink.__init__.prefix", lambda b, p: printed(b, prefix=p), (None, ("True\n", "")), ("a", ("a> True\n", "")))
case("PrintSink.__init__.to_stderr", lambda b, e: printed(b, to_stderr=e), (False, ("True\n", "")), (True, ("", "True\n")))
case("PrintSink.__init__.type_info", lambda b, t: printed(b, type_info=t), (None, ("True\n", "")), (Types.BOOLEAN(), ("true\n", "")))


def _bucket(bench: Bench, assigner: BucketAssigner) -> str:
    """Return the folder that a sink chooses; the hour is the same for both of two calls but once in a blue moon."""
    return Path(next(iter(text_sink(bench, "with_bucket_assigner", assigner)))).parts[0]
