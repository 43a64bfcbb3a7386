"""Savepoints that no job took: state bootstrapped from batch data, or repaired, for a job to start from.

Flink: SavepointWriter, OperatorTransformation and StateBootstrapTransformation of the State Processor API. Differs from
Flink: data is state already, a row for each entry, typed by the descriptor that the job itself uses; no function
processes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from flintstream.api.arguments import TypeLike, located, read_type, require
from flintstream.api.state_frames import spark_tables
from flintstream.engine.savepoint_compose import Draft, PartWriter
from flintstream.engine.savepoint_existing import Existing, existing
from flintstream.engine.savepoint_spec import BROADCAST, LIST, MAP, TIMERS, VALUE, Kinds, Names, StateSpec
from flintstream.engine.savepoint_take import Notes, WrittenPart
from flintstream.engine.state_tables import open_state
from flintstream.engine.state_tables_view import View
from flintstream.errors import InvalidArgumentError, UnknownUidError, UnsupportedError, describe
from flintstream.graph.location import users_line
from flintstream.model.context import TimeDomain
from flintstream.model.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flintstream.state.storage_remote import StorageOptions

_SHAPES: dict[type[StateDescriptor], str] = {
    ValueStateDescriptor: VALUE,
    ReducingStateDescriptor: VALUE,
    AggregatingStateDescriptor: VALUE,
    ListStateDescriptor: LIST,
    MapStateDescriptor: MAP,
}
_MOST_GROUPS = 1 << 15


class SavepointWriter:
    """Puts a savepoint together, state by state; `write(path)` ends it.

    Data is a Spark DataFrame, an Arrow or a pandas table, or an iterable of `(key, value)`. Window contents and the
    state of built-in aggregates cannot be written; they can be kept from an existing savepoint.

    >>> import tempfile
    >>> from flintstream import SavepointWriter, ValueStateDescriptor, savepoint
    >>> path = f"{tempfile.mkdtemp()}/sp"
    >>> writer = SavepointWriter.new_savepoint()
    >>> _ = writer.with_state("totals", ValueStateDescriptor("sum", int), [("a", 3), ("b", 4)]).write(path)
    >>> savepoint(path).state("totals", "sum", arrow=True).to_pylist()
    [{'key': 'a', 'value': 3}, {'key': 'b', 'value': 4}]
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    @staticmethod
    def new_savepoint(max_parallelism: int = 128) -> SavepointWriter:
        """Begin with nothing; a job that starts from the savepoint must have the same max parallelism."""
        if not 1 <= max_parallelism <= _MOST_GROUPS:
            what = f"max parallelism {max_parallelism!r} is not from 1 to {_MOST_GROUPS}"
            raise located(InvalidArgumentError(describe(what, remedy="use that of the job, 128 by default")))
        return SavepointWriter(Draft(max_parallelism))

    @staticmethod
    def from_existing_savepoint(path: str | Path, storage_options: StorageOptions = None) -> SavepointWriter:
        """Begin with all that a savepoint, or a checkpoint directory, has: source positions, time, and state.

        `storage_options` are what the file system of an address (`s3://...`) must know.
        """
        source = open_state(str(path), storage_options)
        return SavepointWriter(Draft(source.max_parallelism, source))

    def with_state(
        self,
        uid: str,
        descriptor: StateDescriptor,
        data: Any,
        *,
        key: str | Sequence[str] | None = None,
        key_type: TypeLike = None,
        map_key: str = "map_key",
        value: str | None = None,
        last_access: str | None = None,
    ) -> Self:
        """Let rows be one keyed state of an operator, in place of what it was.

        The types are those of the descriptor, or, if that has none, of the state so far. A value with fields comes from
        the columns of these names, or from a struct in the column `value`. Of state that expires, `last_access` names
        the column that tells when each entry was last touched, in ms; without it all are touched when the job starts.

        Args:
            uid: the operator's uid.
            descriptor: the one by which the function asks for the state.
            data: a row for each key, of a map for each of its entries; or pairs of key and value.
            key: the column of the key, or several, which are a tuple then; `key` if not given.
            key_type: the type of the key, if it is more than its columns tell.
            map_key: the column of the key inside a map.
            value: the column of the value, if it is not `value` or the only one left.
            last_access: the column with the time of the last access.
        """
        shape = self._shape(descriptor)
        config = descriptor.ttl_config
        ttl = config.get_ttl().to_milliseconds() if config is not None and config.is_enabled() else None
        if last_access is not None and ttl is None:
            what = f"last_access= is given, and state {descriptor.name!r} does not expire"
            raise located(InvalidArgumentError(describe(what, remedy="enable_time_to_live(...) of the descriptor")))
        stored = self._stored(uid, descriptor.name)
        names = Names(_key_names(key, stored), map_key, value, last_access=last_access)
        declared = descriptor.type_info
        kinds = Kinds(read_type(key_type), declared, stored.key, stored.value, stored.value_names)
        self._draft.add(StateSpec(uid, descriptor.name, shape, names, kinds, ttl, users_line()), _data(data))
        return self

    def with_broadcast_state(
        self, uid: str, descriptor: MapStateDescriptor, data: Any, *, map_key: str = "map_key", value: str | None = None
    ) -> Self:
        """Let rows, or pairs of map key and value, be a broadcast state of an operator, in this order."""
        require(descriptor, MapStateDescriptor, "a MapStateDescriptor", "pass the one of the broadcast stream")
        kinds = Kinds(value=descriptor.type_info)
        names = Names((), map_key, value)
        self._draft.add(StateSpec(uid, descriptor.name, BROADCAST, names, kinds, None, users_line()), _data(data))
        return self

    def with_timers(
        self,
        uid: str,
        data: Any,
        *,
        key: str | Sequence[str] | None = None,
        key_type: TypeLike = None,
        time: str = "time",
        domain: TimeDomain = TimeDomain.EVENT_TIME,
    ) -> Self:
        """Let rows, or pairs of key and time in ms, be the timers of an operator in one domain of time."""
        require(domain, TimeDomain, "a TimeDomain", "pass TimeDomain.EVENT_TIME or TimeDomain.PROCESSING_TIME")
        name = "#event-timers" if domain is TimeDomain.EVENT_TIME else "#processing-timers"
        stored = self._stored(uid, name)
        names = Names(_key_names(key, stored), time=time)
        kinds = Kinds(read_type(key_type), stored_key=stored.key)
        self._draft.add(StateSpec(uid, name, TIMERS, names, kinds, None, users_line()), _data(data))
        return self

    def remove_operator(self, uid: str) -> Self:
        """Leave out all state of an operator."""
        self._check_known(uid)
        self._draft.remove_operator(uid)
        return self

    def remove_state(self, uid: str, name: str) -> Self:
        """Leave out one state of an operator."""
        tables = self._check_known(uid)
        names = (f"{uid}/{name}", f"{uid}/#broadcast/{name}", f"{uid}/#{name}")
        found = next((each for each in names if each in tables), None)
        if found is None:
            own = [table.removeprefix(f"{uid}/") for table in tables]
            known = ", ".join(repr(each.removeprefix("#")) for each in own if not each.startswith("#ttl:"))
            what = f"operator {uid!r} has no state {name!r}"
            raise located(InvalidArgumentError(describe(what, remedy=f"it has {known}"), uid=uid))
        self._draft.remove_table(uid, found)
        return self

    def write(
        self,
        path: str | Path,
        *,
        tags: Sequence[str] = (),
        comment: str = "",
        storage_options: StorageOptions = None,
    ) -> str:
        """Write the savepoint into a directory that is empty or not there; return its path.

        `storage_options` are what the file system of an address (`s3://...`) must know.

        Raises:
            SavepointError: it could not be written; nothing is left there then.
            InvalidArgumentError: some data cannot be the state it was given for.
        """
        self._draft.write(str(path), _write_state, Notes("written", tuple(tags), comment), storage_options)
        return str(path)

    @staticmethod
    def _shape(descriptor: Any) -> str:
        shape = _SHAPES.get(type(descriptor))
        if shape is None and isinstance(descriptor, StateDescriptor):
            line = users_line()
            what, remedy = f"{descriptor!r} cannot be written", "write value, list, map, reducing or aggregating state"
            raise UnsupportedError(describe(what, line, remedy), location=line)
        if shape is None:
            remedy = "pass the descriptor by which the function asks for the state"
            require(descriptor, StateDescriptor, "a state descriptor", remedy)
            raise AssertionError
        return shape

    def _stored(self, uid: str, name: str) -> Existing:
        """Return what keys and values of a state are so far, where they are all of one kind."""
        base = self._draft.base
        return existing(View(tuple([] if base is None else base.parts(f"{uid}/{name}"))).layout)

    def _check_known(self, uid: str) -> list[str]:
        """Return the tables of an operator, kept or new."""
        base = self._draft.base
        tables = [] if base is None else [table.name for table in base.tables() if table.uid == uid]
        tables += [table for table, (spec, _) in self._draft.added.items() if spec.uid == uid]
        if not tables and (base is None or uid not in base.operators()):
            known = [] if base is None else list(base.operators())
            known += [spec.uid for spec, _ in self._draft.added.values()]
            names = ", ".join(map(repr, dict.fromkeys(known))) or "none"
            what = f"there is no operator {uid!r}"
            raise located(UnknownUidError(describe(what, remedy=f"there are {names}"), uid=uid))
        return tables


def _key_names(key: str | Sequence[str] | None, stored: Existing) -> tuple[str, ...]:
    """Return the columns of the key; if they are not given, those under which the key is shown."""
    if key is None:
        return stored.key_names or ("key",)
    return (key,) if isinstance(key, str) else tuple(key)


def _data(data: Any) -> Any:
    """Return data as a DataFrame, an Arrow table, or as it is."""
    if hasattr(data, "isStreaming"):
        if data.isStreaming:
            what = "the data is a streaming DataFrame, which never ends"
            raise located(InvalidArgumentError(describe(what, remedy="pass one that spark.read gives")))
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if type(data).__module__.startswith("pandas.") and hasattr(data, "columns"):
        return pa.Table.from_pandas(data, preserve_index=False)
    return data


def _write_state(writer: PartWriter, data: Any) -> Sequence[WrittenPart]:
    if hasattr(data, "isStreaming"):
        return spark_tables().write_frame(writer, data)
    return writer.write_table(data) if isinstance(data, pa.Table) else writer.write_pairs(data)
