"""State as Spark's DataFrames: each part of a table is read by a task of its own, when Spark asks for it.

The files of a savepoint that are alike, as they mostly are, Spark reads itself, and only the columns that it needs.
Changelogs must be folded, and columns of several kinds be brought together: there our own code reads, in Spark's tasks.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import NullType, StringType, StructField, StructType

from flintstream.engine.savepoint_compose import PartWriter
from flintstream.engine.savepoint_spec import BROADCAST
from flintstream.engine.savepoint_take import WrittenPart
from flintstream.engine.state_tables import SavepointPart
from flintstream.engine.state_tables_diff import CHANGE, DIFFERENT, ONLY_HERE, ONLY_THERE, keys_and_values
from flintstream.engine.state_tables_kinds import fit
from flintstream.engine.state_tables_view import View
from flintstream.errors import FlintstreamError
from flintstream.spark.order import quoted
from flintstream.spark.session import check_session, create_session
from flintstream.state.storage import LocalStorage

ROWS_AT_ONCE = 50_000
_OCCURRENCE = "flintstream_occurrence"


def session_or_new(session: Any) -> SparkSession:
    """Return the user's session, the one that is active, or one of our own."""
    found = session if session is not None else SparkSession.getActiveSession()
    if found is None:
        return create_session(max(1, os.cpu_count() or 1), "flintstream", {})
    check_session(found)
    return found


def frame_of(session: SparkSession, view: View) -> DataFrame:
    """Return a table of state; nothing but its schema is read before Spark asks for rows."""
    schema = schema_of(view.layout.schema)
    files = _files_of_one_shape(view)
    if files is not None:
        return _read_by_spark(session, view, schema, files)
    numbers = session.range(0, len(view.parts), 1, max(1, len(view.parts)))
    shower: Any = _Shower(view, tuple(to_arrow_schema(schema).types))
    return numbers.mapInArrow(shower, schema)


def _files_of_one_shape(view: View) -> list[str] | None:
    """Return the files of a table that Spark can read itself, or None if it cannot."""
    parts = [part for part in view.parts if isinstance(part, SavepointPart)]
    shapes = {(part.entry.file.rpartition("/")[0], part.entry.schema) for part in parts}
    if view.explode or len(shapes) != 1 or len(parts) < len(view.parts):
        return None
    storage = parts[0].storage
    if not isinstance(storage, LocalStorage) or not all(map(_is_read_by_spark, parts[0].schemas()[0].types)):
        return None
    root = Path(storage.root).resolve().as_posix()
    # Spark takes these for patterns.
    return None if set(root) & set("*?[]{}\\") else [f"file:{root}/{part.entry.file}" for part in parts]


def _is_read_by_spark(dtype: pa.DataType) -> bool:
    """Whether Spark finds in a Parquet file what we wrote there."""
    if pa.types.is_struct(dtype):
        fields = [dtype.field(index) for index in range(dtype.num_fields)]
        # To Spark `a` and `A` are one field.
        apart = len({field.name.casefold() for field in fields}) == len(fields) > 0
        return apart and all(field.name and _is_read_by_spark(field.type) for field in fields)
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return _is_read_by_spark(dtype.value_type)
    return not (pa.types.is_null(dtype) or pa.types.is_time(dtype) or pa.types.is_dictionary(dtype))


def _read_by_spark(session: SparkSession, view: View, schema: StructType, files: list[str]) -> DataFrame:
    stored = from_arrow_schema(view.parts[0].schemas()[0])
    columns: list[Column] = []
    for column, shown in zip(view.layout.columns, schema, strict=True):
        found = quoted(column.stored)
        for name in column.path:
            found = found.getField(name)
        columns.append(found.cast(shown.dataType).alias(column.name))
    return session.read.schema(stored).parquet(*files).select(*columns)


def schema_of(schema: pa.Schema) -> StructType:
    """Return the schema of a DataFrame; a column in which there is nothing counts as text."""
    found = from_arrow_schema(schema)
    return StructType([StructField(each.name, _written(each.dataType), True) for each in found])


