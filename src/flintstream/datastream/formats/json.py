"""PyFlink's path of JSON."""

from __future__ import annotations

from flintstream.connectors.formats_json import JsonRowDeserializationSchema, JsonRowSerializationSchema

__all__ = [
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
]
