"""Reads a file source in this process, with pyarrow: for in-process runs, and to find the schema of files.

All files are one split in the order (time of modification, path); a position is the number of a record.
"""

from __future__ import annotations

import bz2
import glob
import gzip
import lzma
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from flintstream.connectors.files_source import FileSource
from flintstream.connectors.schema import FieldConflict, unify
from flintstream.errors import SourceError, UnsupportedError, describe
from flintstream.model.connect import Split, SplitSource

_DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".gzip": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
    ".deflate": zlib.decompress,
}
_UNREADABLE = (OSError, EOFError, UnicodeError, zlib.error, lzma.LZMAError, pa.ArrowException)
_LARGEST_BLOCK = (1 << 31) - 1


@dataclass(frozen=True)
class _Index:
    """Which records are in which file: file i has those from `starts[i]` to before `starts[i + 1]`."""

    files: tuple[Path, ...]
    starts: tuple[int, ...]
    schema: pa.Schema | None


class LocalFileReader(SplitSource):
    r"""A bounded file source as one split, in this process.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     _ = Path(folder, "a.csv").write_text("sensor,celsius\nx,20.5\ny,21.0\n")
        ...     reader = LocalFileReader(FileSource.csv(folder))
        ...     print(reader.splits(1), reader.read(0, 1, 2).to_pylist())
        [Split(number=0, start=0, end=2, name='')] [{'sensor': 'y', 'celsius': 21.0}]
    """

    def __init__(self, source: FileSource) -> None:
        if not source.is_bounded:
            what = f"{source!r} is watched for new files, which only Spark does"
            raise UnsupportedError(describe(what, remedy="run it on Spark, or leave out monitor_continuously"))
        self.source = source
        self._index: _Index | None = None
        self._loaded: tuple[Path, pa.Array] | None = None

    @property
    def is_bounded(self) -> bool:
        return True

    @property
    def schema(self) -> pa.Schema | None:
        """The declared schema, or the narrowest that holds the records of all files; None for text."""
        return self.index().schema

    def splits(self, parallelism: int) -> Sequence[Split]:
        return [Split(0, 0, self.index().starts[-1])]

    def read(self, split: int, start: int, end: int) -> pa.Array:
        index = self.index()
        pieces: list[pa.Array] = []
        while start < end:
            number = bisect_right(index.starts, start) - 1
            first, stop = index.starts[number], min(end, index.starts[number + 1])
            pieces.append(self._load(index.files[number], index.schema).slice(start - first, stop - start))
            start = stop
        if not pieces:
            return pa.array([], pa.string() if index.schema is None else pa.struct(list(index.schema)))
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)

    def index(self) -> _Index:
        """Look at all files once: list them, count their records, find their schema."""
        if self._index is None:
            self._index = self._look()
        return self._index

    def _look(self) -> _Index:
        files = list_files(self.source.paths, self.source.modified)
        if self.source.format == "text":
            counts = [len(self._load(file, None)) for file in files]
            return _Index(tuple(files), tuple(accumulate(counts, initial=0)), None)
        declared = self.source.schema
        sizes = [_measure(self.source, file) for file in files]
        try:
            schema = declared if declared is not None else unify(schema for _, schema in sizes)
        except FieldConflict as conflict:
            what = f"the files of {self.source!r} do not go together: {conflict}"
            raise SourceError(describe(what, remedy="declare a schema, or read them apart")) from conflict
        return _Index(tuple(files), tuple(accumulate((count for count, _ in sizes), initial=0)), schema)

    def _load(self, file: Path, schema: pa.Schema | None) -> pa.Array:
        if self._loaded is None or self._loaded[0] != file:
            if schema is None:
                records = _read_lines(file, self.source.options["charset"])
            else:
                records = _to_structs(_read_table(self.source, file, schema), schema)
            self._loaded = (file, records)
        return self._loaded[1]

    def __getstate__(self) -> dict[str, Any]:
        # The list of files travels, so that all see the same; their content does not.
        return {**self.__dict__, "_loaded": None}


