"""Sources that Spark reads, brought into one DataFrame.

All sources of a job are one union with the columns `(source, split, chunk, slot, payload_<source>...)`: which source a
row is of, the split and the stretch of it that fix its place in order, and a struct with its record. Where there is but
one source, without splits, tasks get the struct alone. Column expressions of the user are applied before, so that
Spark's optimiser sees them. A source that is read by ranges takes part with one row per range (`slot`); if column
expressions follow it, its records are first expanded into rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    NumericType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from flintstream.connectors.files_local import LocalFileReader
from flintstream.connectors.files_source import FileSource
from flintstream.connectors.frames import FrameSource
from flintstream.engine.epoch import EpochContext
from flintstream.engine.task import read_range
from flintstream.errors import FlintstreamError, SourceError, describe
from flintstream.graph.nodes import NativeStep, SourceNode
from flintstream.model.connect import Split, SplitSource
from flintstream.ops.batch import Values
from flintstream.planner.plan import Plan, PlannedOperator
from flintstream.spark.failures import translate
from flintstream.spark.order import in_order, quoted, split_number
from flintstream.spark.source_kinds import is_ranged, source_nodes
from flintstream.spark.static_join import join_table, joins
from flintstream.spark.tasks import PlanReference
from flintstream.state.codec import kind_of_arrow

SPLIT, CHUNK, PLACE = "__flintstream_split", "__flintstream_chunk", "__flintstream_place"
_HIDDEN = (SPLIT, CHUNK, PLACE)
TICKS_PER_SECOND = 5


class FrameReader:
    """Builds the input DataFrame of a plan's epochs."""

    def __init__(self, session: SparkSession, plan: Plan, reference: PlanReference) -> None:
        self._session = session
        self._plan = plan
        self._reference = reference
        self._payloads: dict[int, DataFrame] = {}
        for op, node in source_nodes(plan):
            if not is_ranged(node) and not isinstance(node.source, SplitSource):
                with located(node):
                    self._payloads[op.id] = apply_steps(self._open(node), node.native)
        self._types = {node: frame.schema for node, frame in self._payloads.items()}
        for op, node in source_nodes(plan):
            if isinstance(node.source, SplitSource) and node.native:
                with located(node):
                    empty = apply_steps(self._expanded(op, node, None, []), node.native)
                self._types[op.id] = empty.schema
        self.lone = _lone_source(plan)
        """The source that every row is of, None if rows must say which."""

    def _open(self, node: SourceNode) -> DataFrame:
        """Return a source's own DataFrame with the hidden columns that fix the order."""
        source = node.source
        if isinstance(source, FrameSource):
            hidden = {SPLIT: split_number(source), CHUNK: F.lit("")}
            if source.order_by:
                hidden[PLACE] = F.struct(*map(quoted, source.order_by))
            return source.frame.withColumns(hidden)
        assert isinstance(source, FileSource)
        return open_files(self._session, source)

    @property
    def reads_files(self) -> bool:
        """Whether one of the streams reads files, so that Spark's settings for files concern it."""
        java: list[Any] = [
            frame._jdf  # pyright: ignore[reportPrivateUsage]
            for frame in self._payloads.values()
            if frame.isStreaming
        ]
        return any("FileSource[" in stream.queryExecution().analyzed().toString() for stream in java)

    def streaming(self) -> DataFrame | None:
        """Return the union of all streaming sources, or None if there is none."""
        frames = [self._shaped(node, frame) for node, frame in self._payloads.items() if frame.isStreaming]
        return _union(frames)

    def static(self) -> DataFrame | None:
        """Return the union of all static DataFrames, to be read once."""
        whole = _union([self._shaped(node, self._payloads[node]) for node in self.static_sources()])
        return None if whole is None else self.narrowed(whole)

    def static_sources(self) -> frozenset[int]:
        """Return the sources that are static DataFrames."""
        return frozenset(node for node, frame in self._payloads.items() if not frame.isStreaming)

    def ranges(self, context: EpochContext, session: SparkSession) -> DataFrame | None:
        """Return the rows of the epoch's ranges: a row each, or their records where Spark has more to do with them."""
        frames: list[DataFrame] = []
        plain = [slot for slot, piece in enumerate(context.ranges) if is_ranged(self._node(piece.source))]
        if plain:
            slots = session.createDataFrame([(slot,) for slot in plain], "slot int").repartitionById(
                len(plain), F.col("slot") % len(plain)
            )
            frames.append(self._row(slots, -1, slot=F.col("slot")))
        for op, node in source_nodes(self._plan):
            mine = [slot for slot, piece in enumerate(context.ranges) if piece.source == op.id]
            if node.native and isinstance(node.source, SplitSource) and mine:
                expanded = apply_steps(self._expanded(op, node, context, mine), node.native)
                frames.append(self._shaped(op.id, expanded))
        return _union(frames)

    def _node(self, source: int) -> SourceNode:
        node = self._plan.operator(source).node
        assert isinstance(node, SourceNode)
        return node

    def _expanded(
        self, op: PlannedOperator, node: SourceNode, context: EpochContext | None, slots: Sequence[int]
    ) -> DataFrame:
        assert isinstance(node.source, SplitSource)
        is_placed = joins(node.native)
        schema = sample_schema(node.source, op.parallelism, node.location, is_placed)
        function = ExpandFunction(self._reference, context, tuple(slots), is_placed)
        frame = self._session.range(0, len(slots), 1, max(1, len(slots)))
        return frame.mapInArrow(function, from_arrow_schema(schema))

    def _shaped(self, node: int, frame: DataFrame) -> DataFrame:
        return self._row(frame, node, split=F.col(SPLIT), chunk=F.col(CHUNK), frame_of=node)

    def _row(self, frame: DataFrame, source: int, **columns: Any) -> DataFrame:
        """Return a frame in the common shape; absent columns are null."""
        payloads: list[Any] = []
        for node, schema in self._types.items():
            names = [name for name in schema.names if name not in _HIDDEN]
            is_mine = columns.get("frame_of") == node
            absent = F.lit(None).cast(StructType([schema[name] for name in names]))
            payload = F.struct(*map(quoted, names)) if is_mine else absent
            payloads.append(payload.alias(f"payload_{node}"))
            if PLACE in schema.names:
                place = F.col(PLACE) if is_mine else F.lit(None).cast(schema[PLACE].dataType)
                payloads.append(place.alias(f"place_{node}"))
        return frame.select(
            F.lit(source).alias("source"),
            columns.get("split", F.lit(0)).cast("bigint").alias("split"),
            columns.get("chunk", F.lit("")).alias("chunk"),
            columns.get("slot", F.lit(-1)).cast("int").alias("slot"),
            *payloads,
        )

    @property
    def names(self) -> list[str]:
        """The columns of the common shape that tasks need: what all rows have alike they need not be told."""
        payloads = [f"payload_{node}" for node in self._types]
        return payloads if self.lone is not None else ["source", "split", "chunk", "slot", *payloads]

    def narrowed(self, frame: DataFrame) -> DataFrame:
        """Return a frame of the common shape with the columns that tasks need."""
        return frame if self.lone is None else frame.select(*self.names)

    @property
    def row_bytes(self) -> int | None:
        """How many bytes a row that tasks get has, None if that differs from row to row."""
        return None if self.lone is None else width_of(self._types[self.lone])

    def in_order(self, frame: DataFrame) -> DataFrame:
        """Return an epoch's rows with those of sources that have an order of the user's in that order."""
        ordered = [node for node, schema in self._types.items() if PLACE in schema.names]
        return in_order(frame, ordered, max(op.parallelism for op, _ in source_nodes(self._plan)))

    def empty(self) -> DataFrame:
        """Return no rows, in the common shape."""
        return self.narrowed(self._row(self._session.range(0), -1))

    def ticks(self) -> DataFrame:
        """Return a stream that brings an empty row a few times a second, so that epochs run without input."""
        self.lone = None
        rate = self._session.readStream.format("rate").option("rowsPerSecond", TICKS_PER_SECOND).load()
        return self._row(rate, -1)


