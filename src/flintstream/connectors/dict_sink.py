"""A dict as a sink that keeps the last record of each key: the smallest of all tables, for tests and examples.

Beside `driver_sinks`, whose sinks keep every record. Writing an epoch twice does no harm, because the last record of a
key is the same both times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flintstream.connectors.changes import kind_of, record_of
from flintstream.connectors.driver_sinks import DriverWriter
from flintstream.connectors.fields import fields_of
from flintstream.connectors.parcel import merge
from flintstream.errors import InvalidArgumentError, SinkError, describe
from flintstream.model.connect import Committer, HeldTable, Sink, SinkWriter, WriterContext
from flintstream.model.location import refused
from flintstream.model.row import RowKind


class DictSink(Sink):
    """Keeps the last record of each key in a dict of the driver's; a record of the kind DELETE removes its key.

    Example:
        >>> from flintstream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> sink = DictSink("f0")
        >>> _ = env.from_collection([("a", 1), ("b", 2), ("a", 3)]).sink_to(sink)
        >>> _ = env.execute()
        >>> sink.table
        {'a': {'f0': 'a', 'f1': 3}, 'b': {'f0': 'b', 'f1': 2}}

    Args:
        key: The field, or fields, by which records replace each other; those of tuples are f0, f1, ...
        table: The dict to write to; a new one unless given. Its keys are values, or tuples of the values of several.
    """

    def __init__(self, key: str | Sequence[str], table: dict[Any, dict[str, Any]] | None = None) -> None:
        self.key = (key,) if isinstance(key, str) else tuple(key)
        if not self.key or not all(isinstance(name, str) for name in self.key):  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass anything
            raise refused(InvalidArgumentError, f"the key is {key!r:.100}", "name one field or more")
        self.table: dict[Any, dict[str, Any]] = {} if table is None else table

    def take(self, values: Iterable[Any]) -> None:
        """Write records, in their order."""
        for value in values:
            kind = kind_of(value)
            if kind is RowKind.UPDATE_BEFORE:
                continue
            fields = dict(fields_of(record_of(value)))
            place = self._place(fields)
            if kind is RowKind.DELETE:
                self.table.pop(place, None)
            else:
                self.table[place] = fields

    def _place(self, fields: Mapping[str, Any]) -> Any:
        missing = [name for name in self.key if name not in fields]
        if missing:
            what = f"a record has no field {missing[0]!r}, but {', '.join(fields)}"
            raise SinkError(describe(what, remedy="name the key's fields as the records do"))
        return fields[self.key[0]] if len(self.key) == 1 else tuple(fields[name] for name in self.key)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return DriverWriter(context)

    def create_committer(self) -> Committer:
        return _Taker(self)

    def held_table(self) -> HeldTable:
        return _Held(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers only write: the dict stays in the driver.
        return DictSink, (self.key,)


class _Taker(Committer):
    def __init__(self, sink: DictSink) -> None:
        self._sink = sink

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        self._sink.take(merge(committables).values)


class _Held(HeldTable):
    def __init__(self, sink: DictSink) -> None:
        self._sink = sink

    @property
    def key(self) -> tuple[str, ...]:
        return self._sink.key

    def rows(self) -> Iterable[Mapping[str, Any]]:
        return list(self._sink.table.values())

    def fitted(self, records: Sequence[Any]) -> Sequence[Mapping[str, Any]]:
        return [fields_of(record) for record in records]
