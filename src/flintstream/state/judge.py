"""Looks at rows of state before they are believed: whether their pickles and classes are such as may be read.

Files that this driver's own tasks have not written are marked when they are read, and judged where their rows are about
to be decoded. Judging reads every pickle once in the restricted way (see `trust`) and throws the result away: what has
passed names nothing but what it may, so it can be read as usual from then on, also where that happens later.
"""

from __future__ import annotations

import base64
import logging
import pickle
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import reduce
from typing import Any

import pyarrow as pa

from flintstream.errors import CorruptStateError, FlintstreamError, IncompatibleStateError, describe
from flintstream.model.evolution import FORMER
from flintstream.state.classes import class_of, read_reference
from flintstream.state.codec import TAGS, Kind, kind_of_field
from flintstream.state.partials import is_partials
from flintstream.state.pickles import loads
from flintstream.state.trust import is_harmless_class, is_judged, refused, restricted, will_be_judged

_LOG = logging.getLogger("flintstream")
_FORETOLD: set[str] = set()
_MARK = b"flintstream.judge"
_BROKEN = (
    pickle.UnpicklingError,
    pa.ArrowException,
    ImportError,
    EOFError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    OverflowError,
    UnicodeError,
)


def marked(tables: dict[str, pa.RecordBatch], epoch: int) -> dict[str, pa.RecordBatch]:
    """Return the tables of a file of that epoch, marked if they may be anybody's."""
    if not is_judged(epoch):
        return tables
    return {
        name: batch.replace_schema_metadata({**(batch.schema.metadata or {}), _MARK: b"1"})
        for name, batch in tables.items()
    }


def foretell(tables: Mapping[str, pa.RecordBatch]) -> None:
    """Warn of state that a restart will not believe, when it is written: later is too late. One row stands for all."""
    for name, batch in tables.items():
        if name in _FORETOLD or not batch.num_rows:
            continue
        _FORETOLD.add(name)
        try:
            if will_be_judged():
                judge(batch.slice(0, 1).replace_schema_metadata({**(batch.schema.metadata or {}), _MARK: b"1"}))
        except FlintstreamError as error:
            _LOG.warning("a restart will not read state %r: %s", name, error)


def without_mark(metadata: Mapping[bytes, bytes] | None) -> dict[bytes, bytes]:
    """Return the metadata of rows as whoever wrote them gave it."""
    return {key: value for key, value in (metadata or {}).items() if key != _MARK}


def judge(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows whose pickles and classes may be read; raise if they may not be."""
    if _MARK not in (batch.schema.metadata or {}):
        return batch
    with restricted(), _readable():
        for index, field in enumerate(batch.schema):
            column = batch.column(index)
            if is_partials(batch):
                if "pickle" in field.name and _is_bytes(column.type):
                    _judge_pickles(column)
            else:
                _judge_column(column, kind_of_field(field))
    return batch.replace_schema_metadata(without_mark(batch.schema.metadata) or None)


def _is_bytes(dtype: pa.DataType) -> bool:
    return pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype)


@contextmanager
def _readable() -> Generator[None]:
    """Tell in one way all that may be wrong with bytes of others."""
    try:
        yield
    except FlintstreamError:
        raise
    except _BROKEN as error:
        what = f"a value of state cannot be read ({type(error).__name__}: {error})"
        raise CorruptStateError(describe(what, None, "restore another checkpoint or savepoint")) from error


def _judge_column(array: pa.Array, kind: Kind) -> None:
    if kind == "pickle":
        _judge_pickles(array)
    elif type(kind) is list:
        if kind[0] not in TAGS:
            msg = f"unknown kind {kind[0]!r:.50}"
            raise ValueError(msg)
        if kind[0] == "list":
            _judge_column(array.values, kind[1])
            return
        if kind[0] == "class":
            _judge_class(kind[1])
        for index, inner in enumerate(kind[-1]):
            _judge_column(array.field(index), inner)


def _judge_class(reference: str) -> None:
    name, _, packed = read_reference(reference)
    module, _, qualname = name.partition(":")
    if packed:
        class_of(reference)
        return
    # What is not there, or is nowhere to be found, is told by whoever needs it.
    found = FORMER.get(name) or reduce(
        lambda at, part: getattr(at, part, None), qualname.split("."), sys.modules.get(module)
    )
    if found is not None and name not in FORMER and not (isinstance(found, type) and is_harmless_class(found)):
        raise refused(name.replace(":", "."))


def _judge_pickles(array: pa.Array) -> None:
    for value in array.unique().to_pylist():
        if value is not None:
            loads(value)


def judge_texts(texts: Iterable[str]) -> None:
    """Raise if what watermark generators have kept as text names what it must not; see `ops.watermark_generators`."""
    with restricted():
        for text in texts:
            _judge_text(text.partition(":")[2])


def _judge_text(text: str) -> Any:
    try:
        loads(base64.b64decode(text))
    except IncompatibleStateError:
        raise
    except Exception:
        pass
