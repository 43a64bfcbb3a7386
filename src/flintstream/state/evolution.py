"""From the fields of an object as they were written to an object of the class of today.

Columns and pickles both come here. A field that is new takes its default, one that is gone is left out, a renamed one
is found under its old name, and a number may have become wider. All else is refused, by name: an object that is only
almost right would go unnoticed until its results were wrong.

Whether a field's type has changed is told by its declaration then and now, never by its values: what a program put into
a field against its declaration it finds again as it was.
"""

from __future__ import annotations

import datetime
import decimal
import types
import typing
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import MISSING, is_dataclass
from dataclasses import fields as dataclass_fields
from functools import lru_cache
from typing import Any, cast

from flintstream.errors import IncompatibleStateError, describe
from flintstream.model.evolution import evolution_of, field_names
from flintstream.state.classes import declared_types

Convert = Callable[[Any], Any]
_Missing = type(MISSING)

_OF_KIND: dict[str, type] = {
    "int": int,
    "float": float,
    "str": str,
    "bytes": bytes,
    "bool": bool,
    "datetime": datetime.datetime,
    "date": datetime.date,
    "time": datetime.time,
}
_SCALARS = (*_OF_KIND.values(), decimal.Decimal, complex)
_WIDER: dict[type, tuple[type, ...]] = {
    bool: (int, float, complex, decimal.Decimal),
    int: (float, complex, decimal.Decimal),
    float: (complex,),
}


@contextmanager
def reading(name: str, uid: str | None = None) -> Generator[None]:
    """Name the state, and its operator, in which something was found that cannot be read any more."""
    try:
        yield
    except IncompatibleStateError as error:
        named = in_state(error, name)
        named.uid = uid
        raise named from None


def in_state(error: IncompatibleStateError, name: str) -> IncompatibleStateError:
    """Return the same error with the name of the state."""
    what, _, remedy = str(error).partition("; ")
    named = copy(error)
    named.args = (describe(f"state {name!r} cannot be restored: {what}", None, remedy),)
    return named


def fields_now(cls: Any, names: Sequence[str], old_types: Sequence[str] | None, kinds: Sequence[Any]) -> Convert | None:
    """Return what turns the fields as written into those of today, in their order; None if nothing has changed.

    `kinds` are what the values are, field by field, as far as that is known.
    """
    types_now = declared_types(cls) if hasattr(cls, "__dataclass_fields__") else None
    current = field_names(cls)
    if current is None:
        what = f"{cls.__qualname__} was a dataclass or a NamedTuple and is none any more"
        raise IncompatibleStateError(describe(what, None, "make it one, or give the state another name"))
    if list(names) == current and (old_types is None or types_now is None or list(old_types) == types_now):
        return None
    declared = evolution_of(cls)
    renamed = {} if declared is None else declared.renamed
    where = {renamed.get(name, name): index for index, name in enumerate(names)}
    takes: list[Callable[[Sequence[Any]], Any]] = []
    for position, name in enumerate(current):
        index = where.get(name)
        if index is None:
            takes.append(_default(cls, name))
            continue
        is_same = old_types is None or types_now is None or old_types[index] == types_now[position]
        convert = None if is_same else _conversion(kinds[index], _hints(cls).get(name, Any))
        if convert is _REFUSED:
            assert types_now is not None and old_types is not None
            what = f"field {name!r} of {cls.__qualname__} was {old_types[index]} and is {types_now[position]}"
            remedy = "give it the type it had, or give the new one another name and a default"
            raise IncompatibleStateError(describe(what, None, remedy))
        takes.append(_take(index, convert))
    return lambda row: tuple(take(row) for take in takes)


def refuse_new_keys(cls: Any, changed: bool) -> None:
    """Raise if objects of a class whose fields have changed are keys: those of today would never meet them."""
    if changed:
        what = f"its keys are objects of {cls.__qualname__}, whose fields have changed"
        remedy = "let the class of keys be as it was, or key by something else and start without the old state"
        raise IncompatibleStateError(describe(what, None, remedy))


def _take(index: int, convert: Convert | None) -> Callable[[Sequence[Any]], Any]:
    if convert is None:
        return lambda row: row[index]
    return lambda row: None if row[index] is None else convert(row[index])


def _default(cls: Any, name: str) -> Callable[[Sequence[Any]], Any]:
    """Return what gives a new field its value."""
    if not hasattr(cls, "__dataclass_fields__"):
        defaults: dict[str, Any] = getattr(cls, "_field_defaults", {})
        if name in defaults:
            return lambda row: defaults[name]
    else:
        field = next(field for field in dataclass_fields(cls) if field.name == name)
        # By type, since a class that came by value has a sentinel of its own.
        if not isinstance(field.default, _Missing):
            return lambda row: field.default
        if not isinstance(field.default_factory, _Missing):
            factory: Any = field.default_factory
            return lambda row: factory()
    what = f"{cls.__qualname__} has a field {name!r}, which its objects did not have, and no default for it"
    remedy = f"give it a default, or tell its former name with @evolves(renamed={{'...': {name!r}}})"
    raise IncompatibleStateError(describe(what, None, remedy))


@lru_cache(maxsize=1024)
def _hints(cls: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls)
    except Exception:  # names that only a type checker knows
        return {}


def _refused(value: Any) -> Any:
    raise AssertionError


_REFUSED: Convert = _refused


def _conversion(kind: Any, hint: Any) -> Convert | None:
    """Return how values of a kind become those of a declared type: None as they are, `_REFUSED` not at all."""
    options = _options(hint)
    if kind in ("none", "pickle", "any", None) or Any in options or object in options:
        return None
    if isinstance(kind, str):
        return _scalar_conversion(_OF_KIND[kind], options)
    tag = kind[0]
    if tag == "list":
        inner = _argument(options, list)
        convert = None if inner is None else _conversion(kind[1], inner)
        if convert is not None and convert is not _REFUSED:
            return lambda value: [None if each is None else convert(each) for each in value]
        return convert if convert is _REFUSED else _unless_scalar(options)
    return _unless_scalar(options) if tag in ("tuple", "dict", "row") else None


def _options(hint: Any) -> tuple[Any, ...]:
    """Return the types that a declaration allows, None left out."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(each for part in typing.get_args(hint) for each in _options(part))
    return () if hint is type(None) else (hint,)


def _argument(options: Sequence[Any], origin: type) -> Any:
    """Return the declared type of a container's elements, if there is one."""
    for each in options:
        if typing.get_origin(each) is origin and typing.get_args(each):
            return typing.get_args(each)[0]
    return None


def _scalar_conversion(have: type, options: Sequence[Any]) -> Convert | None:
    if not all(isinstance(each, type) for each in options):
        return None  # what else may be declared is not ours to judge
    wanted = cast("Sequence[type]", options)
    if any(issubclass(have, each) for each in wanted if each not in _WIDER.get(have, ())):
        return None
    wider = next((each for each in _WIDER.get(have, ()) if each in wanted), None)
    if wider is not None:
        return wider
    plain = all(each in _SCALARS or each in (list, dict, tuple, set) or is_dataclass(each) for each in wanted)
    return _REFUSED if plain else None


def _unless_scalar(options: Sequence[Any]) -> Convert | None:
    return _REFUSED if options and all(each in _SCALARS or is_dataclass(each) for each in options) else None
