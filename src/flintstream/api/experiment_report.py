"""Two outputs of a program compared: the rows that only one has, and those that differ, as text and as tables.

Apart from what runs the versions, because outputs may come from anywhere: two replays, files, what a sink holds. Values
are compared as Python's `==` does, but NaN equals itself: a comparison of two equal runs must be empty.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from flintstream.api.arguments import located
from flintstream.connectors.changes import kind_of, record_of
from flintstream.connectors.fields import fields_of
from flintstream.connectors.records import batch_of_rows
from flintstream.errors import InvalidArgumentError, TypeMismatchError, describe
from flintstream.model.row import RowKind
from flintstream.state.keybytes import canonical

SHOWN = 10
"""How many rows of each kind a report prints."""

RowKey: TypeAlias = str | int | Sequence[str | int] | Callable[[Any], Any] | None
"""By what rows belong together: fields by name or position, a function of a record; None compares whole rows."""


@dataclass(frozen=True)
class Difference:
    """A key whose rows differ, with both of them."""

    key: tuple[Any, ...]
    a: Any
    b: Any


@dataclass(frozen=True)
class Comparison:
    """What two versions gave to one sink, compared.

    Attributes:
        sink: The sink's uid.
        names: What the two versions are called.
        same: How many rows both have.
        only_a: The rows, or keys' last rows, that only the first version has.
        only_b: Those that only the second one has.
        different: The keys of which both have a row, and not the same.
        key_names: What the parts of a key are called.
    """

    sink: str
    names: tuple[str, str]
    same: int
    only_a: list[Any]
    only_b: list[Any]
    different: list[Difference]
    key_names: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not (self.only_a or self.only_b or self.different)

    def tables(self) -> dict[str, pa.Table]:
        """Return the rows as Arrow tables, by "only_a", "only_b" and "different", which has columns of both."""
        return {
            "only_a": table_of(self.only_a),
            "only_b": table_of(self.only_b),
            "different": table_of([self._side_by_side(each) for each in self.different]),
        }

    def _side_by_side(self, each: Difference) -> dict[str, Any]:
        row = dict(zip(self.key_names, each.key, strict=True))
        for name, version in zip(self.names, (each.a, each.b), strict=True):
            fields = fields_of(version)
            row.update({f"{field}_{name}": value for field, value in fields.items() if field not in self.key_names})
        return row

    def __str__(self) -> str:
        a, b = self.names
        counts = f"{len(self.only_a):,} only in {a}, {len(self.only_b):,} only in {b}, {len(self.different):,} differ"
        lines = [f"{self.sink}: {self.same:,} rows are the same, {counts}"]
        for name, rows in zip(self.names, (self.only_a, self.only_b), strict=True):
            lines += _block(f"only in {name}", [dict(fields_of(row)) for row in rows[:SHOWN]], len(rows))
        changed = [self._changed(each) for each in self.different[:SHOWN]]
        lines += _block("differ", changed, len(self.different))
        return "\n".join(lines)

    def _changed(self, each: Difference) -> dict[str, Any]:
        """Return the key, and both values of the fields that differ."""
        row = dict(zip(self.key_names, each.key, strict=True))
        sides = [fields_of(each.a), fields_of(each.b)]
        for field in dict.fromkeys(name for side in sides for name in side):
            values = [side.get(field) for side in sides]
            if canonical(values[0]) != canonical(values[1]):
                row.update({f"{field} ({name})": value for name, value in zip(self.names, values, strict=True)})
        return row


def compare_outputs(
    a: Iterable[Any],
    b: Iterable[Any],
    key: RowKey = None,
    *,
    names: tuple[str, str] = ("A", "B"),
    sink: str = "output",
) -> Comparison:
    """Compare two outputs.

    With a key, an output is a table: the last record of a key counts, and one of the kind DELETE removes it. Without
    one, whole rows are compared, each as often as it came, whatever the order.

    >>> print(compare_outputs([("x", 1), ("y", 2)], [("x", 1), ("y", 3)], key="f0"))
    output: 1 rows are the same, 0 only in A, 0 only in B, 1 differ
      differ
        f0  f1 (A)  f1 (B)
        y   2       3
    """
    if key is None:
        same, only_a, only_b = _by_row(a, b)
        return Comparison(sink, names, same, only_a, only_b, [])
    read = KeyReader(key)
    left, right = last_by_key(a, read), last_by_key(b, read)
    different: list[Difference] = []
    for place, (parts, row) in left.items():
        if place in right and canonical(row) != canonical(right[place][1]):
            different.append(Difference(parts, row, right[place][1]))
    same = len(left.keys() & right.keys()) - len(different)
    only_a = [row for place, (_, row) in left.items() if place not in right]
    only_b = [row for place, (_, row) in right.items() if place not in left]
    return Comparison(sink, names, same, only_a, only_b, different, read.names)


def _by_row(a: Iterable[Any], b: Iterable[Any]) -> tuple[int, list[Any], list[Any]]:
    left = [(canonical(row), row) for row in a]
    counts: dict[bytes, int] = {}
    for place, _ in left:
        counts[place] = counts.get(place, 0) + 1
    only_b: list[Any] = []
    for row in b:
        place = canonical(row)
        if counts.get(place, 0):
            counts[place] -= 1
        else:
            only_b.append(row)
    only_a: list[Any] = []
    for place, row in reversed(left):
        if counts[place]:
            counts[place] -= 1
            only_a.append(row)
    return len(left) - len(only_a), only_a[::-1], only_b


class KeyReader:
    """Reads the key of a record, as a tuple; `names` are what its parts are called."""

    def __init__(self, key: RowKey) -> None:
        self._function = key if callable(key) else None
        parts: tuple[Any, ...] = () if callable(key) else (key,)
        if isinstance(key, Sequence) and not isinstance(key, str):
            parts = tuple(key)
        wrong = [part for part in parts if isinstance(part, bool) or not isinstance(part, str | int)]
        if wrong or not (parts or self._function):
            what = f"{key!r:.100} names no fields to compare rows by"
            raise located(TypeMismatchError(describe(what, remedy="give names or positions of fields, or a function")))
        self._parts = parts
        self.names = tuple(f"f{part}" if isinstance(part, int) else part for part in parts) or ("key",)

    def __call__(self, record: Any) -> tuple[Any, ...]:
        """Return the key of a record."""
        if self._function is not None:
            return (self._function(record),)
        fields = fields_of(record)
        places = list(fields.values())
        try:
            return tuple(fields[part] if isinstance(part, str) else places[part] for part in self._parts)
        except (KeyError, IndexError) as error:
            what = (
                f"a row has no field {error.args[0]!r}: {record!r:.200}"
                if isinstance(error, KeyError)
                else (f"a row has only {len(places)} fields: {record!r:.200}")
            )
            raise InvalidArgumentError(describe(what, remedy="compare rows by fields that all of them have")) from None


def last_by_key(records: Iterable[Any], read: KeyReader) -> dict[bytes, tuple[tuple[Any, ...], Any]]:
    """Return key and last record of every key that has one, by the key's bytes, in the order of their first ones."""
    table: dict[bytes, tuple[tuple[Any, ...], Any]] = {}
    for record in records:
        kind, row = kind_of(record), record_of(record)
        if kind is RowKind.UPDATE_BEFORE:
            continue
        parts = read(row)
        place = canonical(parts)
        if kind is RowKind.DELETE:
            table.pop(place, None)
        else:
            table[place] = (parts, row)
    return table


