"""From annotations to types: what is inferred, and what is left open."""

from __future__ import annotations

import datetime as dt
import enum
import functools
import typing
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, NamedTuple, NewType, Optional, TypeVar, Union

import pytest

from flintstream.model.functions import MapFunction
from flintstream.model.infer import infer_from_annotation, infer_parameter_type, infer_return_type, infer_yield_type
from flintstream.model.time import Instant
from flintstream.model.types import Types

UserId = NewType("UserId", int)
T = TypeVar("T")


@dataclass
class Base:
    id: int


@dataclass
class Reading(Base):
    name: str
    tags: list[str] = field(default_factory=list)
    unknown: Any = None


@dataclass
class Tree:
    value: int
    children: list[Tree]


class Colour(enum.StrEnum):
    RED = "red"


class Pair(NamedTuple):
    a: int
    b: int


class Whole(int):
    pass


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (int, Types.LONG()),
        (float, Types.DOUBLE()),
        (str, Types.STRING()),
        (bool, Types.BOOLEAN()),
        (bytes, Types.PRIMITIVE_ARRAY(Types.BYTE())),
        (Decimal, Types.BIG_DEC()),
        (dt.datetime, Types.SQL_TIMESTAMP()),
        (dt.date, Types.SQL_DATE()),
        (dt.time, Types.SQL_TIME()),
        (Instant, Types.INSTANT()),
        (tuple[str, int], Types.TUPLE([Types.STRING(), Types.LONG()])),
        (typing.Tuple[str, int], Types.TUPLE([Types.STRING(), Types.LONG()])),  # noqa: UP006
        (tuple[str, object], Types.TUPLE([Types.STRING(), Types.PICKLED_BYTE_ARRAY()])),
        (list[float], Types.LIST(Types.DOUBLE())),
        (typing.List[Any], Types.LIST(Types.PICKLED_BYTE_ARRAY())),  # noqa: UP006
        (dict[str, list[int]], Types.MAP(Types.STRING(), Types.LIST(Types.LONG()))),
        (dict[str, Any], Types.MAP(Types.STRING(), Types.PICKLED_BYTE_ARRAY())),
        (Optional[int], Types.LONG().as_nullable()),  # noqa: UP045
        (str | None, Types.STRING().as_nullable()),
        (list[int | None], Types.LIST(Types.LONG().as_nullable())),
        (Annotated[int, ["unhashable"]], Types.LONG()),
        (UserId, Types.LONG()),
    ],
    ids=str,
)
def test_annotations_become_types(hint: Any, expected: object) -> None:
    assert infer_from_annotation(hint) == expected


@pytest.mark.parametrize(
    "hint",
    [
        None, object, Any, T, Union[int, str], int | str | None, tuple, list, dict, tuple[int, ...], set[int],  # noqa: UP007
        dict[object, int], Colour, Pair, Whole, "int", 3, Callable[[], int], complex, type(None), Iterable[int],
    ],
    ids=str,
)  # fmt: skip
def test_annotations_that_do_not_say_enough_stay_open(hint: Any) -> None:
    assert infer_from_annotation(hint) is None


def test_dataclass_fields_include_inherited_ones_and_pickle_the_unknown() -> None:
    assert (
        repr(infer_from_annotation(Reading)) == "Reading<id: LONG, name: STRING, tags: LIST<STRING>, unknown: PICKLED>"
    )


def test_a_dataclass_inside_itself_is_pickled_there() -> None:
    assert repr(infer_from_annotation(Tree)) == "Tree<value: LONG, children: LIST<PICKLED>>"


def test_a_field_whose_annotation_cannot_be_resolved_spoils_only_itself() -> None:
    @dataclass
    class Local:
        a: int
        b: Nowhere  # type: ignore[name-defined]  # noqa: F821

    assert repr(infer_from_annotation(Local)) == "Local<a: LONG, b: PICKLED>"


def annotated(value: Nowhere) -> tuple[str, int]:  # type: ignore[name-defined]  # noqa: F821
    return "a", 1


def numbers(value: str) -> Iterator[int]:
    yield 1


class Adder(MapFunction):
    def map(self, value: int) -> float:
        return value + 0.5


class Caller:
    def __call__(self, value: str) -> bool:
        return bool(value)

    def method(self, value: bytes) -> str:
        return value.decode()


@functools.wraps(numbers)
def decorated(*args: Any) -> Any:
    return numbers(*args)


def test_return_types_are_found_on_every_kind_of_callable() -> None:
    assert infer_return_type(annotated) == Types.TUPLE([Types.STRING(), Types.LONG()])
    assert infer_return_type(functools.partial(functools.partial(annotated), 1)) == infer_return_type(annotated)
    assert infer_return_type(Adder()) == Types.DOUBLE()
    assert infer_return_type(Adder().map) == Types.DOUBLE()
    assert infer_return_type(Caller()) == Types.BOOLEAN()
    assert infer_return_type(Caller().method) == Types.STRING()
    assert infer_return_type(int) == Types.LONG()
    assert infer_return_type(Reading) == infer_from_annotation(Reading)


@pytest.mark.parametrize("function", [lambda x: x, len, str.upper, numbers, object(), Caller, 3, None])
def test_return_types_that_are_not_annotated_stay_open(function: Any) -> None:
    assert infer_return_type(function) is None


def test_a_return_type_from_the_enclosing_function_is_resolved() -> None:
    @dataclass
    class Local:
        a: int

    def make(value: int) -> Local:
        return Local(value)

    assert repr(infer_return_type(make)) == "Local<a: LONG>"


def returns_list(value: str) -> list[str]:
    return value.split()


def returns_generator(value: str) -> Generator[tuple[str, int], None, None]:
    yield value, 1


def returns_optional(value: str) -> Iterable[float] | None:
    return None


def returns_text(value: str) -> str:
    return value


def test_yield_types_are_those_of_the_items() -> None:
    assert infer_yield_type(numbers) == Types.LONG()
    assert infer_yield_type(decorated) == Types.LONG()
    assert infer_yield_type(returns_list) == Types.STRING()
    assert infer_yield_type(returns_generator) == Types.TUPLE([Types.STRING(), Types.LONG()])
    assert infer_yield_type(returns_optional) == Types.DOUBLE()
    assert infer_yield_type(returns_text) is None
    assert infer_yield_type(annotated) is None
    assert infer_yield_type(lambda x: [x]) is None


def test_parameter_types_do_not_count_self() -> None:
    assert infer_parameter_type(numbers) == Types.STRING()
    assert infer_parameter_type(Adder()) == Types.LONG()
    assert infer_parameter_type(Caller()) == Types.STRING()
    assert infer_parameter_type(Caller().method) == Types.PRIMITIVE_ARRAY(Types.BYTE())
    assert infer_parameter_type(numbers, 1) is None
    assert infer_parameter_type(annotated) is None
    assert infer_parameter_type(lambda x: x) is None
    assert infer_parameter_type(3) is None
