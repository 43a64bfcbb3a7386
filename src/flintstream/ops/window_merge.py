"""Windows that grow together: which windows a key has in flight, and where each one's contents are.

When windows merge, their contents should not be moved more than needed: the merged window keeps using the place of one
of its parts, its **state window**. So a session that grows record by record never moves its contents at all.

    window -> state window: {[0, 25): [0, 10)}

Flink: MergingWindowSet. Differs from Flink: a record whose window is exactly one in flight leaves that one as it is
(Flink forgets its state window, and with it the contents).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flintstream.model.window_assigner import MergingWindowAssigner
from flintstream.state.map_table import MapTable

OnMerge = Callable[[Any, list[Any], Any, list[Any]], None]
"""Is told (merged window, windows it replaces, its state window, state windows to be moved into that one)."""


class MergingWindows:
    """The windows in flight of all keys of a partition, as state: rows `(key, window) -> state window`."""

    def __init__(self, assigner: MergingWindowAssigner[Any, Any], table: MapTable, on_merge: OnMerge) -> None:
        self._assigner = assigner
        self._table = table
        self._on_merge = on_merge

    def state_window(self, key: Any, window: Any) -> Any:
        """Return where a window's contents are, None if the window is not in flight."""
        held = self._table.data[key]
        return None if held is None else held.get(window)

    def add(self, key: Any, window: Any) -> Any:
        """Put a window in flight and return the one it has become part of, which may be itself."""
        held = self._table.data[key]
        if held is None:
            self._table.put_in(key, window, window)
            return window
        if window in held:
            return window
        results = _MergeResults()
        self._assigner.merge_windows([*held, window], results)
        actual = None
        for merged, result in results.groups:
            if window in merged:
                merged.remove(window)
                actual = result
            self._merge(key, merged, result)
        if actual is None:
            self._table.put_in(key, window, window)
            return window
        return actual

    def retire(self, key: Any, window: Any) -> None:
        """Take a window out of flight."""
        self._table.remove_in(key, window)

    def _merge(self, key: Any, merged: list[Any], result: Any) -> None:
        """Replace windows by the one they became; a window that merely took in a new record stays."""
        if merged == [result]:
            return
        state_windows = [self.state_window(key, window) for window in merged]
        for window in merged:
            self._table.remove_in(key, window)
        target = state_windows[0] if state_windows else result
        self._table.put_in(key, result, target)
        if merged:
            self._on_merge(result, merged, target, state_windows[1:])


class _MergeResults(MergingWindowAssigner.MergeCallback[Any]):
    """Collects what an assigner wants merged."""

    def __init__(self) -> None:
        self.groups: list[tuple[list[Any], Any]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.groups.append((list(to_be_merged), merge_result))
