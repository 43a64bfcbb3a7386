"""Formats of records, at the path where PyFlink programs look for them."""

from __future__ import annotations

from flintstream.connectors.formats_avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from flintstream.connectors.formats_json import JsonRowDeserializationSchema, JsonRowSerializationSchema

__all__ = [
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
]
