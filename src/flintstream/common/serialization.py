"""PyFlink's path of how records become bytes and bytes become records."""

from __future__ import annotations

from flintstream.connectors.files_config import Encoder
from flintstream.connectors.formats import (
    ByteArraySchema,
    DeserializationSchema,
    RowFieldExtractorSchema,
    SerializationSchema,
    SimpleStringSchema,
)

__all__ = [
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]
