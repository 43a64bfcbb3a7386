"""The file formats with columns: Parquet, CSV, JSON lines. Each writes a file of one schema, batch by batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from flintstream.connectors.json_lines import json_lines
from flintstream.errors import SinkError, describe

JSON_ROWS = 1 << 16
COMPRESSIONS = ("snappy", "zstd", "gzip", "lz4", "brotli", "none")


class TableFormat(ABC):
    """Writes columns to a file."""

    suffix: str

    @abstractmethod
    def write(self, path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Called with batches of exactly this schema; the file is complete when this returns."""


@dataclass(frozen=True)
class ParquetFormat(TableFormat):
    """Parquet."""

    compression: str = "snappy"
    suffix: str = ".parquet"

    def write(self, path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        with path.open("wb") as file, pq.ParquetWriter(file, schema, compression=self.compression) as writer:
            for batch in batches:
                writer.write_batch(batch)


@dataclass(frozen=True)
class CsvFormat(TableFormat):
    """CSV. None is nothing between two delimiters, an empty string is two quotes."""

    header: bool = True
    delimiter: str = ","
    suffix: str = ".csv"

    def write(self, path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        for field in schema:
            if pa.types.is_nested(field.type) or _is_binary(field.type):
                what = f"field {field.name!r} is {field.type}, which CSV cannot hold"
                raise SinkError(describe(what, str(path), "write JSON or Parquet, or map the field to a string"))
        options = pacsv.WriteOptions(include_header=self.header, delimiter=self.delimiter)
        with path.open("wb") as file, pacsv.CSVWriter(file, schema, write_options=options) as writer:
            for batch in batches:
                writer.write_batch(batch)


@dataclass(frozen=True)
class JsonFormat(TableFormat):
    """JSON lines."""

    suffix: str = ".json"

    def write(self, path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        with path.open("wb") as file:
            for batch in batches:
                for start in range(0, batch.num_rows, JSON_ROWS):
                    file.write(json_lines(batch.slice(start, JSON_ROWS)))


def _is_binary(kind: Any) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