def list_files(paths: Sequence[str], modified: tuple[int | None, int | None] = (None, None)) -> list[Path]:
    """Return the visible files at the paths, below directories too, oldest first; `modified` is as in `FileSource`.

    Raises:
        SourceError: there is nothing at a path.
    """
    found: dict[Path, int] = {}
    for path in paths:
        address = urlsplit(path)
        if address.scheme not in ("", "file"):
            what = f"{path} cannot be read in this process"
            raise UnsupportedError(describe(what, remedy="run it on Spark, or give a path of this machine"))
        text = unquote(address.path) if address.scheme else path
        # The path as a whole may hold wildcards, so there is no folder from which Path.glob could start.
        roots = [Path(match) for match in glob.glob(text)] if glob.has_magic(text) else [Path(text)]  # noqa: PTH207
        if not roots or not all(root.exists() for root in roots):
            raise SourceError(describe(f"there is nothing to read at {path}", remedy="check the path"))
        for root in roots:
            found |= {file: file.stat().st_mtime_ns for file in _walk(root)}
    start, end = modified
    # Spark knows the time of a file to the millisecond.
    chosen = [file for file, at in found.items() if _is_between(at // 1_000_000, start, end)]
    return sorted(chosen, key=lambda file: (found[file], str(file)))


def _is_between(time: int, start: int | None, end: int | None) -> bool:
    return (start is None or time >= start) and (end is None or time < end)


def _walk(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for entry in root.iterdir():
        if entry.name[0] not in "._":
            yield from _walk(entry)


def _content(file: Path) -> bytes:
    data = file.read_bytes()
    return _DECOMPRESS[file.suffix](data) if file.suffix in _DECOMPRESS else data


def _read_lines(file: Path, charset: str) -> pa.Array:
    try:
        text = _content(file).decode(charset)
    except _UNREADABLE as error:
        raise _unreadable(file, error) from error
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    return pa.array(lines, pa.string())


def _measure(source: FileSource, file: Path) -> tuple[int, pa.Schema]:
    """Return how many records a file has, and its schema."""
    if source.format == "parquet":
        try:
            with pq.ParquetFile(file) as parquet:
                return parquet.metadata.num_rows, parquet.schema_arrow.remove_metadata()
        except _UNREADABLE as error:
            raise _unreadable(file, error) from error
    table = _read_table(source, file, source.schema)
    return table.num_rows, table.schema


def _read_table(source: FileSource, file: Path, schema: pa.Schema | None) -> pa.Table:
    """Return a file's content; with a schema in its columns and types, else as they are found."""
    try:
        if source.format == "parquet":
            with pq.ParquetFile(file) as parquet:
                table = parquet.read()
        elif not (content := _content(file)).strip():
            table = pa.table({})
        elif source.format == "json":
            table = _read_json(content, schema)
        else:
            table = _read_csv(content, schema, source.options)
        return table if schema is None else _select(table, schema)
    except _UNREADABLE as error:
        raise _unreadable(file, error) from error


def _block_size(content: bytes) -> int:
    """Return a block as large as the file: types are found in the first block, and no line may cross its end."""
    return min(max(len(content), 1 << 20), _LARGEST_BLOCK)


def _read_json(content: bytes, schema: pa.Schema | None) -> pa.Table:
    behaviour = "infer" if schema is None else "ignore"
    table = pajson.read_json(
        pa.BufferReader(content),
        read_options=pajson.ReadOptions(block_size=_block_size(content)),
        parse_options=pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior=behaviour),
    )
    if schema is None and any(pa.types.is_timestamp(field.type) for field in table.schema):
        # JSON has no times: a string that looks like one is a string, as in Spark.
        plain = [pa.field(f.name, pa.string() if pa.types.is_timestamp(f.type) else f.type) for f in table.schema]
        return _read_json(content, pa.schema(plain))
    return table


def parse_json_lines(content: bytes, schema: pa.Schema) -> pa.Array:
    """Return the records of JSON lines in the columns and types of a schema."""
    return _to_structs(_select(_read_json(content, schema), schema), schema)


def _read_csv(content: bytes, schema: pa.Schema | None, options: dict[str, Any]) -> pa.Table:
    names = schema.names if schema is not None and not options["header"] else None
    return pacsv.read_csv(
        pa.BufferReader(content),
        read_options=pacsv.ReadOptions(
            block_size=_block_size(content),
            column_names=names,
            autogenerate_column_names=not options["header"] and names is None,
        ),
        parse_options=pacsv.ParseOptions(delimiter=options["sep"], newlines_in_values=options["multiLine"]),
        convert_options=pacsv.ConvertOptions(
            column_types=schema, strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )


def _select(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _to_structs(table: pa.Table, schema: pa.Schema) -> pa.Array:
    columns = [
        pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type) for column in table.columns
    ]
    return pa.StructArray.from_arrays(columns, fields=list(schema))


def _unreadable(file: Path, error: Exception) -> SourceError:
    return SourceError(describe(f"cannot read {file} ({error})", remedy="mend or remove the file, or declare a schema"))
