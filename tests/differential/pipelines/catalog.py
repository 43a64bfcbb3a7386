"""Every pipeline by its name: the modules that enter themselves into the list."""

from __future__ import annotations

from tests.differential.pipelines import broadcast, keyed, late, streams, windows
from tests.differential.pipelines.registry import PIPELINES, record_type

__all__ = ["PIPELINES", "broadcast", "keyed", "late", "record_type", "streams", "windows"]