def width_of(kind: DataType) -> int | None:
    """Return how many bytes a value of a type has, None if that differs from value to value."""
    if not isinstance(kind, StructType):
        return kind_width(kind)
    widths = [width_of(field.dataType) for field in kind]
    return None if None in widths else sum(width for width in widths if width is not None)


def kind_width(kind: DataType) -> int | None:
    """Return the bytes of a value that is no struct; what is not listed may have any number."""
    if isinstance(kind, DecimalType):
        return 16
    return 8 if isinstance(kind, (NumericType, BooleanType, DateType, TimestampType, TimestampNTZType)) else None


def _lone_source(plan: Plan) -> int | None:
    """Return the only source of a plan, if its rows are of one split and come in one stretch."""
    nodes = list(source_nodes(plan))
    source = nodes[0][1].source
    is_plain = isinstance(source, FrameSource) and not source.split_by and not source.order_by
    return nodes[0][0].id if len(nodes) == 1 and is_plain else None


def _union(frames: Sequence[DataFrame]) -> DataFrame | None:
    if not frames:
        return None
    result = frames[0]
    for frame in frames[1:]:
        result = result.unionByName(frame)
    return result


class located:
    """Adds the source's place in the user's program to what Spark says of it."""

    def __init__(self, node: SourceNode) -> None:
        self._node = node

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, FlintstreamError):
            raise error.at(self._node.location) from None
        if isinstance(error, Exception):
            told = translate(error)
            where = f"source {self._node.name!r}, {self._node.location}"
            raise SourceError(describe(str(told), where), location=self._node.location) from None


