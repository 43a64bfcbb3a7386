"""Learns how late the records of a lane come, and keeps the watermark so far behind that a target share is on time.

Lateness is how far a record lies behind the greatest timestamp before it. It goes into a histogram whose buckets grow
by an eighth of an octave, so a bound is at most a tenth too large. The lane's records are cut into blocks by their
number; the bound changes between blocks only, so results do not depend on how records are cut into batches, and a
block costs a few numpy calls. Older blocks fade. At every block the lane also says which share of the records the bound
covers, by what it knows: that is how complete it believes results to be.

Flink has nothing like it.
"""

from __future__ import annotations

import base64
import zlib

import numpy as np
import numpy.typing as npt

from flintstream.model.time import MIN_TIMESTAMP
from flintstream.model.watermark_options import LearnedBound
from flintstream.ops.batch import I64, NO_TIMESTAMP, Values

BLOCK = 128
_KIND = "learned:"
_EXACT = 16
_PER_OCTAVE = 8
_OCTAVES = 38
_GROWING = np.ceil(_EXACT * 2.0 ** (np.arange(1, _OCTAVES * _PER_OCTAVE + 1) / _PER_OCTAVE)).astype(np.int64)
UPPER: I64 = np.concatenate([np.arange(_EXACT + 1), _GROWING])
"""The greatest lateness of each bucket; the last one reaches over a hundred years."""
DIGITS = 4
"""Shares are told with so many digits: finer ones would only be noise."""


class LearnedMemory:
    """A lane whose bound is learned; `estimates` are the changes of its believed completeness in this chunk."""

    idle = False

    def __init__(self, learning: LearnedBound, text: str) -> None:
        self._learning = learning
        self._decay = 0.5 ** (BLOCK / learning.half_life)
        self._seen: npt.NDArray[np.float64] = np.zeros(len(UPPER))
        self._block: npt.NDArray[np.float64] = np.zeros(len(UPPER))
        self._count, self._top, self._bound, self._level, self._ppm = 0, NO_TIMESTAMP, -1, MIN_TIMESTAMP, -1
        self.estimates: list[tuple[int, float]] = []
        if text.startswith(_KIND):
            self._load(zlib.decompress(base64.b64decode(text.removeprefix(_KIND))))

    def advance(self, values: Values, timestamps: I64) -> I64:
        levels: list[I64] = []
        start = 0
        while start < len(timestamps):
            stop = min(len(timestamps), start + BLOCK - self._count)
            levels.append(self._take(timestamps[start:stop]))
            start = stop
        return np.concatenate(levels)

    def _take(self, timestamps: I64) -> I64:
        """Take in records of one block; return the watermark after each."""
        tops = np.maximum(np.maximum.accumulate(timestamps), self._top)
        self._top = int(tops[-1])
        timed = timestamps != NO_TIMESTAMP
        late = np.searchsorted(UPPER, tops[timed] - timestamps[timed])
        np.add.at(self._block, np.minimum(late, len(UPPER) - 1), 1)
        self._count += len(timestamps)
        levels = np.full(len(timestamps), self._level)
        if self._bound >= 0:
            delay = self._bound + 1
            levels = np.maximum(np.maximum(tops, MIN_TIMESTAMP + delay) - delay, self._level)
            self._level = int(levels[-1])
        if self._count == BLOCK:
            self._learn()
        return levels

    def _learn(self) -> None:
        """Choose the bound of the next block."""
        self._seen = self._seen * self._decay + self._block
        self._block[:] = 0
        self._count = 0
        reached = np.cumsum(self._seen)
        if not reached[-1]:
            return
        index = int(np.searchsorted(reached, self._learning.target * reached[-1]))
        most = self._learning.most_ms
        self._bound = int(UPPER[index]) if most is None else min(int(UPPER[index]), most)
        covered = int(np.searchsorted(UPPER, self._bound, "right")) - 1
        share = round(float(reached[covered] / reached[-1]), DIGITS)
        ppm = int(share * 1_000_000)
        if ppm != self._ppm:
            self._ppm = ppm
            self.estimates.append((self._level, share))

    def dump(self) -> str:
        numbers = np.array([self._count, self._top, self._bound, self._level, self._ppm], np.int64)
        data = numbers.tobytes() + self._seen.tobytes() + self._block.tobytes()
        return _KIND + base64.b64encode(zlib.compress(data, 1)).decode()

    def _load(self, data: bytes) -> None:
        numbers = np.frombuffer(data[:40], np.int64).tolist()
        self._count, self._top, self._bound, self._level, self._ppm = numbers
        self._seen, self._block = np.frombuffer(data[40:], np.float64).copy().reshape(2, len(UPPER))
