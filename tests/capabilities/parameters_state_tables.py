"""Parameters of state as tables, and of savepoints that are written from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from flintstream import (
    ListStateDescriptor,
    MapStateDescriptor,
    SavepointWriter,
    StateTtlConfig,
    TimeDomain,
    ValueStateDescriptor,
    savepoint,
)
from flintstream.api.savepoints import show
from flintstream.errors import InvalidArgumentError, TypeMismatchError, UnknownUidError
from tests.capabilities.parameters import ABSENT, Bench, case, named

NUMBER = ValueStateDescriptor("n", int)
LISTS = ListStateDescriptor("l", int)
PAIRS = MapStateDescriptor("m", str, int)
TABLE = pa.table({"key": ["a"], "other": ["b"], "map_key": ["p"], "inner": ["q"], "value": [1], "more": [2], "at": [5]})


def expiring() -> ValueStateDescriptor:
    descriptor = ValueStateDescriptor("n", int)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder("1h").build())
    return descriptor


def made(bench: Bench, numbers: int = 1) -> str:
    """Return a savepoint with some state of two operators."""
    writer = SavepointWriter.new_savepoint().with_state("one", NUMBER, [("a", numbers)])
    writer.with_state("two", LISTS, [("a", [1, 2])]).with_state("two", NUMBER, [("a", 9)])
    writer.with_timers("one", [("a", 7)]).with_timers("two", [("a", 8)])
    return writer.write(bench.folder() / "made")


def rows(table: Any) -> list[tuple[Any, ...]]:
    found = table if isinstance(table, pa.Table) else table.toArrow()
    return [tuple(row.values()) for row in found.to_pylist()]


def looked(look: Callable[[Any, Any], Any]) -> Callable[[Bench, Any], Any]:
    """A program that looks at `made` with a value of some parameter."""
    return lambda bench, value: look(savepoint(made(bench)), value)


def both_ways(bench: Bench, table: Callable[..., Any], arrow: Any) -> str:
    """Tell by its type whether a table came with Spark or without."""
    bench.env()  # starts the session of the tests, which is the active one then
    return type(table(**named("arrow", arrow))).__name__


case(
    "savepoint.path",
    lambda bench, number: rows(savepoint(Path(made(bench, number))).state("one", "n", arrow=True)),
    (1, [("a", 1)]),
    (2, [("a", 2)]),
)


def session_of(bench: Bench, named_so: str) -> str:
    """Return the application of the session that made a DataFrame, of two that share Spark."""
    session = bench.env()._settings.session.newSession()
    session.conf.set("flintstream.test", named_so)
    frame = savepoint(made(bench), spark=session).state("one", "n")
    return frame.sparkSession.conf.get("flintstream.test")


case("savepoint.spark", session_of, ("one", "one"), ("two", "two"), on_spark=True)
case(
    "SavepointReader.states.uid",
    looked(lambda found, uid: [info.name for info in found.states(uid)]),
    ("one", ["n", "event-timers"]),
    ("two", ["l", "n", "event-timers"]),
    ("three", UnknownUidError),
)
case(
    "SavepointReader.state.uid",
    looked(lambda f, uid: rows(f.state(uid, "n", arrow=True))),
    ("one", [("a", 1)]),
    ("two", [("a", 9)]),
)
case(
    "SavepointReader.state.name",
    looked(lambda found, name: rows(found.state("two", name, arrow=True))),
    ("n", [("a", 9)]),
    ("l", [("a", [1, 2])]),
    ("x", InvalidArgumentError),
)
case(
    "SavepointReader.state.explode",
    looked(lambda found, explode: rows(found.state("two", "l", arrow=True, **named("explode", explode)))),
    (ABSENT, [("a", [1, 2])]),
    (True, [("a", 0, 1), ("a", 1, 2)]),
)
for method, table in (
    ("state", lambda found: lambda **options: found.state("one", "n", **options)),
    ("timers", lambda found: lambda **options: found.timers("one", **options)),
    ("positions", lambda found: found.positions),
):
    case(
        f"SavepointReader.{method}.arrow",
        lambda bench, arrow, table=table: both_ways(bench, table(savepoint(made(bench))), arrow),
        (ABSENT, "DataFrame"),
        (True, "Table"),
        on_spark=True,
    )
case(
    "SavepointReader.timers.uid",
    looked(lambda found, uid: rows(found.timers(uid, arrow=True))),
    ("one", [("a", 7, "event")]),
    ("two", [("a", 8, "event")]),
)
case(
    "SavepointReader.diff.other",
    lambda bench, number: savepoint(made(bench)).diff(made(bench, number)).summary()[0].different,
    (1, 0),
    (2, 1),
)
case(
    "SavepointDiff.state.uid",
    lambda bench, uid: rows(savepoint(made(bench)).diff(made(bench, 2)).state(uid, "n", arrow=True)),
    ("one", [("different", "a", 1, 2)]),
    ("two", []),
)
case(
    "SavepointDiff.state.name",
    lambda bench, name: len(savepoint(made(bench)).diff(made(bench, 2)).state("one", name, arrow=True)),
    ("n", 1),
    ("event-timers", 0),
    ("x", InvalidArgumentError),
)
case(
    "SavepointDiff.state.arrow",
    lambda bench, arrow: both_ways(
        bench, lambda **options: savepoint(made(bench)).diff(made(bench, 2)).state("one", "n", **options), arrow
    ),
    (ABSENT, "DataFrame"),
    (True, "Table"),
    on_spark=True,
)


def written(bench: Bench, add: Callable[[SavepointWriter], Any], uid: str = "op", name: str = "n") -> Any:
    """Return the rows of a state that a writer made."""
    writer = SavepointWriter.new_savepoint()
    add(writer)
    return rows(savepoint(writer.write(bench.folder() / "sp")).state(uid, name, arrow=True))


def with_state(**fixed: Any) -> Callable[[Bench, Any], Any]:
    """A program that writes one state, with one argument as the case says."""
    (parameter,) = [name for name, value in fixed.items() if value is ...]
    arguments = {"uid": "op", "descriptor": NUMBER, "data": TABLE, **fixed}

    def program(bench: Bench, value: Any) -> Any:
        given = {name: each for name, each in {**arguments, parameter: value}.items() if each is not ABSENT}
        return written(bench, lambda writer: writer.with_state(**given), given["uid"], given["descriptor"].name)

    return program


case(
    "SavepointWriter.new_savepoint.max_parallelism",
    lambda bench, groups: (
        show(
            SavepointWriter.new_savepoint(**named("max_parallelism", groups)).write(bench.folder() / "sp")
        ).max_parallelism
    ),
    (ABSENT, 128),
    (4, 4),
    (0, InvalidArgumentError),
)
case(
    "SavepointWriter.from_existing_savepoint.path",
    lambda bench, number: rows(
        savepoint(SavepointWriter.from_existing_savepoint(made(bench, number)).write(bench.folder() / "copy")).state(
            "one", "n", arrow=True
        )
    ),
    (1, [("a", 1)]),
    (2, [("a", 2)]),
)
case(
    "SavepointWriter.with_state.uid",
    lambda b, uid: (with_state(uid=...)(b, uid), uid),
    ("x", ([("a", 1)], "x")),
    ("y", ([("a", 1)], "y")),
)
case(
    "SavepointWriter.with_state.descriptor",
    with_state(descriptor=...),
    (NUMBER, [("a", 1)]),
    (ValueStateDescriptor("f", float), [("a", 1.0)]),
    (ValueStateDescriptor("s", str), TypeMismatchError),
)
case(
    "SavepointWriter.with_state.data",
    with_state(data=...),
    (TABLE, [("a", 1)]),
    ([("z", 5)], [("z", 5)]),
    ([1], InvalidArgumentError),
)
case(
    "SavepointWriter.with_state.key",
    with_state(key=...),
    (ABSENT, [("a", 1)]),
    ("other", [("b", 1)]),
    (["key", "other"], [("a", "b", 1)]),
    ("none", InvalidArgumentError),
)
case(
    "SavepointWriter.with_state.key_type",
    with_state(key_type=..., key="more"),
    (ABSENT, [(2, 1)]),
    (float, [(2.0, 1)]),
    (str, TypeMismatchError),
)
case(
    "SavepointWriter.with_state.map_key",
    with_state(map_key=..., descriptor=PAIRS),
    (ABSENT, [("a", "p", 1)]),
    ("inner", [("a", "q", 1)]),
)
case(
    "SavepointWriter.with_state.value",
    with_state(value=...),
    (ABSENT, [("a", 1)]),
    ("more", [("a", 2)]),
    ("other", TypeMismatchError),
)
case(
    "SavepointWriter.with_state.last_access",
    with_state(last_access=..., descriptor=expiring()),
    (ABSENT, [("a", 1)]),
    ("at", [("a", 1, 5)]),
    ("more", [("a", 1, 2)]),
)


def with_broadcast(**fixed: Any) -> Callable[[Bench, Any], Any]:
    (parameter,) = [name for name, value in fixed.items() if value is ...]
    arguments = {"uid": "op", "descriptor": PAIRS, "data": TABLE, **fixed}

    def program(bench: Bench, value: Any) -> Any:
        given = {name: each for name, each in {**arguments, parameter: value}.items() if each is not ABSENT}
        found = written(
            bench, lambda writer: writer.with_broadcast_state(**given), given["uid"], given["descriptor"].name
        )
        return (value, found) if parameter == "uid" else found

    return program


case(
    "SavepointWriter.with_broadcast_state.uid",
    with_broadcast(uid=...),
    ("x", ("x", [("p", 1)])),
    ("y", ("y", [("p", 1)])),
)
case(
    "SavepointWriter.with_broadcast_state.descriptor",
    with_broadcast(descriptor=...),
    (PAIRS, [("p", 1)]),
    (MapStateDescriptor("f", str, float), [("p", 1.0)]),
    (NUMBER, TypeMismatchError),
)
case(
    "SavepointWriter.with_broadcast_state.data", with_broadcast(data=...), (TABLE, [("p", 1)]), ([("z", 5)], [("z", 5)])
)
case(
    "SavepointWriter.with_broadcast_state.map_key",
    with_broadcast(map_key=...),
    (ABSENT, [("p", 1)]),
    ("inner", [("q", 1)]),
)
case(
    "SavepointWriter.with_broadcast_state.value", with_broadcast(value=...), (ABSENT, [("p", 1)]), ("more", [("p", 2)])
)


def with_timers(**fixed: Any) -> Callable[[Bench, Any], Any]:
    (parameter,) = [name for name, value in fixed.items() if value is ...]
    arguments = {"uid": "op", "data": TABLE, "time": "at", **fixed}

    def program(bench: Bench, value: Any) -> Any:
        given = {name: each for name, each in {**arguments, parameter: value}.items() if each is not ABSENT}
        path = SavepointWriter.new_savepoint().with_timers(**given).write(bench.folder() / "sp")
        found = rows(savepoint(path).timers(given["uid"], arrow=True))
        return (value, found) if parameter == "uid" else found

    return program


FIVE = ("a", 5, "event")
case("SavepointWriter.with_timers.uid", with_timers(uid=...), ("x", ("x", [FIVE])), ("y", ("y", [FIVE])))
case("SavepointWriter.with_timers.data", with_timers(data=...), (TABLE, [FIVE]), ([("z", 6)], [("z", 6, "event")]))
case("SavepointWriter.with_timers.key", with_timers(key=...), (ABSENT, [FIVE]), ("other", [("b", 5, "event")]))
case(
    "SavepointWriter.with_timers.key_type",
    with_timers(key_type=..., key="more"),
    (ABSENT, [(2, 5, "event")]),
    (float, [(2.0, 5, "event")]),
)
case(
    "SavepointWriter.with_timers.time",
    lambda bench, time: with_timers(time=..., data=TABLE.rename_columns(["key", "o", "m", "i", "v", "time", "at"]))(
        bench, time
    ),
    (ABSENT, [("a", 2, "event")]),
    ("at", [FIVE]),
)
case(
    "SavepointWriter.with_timers.domain",
    with_timers(domain=...),
    (ABSENT, [FIVE]),
    (TimeDomain.PROCESSING_TIME, [("a", 5, "processing")]),
    ("event", TypeMismatchError),
)


def without(bench: Bench, remove: Callable[[SavepointWriter], Any]) -> dict[str, list[str]]:
    """Return which states are left of `made`."""
    writer = SavepointWriter.from_existing_savepoint(made(bench))
    remove(writer)
    found = savepoint(writer.write(bench.folder() / "sp"))
    return {uid: [info.name for info in found.states(uid)] for uid in found.operators()}


ONE, TWO = {"one": ["n", "event-timers"]}, {"two": ["l", "n", "event-timers"]}
case(
    "SavepointWriter.remove_operator.uid",
    lambda bench, uid: without(bench, lambda writer: writer.remove_operator(uid)),
    ("two", ONE),
    ("one", TWO),
    ("three", UnknownUidError),
)
case(
    "SavepointWriter.remove_state.uid",
    lambda bench, uid: without(bench, lambda writer: writer.remove_state(uid, "n")),
    ("one", {"one": ["event-timers"], **TWO}),
    ("two", {**ONE, "two": ["l", "event-timers"]}),
)
case(
    "SavepointWriter.remove_state.name",
    lambda bench, name: without(bench, lambda writer: writer.remove_state("two", name)),
    ("n", {**ONE, "two": ["l", "event-timers"]}),
    ("l", {**ONE, "two": ["n", "event-timers"]}),
    ("x", InvalidArgumentError),
)


def labelled(bench: Bench, **options: Any) -> Any:
    return show(SavepointWriter.new_savepoint().write(bench.folder() / "sp", **options))


def place(bench: Bench, name: str) -> str:
    return Path(SavepointWriter.new_savepoint().write(bench.folder() / name)).name


case("SavepointWriter.write.path", place, ("x", "x"), ("y", "y"))
case(
    "SavepointWriter.write.tags", lambda b, tags: labelled(b, **named("tags", tags)).tags, (ABSENT, ()), (["t"], ("t",))
)
case(
    "SavepointWriter.write.comment",
    lambda b, text: labelled(b, **named("comment", text)).comment,
    (ABSENT, ""),
    ("c", "c"),
)
