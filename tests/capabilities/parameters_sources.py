"""Parameters of file sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flintstream import (
    FileSource,
    StreamFormat,
)
from flintstream.errors import InvalidArgumentError, SourceError
from tests.capabilities.parameters import ABSENT, Bench, case, epochs_of, named
from tests.capabilities.support import collect

JSON_FILE, CSV_FILE = '{"x": 1, "y": "b"}\n', "x,y\n1,b\n"


def read(bench: Bench, source: Any) -> list[Any]:
    return collect(bench.env().from_source(source))


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
    return rows_of(
        bench, FileSource.for_record_stream_format(StreamFormat.text_line_format(charset), str(path)).build()
    )


def parquet(bench: Bench, schema: Any, number: int = 1) -> list[Any]:
    path = bench.folder() / "a.parquet"
    pq.write_table(pa.table({"x": [number], "y": ["b"]}), path)
    return rows_of(bench, FileSource.parquet(path, schema))


def ever_ends(bench: Bench, monitor: Any) -> bool:
    """A source that looks for new files never ends, so batch mode refuses it."""
    return FileSource.text(file_with(bench, "a\n"), **named("monitor", monitor)).is_bounded


def takes_several_epochs(bench: Bench, files: int | None) -> bool:
    folder = bench.folder()
    for name in "abc":
        (folder / name).write_text(f"{name}\n")
    stream = bench.env().from_source(FileSource.text(folder, files_per_epoch=files)).map(str)
    return len(epochs_of(stream)) >= 3


case(
    "FileSource.__init__.form",
    lambda b, form: rows_of(b, FileSource(form, file_with(b, CSV_FILE))),
    (StreamFormat.text_line_format(), ["x,y", "1,b"]),
    (StreamFormat("csv", {"header": True, "sep": ",", "escape": '"', "multiLine": True}), [(1, "b")]),
)
case("FileSource.__init__.paths", two_files, (["a"], ["a"]), (["a", "b"], ["a", "b"]))
case(
    "FileSource.__init__.schema",
    lambda b, s: rows_of(b, FileSource(StreamFormat("json"), file_with(b, JSON_FILE), schema=s)),
    (None, [(1, "b")]),
    ("y STRING", [("b",)]),
)
case(
    "FileSource.__init__.monitor",
    lambda b, t: FileSource(StreamFormat("json"), "x", monitor=t).is_bounded,
    (None, True),
    ("1s", False),
)
case("FileSource.__init__.files_per_epoch", takes_several_epochs, (None, False), (1, True), on_spark=True)
case("FileSource.for_record_stream_format.stream_format", built, ("UTF-8", SourceError), ("latin-1", ["é"]))
case(
    "FileSource.for_record_stream_format.paths",
    lambda b, n: sorted(
        rows_of(
            b,
            FileSource.for_record_stream_format(
                StreamFormat.text_line_format(), *(str(file_with(b, f"{i}\n")) for i in range(n))
            ).build(),
        )
    ),
    (1, ["0"]),
    (2, ["0", "1"]),
)
case(
    "StreamFormat.text_line_format.charset_name",
    built,
    ("UTF-8", SourceError),
    ("latin-1", ["é"]),
    ("klingon", InvalidArgumentError),
)
case(
    "StreamFormat.__init__.name",
    lambda b, name: rows_of(b, FileSource(StreamFormat(name, {"charset": "UTF-8"}), file_with(b, JSON_FILE))),
    ("json", [(1, "b")]),
    ("text", [JSON_FILE.strip()]),
)
case(
    "StreamFormat.__init__.options",
    lambda b, sep: rows_of(
        b,
        FileSource(
            StreamFormat("csv", {"header": True, "sep": sep, "escape": '"', "multiLine": True}), file_with(b, CSV_FILE)
        ),
    ),
    (",", [(1, "b")]),
    (";", [("1,b",)]),
)
case(
    "FileSourceBuilder.monitor_continuously.discovery_interval",
    lambda b, t: (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), "x")
        .monitor_continuously(t)
        .build()
        .discovery_interval_ms
    ),
    ("1s", 1000),
    ("2s", 2000),
)
case(
    "FileSource.text.path",
    lambda b, text: rows_of(b, FileSource.text(file_with(b, text))),
    ("a\nb\n", ["a", "b"]),
    ("c", ["c"]),
)
case(
    "FileSource.text.charset_name",
    lambda b, c: rows_of(b, FileSource.text(file_with(b, "é".encode("latin-1")), c)),
    ("UTF-8", SourceError),
    ("latin-1", ["é"]),
)
case("FileSource.text.options", ever_ends, (ABSENT, True), ("1s", False))
case(
    "FileSource.json.path",
    lambda b, text: rows_of(b, FileSource.json(file_with(b, text))),
    (JSON_FILE, [(1, "b")]),
    ('{"x": 2}', [(2,)]),
)
case(
    "FileSource.json.schema",
    lambda b, s: rows_of(b, FileSource.json(file_with(b, JSON_FILE), s)),
    (None, [(1, "b")]),
    ("y STRING", [("b",)]),
)
case("FileSource.json.options", lambda b, t: FileSource.json("x", monitor=t).is_bounded, (None, True), ("1s", False))
case(
    "FileSource.csv.path",
    lambda b, text: rows_of(b, FileSource.csv(file_with(b, text))),
    (CSV_FILE, [(1, "b")]),
    ("x\n2\n", [(2,)]),
)
case(
    "FileSource.csv.schema",
    lambda b, s: rows_of(b, FileSource.csv(file_with(b, CSV_FILE), s)),
    (None, [(1, "b")]),
    ("x DOUBLE, y STRING", [(1.0, "b")]),
)
case(
    "FileSource.csv.header",
    lambda b, h: rows_of(b, FileSource.csv(file_with(b, CSV_FILE), "x STRING, y STRING", h)),
    (True, [("1", "b")]),
    (False, [("x", "y"), ("1", "b")]),
)
case(
    "FileSource.csv.delimiter",
    lambda b, d: rows_of(b, FileSource.csv(file_with(b, CSV_FILE), delimiter=d)),
    (",", [(1, "b")]),
    (";", [("1,b",)]),
)
case(
    "FileSource.csv.multi_line",
    lambda b, m: len(rows_of(b, FileSource.csv(file_with(b, 'x,y\n1,"b\nc"\n'), "x STRING, y STRING", multi_line=m))),
    (True, 1),
    (False, 2),
    on_spark=True,
)
case("FileSource.csv.options", lambda b, t: FileSource.csv("x", monitor=t).is_bounded, (None, True), ("1s", False))
case("FileSource.parquet.path", lambda b, n: parquet(b, None, n), (1, [(1, "b")]), (2, [(2, "b")]))
case("FileSource.parquet.schema", parquet, (None, [(1, "b")]), ("y STRING", [("b",)]))
case(
    "FileSource.parquet.options",
    lambda b, t: FileSource.parquet("x", monitor=t).is_bounded,
    (None, True),
    ("1s", False),
)