def _written(dtype: Any) -> Any:
    return StringType() if isinstance(dtype, NullType) else dtype


@dataclass(frozen=True)
class _Shower:
    """Called by Spark once per task, with the numbers of the parts that it shall show."""

    view: View
    types: tuple[pa.DataType, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for shown in self.view.shown(number):
                    yield from self._pieces(shown)

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        columns = [fit(column, dtype) for column, dtype in zip(batch.columns, self.types, strict=True)]
        whole = pa.RecordBatch.from_arrays(columns, batch.schema.names)
        for start in range(0, whole.num_rows, ROWS_AT_ONCE):
            yield whole.slice(start, ROWS_AT_ONCE)


def differences_of(here: DataFrame, there: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the rows in which two tables differ: what has changed, the key, and the values on both sides."""
    names, values = keys_and_values(here.columns, there.columns, keys)
    one, other = _side(here, names, values, "here"), _side(there, names, values, "there")
    on = [one[f"here {name}"].eqNullSafe(other[f"there {name}"]) for name in _matched(names, values)]
    joined = one.join(other, on, "full_outer")
    in_here, in_there = F.col("is_here").isNotNull(), F.col("is_there").isNotNull()
    change = F.when(~in_there, ONLY_HERE).when(~in_here, ONLY_THERE).otherwise(DIFFERENT)
    differs = [~_equal(joined, name) for name in values]
    changed = ~in_there | ~in_here
    changed = reduce(lambda found, each: found | each, differs, changed)
    shown = [change.alias(CHANGE)]
    shown += [F.when(in_here, quoted(f"here {name}")).otherwise(quoted(f"there {name}")).alias(name) for name in names]
    for name in values:
        shown += [quoted(f"here {name}").alias(f"here_{name}"), quoted(f"there {name}").alias(f"there_{name}")]
    return joined.where(changed).select(*shown)


def _matched(names: Sequence[str], values: Sequence[str]) -> list[str]:
    return list(names) if values else [*names, _OCCURRENCE]


def _side(frame: DataFrame, names: Sequence[str], values: Sequence[str], side: str) -> DataFrame:
    known = set(frame.columns)
    if not values:
        every = [quoted(name) for name in frame.columns]
        frame = frame.withColumn(_OCCURRENCE, F.row_number().over(Window.partitionBy(*every).orderBy(F.lit(0))))
    wanted = [*_matched(names, values), *values]
    known.add(_OCCURRENCE)
    columns = [(quoted(name) if name in known else F.lit(None)).alias(f"{side} {name}") for name in wanted]
    return frame.select(*columns, F.lit(True).alias(f"is_{side}"))


def _equal(joined: DataFrame, name: str) -> Column:
    """Return whether a value is the same on both sides; of different types, only None is."""
    here, there = quoted(f"here {name}"), quoted(f"there {name}")
    if joined.schema[f"here {name}"].dataType == joined.schema[f"there {name}"].dataType:
        return here.eqNullSafe(there)
    return here.isNull() & there.isNull()


def write_frame(writer: PartWriter, frame: DataFrame) -> list[WrittenPart]:
    """Let Spark's tasks write the rows of a DataFrame as state; all rows of a key come to one task."""
    if writer.spec.shape == BROADCAST:
        return writer.write_table(frame.toArrow())
    spread = frame.repartition(*map(quoted, writer.spec.names.key))
    task: Any = _WriteTask(writer, tuple(frame.columns))
    found: list[WrittenPart] = []
    for row in spread.mapInArrow(task, "written binary").collect():
        written = pickle.loads(row.written)
        if isinstance(written, FlintstreamError):
            raise written
        found += written
    return found


@dataclass(frozen=True)
class _WriteTask:
    """Called by Spark once per task; tells what it wrote, or why it could not."""

    writer: PartWriter
    names: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [batch for batch in batches if batch.num_rows]
        if not rows:
            return
        try:
            told: Any = self.writer.write_table(pa.Table.from_batches(rows).rename_columns(list(self.names)))
        except FlintstreamError as error:
            told = error
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(told)], pa.binary())], ["written"])
