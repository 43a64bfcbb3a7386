"""References to the users' classes that stand in columns, resolvable in any process of the job.

A class of an importable module is named; one made in `__main__` or inside a function travels by value, once per column,
and cloudpickle's own tracking gives every process a single class for it.
"""

from __future__ import annotations

import base64
import importlib
import sys
from functools import lru_cache
from typing import Any

import cloudpickle

from flintstream.errors import IncompatibleStateError, describe


@lru_cache(maxsize=1024)
def reference_to(cls: type) -> str:
    """Return a text that `class_of` resolves, here and in other processes."""
    module = sys.modules.get(cls.__module__)
    if cls.__module__ != "__main__" and module is not None and _attribute(module, cls.__qualname__) is cls:
        return f"{cls.__module__}:{cls.__qualname__}"
    packed = base64.b85encode(cloudpickle.dumps(cls)).decode()
    return f"!{cls.__qualname__}!{packed}"


@lru_cache(maxsize=1024)
def class_of(reference: str) -> Any:
    """Return the class that `reference_to` named."""
    if reference.startswith("!"):
        _, _, packed = reference.split("!", 2)
        return cloudpickle.loads(base64.b85decode(packed))
    module, _, qualname = reference.partition(":")
    try:
        found = _attribute(importlib.import_module(module), qualname)
    except ModuleNotFoundError:
        found = None
    if not isinstance(found, type):
        what = f"records or state hold objects of class {qualname!r}, which is not in module {module!r} here"
        raise IncompatibleStateError(describe(what, None, "put the class back where it was, also on the workers"))
    return found


def _attribute(module: Any, qualname: str) -> Any:
    found = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found
