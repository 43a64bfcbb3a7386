"""What a source could not read, on its way to a side output; apart from the level, where good records go on."""

from __future__ import annotations

import numpy as np

from flintstream.model.dead_letters import BadRecord, DeadLetter
from flintstream.ops.batch import NO_TIMESTAMP, Batch, Values


def set_apart(batch: Batch, uid: str) -> tuple[Batch, Batch]:
    """Return a source's records that are good, and the dead letters of those that are not, each where it was."""
    rows = batch.values.rows()
    is_bad = np.fromiter((isinstance(row, BadRecord) for row in rows), np.bool_, len(rows))
    bad = batch.take(np.flatnonzero(is_bad))
    times = bad.timestamps.tolist()
    letters = [_letter(row, time, uid) for row, time in zip(bad.values.rows(), times, strict=True)]
    return batch.take(np.flatnonzero(~is_bad)), bad.with_values(Values(letters))


def _letter(bad: BadRecord, timestamp: int, uid: str) -> DeadLetter:
    at = None if timestamp == NO_TIMESTAMP else timestamp
    told = (bad.raw, bad.error, bad.message, bad.traceback, uid, at)
    return DeadLetter(*told, split=bad.split, position=bad.position)
