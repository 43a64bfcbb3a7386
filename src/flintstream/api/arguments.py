"""Reads what a user passes to a stream: functions, types, keys; a wrong one is refused with the user's line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

from flintstream.errors import DefinitionError, InvalidArgumentError, TypeMismatchError, UnsupportedError, describe
from flintstream.graph.location import users_line
from flintstream.model.functions import KeySelector, as_key_selector, entry_point
from flintstream.model.tags import OutputTag
from flintstream.model.typeinfo import TypeInformation
from flintstream.model.types import to_type_info
from flintstream.ops.conform import TypedKey
from flintstream.ops.selectors import FieldKey, FunctionKey, KeySource

TypeLike: TypeAlias = TypeInformation | list[TypeInformation] | type[Any] | None
"""A type in any spelling: `Types.X()`, a list of types (a row), a Python type; None looks at the records."""

KeyLike: TypeAlias = KeySelector | Callable[[Any], Any] | str | int | Sequence[str | int]

T = TypeVar("T")


def read(convert: Callable[[Any], T], argument: Any) -> T:
    """Return `convert(argument)`; what it refuses is refused with the user's line."""
    try:
        return convert(argument)
    except DefinitionError as error:
        raise located(error) from None


def located(error: DefinitionError) -> DefinitionError:
    """Return the same error with the user's line in it, before the clause that says what to do."""
    if error.location is not None:
        return error
    line = users_line()
    what, _, remedy = str(error).rpartition("; ")
    return type(error)(describe(what or remedy, line, remedy if what else None), uid=error.uid, location=line)


def read_type(spec: Any) -> TypeInformation | None:
    """Return a declared type."""
    return read(to_type_info, spec)


def require(argument: Any, kinds: type[T] | tuple[type[T], ...], what: str, remedy: str) -> T:
    """Return the argument if it is of one of the kinds."""
    if isinstance(argument, type) and issubclass(argument, kinds):
        name = argument.__name__
        raise located(TypeMismatchError(describe(f"{name} is a class, not an object", remedy=f"pass {name}(...)")))
    if not isinstance(argument, kinds):
        raise located(TypeMismatchError(describe(f"{argument!r:.200} is not {what}", remedy=remedy)))
    return argument


def read_late(how: Any) -> tuple[bool, OutputTag | None]:
    """Return whether late records are logged, and the tag of their side output if they have one."""
    if isinstance(how, OutputTag):
        return False, how
    if how not in ("drop", "log"):
        what = f"late records cannot be treated by {how!r:.100}"
        raise located(InvalidArgumentError(describe(what, remedy='use "drop", "log" or an OutputTag')))
    return how == "log", None


def refuse(call: str, alternative: str) -> NoReturn:
    """Refuse a call that PyFlink has and Flintstream has not."""
    line = users_line()
    raise UnsupportedError(describe(f"{call} is not supported", line, alternative), location=line)


def read_key(selector: Any, more: Sequence[Any] = (), key_type: Any = None) -> KeySource:
    """Return where a key comes from: fields by name or position are read as columns, anything else is called."""
    declared = read_type(key_type)
    source = _key_source(selector, more)
    return source if declared is None else TypedKey(source, declared, "key_by", users_line())


def _key_source(selector: Any, more: Sequence[Any]) -> KeySource:
    fields = (selector, *more) if not isinstance(selector, list | tuple) else (*cast("list[Any]", selector), *more)
    if fields and all(isinstance(each, str | int) and not isinstance(each, bool) for each in fields):
        return FieldKey(fields)
    if more or not callable(getattr(selector, "get_key", selector)):
        what = f"{', '.join(f'{each!r:.100}' for each in fields) or 'nothing'} cannot be a key"
        remedy = "pass a function, a KeySelector, or names or positions of fields"
        raise located(TypeMismatchError(describe(what, remedy=remedy)))
    function = read(as_key_selector, selector)
    return FunctionKey(entry_point(function, "get_key"))
