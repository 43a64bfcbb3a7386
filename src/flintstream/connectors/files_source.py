"""Files as a source: what to read and how, declared. Spark's readers read it; in-process runs use `LocalFileReader`.

Flink: org.apache.flink.connector.file.src.FileSource, as pyflink.datastream.connectors.file_system spells it.
"""

from __future__ import annotations

import codecs
import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from flintstream.connectors.schema import to_arrow_schema
from flintstream.errors import InvalidArgumentError, describe
from flintstream.model.connect import Source
from flintstream.model.time import DurationLike, to_millis

PathText = str | PathLike[str]
_DEFAULTS: dict[str, dict[str, Any]] = {
    "text": {"charset": "UTF-8"},
    "json": {},
    "csv": {"header": True, "sep": ",", "escape": '"', "multiLine": True},
    "parquet": {},
}
"""The formats, with the options of each that hold unless others are given."""


@dataclass(frozen=True)
class StreamFormat:
    """How the bytes of a file become records.

    Attributes:
        name: "text", "json", "csv" or "parquet".
        options: In the words of Spark's readers. text: `charset`; csv: `header`, `sep`, `escape`, `multiLine`.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Return the format whose records are the lines of text files, which may be compressed."""
        try:
            codecs.lookup(charset_name)
        except LookupError:
            what = f"there is no charset {charset_name!r}"
            raise InvalidArgumentError(describe(what, remedy='use a name that Python knows, such as "UTF-8"')) from None
        return StreamFormat("text", {"charset": charset_name})


class FileSource(Source):
    """Reads files or directories of files, those that are there at the start or all that ever appear.

    Lines of text are strings; records of the other formats are `Row`s with the names of their columns. Files whose
    names begin with "." or "_" are skipped. Without a schema it is found in the files when the job starts.

    Example:
        >>> source = FileSource.csv("readings", "sensor STRING, celsius DOUBLE")
        >>> source.format, source.schema.names, source.is_bounded
        ('csv', ['sensor', 'celsius'], True)
        >>> FileSource.for_record_stream_format(StreamFormat.text_line_format(), "a.txt", "b.txt").build().format
        'text'

    Attributes:
        format: "text", "json", "csv" or "parquet".
        options: The format's options, as in `StreamFormat`.
        paths: Absolute paths, or addresses with a scheme; they may hold `*`.
        schema: An Arrow schema, or None to find it in the files.
        discovery_interval_ms: How often to look for new files; None reads those that are there at the start, and ends.
        files_per_epoch: At most how many new files an epoch takes; None takes all.
        modified: The times in ms from and before which files must have been modified to be read; None is open.
    """

    def __init__(
        self,
        form: StreamFormat,
        paths: PathText | Sequence[PathText],
        *,
        schema: Any = None,
        monitor: DurationLike | None = None,
        files_per_epoch: int | None = None,
    ) -> None:
        given = [paths] if isinstance(paths, str | PathLike) else list(paths)
        if not given:
            raise InvalidArgumentError(describe("a file source has no path", remedy="give a file or a directory"))
        if files_per_epoch is not None and files_per_epoch < 1:
            what = f"files_per_epoch is {files_per_epoch}"
            raise InvalidArgumentError(describe(what, remedy="give 1 or more, or None"))
        if form.name not in _DEFAULTS:
            what = f"there is no file format {form.name!r}"
            raise InvalidArgumentError(describe(what, remedy=f"use one of {', '.join(_DEFAULTS)}"))
        self.format = form.name
        self.options = {**_DEFAULTS[form.name], **form.options}
        self.paths = tuple(map(_absolute, given))
        self.schema: pa.Schema | None = to_arrow_schema(schema)
        self.discovery_interval_ms = None if monitor is None else to_millis(monitor)
        self.files_per_epoch = files_per_epoch
        self.modified: tuple[int | None, int | None] = (None, None)
        if self.discovery_interval_ms is not None and self.discovery_interval_ms <= 0:
            what = f"the discovery interval is {self.discovery_interval_ms} ms"
            raise InvalidArgumentError(describe(what, remedy="give a time above 0"))

    @property
    def is_bounded(self) -> bool:
        return self.discovery_interval_ms is None

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Return a builder for a source that reads these files and directories record by record."""
        return FileSourceBuilder(stream_format, paths)

    @staticmethod
    def text(path: PathText | Sequence[PathText], charset_name: str = "UTF-8", **options: Any) -> FileSource:
        """Return a source of lines; the options are `monitor` and `files_per_epoch`."""
        return FileSource(StreamFormat.text_line_format(charset_name), path, **options)

    @staticmethod
    def json(path: PathText | Sequence[PathText], schema: Any = None, **options: Any) -> FileSource:
        """Return a source of JSON lines; the options are `monitor` and `files_per_epoch`."""
        return FileSource(StreamFormat("json"), path, schema=schema, **options)

    @staticmethod
    def csv(
        path: PathText | Sequence[PathText],
        schema: Any = None,
        header: bool = True,
        *,
        delimiter: str = ",",
        multi_line: bool = True,
        **options: Any,
    ) -> FileSource:
        """Return a source of CSV files, with a header in each or none; the options are `monitor`, `files_per_epoch`.

        Without header and schema the columns are f0, f1, ... A quote inside quotes is written twice. If no value holds
        an end of line, `multi_line=False` lets Spark read a large file in pieces.
        """
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise InvalidArgumentError(describe(f"{delimiter!r} cannot be a delimiter", remedy="give one character"))
        form = {"header": header, "sep": delimiter, "multiLine": multi_line}
        return FileSource(StreamFormat("csv", form), path, schema=schema, **options)

    @staticmethod
    def parquet(path: PathText | Sequence[PathText], schema: Any = None, **options: Any) -> FileSource:
        """Return a source of Parquet files; the options are `monitor` and `files_per_epoch`."""
        return FileSource(StreamFormat("parquet"), path, schema=schema, **options)

    def modified_between(self, start: int | None, end: int | None) -> FileSource:
        """Return a source of those files only that were modified from `start` to before `end`, in ms."""
        chosen = copy.copy(self)
        chosen.modified = (start, end)
        return chosen

    def as_text(self) -> FileSource:
        """Return a source of the lines of the same files."""
        other = copy.copy(self)
        other.format, other.options, other.schema = "text", dict(_DEFAULTS["text"]), None
        return other

    def __repr__(self) -> str:
        return f"FileSource({self.format}, {', '.join(self.paths)})"


class FileSourceBuilder:
    """Collects the settings of a file source."""

    def __init__(self, form: StreamFormat, paths: Sequence[PathText]) -> None:
        self._form = form
        self._paths = paths
        self._monitor: DurationLike | None = None

    def monitor_continuously(self, discovery_interval: DurationLike) -> FileSourceBuilder:
        """Go on for ever, and look for new files at this interval."""
        self._monitor = discovery_interval
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that are there when the job starts, then end; this is the default."""
        self._monitor = None
        return self

    def build(self) -> FileSource:
        """Return the source."""
        return FileSource(self._form, self._paths, monitor=self._monitor)


def _absolute(path: PathText) -> str:
    text = fspath(path)
    if not text:
        raise InvalidArgumentError(describe("a path of a file source is empty", remedy="give a file or a directory"))
    # Spark resolves addresses with a scheme; a plain path is the user's, relative to where the program runs.
    return text if urlsplit(text).scheme and ":/" in text else str(Path(text).absolute())
