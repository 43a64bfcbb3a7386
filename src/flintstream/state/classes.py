"""References to the users' classes that stand in columns, resolvable in any process of the job.

A class of an importable module is named; one made in `__main__` or inside a function travels by value, once per column,
and cloudpickle's own tracking gives every process a single class for it. Either way a reference tells how the fields
were declared when it was written, so that a later program can see what has changed.

A class by value is the class *as it was*. The program that runs tells which classes it has under such names
(`adopt_classes`), and objects of the older one then become objects of today's.
"""

from __future__ import annotations

import base64
import importlib
import importlib.util
import inspect
import json
import sys
import threading
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any

import cloudpickle

from flintstream.errors import IncompatibleStateError, describe
from flintstream.model.evolution import FORMER, remember
from flintstream.state.trust import is_restricted, may_import, refused


class _Today(threading.local):
    """The classes that the program which runs in this thread has by value, and those among them that a name tells."""

    def __init__(self) -> None:
        self.classes: tuple[type, ...] = ()
        self.by_name: dict[str, type] = {}


_TODAY = _Today()
PLAIN = ("builtins", "types")
"""Modules whose classes need not be importable by name to be known everywhere: that of None, say."""
_JSON = json.JSONDecoder()


@lru_cache(maxsize=1024)
def reference_to(cls: Any) -> str:
    """Return a text that `class_of` resolves, here and in other processes."""
    if is_importable(cls):
        return f"{name_of(cls)}|{json.dumps(declared_types(cls))}"
    packed = base64.b85encode(cloudpickle.dumps(cls)).decode()
    return f"!{name_of(cls)}|{json.dumps(declared_types(cls))}!{packed}"


def is_importable(cls: Any) -> bool:
    """Whether other processes find a class by its name."""
    module = sys.modules.get(cls.__module__)
    return cls.__module__ != "__main__" and module is not None and _attribute(module, cls.__qualname__) is cls


def name_of(cls: Any) -> str:
    """Return `module:name` of a class; one that came by value has forgotten in which function it was made."""
    return f"{cls.__module__}:{cls.__qualname__.rpartition('<locals>.')[2]}"


@lru_cache(maxsize=1024)
def declared_types(cls: Any) -> list[str]:
    """Return how the fields of a dataclass are declared, as text; other classes have none."""
    fields = dataclass_fields(cls) if is_dataclass(cls) else ()
    return [each.type if isinstance(each.type, str) else inspect.formatannotation(each.type) for each in fields]


def class_of(reference: str) -> Any:
    """Return the class of today for what `reference_to` named."""
    name, _, packed = read_reference(reference)
    if not packed:
        return find_class(name)
    known = FORMER.get(name) or _TODAY.by_name.get(name)
    if known is not None:
        return known
    if is_restricted():
        what = f"class {name.replace(':', '.')} by value"
        raise refused(what)
    return _by_value(packed)


def types_in(reference: str) -> list[str] | None:
    """Return how the fields were declared when the reference was written; None if it does not tell."""
    return read_reference(reference)[1]


@lru_cache(maxsize=1024)
def read_reference(reference: str) -> tuple[str, list[str] | None, str]:
    """Return what a reference tells: `module:name`, how fields were declared, and the class by value, if it is so."""
    name, _, rest = reference.removeprefix("!").partition("|")
    if not rest:
        return name, None, ""
    types, end = _JSON.raw_decode(rest)
    return name, types, rest[end + 1 :] if reference.startswith("!") else ""


@lru_cache(maxsize=1024)
def _by_value(packed: str) -> Any:
    return cloudpickle.loads(base64.b85decode(packed))


def adopt_classes(classes: tuple[type, ...]) -> None:
    """Let these, which the program has by value, stand for older ones of the same name while it runs here."""
    if classes is not _TODAY.classes:
        names = [name_of(cls) for cls in classes]
        _TODAY.classes = classes
        _TODAY.by_name = {name: cls for name, cls in zip(names, classes, strict=True) if names.count(name) == 1}
        for cls in classes:
            remember(cls)


def today(cls: Any) -> Any:
    """Return the class of today for one that came by value."""
    if not (_TODAY.by_name or FORMER) or cls in _TODAY.classes or is_importable(cls):
        return cls
    name = name_of(cls)
    return FORMER.get(name) or _TODAY.by_name.get(name) or cls


def find_class(name: str) -> Any:
    """Return the class of `module:name`, also if it is elsewhere by now and says so."""
    found = FORMER.get(name)
    if found is not None:
        return found
    module, _, qualname = name.partition(":")
    loaded = sys.modules.get(module)
    try:
        if loaded is None and may_import(module):
            loaded = importlib.import_module(module)
        elif loaded is None and importlib.util.find_spec(module.partition(".")[0]) is not None:
            # It may well be there, but to import it would run it.
            raise refused(f"{module}.{qualname}")  # noqa: EM102 - a name, not a message
    except (ModuleNotFoundError, ValueError):
        pass
    found = None if loaded is None else _attribute(loaded, qualname)
    if not isinstance(found, type):
        what = f"records or state hold objects of class {qualname!r}, which is not in module {module!r} here"
        remedy = f"put it back, also on the workers, or tell the class it is now with @evolves(was={name!r})"
        raise IncompatibleStateError(describe(what, None, remedy))
    return found


def _attribute(module: Any, qualname: str) -> Any:
    found = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found
