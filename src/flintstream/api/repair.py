"""Repair: what a bug wrote is found by replaying the mended program, and only the corrections are sent.

Apart from A/B tests because it compares with what the sink holds, and writes. It looks before it writes: without
`apply` nothing is sent. Corrections are upserts and deletes by key, in one epoch and hence one transaction where the
sink has them; whoever is interrupted starts again, and finds only what is left to mend.

A row that the mended program does not give is only removed if it is known that the program should have given it: the
wrong program gave it in the same replay, or the user says that the replay covers it. All other rows may be older than
the replay's beginning, and are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa

from flintstream.api.environment import StreamExecutionEnvironment
from flintstream.api.experiment_report import SHOWN, in_columns, table_of
from flintstream.api.replay import Declare, Outputs, Places, Stage, replay, sinks_of
from flintstream.connectors.changes import kind_of, record_of
from flintstream.connectors.fields import fields_of
from flintstream.errors import InvalidArgumentError, describe
from flintstream.model.config import RuntimeExecutionMode
from flintstream.model.connect import Sink
from flintstream.model.location import refused
from flintstream.model.row import Row, RowKind
from flintstream.state.keybytes import canonical

Fields: TypeAlias = Mapping[str, Any]
MENDED, WRONG = "mended", "wrong"


@dataclass(frozen=True)
class Correction:
    """One row to mend: `was` is what the sink holds, `now` what it should hold; None is no row."""

    key: tuple[Any, ...]
    was: Fields | None
    now: Fields | None

    @property
    def kind(self) -> str:
        """What is done: "insert", "update" or "delete"."""
        if self.was is None:
            return "insert"
        return "update" if self.now is not None else "delete"

    def record(self) -> Row:
        """Return what is sent to the sink."""
        if self.now is not None:
            return Row(**self.now)
        assert self.was is not None
        return Row.of_kind(RowKind.DELETE, **self.was)


@dataclass(frozen=True)
class Repair:
    """What there is to mend in a sink.

    Attributes:
        sink: The sink's uid.
        corrections: What is to be sent, or was.
        right: How many rows of the mended program the sink holds already.
        left_alone: How many rows it holds that the replay says nothing about.
        is_applied: Whether the corrections were sent.
        key_names: The fields by which rows replace each other.
    """

    sink: str
    corrections: list[Correction]
    right: int
    left_alone: int
    is_applied: bool
    key_names: tuple[str, ...]
    _send: Callable[[Sequence[Correction]], None] = field(repr=False, compare=False)

    def apply(self) -> Repair:
        """Send the corrections, and return the same with `is_applied`; a second time does nothing."""
        if self.is_applied:
            return self
        if self.corrections:
            self._send(self.corrections)
        return replace(self, is_applied=True)

    def table(self) -> pa.Table:
        """Return the corrections as an Arrow table: what is done, and each field as it was and as it is to be."""
        return table_of([_flat(each, self.key_names) for each in self.corrections])

    def __str__(self) -> str:
        kinds = [each.kind for each in self.corrections]
        counts = ", ".join(f"{kinds.count(kind):,} {kind}s" for kind in ("insert", "update", "delete"))
        done = "sent" if self.is_applied else "to send (nothing was sent)"
        head = f"{self.sink}: {counts} {done}; {self.right:,} rows are right, {self.left_alone:,} were left alone"
        shown = [_flat(each, self.key_names) for each in self.corrections[:SHOWN]]
        more = [f"  the first {len(shown)} of {len(kinds):,}"] if len(kinds) > len(shown) else []
        return "\n".join([head, *more, *(f"  {line}" for line in in_columns(shown) if shown)])


def _flat(each: Correction, key_names: tuple[str, ...]) -> dict[str, Any]:
    """Return a correction as one row: what changes has a column for what it was, and one for what it is to be."""
    row: dict[str, Any] = {"do": each.kind}
    was, now = each.was or {}, each.now or {}
    for name in dict.fromkeys([*was, *now]):
        if name in key_names or each.was is None:
            row[name] = now.get(name) if each.now is not None else was[name]
        elif each.now is None:
            row[f"{name} was"] = was[name]
        elif canonical(was.get(name)) == canonical(now.get(name)):
            row[name] = now.get(name)
        else:
            row.update({f"{name} was": was.get(name), name: now.get(name)})
    return row


def repair(
    env: StreamExecutionEnvironment,
    program: Declare,
    *,
    sink: str | None = None,
    key: str | Sequence[str] | None = None,
    savepoint: str | None = None,
    start_from: Places | None = None,
    until: Places | None = "now",
    wrong: Declare | None = None,
    holds: Iterable[Any] | Callable[[], Iterable[Any]] | None = None,
    covers: Callable[[Fields], bool] | None = None,
    apply: bool = False,
    allow_non_restored_state: bool = False,
    trust: bool = False,
) -> Repair:
    """Find what a mended program would have written otherwise, and with `apply` send the corrections to its sink.

    Stop the wrong job first. The corrections are found by replaying `program` from a savepoint, or from `start_from`,
    and comparing with what the sink holds.

    Args:
        env: Where to run: its runtime, session and settings are used, its checkpoint directory is not.
        program: The mended program, as a function that declares it on an environment.
        sink: The uid of the sink to mend; needed if the program has several.
        key: The fields by which rows replace each other; needed if the sink does not say.
        savepoint: Where the replay begins, with its state and positions: one from before the bug.
        start_from: Where sources begin if there is no savepoint, as in `from_source`, or a dict of such by uid.
        until: Where sources are left as they stand: where the wrong job was stopped.
        wrong: The program with the bug: rows that it gives in the same replay, and `program` does not, are removed.
        holds: The rows that the sink holds, or a function that reads them. Without it the sink is asked; one that
            cannot be asked is taken to hold what `wrong` gives.
        covers: Says of a row's fields whether the replay would have given it, if it were right: then it is removed.
        apply: Send the corrections; otherwise they are only shown.
        allow_non_restored_state: Drop state of the savepoint that no version has an operator for.
        trust: Read pickled objects in the savepoint, which can run code.
    """
    chosen, target = _sink_of(env, program, sink)
    table = target.held_table()
    names = _key_names(key, table.key if table is not None else None)
    if holds is None and table is None and wrong is None:
        what = f"nobody says what {type(target).__name__} {chosen!r} holds"
        raise refused(InvalidArgumentError, what, "give holds=..., or the program with the bug as wrong=...")
    outputs = replay(
        env,
        {MENDED: program} if wrong is None else {MENDED: program, WRONG: wrong},
        savepoint=savepoint,
        start_from=start_from,
        until=until,
        allow_non_restored_state=allow_non_restored_state,
        trust=trust,
        job_name="repair",
    )
    fit = _fields if table is None else table.fitted
    should, _ = _folded(outputs.of(MENDED, chosen), fit, names)
    gave, touched = _folded(_given(outputs, chosen), fit, names)
    if holds is not None:
        held, _ = _folded(list(holds() if callable(holds) else holds), fit, names)
    else:
        held = gave if table is None else _placed(table.rows(), names)

    def is_ours(place: bytes, fields: Fields) -> bool:
        return place in touched or (covers is not None and covers(fields))

    corrections, right = _corrections(should, held, names, is_ours)
    alone = sum(place not in should and not is_ours(place, fields) for place, fields in held.items())

    def send(rows: Sequence[Correction]) -> None:
        stage = Stage(env)
        stage.set_runtime_mode(RuntimeExecutionMode.BATCH)
        stage.from_collection([row.record() for row in rows]).sink_to(target).uid(chosen)
        stage.execute(f"repair of {chosen}")

    found = Repair(chosen, corrections, right, alone, False, names, send)
    return found.apply() if apply else found


def _sink_of(env: StreamExecutionEnvironment, program: Declare, uid: str | None) -> tuple[str, Sink]:
    sinks = sinks_of(env, program)
    if uid is None and len(sinks) == 1:
        return next(iter(sinks.items()))
    if uid not in sinks:
        what = f"the program has no sink {uid!r}" if uid is not None else f"the program has {len(sinks)} sinks"
        raise refused(InvalidArgumentError, what, f"name the one to mend: {', '.join(map(repr, sinks))}")
    return uid, sinks[uid]


def _key_names(key: str | Sequence[str] | None, own: tuple[str, ...] | None) -> tuple[str, ...]:
    if key is None and own is None:
        what = "nobody says by which fields rows replace each other"
        raise refused(InvalidArgumentError, what, 'give key="field" or key=["field", ...]')
    if key is None:
        return own or ()
    names = (key,) if isinstance(key, str) else tuple(key)
    if not names or (own is not None and set(names) != set(own)):
        remedy = f"leave it out: the sink's is {', '.join(own)}" if own is not None else "name one field or more"
        raise refused(InvalidArgumentError, f"the key is {key!r:.100}", remedy)
    return names


def _given(outputs: Outputs, sink: str) -> list[Any]:
    """Return what the wrong program gave, if there is one."""
    return outputs.by_sink.get((WRONG, sink), [])


def _fields(records: Sequence[Any]) -> Sequence[Fields]:
    return [fields_of(record) for record in records]


def _folded(
    records: Sequence[Any], fit: Callable[[Sequence[Any]], Sequence[Fields]], names: tuple[str, ...]
) -> tuple[dict[bytes, Fields], set[bytes]]:
    """Return the last row of every key, and all keys that ever had one."""
    changes = [record for record in records if kind_of(record) is not RowKind.UPDATE_BEFORE]
    table: dict[bytes, Fields] = {}
    touched: set[bytes] = set()
    for record, fields in zip(changes, fit([record_of(each) for each in changes]), strict=True):
        place = canonical(_key(fields, names))
        touched.add(place)
        if kind_of(record) is RowKind.DELETE:
            table.pop(place, None)
        else:
            table[place] = fields
    return table, touched


def _placed(rows: Iterable[Fields], names: tuple[str, ...]) -> dict[bytes, Fields]:
    return {canonical(_key(fields, names)): fields for fields in rows}


def _key(fields: Fields, names: tuple[str, ...]) -> tuple[Any, ...]:
    missing = [name for name in names if name not in fields]
    if missing:
        what = f"a row has no field {missing[0]!r}, but {', '.join(fields)}"
        raise InvalidArgumentError(describe(what, remedy="give the fields of the key as rows have them"))
    return tuple(fields[name] for name in names)


def _corrections(
    should: Mapping[bytes, Fields],
    held: Mapping[bytes, Fields],
    names: tuple[str, ...],
    is_ours: Callable[[bytes, Fields], bool],
) -> tuple[list[Correction], int]:
    """Return what is to be mended, and how many rows need not be."""
    found: list[Correction] = []
    for place, now in should.items():
        was = held.get(place)
        if was is None or canonical(dict(was)) != canonical(dict(now)):
            found.append(Correction(_key(now, names), was, now))
    right = len(should) - len(found)
    for place, was in held.items():
        if place not in should and is_ours(place, was):
            found.append(Correction(_key(was, names), was, None))
    return found, right