def apply_steps(frame: DataFrame, steps: Sequence[NativeStep]) -> DataFrame:
    """Apply the user's column steps; the hidden columns stay."""
    for step in steps:
        if step.verb == "where":
            frame = frame.where(*step.arguments)
        elif step.verb == "with_columns":
            frame = frame.withColumns({name: _column(expression) for name, expression in step.named})
        elif step.verb == "join":
            frame = join_table(frame, step, _HIDDEN)
        else:
            named = [_column(expression).alias(name) for name, expression in step.named]
            frame = frame.select(*step.arguments, *named, *(name for name in _HIDDEN if name in frame.columns))
    return frame


def _column(expression: Any) -> Any:
    return F.expr(expression) if isinstance(expression, str) else expression


def open_files(session: SparkSession, source: FileSource) -> DataFrame:
    """Return the DataFrame of a file source: a directory is one split, ordered by modification time, path and block."""
    is_stream = not source.is_bounded or bool(source.files_per_epoch)
    reader: Any = session.readStream if is_stream else session.read
    if source.files_per_epoch:
        reader = reader.option("maxFilesPerTrigger", source.files_per_epoch)
    schema = spark_schema(source)
    if schema is not None:
        reader = reader.schema(schema)
    for name, value in source.options.items():
        reader = reader.option(name, value)
    reader = reader.format(source.format)
    # A stream of files reads one path; a static reader takes them all.
    frames = [reader.load(path) for path in source.paths] if is_stream else [reader.load(list(source.paths))]
    frame = _union([_with_place(_modified(each, source)) for each in frames])
    assert frame is not None
    charset = str(source.options.get("charset", "UTF-8"))
    if source.format == "text" and charset.upper() not in ("UTF-8", "UTF8"):
        frame = frame.withColumn("value", F.decode(F.col("value").cast("binary"), charset))
    return frame


def _modified(frame: DataFrame, source: FileSource) -> DataFrame:
    """Return the records of files that are new or old enough; Spark reads no other file."""
    start, end = source.modified
    at = F.col("_metadata.file_modification_time")
    if start is not None:
        frame = frame.where(at >= F.timestamp_millis(F.lit(start)))
    return frame if end is None else frame.where(at < F.timestamp_millis(F.lit(end)))


def _with_place(frame: DataFrame) -> DataFrame:
    chunk = F.concat_ws(
        "|",
        F.date_format(F.col("_metadata.file_modification_time"), "yyyyMMddHHmmssSSS"),
        F.col("_metadata.file_path"),
        F.lpad(F.col("_metadata.file_block_start").cast("string"), 20, "0"),
    )
    return frame.select("*", F.lit(0).cast("bigint").alias(SPLIT), chunk.alias(CHUNK))


def spark_schema(source: FileSource) -> Any:
    """Return the schema to read files with: the declared one, else the one that both runtimes infer; text has none."""
    if source.format == "text":
        return None
    return from_arrow_schema(source.schema or LocalFileReader(source).schema)


def sample_schema(source: SplitSource, parallelism: int, location: str, is_placed: bool = False) -> pa.Schema:
    """Return the columns of a source that is read by ranges, from its first record."""
    splits = [split for split in source.splits(parallelism) if split.end is None or split.end > split.start]
    if not splits:
        raise SourceError(describe("an empty source has no columns", location), location=location)
    array, _ = _column_of(source, splits[0])
    if not pa.types.is_struct(array.type):
        fields = [pa.field("value", array.type)]
    else:
        fields = [array.type.field(index) for index in range(array.type.num_fields)]
    hidden = [pa.field(SPLIT, pa.int64()), pa.field(CHUNK, pa.string()), pa.field(PLACE, pa.int64())]
    return pa.schema([*[pa.field(f.name, f.type) for f in fields], *hidden[: 3 if is_placed else 2]])


def _column_of(source: SplitSource, split: Split) -> tuple[pa.Array, Any]:
    data = source.read(split.number, split.start, split.start + 1)
    return Values(data).column() if isinstance(data, list) else (data, kind_of_arrow(data.type))


@dataclass(frozen=True)
class ExpandFunction:
    """Turns range numbers into the records of the ranges, as rows that Spark can compute with."""

    plan: PlanReference
    context: EpochContext | None
    slots: tuple[int, ...]
    is_placed: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark once per task."""
        for batch in batches:
            for index in batch.column(0).to_pylist():
                assert self.context is not None
                slot = self.slots[index]
                chunk = read_range(self.plan.get(), self.context, slot)
                place = self.context.ranges[slot].start
                for values in chunk.values:
                    yield self._rows(values, chunk.split, f"{chunk.order[0]:020d}", place)
                    place += len(values)

    def _rows(self, values: Values, split: int, chunk: str, place: int) -> pa.RecordBatch:
        array, _ = values.column()
        count = len(array)
        if pa.types.is_struct(array.type):
            columns = {array.type.field(i).name: array.field(i) for i in range(array.type.num_fields)}
        else:
            columns = {"value": array}
        columns[SPLIT] = pa.array(np.full(count, split, np.int64))
        columns[CHUNK] = pa.array([chunk] * count)
        if self.is_placed:
            columns[PLACE] = pa.array(np.arange(place, place + count))
        return pa.RecordBatch.from_pydict(columns)
