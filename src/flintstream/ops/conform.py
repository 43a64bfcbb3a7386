"""Placeholder by the lead until the owner's file lands (overwrite it)."""
from __future__ import annotations
from collections.abc import Callable
from typing import Any
Conform = Callable[[Any], Any]
def conform_to(type_info: Any, name: str, location: str) -> Conform:
    return lambda values: values
