"""PyFlink's path of CompletableFuture."""

from __future__ import annotations

from flintstream.model.job import CompletableFuture

__all__ = [
    "CompletableFuture",
]
