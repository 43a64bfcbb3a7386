"""How the state of two savepoints differs: how many rows of each state, and which ones with both values.

Flink: has nothing like it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

import pyarrow as pa

from flintstream.api.arguments import located
from flintstream.api.state_frames import spark_tables
from flintstream.api.state_lookup import Looker, tables_of, view_of
from flintstream.engine.state_tables import SavepointPart, StateSource
from flintstream.engine.state_tables_columns import Layout
from flintstream.engine.state_tables_diff import (
    DIFFERENT,
    ONLY_HERE,
    ONLY_THERE,
    Shown,
    count_changes,
    differences,
)
from flintstream.engine.state_tables_view import View
from flintstream.errors import InvalidArgumentError, UnknownUidError, describe


@dataclass(frozen=True, slots=True)
class StateDifference:
    """How one state differs: rows in each savepoint, rows that one of them has, and rows with other values.

    Attributes:
        uid: the operator's uid.
        name: the state's name.
        here: how many rows the first savepoint has.
        there: how many rows the other one has.
        only_here: how many rows only the first one has.
        only_there: how many rows only the other one has.
        different: how many rows both have, with different values.
    """

    uid: str
    name: str
    here: int
    there: int
    only_here: int
    only_there: int
    different: int

    @property
    def is_same(self) -> bool:
        """Whether there is no difference."""
        return not (self.only_here or self.only_there or self.different)


class SavepointDiff:
    """The differences between two savepoints; get it by `savepoint(a).diff(b)`; printing it shows a summary."""

    def __init__(self, here: Looker, there: Looker) -> None:
        self._here = here
        self._there = there

    def summary(self) -> list[StateDifference]:
        """Return for each state of both how many rows differ; both are read to their end, state by state."""
        return [self._difference(uid, name) for uid, name in self._names()]

    def _names(self) -> list[tuple[str, str]]:
        found: dict[tuple[str, str], None] = {}
        for side in (self._here, self._there):
            for uid in side.look(lambda source: [table.uid for table in source.tables()]):
                for name in side.look(lambda source, uid=uid: list(tables_of(source, uid))):
                    found[uid, name] = None
        return list(found)

    def _difference(self, uid: str, name: str) -> StateDifference:
        same = self._untouched(uid, name)
        if same is not None:
            return StateDifference(uid, name, same, same, 0, 0, 0)
        here, there = _shown(self._here, uid, name), _shown(self._there, uid, name)
        counts = count_changes(differences(here, there))
        found = [counts.get(change, 0) for change in (ONLY_HERE, ONLY_THERE, DIFFERENT)]
        return StateDifference(uid, name, here.table.num_rows, there.table.num_rows, *found)

    def _untouched(self, uid: str, name: str) -> int | None:
        """Return how many rows a state has whose files are the same on both sides, byte for byte; else None."""
        files = [_files(side.source, uid, name) for side in (self._here, self._there)]
        return files[0][1] if files[0] is not None and files[0] == files[1] else None

    @overload
    def state(self, uid: str, name: str, *, arrow: Literal[True]) -> pa.Table: ...

    @overload
    def state(self, uid: str, name: str, *, arrow: Literal[False] = False) -> Any: ...

    def state(self, uid: str, name: str, *, arrow: bool = False) -> Any:
        """Return the rows of one state that differ.

        `change` is "only_here", "only_there" or "different"; then come the key's columns, and each of the value's
        twice: `here_value`, `there_value`.
        """
        self._check(uid, name)
        if arrow:
            return differences(_shown(self._here, uid, name), _shown(self._there, uid, name))
        session, spark = self._here.session(), spark_tables()
        views = [_view(side, uid, name) for side in (self._here, self._there)]
        keys = list(dict.fromkeys(key for view in views for key in keys_of(view.layout)))
        return spark.differences_of(spark.frame_of(session, views[0]), spark.frame_of(session, views[1]), keys)

    def _check(self, uid: str, name: str) -> None:
        names = self._names()
        if (uid, name) not in names:
            known = ", ".join(f"{uid!r}: {name!r}" for uid, name in names)
            what = f"neither of the two has state {name!r} of operator {uid!r}"
            raise located(InvalidArgumentError(describe(what, remedy=f"they have {known}"), uid=uid))

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("operator", "state", "here", "there", "only here", "only there", "different")]
        for each in self.summary():
            counts = (each.here, each.there, each.only_here, each.only_there, each.different)
            rows.append((each.uid, each.name, *map("{:,}".format, counts)))
        widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
        lines = [f"here:  {self._here.source.title()}", f"there: {self._there.source.title()}"]
        for row in rows:
            names = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
            numbers = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
            lines.append("  ".join([*names, *numbers]))
        return "\n".join(lines)


def _files(source: StateSource, uid: str, name: str) -> tuple[frozenset[str], int] | None:
    """Return the digests of the files of a state and its rows; None if it is not in files of a savepoint."""
    try:
        stored = tables_of(source, uid).get(name)
    except UnknownUidError:
        return None
    parts = [] if stored is None else source.parts(stored.name)
    files = [part for part in parts if isinstance(part, SavepointPart)]
    if not parts or len(files) < len(parts):
        return None
    return frozenset(part.entry.sha256 for part in files), sum(part.entry.rows for part in files)


def keys_of(layout: Layout) -> tuple[str, ...]:
    """Return the columns by which rows of two tables are matched; none if an entry may have several rows."""
    return () if layout.is_bag else tuple(layout.key_names)


def _view(side: Looker, uid: str, name: str) -> View:
    """Return one side's table; one that it does not have is one without rows."""

    def at(source: StateSource) -> View:
        try:
            if name not in tables_of(source, uid):
                return View(())
        except UnknownUidError:
            return View(())
        view = view_of(source, uid, name)
        _ = view.layout
        return view

    return side.look(at)


def _shown(side: Looker, uid: str, name: str) -> Shown:
    return side.look(lambda source: _read(side, uid, name))


def _read(side: Looker, uid: str, name: str) -> Shown:
    view = _view(side, uid, name)
    return Shown(view.to_arrow(), keys_of(view.layout))
