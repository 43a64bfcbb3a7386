"""The exactly-once file sink: rows as text, or columns as Parquet, JSON lines or CSV.

A subtask writes one part file in an epoch (more, if a size is set). The file is complete and on disk before the epoch
commits, and becomes visible after it, by a rename: a reader never sees a record twice, or one that is taken back.
Flink: org.apache.flink.connector.file.sink.FileSink.
"""

from __future__ import annotations

import copy
import shutil
import time
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, BinaryIO, Self

import pyarrow as pa

from flintstream.connectors.files_config import (
    BucketAssigner,
    DefaultRollingPolicy,
    Encoder,
    OutputFileConfig,
    RollingPolicy,
)
from flintstream.connectors.files_early import EarlyFileCommitter, hide_file, show_file
from flintstream.connectors.files_format import COMPRESSIONS, CsvFormat, JsonFormat, ParquetFormat, TableFormat
from flintstream.connectors.files_remote import RemoteFileCommitter, RemoteFolder, is_remote, scratch_directory
from flintstream.connectors.files_spool import Spool
from flintstream.connectors.files_staging import (
    FileCommitter,
    StagedFile,
    file_checksum,
    file_name,
    local_directory,
    make_durable,
    staging_folder,
    writing,
)
from flintstream.connectors.records import batch_of_column, batch_of_rows
from flintstream.connectors.schema import to_arrow_schema
from flintstream.errors import InvalidArgumentError, SinkError, describe
from flintstream.model.connect import Committer, Sink, SinkWriter, WriterContext
from flintstream.model.delivery import AT_MOST_ONCE, DIRECT, EAGER, EXACTLY_ONCE, Delivery

PathText = str | PathLike[str]


