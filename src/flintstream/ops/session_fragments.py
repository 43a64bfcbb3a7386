"""Folding records of sessions before the shuffle, where other records of the same session may still be missing.

What comes before event time has reached it (its timestamp is above the watermark) finds every session open that it
overlaps, whatever the order in which records come. So such records of a key whose sessions overlap are one
**fragment**, from the first timestamp to a gap after the last. Two that only touch at a border may or may not meet: the
first has fired if event time stood exactly at its end when the second began. So a fragment says how far event time was
`seen` when its first timestamp came, and the operator behind the shuffle decides.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flintstream.ops.aggregates import Aggregate
from flintstream.ops.aggregates_column import flat
from flintstream.ops.batch import I64, Values
from flintstream.ops.session_pieces import by_key_and_time, pieces
from flintstream.ops.window_fold import Folder
from flintstream.ops.window_keys import are_of_one_type, numbered, tidied

START, END, OWNER, SEEN = "start", "end", "owner", "seen"


class SessionFolder(Folder):
    """The aggregates of declared sessions, and their gap."""

    def __init__(self, aggregates: Sequence[tuple[str, Aggregate]], gap_ms: int) -> None:
        super().__init__(aggregates)
        self.gap = gap_ms

    def elements(self, values: Values, keys: Values, timestamps: I64) -> pa.Table:
        """Return records as rows, each a session of its own."""
        rows = self.counted(self.records(values, keys, timestamps))
        return rows.append_column(START, pa.array(timestamps)).append_column(END, pa.array(timestamps + self.gap))

    def sessions(self, rows: pa.Table, numbers: I64, owners: I64, keys: dict[str, pa.Array]) -> tuple[pa.Table, I64]:
        """Fold rows of one number into one; `owners` are the numbers of their keys. Return them and their numbers."""
        rows = rows.append_column(OWNER, pa.array(owners))
        extra = [(START, "min", START), (END, "max", END), (OWNER, "min", OWNER)]
        folded, used = self.numbered(rows, numbers, extra)
        own = {name: column.take(flat(folded.column(OWNER))) for name, column in keys.items()}
        plain = folded.drop_columns([OWNER])
        return pa.table({**own, **{name: plain.column(name) for name in plain.column_names}}), used

    def fragments(self, rows: pa.Table) -> pa.Table:
        """Fold rows with `start`, `end` and `seen`, in the order in which they came, into fragments."""
        rows = tidied(rows)
        starts, ends = flat(rows.column(START)).to_numpy(), flat(rows.column(END)).to_numpy()
        # Records that are all within one gap: there is nothing to cut, so that Arrow may group by key alone.
        if int(starts.max()) < int(ends.min()) and not self.has_lists and are_of_one_type(rows):
            return self._whole(rows, starts)
        owners, keys = numbered(rows)
        order = by_key_and_time(owners, starts)
        apart, _, touching = pieces(owners[order], starts[order], ends[order])
        begins = apart | touching
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.cumsum(begins) - 1
        # The sort is stable: the first of a fragment is the first that came with its first timestamp.
        seen = flat(rows.column(SEEN)).to_numpy()[order[begins]]
        folded, used = self.sessions(rows.drop_columns([SEEN]), numbers, owners, keys)
        return folded.append_column(SEEN, pa.array(seen[used]))

    def _whole(self, rows: pa.Table, starts: I64) -> pa.Table:
        """Fold rows of which those of a key are one fragment."""
        if (starts[1:] < starts[:-1]).any():
            rows = rows.take(pa.array(np.argsort(starts, kind="stable")))
        return self._grouped(rows, [(START, "min", START), (END, "max", END), (SEEN, "first", SEEN)])
