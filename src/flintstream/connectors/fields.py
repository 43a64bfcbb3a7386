"""The fields of a record, whatever Python value it is, for sinks that write record by record.

Beside `records`, which makes columns of many records at once: there a value may change its form by what stands beside
it (an int among floats, a dict that lacks a key), which is right for a file's column, but not where every record is
written for itself.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import json
from collections.abc import Mapping
from typing import Any, cast

from flintstream.model.row import Row

VALUE = "value"


def fields_of(record: Any) -> Mapping[str, Any]:
    """Return the fields of a record by name: f0, f1, ... if they have none, and "value" for what has no fields.

    >>> fields_of(("a", 1)), fields_of({"id": 7}), fields_of("b")
    ({'f0': 'a', 'f1': 1}, {'id': 7}, {'value': 'b'})
    """
    if isinstance(record, Mapping):
        return cast("Mapping[str, Any]", record)
    if isinstance(record, Row):
        return dict(zip(record.get_field_names() or _numbered(len(record)), record, strict=True))
    if isinstance(record, tuple):
        values = cast("tuple[Any, ...]", record)
        return dict(zip(getattr(values, "_fields", None) or _numbered(len(values)), values, strict=True))
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {each.name: getattr(record, each.name) for each in dataclasses.fields(record)}
    return {VALUE: record}


def has_names(record: Any) -> bool:
    """Whether the fields of a record have names of their own."""
    if isinstance(record, Row):
        return record.get_field_names() is not None
    return isinstance(record, Mapping) or hasattr(record, "_fields") or dataclasses.is_dataclass(record)


def _numbered(count: int) -> list[str]:
    return [f"f{index}" for index in range(count)]


def json_text(value: Any) -> str:
    """Return a value as JSON; records become objects, times ISO texts, decimals texts.

    >>> json_text({"at": dt.date(2024, 2, 29), "of": ("a", 1)})
    '{"at": "2024-02-29", "of": {"f0": "a", "f1": 1}}'
    """
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, list | set | frozenset):
        return [_plain(each) for each in cast("list[Any]", value)]
    if has_names(value) or isinstance(value, tuple | Row):
        return {str(name): _plain(each) for name, each in fields_of(value).items()}
    msg = f"{value!r:.100} has no form in JSON"
    raise ValueError(msg)
