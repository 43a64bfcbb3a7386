"""What is to be written as one state of an operator: its name and shape, the columns it comes from, and its types.

A value of its own, because it travels to Spark's tasks, to those who read columns and to those who write rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

from flintstream.engine.state_tables_kinds import Shape
from flintstream.errors import InvalidArgumentError, describe
from flintstream.model.typeinfo import MapTypeInfo, TypeInformation

VALUE, LIST, MAP, BROADCAST, TIMERS = "value", "list", "map", "broadcast", "timers"


@dataclass(frozen=True, slots=True)
class Names:
    """The columns of a table: those of the key, of the map key, of the value (None: by its type), and of times."""

    key: tuple[str, ...] = ("key",)
    map_key: str = "map_key"
    value: str | None = None
    time: str = "time"
    last_access: str | None = None


@dataclass(frozen=True, slots=True)
class Kinds:
    """What keys and values are: by declared types, or as they were stored so far.

    `value_names` are the columns in which the fields of what was stored are shown; that of the whole stands under "".
    """

    key: TypeInformation | None = None
    value: TypeInformation | None = None
    stored_key: Shape | None = None
    stored_value: Shape | None = None
    value_names: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class StateSpec:
    """One state to be written.

    `name` is what the state is called, `ttl` how long its entries live, in ms; `line` is the user's.
    """

    uid: str
    name: str
    shape: str
    names: Names
    kinds: Kinds
    ttl: int | None
    line: str

    @property
    def table(self) -> str:
        """The full name of the table."""
        return f"{self.uid}/#broadcast/{self.name}" if self.shape == BROADCAST else f"{self.uid}/{self.name}"

    @property
    def deadlines(self) -> str:
        """The full name of the table that tells when to look at entries that expire."""
        return f"{self.uid}/#ttl:{self.name}-timers"

    @property
    def value_type(self) -> TypeInformation | None:
        """The declared type of what is held under one entry."""
        info = self.kinds.value
        return info.value_type if self.shape in (MAP, BROADCAST) and isinstance(info, MapTypeInfo) else info

    def refuse(self, what: str, remedy: str) -> NoReturn:
        """Raise the error of data that cannot be this state."""
        told = f"{what}, for state {self.name!r} of operator {self.uid!r}"
        raise InvalidArgumentError(describe(told, self.line, remedy), uid=self.uid, location=self.line) from None
