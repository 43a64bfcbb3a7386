"""How records become bytes and bytes become records, for connectors that carry bytes: the contract and the plain ones.

Flink: SerializationSchema, DeserializationSchema, SimpleStringSchema, ByteArraySchema of pyflink.common.serialization.
Differs from Flink: the schemas run in Python, so users may write their own.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from typing import Any

from flintstream.errors import InvalidArgumentError, TypeMismatchError, describe


class SerializationSchema(ABC):
    """Turns a record into bytes."""

    @abstractmethod
    def serialize(self, element: Any) -> bytes | None:
        """Return a record's bytes; None stands for no value at all, which a log keeps as such."""


class DeserializationSchema(ABC):
    """Turns bytes into a record."""

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """Return the record of these bytes; None leaves it out."""


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Records are strings.

    Bytes that are no text in the charset become the replacement character, as in Java.

    >>> SimpleStringSchema().deserialize(SimpleStringSchema("UTF-8").serialize("grün"))
    'grün'
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        try:
            codecs.lookup(charset)
        except LookupError:
            what = f"there is no charset {charset!r}"
            raise InvalidArgumentError(describe(what, remedy='use a name that Python knows, such as "UTF-8"')) from None
        self._charset = charset

    def serialize(self, element: Any) -> bytes | None:
        if not isinstance(element, str):
            what = f"SimpleStringSchema got {element!r:.80}, which is no string"
            raise TypeMismatchError(describe(what, remedy="map records to strings, or use another schema"))
        return element.encode(self._charset, "replace")

    def deserialize(self, message: bytes) -> str:
        return message.decode(self._charset, "replace")


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Records are bytes as they are."""

    def serialize(self, element: Any) -> bytes | None:
        if not isinstance(element, bytes | bytearray):
            what = f"ByteArraySchema got {element!r:.80}, which is not bytes"
            raise TypeMismatchError(describe(what, remedy="map records to bytes, or use another schema"))
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        return message


class RowFieldExtractorSchema(SerializationSchema):
    """One field of a row, which must be bytes already, by its place; a key of a log, say.

    >>> RowFieldExtractorSchema(1).serialize(("value", b"key"))
    b'key'
    """

    def __init__(self, field_index: int) -> None:
        if field_index < 0:
            raise InvalidArgumentError(describe(f"field_index is {field_index}", remedy="give 0 or more"))
        self._index = field_index

    def serialize(self, element: Any) -> bytes | None:
        found = element[self._index] if self._index < len(element) else element
        if found is not None and not isinstance(found, bytes | bytearray):
            what = f"field {self._index} of {element!r:.80} is not bytes"
            raise TypeMismatchError(describe(what, remedy="map it to bytes before the sink"))
        return None if found is None else bytes(found)
