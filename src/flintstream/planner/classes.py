"""The classes that a program takes with it by value, so that older state can find those of today by their names.

A dataclass of the user's script, or one made inside a function, is not importable on workers: it travels inside the
functions that use it. State holds such classes as they were when it was written; only the functions of today know what
they are now.
"""

from __future__ import annotations

import io
from typing import Any

import cloudpickle

from flintstream.state.classes import PLAIN, is_importable


class ClassRecorder(cloudpickle.Pickler):
    """Pickles, and notes the classes that the pickle has by value."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), 5)
        self.found: dict[type, None] = {}

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and obj.__module__ not in PLAIN and not is_importable(obj):
            self.found[obj] = None
        return super().reducer_override(obj)