class FileSink(Sink):
    """Writes files into a directory that the driver and all workers can reach, each record exactly once.

    It may be on an object store (`s3://...`), for which `storage_options` are what fsspec must know.
    Files are called `part-<uid>-<epoch>-<subtask>` and the format's suffix. With `isolation="read_uncommitted"` they
    are visible when their task has ended, with the attempt in their names, and removed if their epoch never commits.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     sink = FileSink.json(folder)
        ...     writer = sink.create_writer(WriterContext("job", "out", epoch=1, subtask=0, attempt="1"))
        ...     writer.write([("a", 1), ("b", None)], [0, 0])
        ...     sink.create_committer().commit("job", "out", 1, [writer.prepare_commit()])
        ...     print(Path(folder, "part-out-000001-000.json").read_text(), end="")
        {"f0":"a","f1":1}
        {"f0":"b","f1":null}
    """

    def __init__(
        self,
        base_path: PathText,
        form: Encoder | TableFormat,
        *,
        schema: Any = None,
        output_file_config: OutputFileConfig | None = None,
        bucket_assigner: BucketAssigner | None = None,
        part_size: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        if part_size is not None and part_size <= 0:
            raise InvalidArgumentError(describe(f"part_size is {part_size}", remedy="give bytes above 0, or None"))
        address = fspath(base_path)
        self.remote = RemoteFolder(address, storage_options or {}) if is_remote(address) else None
        self.base_path = local_directory(base_path) if self.remote is None else address
        if storage_options and self.remote is None:
            what = f"storage_options say how to reach a file system, but {address!r} is on this machine"
            raise InvalidArgumentError(describe(what, remedy="leave them out"))
        self.form = form
        self.schema = to_arrow_schema(schema)
        suffix = form.suffix if isinstance(form, TableFormat) else ""
        self.output_file_config = output_file_config or OutputFileConfig("part", suffix)
        self.bucket_assigner = bucket_assigner or BucketAssigner.base_path_bucket_assigner()
        self.part_size = part_size
        self.how = EXACTLY_ONCE

    @staticmethod
    def for_row_format(base_path: PathText, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """Return a builder for a sink of text files, by default in a directory for each hour, as in Flink."""
        return FileSink.RowFormatBuilder(base_path, encoder)

    @staticmethod
    def parquet(base_path: PathText, *, compression: str = "snappy", **options: Any) -> FileSink:
        """Return a sink of Parquet files.

        Args:
            base_path: The directory.
            compression: "snappy", "zstd", "gzip", "lz4", "brotli" or "none".
            **options: As for `FileSink`: `schema` (without one a column takes the type of its values, file by file),
                `output_file_config`, `bucket_assigner`, `part_size`, `storage_options`.
        """
        if compression not in COMPRESSIONS:
            what = f"Parquet has no compression {compression!r}"
            raise InvalidArgumentError(describe(what, remedy=f"use one of {', '.join(COMPRESSIONS)}"))
        return FileSink(base_path, ParquetFormat(compression), **options)

    @staticmethod
    def json(base_path: PathText, **options: Any) -> FileSink:
        """Return a sink of JSON lines; the options are those of `FileSink`."""
        return FileSink(base_path, JsonFormat(), **options)

    @staticmethod
    def csv(base_path: PathText, header: bool = True, *, delimiter: str = ",", **options: Any) -> FileSink:
        """Return a sink of CSV files, each with a header if wanted; the other options are those of `FileSink`."""
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise InvalidArgumentError(describe(f"{delimiter!r} cannot be a delimiter", remedy="give one character"))
        return FileSink(base_path, CsvFormat(header, delimiter), **options)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        if isinstance(self.form, TableFormat):
            return _TableWriter(self, self.form, context)
        return _TextWriter(self, self.form, context)

    def create_committer(self) -> Committer:
        if self.remote is not None:
            return RemoteFileCommitter(self.remote)
        if self.how.is_early:
            return EarlyFileCommitter(self.base_path, takes_back=self.how == EAGER)
        return FileCommitter(self.base_path, is_durable=self.how.is_repeated)

    def deliveries(self) -> tuple[Delivery, ...]:
        # What was copied to its final name cannot be told from another's, so it could not be taken back.
        return (EXACTLY_ONCE, EAGER, DIRECT, AT_MOST_ONCE) if self.remote is None else (EXACTLY_ONCE, AT_MOST_ONCE)

    def delivering(self, delivery: Delivery) -> FileSink:
        other = copy.copy(self)
        other.how, other.delivery = delivery, delivery.guarantee.value
        return other

    def __repr__(self) -> str:
        return f"FileSink({self.base_path!r}, {type(self.form).__name__})"

    class RowFormatBuilder:
        """Collects the settings of a sink of text files."""

        def __init__(self, base_path: PathText, encoder: Encoder) -> None:
            self._base_path = base_path
            self._storage_options: Mapping[str, Any] | None = None
            self._encoder = encoder
            self._assigner = BucketAssigner.date_time_bucket_assigner()
            self._config: OutputFileConfig | None = None
            self._part_size: int | None = None

        def with_bucket_check_interval(self, interval: int) -> Self:
            """Warn: buckets are chosen anew in every epoch, so there is nothing to check in between."""
            what = f"with_bucket_check_interval({interval}) has no effect: buckets are chosen anew in every epoch"
            warnings.warn(what, stacklevel=2)
            return self

        def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
            """Set which directory files go to."""
            self._assigner = bucket_assigner
            return self

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
            """Set the beginning and the end of the files' names."""
            self._config = output_file_config
            return self

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
            """Set the size after which a file ends; a policy by time warns: every epoch ends its files."""
            if isinstance(rolling_policy, DefaultRollingPolicy):
                what = "rollover_interval and inactivity_interval have no effect: files end when their epoch commits"
                warnings.warn(what, stacklevel=2)
            self._part_size = rolling_policy.part_size
            return self

        def with_storage_options(self, storage_options: Mapping[str, Any]) -> Self:
            """Set what fsspec must know to reach the directory's file system."""
            self._storage_options = storage_options
            return self

        def build(self) -> FileSink:
            """Return the sink."""
            return FileSink(
                self._base_path,
                self._encoder,
                output_file_config=self._config,
                bucket_assigner=self._assigner,
                part_size=self._part_size,
                storage_options=self._storage_options,
            )


class _FileWriter(SinkWriter):
    """Names the files of one subtask in one epoch, and accounts for them."""

    def __init__(self, sink: FileSink, context: WriterContext) -> None:
        self._remote = sink.remote
        self._base = Path(sink.base_path) if sink.remote is None else scratch_directory()
        self._how = sink.how
        self._part_size = sink.part_size
        config = sink.output_file_config
        self._suffix = config.part_suffix
        folder = staging_folder(context.job, context.uid)
        self._staged = f"{folder}/{context.epoch}-{file_name(context.attempt)}-{context.subtask}"
        bucket = sink.bucket_assigner.bucket(int(time.time() * 1000))
        uid = file_name(context.uid)
        name = f"{config.part_prefix}-{uid}-{context.epoch:06d}-{context.subtask:03d}"
        if self._how.is_early:
            # Several attempts may have been seen; each has files of its own.
            name = f"{name}-{file_name(context.attempt)}"
        self._final = f"{bucket}/{name}" if bucket else name
        self._done: list[StagedFile] = []
        with writing(self._base / folder):
            (self._base / folder).mkdir(parents=True, exist_ok=True)

    def _names(self) -> tuple[str, str]:
        """Return the staged and the final name of the file at hand."""
        number = f"-{len(self._done)}" if self._done else ""
        return f"{self._staged}{number}{self._suffix}", f"{self._final}{number}{self._suffix}"

    @property
    def _path(self) -> Path:
        return self._base / self._names()[0]

    @abstractmethod
    def _close_part(self) -> int:
        """Complete the file at hand; return how many records it has, 0 if there is none."""

    def _end_part(self) -> None:
        path = self._path
        with writing(path):
            rows = self._close_part()
            if rows:
                if self._how.is_repeated and self._remote is None:
                    make_durable(path)
                checksum = file_checksum(path) if self._how.is_repeated and not self._how.is_early else None
                file = StagedFile(*self._names(), rows, path.stat().st_size, checksum)
                self._done.append(file)
                if self._how.is_early:
                    show_file(self._base, file, self._how == EAGER)
                if self._remote is not None:
                    self._remote.put(path, file.staged)

    def prepare_commit(self) -> Any:
        self._end_part()
        if self._remote is not None:
            shutil.rmtree(self._base, ignore_errors=True)
        if not self._done:
            return None
        if self._how.is_repeated and self._remote is None:
            with writing(self._path.parent):
                make_durable(self._path.parent)
        files = [file.to_json() for file in self._done]
        return files[0] if len(files) == 1 else files

    def abort(self) -> None:
        if self._remote is not None:
            shutil.rmtree(self._base, ignore_errors=True)
            for file in self._done:
                self._remote.remove(file.staged)
            return
        self._path.unlink(missing_ok=True)
        for file in self._done:
            (self._base / file.staged).unlink(missing_ok=True)
            if self._how.is_early:
                hide_file(self._base, file.staged, file.final)


class _TableWriter(_FileWriter):
    """Columns to a file with a schema."""

    def __init__(self, sink: FileSink, form: TableFormat, context: WriterContext) -> None:
        super().__init__(sink, context)
        self._form = form
        self._declared = sink.schema
        self._spool = Spool(self._path, self._declared)

    def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        self._add(batch_of_rows(values))

    def write_column(self, array: Any, kind: Any, timestamps: Any) -> bool:
        batch = batch_of_column(array, kind)
        if batch is None:
            return False
        self._add(batch)
        return True

    def _add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        with writing(self._path):
            self._spool.add(batch)
        if self._part_size is not None and self._spool.bytes >= self._part_size:
            self._end_part()
            self._spool = Spool(self._path, self._declared)

    def _close_part(self) -> int:
        spool = self._spool
        if not spool.rows:
            return 0
        schema = spool.schema()
        try:
            self._form.write(self._path, schema, spool.batches(schema))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            what = f"records of {schema.to_string(show_schema_metadata=False)!r} cannot be written ({error})"
            raise SinkError(describe(what, str(self._path), "map them to simpler types before the sink")) from error
        spool.discard()
        return spool.rows

    def abort(self) -> None:
        self._spool.discard()
        super().abort()


class _TextWriter(_FileWriter):
    """Records to text, one after the other."""

    def __init__(self, sink: FileSink, encoder: Encoder, context: WriterContext) -> None:
        super().__init__(sink, context)
        self._encoder = encoder
        self._file: BinaryIO | None = None
        self._rows = 0

    def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        lines = list(map(self._encoder.encode, values))
        if self._part_size is None:
            self._append(b"".join(lines), len(lines))
            return
        for line in lines:
            self._append(line, 1)

    def _append(self, data: bytes, rows: int) -> None:
        with writing(self._path):
            if self._file is None:
                self._file = self._path.open("wb")
            self._file.write(data)
            self._rows += rows
            full = self._part_size is not None and self._file.tell() >= self._part_size
        if full:
            self._end_part()

    def _close_part(self) -> int:
        file, self._file = self._file, None
        rows, self._rows = self._rows, 0
        if file is not None:
            file.close()
        return rows

    def abort(self) -> None:
        with writing(self._path):
            self._close_part()
        super().abort()
