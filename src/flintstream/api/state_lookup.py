"""Finds a table of state by the names that people use for it, in a savepoint, or in a checkpoint while its job goes on.

Apart from those who show tables and those who compare them, since both look them up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from flintstream.api.arguments import located
from flintstream.api.state_frames import spark_tables
from flintstream.engine.state_tables import NoTimers, Part, StateSource, Stored, TimersPart
from flintstream.engine.state_tables_columns import EXPLODED
from flintstream.engine.state_tables_view import View
from flintstream.errors import CorruptStateError, InvalidArgumentError, SavepointError, UnknownUidError, describe

T = TypeVar("T")
_TRIES = 5
_PREFIXES = ("#broadcast/", "#window:", "#trigger:", "#")
_DOMAINS = {"#event-timers": "event", "#processing-timers": "processing"}


class Looker:
    """Looks at a savepoint or a checkpoint, with a Spark session where one is asked for."""

    def __init__(self, source: StateSource, spark: Any) -> None:
        self.source = source
        self.spark = spark

    def session(self) -> Any:
        """Return the Spark session of DataFrames; it is started if there is none."""
        self.spark = spark_tables().session_or_new(self.spark)
        return self.spark

    def look(self, at: Callable[[StateSource], T]) -> T:
        """Return what is seen; if files are gone because a job went on, look at what it has committed since."""
        for _ in range(_TRIES):
            try:
                return at(self.source)
            except CorruptStateError:
                newer = self.source.newer()
                if newer is None:
                    raise
                self.source = newer
        what = "the job deletes its checkpoints faster than they can be read"
        remedy = "retain more of them ('execution.checkpointing.num-retained'), or take a savepoint"
        raise SavepointError(describe(what, self.source.where, remedy))


def tables_of(source: StateSource, uid: str) -> dict[str, Stored]:
    """Return the tables of an operator by the names under which people find them.

    Raises:
        UnknownUidError: no operator with state has that uid.
    """
    tables = source.tables()
    own = [table for table in tables if table.uid == uid]
    if not own:
        known = ", ".join(map(repr, dict.fromkeys(table.uid for table in tables))) or "none"
        what, remedy = f"no operator with state has uid {uid!r}", f"use one of those that have: {known}"
        raise located(UnknownUidError(describe(what, source.where, remedy), uid=uid))
    # Deadlines follow from what they belong to.
    own = [table for table in own if not table.own_name.startswith("#ttl:")]
    # What the user named comes first, so that nothing of ours takes its name.
    named = {table.own_name: table for table in own if not table.own_name.startswith("#")}
    for table in own:
        if table.own_name.startswith("#"):
            short = table.own_name
            for prefix in _PREFIXES:
                short = short.removeprefix(prefix)
            named[table.own_name if short in named else short] = table
    return named


def view_of(source: StateSource, uid: str, name: str, *, explode: bool = False) -> View:
    """Return one table of an operator."""
    named = tables_of(source, uid)
    found = named.get(name) or next((each for each in named.values() if each.own_name == name), None)
    if found is None:
        what = f"operator {uid!r} has no state {name!r}"
        raise located(InvalidArgumentError(describe(what, source.where, f"it has {', '.join(map(repr, named))}")))
    view = View(tuple(source.parts(found.name)), explode)
    if explode and EXPLODED not in view.layout.schema.names:
        what = f"state {name!r} of operator {uid!r} has no lists"
        raise located(InvalidArgumentError(describe(what, source.where, "leave explode out")))
    return view


def timers_of(source: StateSource, uid: str) -> View:
    """Return the timers of an operator, of both domains."""
    parts: list[Part] = []
    for stored in tables_of(source, uid).values():
        domain = _DOMAINS.get(stored.own_name)
        if domain is not None:
            parts += [TimersPart(source.storage, part, domain) for part in source.parts(stored.name)]
    return View(tuple(parts or [NoTimers(source.storage)]))
