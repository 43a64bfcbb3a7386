"""What a class of the user's was before: fields that had other names, places where the class used to be.

State outlives programs, and holds objects of classes as they were when it was written. A field that was added needs a
default and one that was removed needs nothing; only what has another name now must be declared, and it is declared on
the class, because it is true of the class wherever its objects are kept.

Differs from Flink: its POJO and Avro serializers evolve by added and removed fields only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, TypeVar

from flintstream.errors import DefinitionError, InvalidArgumentError, TypeMismatchError
from flintstream.model.location import refused

C = TypeVar("C")
_ATTRIBUTE = "__flintstream_evolution__"

FORMER: dict[str, type] = {}
"""Former `module:name` of a class -> the class, for all classes declared in this process."""


@dataclass(frozen=True, slots=True)
class Evolution:
    """`renamed` are fields, old name to new; `was` are the places where the class used to be."""

    renamed: Mapping[str, str]
    was: tuple[str, ...]


def evolves(*, renamed: Mapping[str, str] | None = None, was: str | Iterable[str] = ()) -> Callable[[type[C]], type[C]]:
    """Declare what a dataclass or a NamedTuple was called, so that its objects in older state can still be read.

    Args:
        renamed: former names of fields, as `{"old": "new"}`.
        was: former place of the class, as `"module:Name"`, or several of them.

    Example:
        >>> @evolves(renamed={"total": "amount"}, was="shop.model:Bill")
        ... @dataclass
        ... class Invoice:
        ...     amount: float
        ...     currency: str = "EUR"
    """
    names = dict(renamed or {})
    places = (was,) if isinstance(was, str) else tuple(was)
    for place in places:
        if place.count(":") != 1 or not all(place.split(":")):
            what = f"evolves(was={place!r}) names no class"
            raise refused(InvalidArgumentError, what, "write it as 'module:Name'")

    def declare(cls: type[C]) -> type[C]:
        fields = field_names(cls)
        if fields is None:
            what = f"evolves() was put on {cls!r}, which has no fields of its own"
            raise refused(TypeMismatchError, what, "put it above @dataclass, or on a NamedTuple")
        _check_names(cls, fields, names)
        setattr(cls, _ATTRIBUTE, Evolution(names, places))
        remember(cls)
        return cls

    return declare


def _check_names(cls: type, fields: list[str], renamed: Mapping[str, str]) -> None:
    for old, new in renamed.items():
        if new not in fields:
            what = f"evolves(renamed=...) of {cls.__qualname__} names a field {new!r}, which it does not have"
            raise refused(DefinitionError, what, f"name one of {', '.join(fields)}")
        if old in fields:
            what = f"evolves(renamed=...) of {cls.__qualname__} calls {old!r} a former name, but it is one of today"
            raise refused(DefinitionError, what, "leave it out, or rename the field")


def field_names(cls: Any) -> list[str] | None:
    """Return the fields of a dataclass or a NamedTuple, None of anything else."""
    if is_dataclass(cls):
        return [field.name for field in dataclass_fields(cls)]
    if isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return list(getattr(cls, "_fields"))  # noqa: B009  # its type does not know of it
    return None


def evolution_of(cls: type) -> Evolution | None:
    """Return what was declared of a class itself, not of one that it inherits from."""
    return cls.__dict__.get(_ATTRIBUTE)


def remember(cls: type) -> None:
    """Let state that names a former place of a class find it."""
    declared = evolution_of(cls)
    for place in () if declared is None else declared.was:
        FORMER[place] = cls
