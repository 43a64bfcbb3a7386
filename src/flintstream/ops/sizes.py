"""About how many bytes a Python value takes as data, without encoding it: what measures of traffic show of rows.

Only built-in types are looked into, and only one level deep: measuring must be cheap and run nobody's code.

Flink: numBytesIn and numBytesOut. Differs from Flink: there every record is encoded between two tasks and counted so;
here rows stay Python objects while they stay in a task, and one of a batch stands for all.
"""

from __future__ import annotations

from typing import Any, cast

_NUMBER = 8
_MOST_LOOKED_AT = 64


def size_of(value: Any) -> int:
    """Return about how many bytes a value takes.

    >>> size_of("four"), size_of(1.5), size_of(("ab", 1)), size_of({"k": b"xyz"})
    (4, 8, 10, 4)
    """
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value)
    if kind is dict:
        items = cast("dict[Any, Any]", value)
        return _size_of_all([part for pair in items.items() for part in pair][: 2 * _MOST_LOOKED_AT], 2 * len(items))
    if isinstance(value, tuple | list):
        return _size_of_all(cast("Any", value)[:_MOST_LOOKED_AT], len(cast("Any", value)))
    fields: Any = getattr(value, "__dict__", None)
    if type(fields) is dict and fields:
        values = list(cast("dict[str, Any]", fields).values())
        return _size_of_all(values[:_MOST_LOOKED_AT], len(values))
    return _NUMBER


def _size_of_all(parts: Any, count: int) -> int:
    """Return the bytes of so many parts, of which only the first were looked at."""
    found = sum(len(part) if isinstance(part, str | bytes | list | tuple | dict) else _NUMBER for part in parts)
    return found * count // len(parts) if parts else 0
