"""Records that wait for the watermark: which of them come too late for that, and how the others are held.

Sorting, patterns and temporal joins all begin so, and must agree on it: what waits is held by (time, place of the key),
which depends neither on the parallelism nor on a restart.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flintstream.ops.batch import I64, Batch
from flintstream.ops.operator import OperatorContext, Output
from flintstream.state.held import Held
from flintstream.state.keygroups import hash_column, key_groups


def on_time(batch: Batch, ctx: OperatorContext, late_tag: str | None, out: Output) -> Batch:
    """Return the records later than the watermark; the others are counted, and go to their side output if any."""
    assert batch.watermarks is not None
    late = batch.timestamps <= batch.watermarks
    if not late.any():
        return batch
    lost = batch.take(np.flatnonzero(late))
    ctx.count_late_batch(lost)
    if late_tag is not None:
        out.emit(lost, late_tag)
    return batch.take(np.flatnonzero(~late))


def held_values(batch: Batch, max_parallelism: int) -> Held:
    """Return records to be held without their keys."""
    return Held(batch.timestamps, *_places(batch, max_parallelism), *batch.values.column())


def held_pairs(batch: Batch, max_parallelism: int) -> Held:
    """Return records to be held as pairs of key and value."""
    assert batch.keys is not None
    (keys, key_kind), (values, kind) = batch.keys.column(), batch.values.column()
    pairs = pa.StructArray.from_arrays([keys, values], names=["f0", "f1"])
    return Held(batch.timestamps, *_places(batch, max_parallelism), pairs, ["tuple", [key_kind, kind]])


def _places(batch: Batch, max_parallelism: int) -> tuple[I64, I64]:
    """Return the place of each record's key among records of one time, and its key group."""
    assert batch.keys is not None
    hashes = hash_column(*batch.keys.column())
    return (hashes >> np.uint64(1)).astype(np.int64), key_groups(hashes, max_parallelism)
