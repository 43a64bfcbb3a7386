"""Side outputs: a function emits `(tag, value)` and the value leaves by the tag's own stream."""

from __future__ import annotations

from contextlib import suppress
from operator import itemgetter
from typing import Any

import numpy as np

from flintstream.model.tags import OutputTag
from flintstream.ops.batch import Batch, Values
from flintstream.ops.operator import MAIN, Output


def emit_tagged(batch: Batch, out: Output) -> None:
    """Emit a batch whose rows may be `(OutputTag, value)` pairs, each by its own output."""
    rows = batch.values.rows()
    if not rows:
        return
    if not _has_tags(rows):
        out.emit(batch)
        return
    by_tag: dict[str, list[int]] = {}
    values: list[Any] = []
    for index, row in enumerate(rows):
        tagged = type(row) is tuple and len(row) == 2 and isinstance(row[0], OutputTag)
        by_tag.setdefault(row[0].tag_id if tagged else MAIN, []).append(index)
        values.append(row[1] if tagged else row)
    plain = batch.with_values(Values(values))
    for tag, indices in by_tag.items():
        out.emit(plain.take(np.fromiter(indices, np.int64, len(indices))), tag)


def _has_tags(rows: list[Any]) -> bool:
    """Whether any row is a tagged pair; mostly none is, and this must cost little then."""
    types = set(map(type, rows))
    if tuple not in types:
        return False
    if types == {tuple}:
        with suppress(IndexError):  # one is empty, and has no first
            return any(issubclass(first, OutputTag) for first in set(map(type, map(itemgetter(0), rows))))
    return any(type(row) is tuple and len(row) == 2 and isinstance(row[0], OutputTag) for row in rows)
