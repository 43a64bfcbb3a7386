"""Approximations that do not depend on the order of what they have seen: two functions of sets and multisets.

The number of distinct values is estimated from the registers of HyperLogLog, each the greatest rank of the hashes that
fell into it: maxima are the same in any order. For quantiles, numbers lose their lowest bits, and their multiset, small
now, is kept: counts are the same in any order, too. (Sketches such as KLL choose at random, and t-digests depend on the
order of merging: with them results would depend on how the input was cut into batches.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from flintstream.ops.batch import I64

F64 = npt.NDArray[np.float64]
RANK_BITS = 6
_RANK_MASK = (1 << RANK_BITS) - 1


def index_bits(relative_error: float) -> int:
    """Return how many bits of a hash choose the register, for a standard error of at most that."""
    return max(4, math.ceil(2 * math.log2(1.04 / relative_error)))


def registers(hashes: Any, bits: int) -> I64:
    """Return for each hash its register and rank, as one number `register << RANK_BITS | rank`."""
    index = (hashes >> np.uint64(64 - bits)).astype(np.int64)
    rest = hashes << np.uint64(bits)
    # The leading zeros of the rest, exactly: halves of 32 bits fit into a float.
    upper, lower = (rest >> np.uint64(32)).astype(np.float64), (rest & np.uint64(0xFFFFFFFF)).astype(np.float64)
    zeros = np.where(upper > 0, 32 - np.frexp(upper)[1], 64 - np.frexp(lower)[1]).astype(np.int64)
    rank = np.minimum(zeros, 64 - bits) + 1
    return index << RANK_BITS | rank


def estimate(codes: I64, groups: I64, count: int, bits: int) -> I64:
    """Return how many distinct values made the registers of each group; a register occurs once at most.

    Otmar Ertl's estimator: no tables, no bias at any size.
    """
    size, most = 1 << bits, 64 - bits
    ranks = np.zeros((count, most + 2))
    np.add.at(ranks, (groups, codes & _RANK_MASK), 1)
    ranks[:, 0] = size - ranks.sum(axis=1)
    total = size * _tau(1.0 - ranks[:, most + 1] / size)
    for rank in range(most, 0, -1):
        total = 0.5 * (total + ranks[:, rank])
    with np.errstate(divide="ignore"):
        total = total + size * _sigma(ranks[:, 0] / size)
        return np.rint(size * size / (2.0 * math.log(2.0)) / total).astype(np.int64)


def _sigma(share: F64) -> F64:
    """Return the sum of share^(2^k) * 2^(k-1), and infinity for 1."""
    result, power, weight = share.copy(), share, 1.0
    done = share == 1.0
    while True:
        power = np.where(done, 0.0, power * power)
        grown = result + power * weight
        if bool((done | (grown == result)).all()):
            return np.where(done, np.inf, result)
        result, weight = grown, weight * 2.0


def _tau(share: F64) -> F64:
    result, root, weight = 1.0 - share, share, 1.0
    flat = (share == 0.0) | (share == 1.0)
    while True:
        root, weight = np.sqrt(root), weight * 0.5
        lower = result - (1.0 - root) ** 2 * weight
        if bool((flat | (lower == result)).all()):
            return np.where(flat, 0.0, result / 3.0)
        result = lower


def mantissa_bits(relative_error: float) -> int:
    """Return how many bits of a number's mantissa must be kept for that error."""
    return min(52, max(0, math.ceil(math.log2(1.0 / relative_error)) - 1))


def coarse(values: F64, bits: int) -> F64:
    """Return numbers in the middle of what shares their sign, exponent and first bits; zero and infinities stay."""
    if bits >= 52:
        return values
    raw = values.view(np.uint64)
    half = np.uint64(1 << (51 - bits))
    cut = ((raw >> np.uint64(52 - bits)) << np.uint64(52 - bits)) | half
    return np.where((values == 0.0) | np.isinf(values), values, cut.view(np.float64))
