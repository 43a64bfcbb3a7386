"""PyFlink's path of Avro."""

from __future__ import annotations

from flintstream.connectors.formats_avro import AvroRowDeserializationSchema, AvroRowSerializationSchema

__all__ = [
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
]
