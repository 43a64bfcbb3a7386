"""From Python annotations to type information, so that a program need not declare its types twice.

Where an annotation does not say enough the answer is None, never a guess (the engine then looks at the first records);
inside a container such a part is a pickled object. An `int` counts as one of 64 bits.
"""

from __future__ import annotations

import collections.abc as abc
import dataclasses
import datetime as dt
import decimal
import functools
import inspect
import types
import typing
from typing import Any, cast

from flintstream.model.time import Instant
from flintstream.model.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DataclassTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    SqlTimeType,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

_SCALARS: dict[type[Any], TypeInformation] = {
    bool: BasicTypeInfo(BasicType.BOOLEAN),
    int: BasicTypeInfo(BasicType.LONG),
    float: BasicTypeInfo(BasicType.DOUBLE),
    str: BasicTypeInfo(BasicType.STRING),
    bytes: PrimitiveArrayTypeInfo(BasicTypeInfo(BasicType.BYTE)),
    decimal.Decimal: BasicTypeInfo(BasicType.BIG_DEC),
    dt.datetime: SqlTimeTypeInfo(SqlTimeType.TIMESTAMP),
    dt.date: SqlTimeTypeInfo(SqlTimeType.DATE),
    dt.time: SqlTimeTypeInfo(SqlTimeType.TIME),
    Instant: BasicTypeInfo(BasicType.INSTANT),
}

# Of a function object (MapFunction, KeyedProcessFunction, ...), the method whose return value is the output.
_OUTPUT_METHODS = (
    "map", "flat_map", "filter", "reduce", "get_key", "get_result", "process_element", "process", "apply", "join",
    "co_group",
)  # fmt: skip

_ITERABLES = frozenset(
    {list, set, frozenset, abc.Iterable, abc.Iterator, abc.Generator, abc.Sequence, abc.Collection, abc.Set}
)


def infer_from_annotation(hint: Any) -> TypeInformation | None:
    """Return the type that an annotation stands for, or None if it does not say enough.

    Example:
        >>> infer_from_annotation(tuple[str, int])
        TUPLE<STRING, LONG>
        >>> infer_from_annotation(float | None)
        DOUBLE?
    """
    return _infer(hint, ())


def infer_return_type(function: Any) -> TypeInformation | None:
    """Return the type that a function's annotation promises for its result, or None.

    Takes plain functions, methods, partials, callable objects, classes, and function objects such as a `MapFunction`.
    """
    if isinstance(function, type):
        return infer_from_annotation(cast("type[Any]", function))
    return infer_from_annotation(_hint_of(function, "return"))


def infer_yield_type(function: Any) -> TypeInformation | None:
    """Return the type of the items that a function yields or returns in a list, or None."""
    hint, _ = _without_none(_hint_of(function, "return"))
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) in _ITERABLES and arguments:
        return infer_from_annotation(arguments[0])
    return None


def infer_parameter_type(function: Any, position: int = 0) -> TypeInformation | None:
    """Return the type annotated for the parameter at a position (`self` not counted), or None."""
    target = _signed_callable(function)
    if target is None:
        return None
    try:
        names = [name for name, _ in inspect.signature(target).parameters.items()]
    except (TypeError, ValueError):  # a builtin without a signature
        return None
    return infer_from_annotation(_hint_of(target, names[position])) if position < len(names) else None


def dataclass_type(cls: type[Any]) -> DataclassTypeInfo:
    """Return the type of a dataclass; a field that cannot be inferred is pickled."""
    return _infer_dataclass(cls, ())


def _infer(hint: Any, outer: tuple[type[Any], ...]) -> TypeInformation | None:
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return _infer(typing.get_args(hint)[0], outer)
    if isinstance(hint, typing.NewType):
        return _infer(hint.__supertype__, outer)
    if origin is not None:
        return _infer_generic(hint, origin, outer)
    if not isinstance(hint, type):
        return None
    scalar = _SCALARS.get(cast("type[Any]", hint))
    if scalar is None and dataclasses.is_dataclass(hint) and hint not in outer:
        return _infer_dataclass(hint, outer)
    return scalar


def _infer_generic(hint: Any, origin: Any, outer: tuple[type[Any], ...]) -> TypeInformation | None:
    arguments = typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        some, had_none = _without_none(hint)
        inner = _infer(some, outer) if had_none and some is not hint else None
        return None if inner is None else inner.as_nullable()
    if origin is tuple and Ellipsis not in arguments:
        return TupleTypeInfo([_infer_inside(argument, outer) for argument in arguments])
    if origin is list:
        return ListTypeInfo(_infer_inside(arguments[0], outer))
    if origin is dict:
        key = _infer(arguments[0], outer)
        return None if key is None else MapTypeInfo(key, _infer_inside(arguments[1], outer))
    return None


def _infer_inside(hint: Any, outer: tuple[type[Any], ...]) -> TypeInformation:
    return _infer(hint, outer) or PickledBytesTypeInfo()


def _infer_dataclass(cls: type[Any], outer: tuple[type[Any], ...]) -> DataclassTypeInfo:
    names = [field.name for field in dataclasses.fields(cls)]
    owners = {name: owner for owner in reversed(cls.__mro__) for name in inspect.get_annotations(owner)}
    hints = [_resolve(inspect.get_annotations(owners[name])[name], _module_globals(owners[name]), {}) for name in names]
    # A class inside itself (a tree) has no finite list of fields: `outer` makes the inner one a pickled object.
    return DataclassTypeInfo(cls, names, [_infer_inside(hint, (*outer, cls)) for hint in hints])


def _without_none(hint: Any) -> tuple[Any, bool]:
    """Split `X | None` into X and True; any other hint comes back as it is."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint, False
    members = typing.get_args(hint)
    some = [member for member in members if member is not types.NoneType]
    return (some[0] if len(some) == 1 else hint), len(some) < len(members)


def _hint_of(function: Any, name: str) -> Any:
    target = _signed_callable(function)
    if target is None:
        return None
    target = inspect.unwrap(getattr(target, "__func__", target))
    raw = getattr(target, "__annotations__", {}).get(name)
    return _resolve(raw, getattr(target, "__globals__", {}), _closure_names(target))


def _signed_callable(function: Any) -> Any:
    """Return the function or method that carries the annotations, or None."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    if inspect.isroutine(function):
        return function
    if callable(function):
        return function.__call__
    methods = (getattr(function, name, None) for name in _OUTPUT_METHODS)
    return next((method for method in methods if callable(method)), None)


def _closure_names(function: Any) -> dict[str, Any]:
    names: dict[str, Any] = {}
    code = getattr(function, "__code__", None)
    for name, cell in zip(getattr(code, "co_freevars", ()), getattr(function, "__closure__", None) or (), strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # the variable is declared but not set yet
            continue
    return names


def _module_globals(cls: type[Any]) -> dict[str, Any]:
    module = inspect.getmodule(cls)
    return {} if module is None else vars(module)


def _resolve(raw: Any, global_names: dict[str, Any], local_names: dict[str, Any]) -> Any:
    """Evaluate one annotation alone: an unresolvable neighbour must not spoil it."""
    if raw is None:
        return None
    carrier = types.SimpleNamespace(__annotations__={"hint": raw})
    try:
        return typing.get_type_hints(carrier, global_names, local_names)["hint"]
    except (NameError, TypeError, SyntaxError, AttributeError, ValueError):
        return None
