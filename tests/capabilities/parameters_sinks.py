"""Parameters of sinks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from flintstream import (
    BucketAssigner,
    CollectSink,
    Encoder,
    FileSink,
    OutputFileConfig,
    PrintSink,
    RollingPolicy,
    Types,
    sequence,
)
from flintstream.connectors.files_format import CsvFormat, JsonFormat
from flintstream.errors import InvalidArgumentError
from tests.capabilities.parameters import ABSENT, Bench, case, warned


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


def _bucket(bench: Bench, assigner: BucketAssigner) -> str:
    """Return the folder that a sink chooses; the hour is the same for both of two calls but once in a blue moon."""
    return Path(next(iter(text_sink(bench, "with_bucket_assigner", assigner)))).parts[0]


case(
    "FileSink.__init__.base_path",
    lambda b, name: [Path(p).parts[0] for p in written(b, lambda f: FileSink(f / name, JsonFormat()))],
    ("one", ["one"]),
    ("two", ["two"]),
)
case(
    "FileSink.__init__.form",
    lambda b, form: list(written(b, lambda f: FileSink(f, form)).values()),
    (JsonFormat(), ['{"f0":"a","f1":1}\n']),
    (CsvFormat(True, ","), ['"f0","f1"\n"a",1\n']),
)
case(
    "FileSink.__init__.schema",
    lambda b, s: list(written(b, lambda f: FileSink.json(f, schema=s)).values()),
    (None, ['{"f0":"a","f1":1}\n']),
    ("f0 STRING, f1 DOUBLE", ['{"f0":"a","f1":1.0}\n']),
)
case(
    "FileSink.__init__.output_file_config",
    lambda b, c: list(written(b, lambda f: FileSink.json(f, output_file_config=c))),
    (None, ["part-out-000001-000.json"]),
    (OutputFileConfig("x", ".y"), ["x-out-000001-000.y"]),
)
case(
    "FileSink.__init__.bucket_assigner",
    lambda b, a: len(Path(next(iter(written(b, lambda f: FileSink.json(f, bucket_assigner=a))))).parts),
    (None, 1),
    (BucketAssigner.date_time_bucket_assigner("yyyy/MM"), 3),
)
case("FileSink.__init__.part_size", parts_of, (None, 1), (100, 2))
case(
    "FileSink.parquet.base_path",
    lambda b, name: [Path(p).parts[0] for p in written(b, lambda f: FileSink.parquet(f / name))],
    ("one", ["one"]),
    ("two", ["two"]),
)
case("FileSink.parquet.compression", compression, ("snappy", "SNAPPY"), ("zstd", "ZSTD"))
case(
    "FileSink.parquet.options",
    lambda b, c: list(written(b, lambda f: FileSink.parquet(f, output_file_config=c))),
    (None, ["part-out-000001-000.parquet"]),
    (OutputFileConfig("x", ".y"), ["x-out-000001-000.y"]),
)
case("FileSink.json.base_path", folder_of, ("one", ["one"]), ("two", ["two"]))
case(
    "FileSink.json.options",
    lambda b, c: list(written(b, lambda f: FileSink.json(f, output_file_config=c))),
    (None, ["part-out-000001-000.json"]),
    (OutputFileConfig("x", ".y"), ["x-out-000001-000.y"]),
)
case(
    "FileSink.csv.base_path",
    lambda b, name: [Path(p).parts[0] for p in written(b, lambda f: FileSink.csv(f / name))],
    ("one", ["one"]),
    ("two", ["two"]),
)
case(
    "FileSink.csv.header",
    lambda b, h: list(written(b, lambda f: FileSink.csv(f, h)).values()),
    (True, ['"f0","f1"\n"a",1\n']),
    (False, ['"a",1\n']),
)
case(
    "FileSink.csv.delimiter",
    lambda b, d: list(written(b, lambda f: FileSink.csv(f, delimiter=d)).values()),
    (",", ['"f0","f1"\n"a",1\n']),
    (";", ['"f0";"f1"\n"a";1\n']),
)
case(
    "FileSink.csv.options",
    lambda b, c: list(written(b, lambda f: FileSink.csv(f, output_file_config=c))),
    (None, ["part-out-000001-000.csv"]),
    (OutputFileConfig("x", ".y"), ["x-out-000001-000.y"]),
)
case(
    "FileSink.for_row_format.base_path",
    lambda b, name: [
        Path(p).parts[0] for p in written(b, lambda f: FileSink.for_row_format(f / name, Encoder()).build())
    ],
    ("one", ["one"]),
    ("two", ["two"]),
)
case(
    "FileSink.for_row_format.encoder",
    lambda b, c: list(
        written(b, lambda f: FileSink.for_row_format(f, Encoder.simple_string_encoder(c)).build(), "é").values()
    ),
    ("latin-1", ["é\n"]),
    ("UTF-8", ["Ã©\n"]),
)
case(
    "FileSink.RowFormatBuilder.with_bucket_check_interval.interval",
    lambda b, n: (
        n is not ABSENT and warned(lambda: FileSink.for_row_format("x", Encoder()).with_bucket_check_interval(n))
    ),
    (ABSENT, False),
    (5, True),
)
case(
    "FileSink.RowFormatBuilder.with_bucket_assigner.bucket_assigner",
    lambda b, a: len(Path(next(iter(text_sink(b, "with_bucket_assigner", a)))).parts),
    (BucketAssigner.base_path_bucket_assigner(), 1),
    (BucketAssigner.date_time_bucket_assigner("yyyy/MM"), 3),
)
case(
    "FileSink.RowFormatBuilder.with_output_file_config.output_file_config",
    lambda b, c: list(text_sink(b, "with_output_file_config", c)),
    (OutputFileConfig("x", ".y"), ["x-out-000001-000.y"]),
    (OutputFileConfig("z", ""), ["z-out-000001-000"]),
)
case(
    "FileSink.RowFormatBuilder.with_rolling_policy.rolling_policy",
    lambda b, n: len(text_sink(b, "with_rolling_policy", RollingPolicy(n), *["a" * 50] * 20)) > 1,
    (None, False),
    (100, True),
)
case(
    "RollingPolicy.__init__.part_size",
    lambda b, n: len(text_sink(b, "with_rolling_policy", RollingPolicy(n), *["a" * 50] * 20)) > 1,
    (None, False),
    (100, True),
)
case(
    "RollingPolicy.default_rolling_policy.part_size",
    lambda b, n: RollingPolicy.default_rolling_policy(n).part_size,
    (5, 5),
    (6, 6),
    (0, InvalidArgumentError),
)
case(
    "RollingPolicy.default_rolling_policy.rollover_interval",
    lambda b, n: warned(
        lambda: FileSink.for_row_format("x", Encoder()).with_rolling_policy(RollingPolicy.default_rolling_policy(5, n))
    ),
    (5, True),
    (0, InvalidArgumentError),
)
case(
    "RollingPolicy.default_rolling_policy.inactivity_interval",
    lambda b, n: warned(
        lambda: FileSink.for_row_format("x", Encoder()).with_rolling_policy(
            RollingPolicy.default_rolling_policy(5, 5, n)
        )
    ),
    (5, True),
    (0, InvalidArgumentError),
)
case(
    "OutputFileConfig.__init__.part_prefix",
    lambda b, p: list(text_sink(b, "with_output_file_config", OutputFileConfig(p, ""))),
    ("x", ["x-out-000001-000"]),
    ("y", ["y-out-000001-000"]),
)
case(
    "OutputFileConfig.__init__.part_suffix",
    lambda b, s: list(text_sink(b, "with_output_file_config", OutputFileConfig("x", s))),
    (".a", ["x-out-000001-000.a"]),
    (".b", ["x-out-000001-000.b"]),
)
case(
    "OutputFileConfig.OutputFileConfigBuilder.with_part_prefix.prefix",
    lambda b, p: list(text_sink(b, "with_output_file_config", OutputFileConfig.builder().with_part_prefix(p).build())),
    ("x", ["x-out-000001-000"]),
    ("y", ["y-out-000001-000"]),
)
case(
    "OutputFileConfig.OutputFileConfigBuilder.with_part_suffix.suffix",
    lambda b, s: list(text_sink(b, "with_output_file_config", OutputFileConfig.builder().with_part_suffix(s).build())),
    (".a", ["part-out-000001-000.a"]),
    (".b", ["part-out-000001-000.b"]),
)
case(
    "BucketAssigner.__init__.format",
    lambda b, f: len(Path(next(iter(text_sink(b, "with_bucket_assigner", BucketAssigner(f))))).parts),
    ("", 1),
    ("yyyy/MM", 3),
)
case(
    "BucketAssigner.__init__.timezone_id",
    lambda b, z: _bucket(b, BucketAssigner("HH", z)) == _bucket(b, BucketAssigner("HH", "UTC")),
    ("UTC", True),
    ("GMT-08:00", False),
)
case(
    "BucketAssigner.date_time_bucket_assigner.format_str",
    lambda b, f: len(_bucket(b, BucketAssigner.date_time_bucket_assigner(f))),
    ("yyyy", 4),
    ("yy", 2),
)
case(
    "BucketAssigner.date_time_bucket_assigner.timezone_id",
    lambda b, z: (
        _bucket(b, BucketAssigner.date_time_bucket_assigner("HH", z)) == _bucket(b, BucketAssigner("HH", "UTC"))
    ),
    ("UTC", True),
    ("GMT-08:00", False),
)
case(
    "Encoder.__init__.charset_name",
    lambda b, c: list(written(b, lambda f: FileSink.for_row_format(f, Encoder(c)).build(), "é").values()),
    ("latin-1", ["é\n"]),
    ("UTF-8", ["Ã©\n"]),
)
case(
    "Encoder.simple_string_encoder.charset_name",
    lambda b, c: list(
        written(b, lambda f: FileSink.for_row_format(f, Encoder.simple_string_encoder(c)).build(), "é").values()
    ),
    ("latin-1", ["é\n"]),
    ("UTF-8", ["Ã©\n"]),
)
case("CollectSink.__init__.on_epoch", collected, (False, ([1], [])), (True, ([], [(1, [1])])))
case("PrintSink.__init__.prefix", lambda b, p: printed(b, prefix=p), (None, ("True\n", "")), ("a", ("a> True\n", "")))
case(
    "PrintSink.__init__.to_stderr",
    lambda b, e: printed(b, to_stderr=e),
    (False, ("True\n", "")),
    (True, ("", "True\n")),
)
case(
    "PrintSink.__init__.type_info",
    lambda b, t: printed(b, type_info=t),
    (None, ("True\n", "")),
    (Types.BOOLEAN(), ("true\n", "")),
)
