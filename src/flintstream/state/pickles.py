"""Pickles of state that a later program can read: objects are written with the names of their fields.

A plain pickle of a dataclass is its `__dict__`, set again without a look at the class: new fields would be missing, old
ones stay, and those of a frozen class with slots, which come without names, slip into each other's places. Classes that
say themselves how they are pickled (`__reduce__`, `__getstate__`, `__setstate__`) keep their way.
"""

from __future__ import annotations

import dataclasses
import io
import json
import pickle
import sys
import types
from functools import lru_cache
from typing import Any

import cloudpickle

from flintstream.model.evolution import FORMER, field_names
from flintstream.state.classes import PLAIN, class_of, declared_types, find_class, is_importable, reference_to, today
from flintstream.state.evolution import fields_now
from flintstream.state.trust import check_global, is_restricted, may_import, refused

_KINDS = {int: "int", float: "float", str: "str", bytes: "bytes", bool: "bool"}
_OWN_WAY = ("__reduce__", "__reduce_ex__")


class Absent:
    """Stands for the value of a field that an object does not have."""


@lru_cache(maxsize=4096)
def _has_plain_fields(cls: type) -> bool:
    """Whether objects of a class are pickled by their fields."""
    if dataclasses.is_dataclass(cls):
        states = [getattr(cls, name, None) for name in ("__getstate__", "__setstate__")]
        # Those that `dataclass` itself has put there are as good as none.
        none = (None, getattr(object, "__getstate__", None))
        if cls.__new__ is not object.__new__ or not all(each in none or _is_generated(each) for each in states):
            return False  # a dict with fields, say, has more to keep than these
        return all(getattr(cls, name) is getattr(object, name) for name in _OWN_WAY)
    return issubclass(cls, tuple) and hasattr(cls, "_fields") and cls.__reduce_ex__ is object.__reduce_ex__


def _is_generated(method: Any) -> bool:
    return getattr(method, "__module__", None) == "dataclasses"


def reduced(obj: Any) -> Any:
    """Return how an object is pickled, or NotImplemented if as always."""
    cls: Any = type(obj)
    if isinstance(obj, type) or not _has_plain_fields(cls):
        return NotImplemented
    if isinstance(obj, tuple):
        if getattr(obj, "__dict__", None):
            return NotImplemented
        return named_tuple, (cls, _signature(cls), tuple(obj))
    signature, names = _signature(cls), _names(cls)
    own: dict[str, Any] | None = getattr(obj, "__dict__", None)
    if own is not None and tuple(own) == names:
        state: tuple[Any, ...] = (signature, *own.values())
    else:
        # A field that only the class has a value for is not one of the object's; others may be besides the fields.
        own = own or {}
        state = (signature, *(own[name] if name in own else _slot(cls, obj, name) for name in names))
        others = {name: value for name, value in own.items() if name not in names}
        state = (*state, others) if others else state
    # The fields follow the object, since they may refer to it.
    return new_object, (cls,), state, None, None, set_fields


@lru_cache(maxsize=4096)
def _names(cls: type) -> tuple[str, ...]:
    return tuple(field_names(cls) or ())


@lru_cache(maxsize=4096)
def _signature(cls: type) -> str:
    """Return names and types of a class's fields as one text, which is quickest to pickle."""
    types_now = declared_types(cls) if dataclasses.is_dataclass(cls) else None
    return json.dumps([_names(cls), types_now])


@lru_cache(maxsize=4096)
def _read_signature(signature: str) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    names, old_types = json.loads(signature)
    return tuple(names), None if old_types is None else tuple(old_types)


def _slot(cls: type, obj: Any, name: str) -> Any:
    return getattr(obj, name, Absent) if isinstance(getattr(cls, name, None), types.MemberDescriptorType) else Absent


def new_object(cls: Any) -> Any:
    """Return an object of a class of today, still without fields."""
    now = today(cls)
    return now.__new__(now)


def set_fields(obj: Any, state: tuple[Any, ...]) -> None:
    """Give an object the fields that it was pickled with."""
    cls: Any = type(obj)
    names, old_types = _read_signature(state[0])
    values, others = state[1 : len(names) + 1], state[len(names) + 1 :]
    if _signature_of_any(cls) != state[0]:
        now = fields_now(cls, names, old_types, [_KINDS.get(type(value)) for value in values])
        names, values = (names, values) if now is None else (_names(cls), now(values))
    for name, value in zip(names, values, strict=True):
        if value is not Absent:
            object.__setattr__(obj, name, value)
    for name, value in others[0].items() if others else ():
        object.__setattr__(obj, name, value)


@lru_cache(maxsize=4096)
def _signature_of_any(cls: type) -> str | None:
    return _signature(cls) if field_names(cls) is not None else None


def named_tuple(cls: Any, signature: str, values: tuple[Any, ...]) -> Any:
    """Return a named tuple of today."""
    now = today(cls)
    if _signature_of_any(now) != signature:
        fields = fields_now(now, _read_signature(signature)[0], None, [None] * len(values))
        values = values if fields is None else fields(values)
    return now(*values)


_OURS = (new_object, set_fields, named_tuple, class_of)


class _Pickler(cloudpickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and obj.__module__ not in PLAIN and not is_importable(obj):
            # By a reference that also tells its name: then the class of today is taken, and no code runs to make one.
            return class_of, (reference_to(obj),)
        found = reduced(obj)
        if found is not NotImplemented:
            return found
        # Of these the name will do, and to find that out takes longer than all the rest.
        return NotImplemented if any(obj is each for each in _OURS) else super().reducer_override(obj)


class _ByName(pickle.Pickler):
    """Writes classes by name only; much faster."""

    def reducer_override(self, obj: Any) -> Any:
        return reduced(obj)


def dumps(value: Any) -> bytes:
    """Return the bytes of a value, readable in every process of the job and by later programs."""
    buffer = io.BytesIO()
    _Pickler(buffer, 5).dump(value)
    return buffer.getvalue()


def dumps_by_name(value: Any) -> bytes:
    """Return the same for a value whose classes can all be imported; raises if one cannot."""
    buffer = io.BytesIO()
    _ByName(buffer, 5).dump(value)
    return buffer.getvalue()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        found = FORMER.get(f"{module_name}:{global_name}")
        if found is not None:
            return found
        try:
            return super().find_class(module_name, global_name)
        except (ImportError, AttributeError):
            return find_class(f"{module_name}:{global_name}")


class _Restricted(_Unpickler):
    """Finds nothing but what state may name, and imports nothing that the program has not."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        is_here = f"{module_name}:{global_name}" in FORMER or module_name in sys.modules
        if not is_here and not may_import(module_name):
            what = f"{module_name}.{global_name}"
            raise refused(what)
        return check_global(module_name, global_name, super().find_class(module_name, global_name))


def loads(data: bytes) -> Any:
    """Return the value of such bytes."""
    if is_restricted():
        return _Restricted(io.BytesIO(data)).load()
    if not FORMER:
        try:
            return pickle.loads(data)
        except (ImportError, AttributeError):
            pass  # a class that is not there: the slower way names it
    return _Unpickler(io.BytesIO(data)).load()
