"""The ways in which every transcript is played: those that users have in `flintstream.testing`."""

from __future__ import annotations

from flintstream.testing.variants import (
    AS_WRITTEN,
    Variant,
    joined,
    one_by_one,
    reordered,
    rescaled,
    variants_of,
    with_restarts,
)

__all__ = [
    "AS_WRITTEN",
    "Variant",
    "joined",
    "one_by_one",
    "reordered",
    "rescaled",
    "variants_of",
    "with_restarts",
]
