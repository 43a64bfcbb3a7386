"""PyFlink's path of NumberSequenceSource."""

from __future__ import annotations

from flintstream.connectors.sequence import NumberSequenceSource

__all__ = [
    "NumberSequenceSource",
]
