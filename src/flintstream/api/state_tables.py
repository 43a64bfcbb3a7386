"""State as tables: what lies in a savepoint or a checkpoint, as a DataFrame or an Arrow table, and how two differ.

The rest of the API declares programs; this looks at what they left behind and needs none of them.

Flink: SavepointReader of the State Processor API. Differs from Flink: no types are declared to read state, and no code
of the state's own is run: a class that is gone shows as its fields, a pickled object as its bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

import pyarrow as pa

from flintstream.api.state_diff import SavepointDiff
from flintstream.api.state_frames import spark_tables
from flintstream.api.state_lookup import Looker, tables_of, timers_of, view_of
from flintstream.engine.state_tables import StateSource, open_state
from flintstream.engine.state_tables_view import View
from flintstream.state.storage_remote import StorageOptions


@dataclass(frozen=True, slots=True)
class StateInfo:
    """One state of an operator.

    Attributes:
        uid: the operator's uid.
        name: what `state(uid, name)` takes; for state of a function that is its descriptor's name.
        kind: a word for it, such as "value", "list", "map", "window", "timers" or "broadcast".
        rows: how many rows it has; None in a checkpoint, where that is known only after reading it.
        columns: the columns in which it is shown, with their Arrow types.
    """

    uid: str
    name: str
    kind: str
    rows: int | None
    columns: dict[str, str]


def savepoint(path: str | Path, spark: Any = None, storage_options: StorageOptions = None) -> SavepointReader:
    """Open a savepoint, or a checkpoint directory, to look at the state in it.

    Nothing is changed there, and the job may go on meanwhile. `spark` is the session for DataFrames; without it the
    active one is used, or one is started when the first DataFrame is asked for. `storage_options` are what the file
    system of an address (`s3://...`) must know.

    Raises:
        SavepointError: there is neither a savepoint nor a checkpoint at `path`.
    """
    return SavepointReader(Looker(open_state(str(path), storage_options), spark))


class SavepointReader:
    """The state in a savepoint or a checkpoint; get it by `flintstream.savepoint(path)`.

    Every table comes as a Spark DataFrame, or with `arrow=True` as a `pyarrow.Table`, without Spark.
    """

    def __init__(self, looker: Looker) -> None:
        self._looker = looker

    def __repr__(self) -> str:
        return f"<{self._looker.source.title()} at {self._looker.source.where}>"

    def operators(self) -> list[str]:
        """Return the uids of the operators that have state."""
        return self._looker.look(lambda source: list(dict.fromkeys(table.uid for table in source.tables())))

    def states(self, uid: str) -> list[StateInfo]:
        """Return what state an operator has."""

        def look(source: StateSource) -> list[StateInfo]:
            named = tables_of(source, uid)
            views = {name: View(tuple(source.parts(each.name))) for name, each in named.items()}
            return [StateInfo(uid, name, each.what, each.rows, _columns(views[name])) for name, each in named.items()]

        return self._looker.look(look)

    @overload
    def state(self, uid: str, name: str, *, explode: bool = False, arrow: Literal[True]) -> pa.Table: ...

    @overload
    def state(self, uid: str, name: str, *, explode: bool = False, arrow: Literal[False] = False) -> Any: ...

    def state(self, uid: str, name: str, *, explode: bool = False, arrow: bool = False) -> Any:
        """Return one state of an operator, a row for each key.

        Columns are the key (`key`, or the fields of a key that has some), the window's `window_start` and `window_end`,
        the `map_key` of a map, and the value (`value`, or its fields). State that expires has `last_access` besides.
        Times are in ms. With `explode` a list has a row for each element, with its `position`.
        """
        return self._shown(lambda source: view_of(source, uid, name, explode=explode), arrow=arrow)

    @overload
    def timers(self, uid: str, *, arrow: Literal[True]) -> pa.Table: ...

    @overload
    def timers(self, uid: str, *, arrow: Literal[False] = False) -> Any: ...

    def timers(self, uid: str, *, arrow: bool = False) -> Any:
        """Return the timers of an operator: key, window if it has one, `time` in ms, and the `domain` of that time."""
        return self._shown(lambda source: timers_of(source, uid), arrow=arrow)

    @overload
    def positions(self, *, arrow: Literal[True]) -> pa.Table: ...

    @overload
    def positions(self, *, arrow: Literal[False] = False) -> Any: ...

    def positions(self, *, arrow: bool = False) -> Any:
        """Return how far each source was read: `uid`, `split`, the `part` of a log, and the next `position`."""
        rows = [
            (each.uid, split, {number: name for number, name, *_ in each.parts or ()}.get(split), position)
            for each in self._looker.source.sources()
            for split, position in each.positions.items()
        ]
        schema = pa.schema(
            [("uid", pa.string()), ("split", pa.int64()), ("part", pa.string()), ("position", pa.int64())]
        )
        columns = [pa.array([row[index] for row in rows], field.type) for index, field in enumerate(schema)]
        table = pa.Table.from_arrays(columns, schema=schema)
        return table if arrow else self._looker.session().createDataFrame(table)

    def diff(self, other: SavepointReader | str | Path) -> SavepointDiff:
        """Compare with another savepoint or checkpoint; rows are "here" in this one, "there" in the other."""
        there = other if isinstance(other, SavepointReader) else savepoint(other, self._looker.spark)
        return SavepointDiff(self._looker, there._looker)

    def _shown(self, view: Callable[[StateSource], View], *, arrow: bool) -> Any:
        if arrow:
            return self._looker.look(lambda source: view(source).to_arrow())

        def look(source: StateSource) -> View:
            found = view(source)
            _ = found.layout
            return found

        return spark_tables().frame_of(self._looker.session(), self._looker.look(look))


def _columns(view: View) -> dict[str, str]:
    return {field.name: str(field.type) for field in view.layout.schema}
