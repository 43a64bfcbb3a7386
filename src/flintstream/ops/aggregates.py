"""Built-in aggregates as values: what to compute, over which field. How is `window_columns`' business."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate over a field of the records (None: over the records themselves)."""

    kind: str
    field: str | int | None = None

    def __str__(self) -> str:
        return f"{self.kind}({'' if self.field is None else self.field})"