def table_of(rows: Sequence[Any]) -> pa.Table:
    """Return records as an Arrow table, without columns if there are none."""
    return pa.Table.from_batches([batch_of_rows(rows)]) if rows else pa.table({})


def _block(title: str, rows: Sequence[Mapping[str, Any]], count: int) -> list[str]:
    """Return rows as lines, in columns under their names."""
    if not count:
        return []
    more = f", the first {len(rows)} of {count:,}" if count > len(rows) else ""
    return [f"  {title}{more}", *(f"    {line}" for line in in_columns(rows))]


def in_columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return rows as lines of text under a line with the names of their fields."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [names, *([f"{row[name]!s:.40}" if name in row else "" for name in names] for row in rows)]
    widths = [max(len(line[index]) for line in cells) for index in range(len(names))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def output_hash(records: Iterable[Any], *, ordered: bool = True) -> str:
    """Return a digest of an output: equal outputs have equal ones, in every process and on every machine.

    >>> output_hash([("a", 1), ("b", 2)]) == output_hash([("b", 2), ("a", 1)])
    False
    >>> output_hash([("a", 1), ("b", 2)], ordered=False) == output_hash([("b", 2), ("a", 1)], ordered=False)
    True

    Args:
        records: The output.
        ordered: Whether its order counts. In deterministic order (`env.deterministic_order()`) it is always the same.
    """
    digests = (hashlib.sha256(canonical(record)).digest() for record in records)
    if ordered:
        whole = hashlib.sha256()
        for digest in digests:
            whole.update(digest)
        return whole.hexdigest()
    # A sum keeps how often each record came, and forgets when.
    total = sum(int.from_bytes(digest, "big") for digest in digests) % (1 << 256)
    return f"{total:064x}"
