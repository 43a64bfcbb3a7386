"""The seeded data generator and its fields."""

from __future__ import annotations

from flintstream.connectors.datagen import DataGeneratorSource
from flintstream.connectors.datagen_fields import (
    Field,
    choice,
    constant,
    integers,
    normal,
    sequence,
    timestamps,
    uniform,
)

__all__ = [
    "DataGeneratorSource",
    "Field",
    "choice",
    "constant",
    "integers",
    "normal",
    "sequence",
    "timestamps",
    "uniform",
]
