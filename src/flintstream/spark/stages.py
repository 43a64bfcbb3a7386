"""Levels as steps of Spark's plan that are made once for a job, not once for an epoch.

To declare a Python function to Spark takes some fifty calls into the JVM, and an epoch on little input is not much more
than the calls it makes. So the functions stay the same and the epoch's own word travels beside them, as a property of
the job, which Spark hands to every task. Words that are too long for that, and sessions whose Python threads have no
JVM thread of their own (the property belongs to a thread), get functions with the word inside, made anew.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa
from py4j.clientserver import ClientServer
from pyspark import SparkContext, TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from pyspark.util import PythonEvalType

from flintstream.engine.epoch import EpochContext
from flintstream.errors import JobError

PROPERTY = "flintstream.epoch"
LONGEST_PROPERTY = 1 << 15


class Word(NamedTuple):
    """What the tasks of an epoch are told; `ending` are the sources that end with it."""

    epoch: EpochContext
    ending: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Told:
    """A function for one level that needs the epoch's word: from its job, or from itself."""

    level: int
    word: bytes | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark once per task."""
        raise NotImplementedError

    def hear(self) -> Word:
        """Return the word; only inside a task."""
        if self.word is not None:
            return pickle.loads(self.word)
        task = TaskContext.get()
        packed = None if task is None else task.getLocalProperty(PROPERTY)
        if packed is None:
            what = "a task was not told its epoch: Spark did not hand over the job's properties"
            raise JobError(what)
        return pickle.loads(base64.b85decode(packed))


class Stages:
    """The steps of one job, by level."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        gateway: Any = context._gateway  # pyright: ignore[reportPrivateUsage]
        self._has_own_thread = isinstance(gateway, ClientServer)
        self._made: dict[int, Any] = {}
        self._inside: bytes | None = None

    def tell(self, word: Word) -> None:
        """Set what the tasks of the epochs from now on are told."""
        data = pickle.dumps(word, 5)
        packed = base64.b85encode(data).decode()
        if self._has_own_thread and len(packed) <= LONGEST_PROPERTY:
            self._inside = None
            self._context.setLocalProperty(PROPERTY, packed)
        else:
            self._inside = data

    def forget(self) -> None:
        """Tell tasks nothing any more: the user's own jobs need not carry it."""
        self._context.setLocalProperty(PROPERTY, None)  # type: ignore[arg-type]

    def add(self, frame: DataFrame, names: Sequence[str], function: Told, schema: StructType) -> DataFrame:
        """Return what a level's function makes of a frame with these columns; it must be the same in every epoch."""
        if self._inside is not None:
            return frame.mapInArrow(replace(function, word=self._inside), schema)
        column = self._made.get(function.level)
        if column is None:
            column = self._made[function.level] = _declared(function, names, schema)
        java: Any = frame._jdf  # pyright: ignore[reportPrivateUsage]
        return DataFrame(java.mapInArrow(column, False, None), frame.sparkSession)


def _declared(function: Told, names: Sequence[str], schema: StructType) -> Any:
    """Return the JVM's own object for a function over columns of these names, whatever frame they will be of."""
    make: Any = F.pandas_udf
    declared = make(function, schema, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    return declared(*map(F.col, names))._jc
