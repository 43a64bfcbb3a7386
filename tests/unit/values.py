"""Values of every kind a user may have, for hypothesis, and a comparison that sees types as well as values."""

from __future__ import annotations

import datetime as dt
import enum
import math
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from flintstream.model.row import Row

F = TypeVar("F", bound=Callable[..., Any])
LAW = settings(
    max_examples=int(os.environ.get("FLINTSTREAM_EXAMPLES", "20")),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def law(test: F) -> F:
    """Mark a hypothesis test: few examples, no deadline, as machines are busy; FLINTSTREAM_EXAMPLES asks for more."""
    return LAW(test)


class Colour(enum.Enum):
    """An enum with values of two types."""

    RED = 1
    BLUE = "blue"


class Level(enum.IntEnum):
    """An enum that is a number."""

    LOW = 1


class Point(NamedTuple):
    """A tuple with names."""

    x: Any
    y: Any


@dataclass
class Pair:
    """A plain dataclass."""

    left: Any
    right: Any


@dataclass(frozen=True, slots=True)
class Frozen:
    """A dataclass that can be a key."""

    name: Any
    number: Any = 0


@dataclass(frozen=True)
class Noted:
    """A dataclass with a field that does not count when two are compared."""

    name: Any
    note: Any = field(default=None, compare=False)


INDIA = dt.timezone(dt.timedelta(hours=5, minutes=30))
ZONES = st.sampled_from([dt.UTC, INDIA])
TEXT = st.text(max_size=12)
LONE_SURROGATES = st.sampled_from(["\ud800", "a\udfffb"])
SCALARS: list[st.SearchStrategy[Any]] = [
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    TEXT,
    st.binary(max_size=12),
    st.booleans(),
    st.datetimes(),
    st.dates(),
    st.times(),
]
ODD_SCALARS: list[st.SearchStrategy[Any]] = [
    st.integers(2**63, 2**70) | st.integers(-(2**70), -(2**63) - 1),
    LONE_SURROGATES,
    st.datetimes(timezones=ZONES),
    st.datetimes().map(lambda moment: moment.replace(fold=1)),
    st.times(timezones=ZONES),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.sampled_from([Colour.RED, Colour.BLUE, Level.LOW]),
    st.frozensets(st.integers(0, 9) | st.text("abc", max_size=2), max_size=3),
    st.builds(Point, st.integers(0, 9), st.text("ab", max_size=2)),
]
NAMES = st.text("abcdef_é", min_size=1, max_size=4) | st.just("")


def _rows(parts: list[st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    return st.tuples(*parts).map(lambda values: Row(*values))


def _named_rows(parts: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(parts).map(lambda values: Row(**values))


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Grow the strategies of which a column is made: each draws values of one shape."""
    some = st.lists(inner, max_size=3)
    named = st.dictionaries(NAMES, inner, max_size=3)
    return st.one_of(
        some.map(lambda parts: st.tuples(*parts)),
        some.map(_rows),
        named.map(st.fixed_dictionaries),
        named.map(_named_rows),
        inner.map(lambda part: st.lists(part, max_size=3)),
        inner.map(lambda part: st.builds(Pair, part, part)),
        inner.map(lambda part: st.builds(Frozen, part)),
        inner.map(lambda part: part | st.none()),
    )


SHAPES: st.SearchStrategy[st.SearchStrategy[Any]] = st.recursive(
    st.sampled_from([*SCALARS, *SCALARS, *ODD_SCALARS, st.none()]), _containers, max_leaves=5
)
"""Strategies for values of one shape, as the records of a stream mostly are."""

ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), *SCALARS, *ODD_SCALARS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(NAMES | LONE_SURROGATES | st.integers(0, 3), inner, max_size=3),
        st.builds(Pair, inner, inner),
        st.lists(inner, max_size=2).map(lambda values: Row(*values)),
        st.sets(st.integers(0, 5), max_size=3),
    ),
    max_leaves=5,
)
"""Values of any shape, one unlike the other."""


@st.composite
def columns(draw: st.DrawFn, min_size: int = 0, max_size: int = 8) -> list[Any]:
    """Values as they stand in one batch: of one shape, with or without None among them, or of any."""
    shape = draw(st.one_of(SHAPES, SHAPES, st.just(ANYTHING)))
    values = shape | st.none() if draw(st.booleans()) else shape
    return draw(st.lists(values, min_size=min_size, max_size=max_size))


KEY_SHAPES: st.SearchStrategy[st.SearchStrategy[Any]] = st.recursive(
    st.sampled_from([*SCALARS, *ODD_SCALARS, st.none()]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: st.tuples(*parts)),
        inner.map(lambda part: st.builds(Frozen, part)),
        inner.map(lambda part: st.builds(Noted, part, st.integers(0, 3))),
        st.lists(inner, max_size=3).map(_rows),
        inner.map(lambda part: part | st.none()),
    ),
    max_leaves=4,
)


@st.composite
def key_columns(draw: st.DrawFn, min_size: int = 0, max_size: int = 8) -> list[Any]:
    """Values that can be keys, of one shape or of several."""
    shape = draw(KEY_SHAPES)
    if draw(st.booleans()):
        shape |= draw(KEY_SHAPES)
    return draw(st.lists(shape, min_size=min_size, max_size=max_size))


def exactly(value: Any) -> Any:
    """Return what tells a value from every other, its type and the types inside included; compare with `==`."""
    kind = type(value)
    if kind is float:
        return kind, "nan" if math.isnan(value) else struct.pack("<d", value)
    if kind in (list, tuple, Point):
        return kind, [exactly(part) for part in value]
    if kind in (set, frozenset):
        return kind, sorted((repr(type(part)), repr(part)) for part in value)
    if kind is dict:
        return kind, [(exactly(key), exactly(part)) for key, part in value.items()]
    if kind is Row:
        return kind, value.get_field_names(), value.get_row_kind(), [exactly(part) for part in value]
    if kind in (dt.datetime, dt.time):
        return kind, value.isoformat(), value.fold
    if kind is Decimal:
        return kind, repr(value)
    if hasattr(kind, "__dataclass_fields__"):
        return kind, [(name, exactly(getattr(value, name))) for name in kind.__dataclass_fields__]
    return kind, value
