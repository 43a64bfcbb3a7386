"""What a lookup join remembers of a system outside: a bounded dict, whose least recently used rows go first.

No part of state: whatever it holds can be asked for again. It reads no clock of its own, so a second attempt at an
epoch finds the same rows expired.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from flintstream.model.functions_lookup import LookupCache

Rows = tuple[Any, ...]


class CachedRows:
    """Rows by key; `now` is the clock of the epoch."""

    def __init__(self, settings: LookupCache) -> None:
        self._settings = settings
        self._held: OrderedDict[Any, tuple[Rows, int, int]] = OrderedDict()
        self._size = 0

    def get(self, key: Any, now: int) -> Rows | None:
        """Return the rows of a key, or None if it has to be looked up."""
        found = self._held.get(key)
        if found is None:
            return None
        rows, written, used = found
        if _is_over(written, self._settings.expire_after_write_ms, now) or _is_over(
            used, self._settings.expire_after_access_ms, now
        ):
            self._remove(key)
            return None
        self._held[key] = (rows, written, now)
        self._held.move_to_end(key)
        return rows

    def put(self, key: Any, rows: Rows, now: int) -> None:
        """Keep what was found, if it may be kept, and let go what there is no more room for."""
        self._remove(key)
        if not rows and not self._settings.cache_missing_key:
            return
        self._held[key] = (rows, now, now)
        self._size += _weight(rows)
        while self._size > self._settings.max_rows:
            self._remove(next(iter(self._held)))

    @property
    def keeps_missing(self) -> bool:
        """Whether it is also kept that a key has no rows."""
        return self._settings.cache_missing_key

    def _remove(self, key: Any) -> None:
        gone = self._held.pop(key, None)
        if gone is not None:
            self._size -= _weight(gone[0])

    def __len__(self) -> int:
        return self._size


def _weight(rows: Rows) -> int:
    return max(len(rows), 1)


def _is_over(since: int, limit: int | None, now: int) -> bool:
    return limit is not None and now >= since + limit
