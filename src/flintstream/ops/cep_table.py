"""The partial matches of all keys on their way into state and back: plain columns there, objects here.

Written, chains become lists with numbers, each record once, all of plain values: so state is typed columns and not
pickles, which are ten times slower. Read, they are as few lists as there are columns, out of which the objects of a key
are made when it comes. An epoch writes most of what it has, and a worker that takes a partition over from another reads
all of it, so both ways are loops over flat lists, with a short cut for what most keys have: one partial match.

Flink: SharedBuffer's serializers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.ops.cep_state import Event, Link, Partial, Partials
from flintstream.state.codec import Kind, decode, encode, kind_of_field
from flintstream.state.table import Table

Packed = tuple[
    int, int | None, list[Event], list[tuple[int, str, int]], list[tuple[str, int]], list[tuple[int]]
]  # fmt: skip
"""Count, timer, records, links (the one before, stage, record), partial matches (place, link), complete ones (link)."""
Stored = tuple["Shelf", int]
"""Partial matches as they were read: where they are, and which of those."""
_WIDTHS = (3, 3, 2, 1)


class _Lists:
    """A column of lists of tuples, each position of the tuples in a list of its own."""

    __slots__ = ("columns", "offsets")

    def __init__(self, columns: list[list[Any]], offsets: list[int]) -> None:
        self.columns, self.offsets = columns, offsets

    @staticmethod
    def empty(width: int) -> _Lists:
        """Return a column without rows."""
        return _Lists([[] for _ in range(width)], [0])

    @staticmethod
    def read(array: pa.Array, kind: Kind, width: int) -> _Lists:
        """Return a column as it was written; a column of lists in which nothing is has no tuples."""
        offsets: list[int] = array.offsets.to_numpy().tolist()
        first = offsets[0] if offsets else 0
        if kind[1] == "none":
            return _Lists([[] for _ in range(width)], [0] * (len(array) + 1))
        rows = array.values.slice(first, offsets[-1] - first)
        columns = [decode(rows.field(number), each) for number, each in enumerate(kind[1][1])]
        return _Lists(columns, [offset - first for offset in offsets] if first else offsets)

    def array(self) -> tuple[pa.Array, Kind]:
        """Return the column and its kind, as `encode` would."""
        encoded = [encode(column) for column in self.columns]
        arrays, kinds = [array for array, _ in encoded], [kind for _, kind in encoded]
        rows = pa.StructArray.from_arrays(arrays, [f"f{number}" for number in range(len(arrays))])
        offsets = pa.array(np.fromiter(self.offsets, np.int64, len(self.offsets)))
        return pa.LargeListArray.from_arrays(offsets, rows), ["list", ["tuple", kinds]]

    def cells(self, number: int) -> list[list[Any]]:
        """Return one list, by the positions of its tuples."""
        start, stop = self.offsets[number], self.offsets[number + 1]
        return [column[start:stop] for column in self.columns]

    def extend(self, other: _Lists, number: int) -> None:
        """Append one list of another column, as what follows here."""
        for mine, theirs in zip(self.columns, other.cells(number), strict=True):
            mine += theirs

    def extend_rows(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Append tuples, as what follows here."""
        for column, cells in zip(self.columns, zip(*rows, strict=True), strict=False):
            column += cells


class Shelf:
    """Partial matches of many keys as flat lists: what is written is put here first, and what is read stays here."""

    __slots__ = ("counts", "done", "events", "links", "runs", "timers")

    def __init__(self, counts: list[Any], timers: list[Any], parts: Sequence[_Lists]) -> None:
        self.counts, self.timers = counts, timers
        self.events, self.links, self.runs, self.done = parts

    @staticmethod
    def read(array: pa.Array, kind: Kind) -> Shelf | None:
        """Return what `encode_partials` wrote; None of a column that has another shape."""
        if not _is_ours(kind):
            return None
        inner = kind[1]
        parts = [_Lists.read(array.field(n + 2), inner[n + 2], width) for n, width in enumerate(_WIDTHS)]
        return Shelf(decode(array.field(0), inner[0]), decode(array.field(1), inner[1]), parts)

    def put(self, values: Iterable[Partials | Packed | Stored | None]) -> None:
        """Append the partial matches of keys, None for a key that has none."""
        counts, timers = self.counts, self.timers
        (numbers, times, records), (parents, names, taken) = self.events.columns, self.links.columns
        (places, ends), (complete,) = self.runs.columns, self.done.columns
        offsets = self.events.offsets, self.links.offsets, self.runs.offsets, self.done.offsets
        end_events, end_links, end_runs, end_done = (each.append for each in offsets)
        for value in values:
            if type(value) is not Partials:
                self._put_read(value)
            else:
                counts.append(value.count)
                timers.append(value.timer)
                if len(value.runs) != 1 or value.done:
                    self._put_all(value)
                else:
                    place, _, link = value.runs[0]
                    new: list[Link] = [link]
                    while (link := link[0]) is not None:
                        new.append(link)
                    at = -1
                    for _, name, (number, time, record) in reversed(new):
                        numbers.append(number)
                        times.append(time)
                        records.append(record)
                        parents.append(at)
                        names.append(name)
                        at += 1
                        taken.append(at)
                    places.append(place)
                    ends.append(at)
            end_events(len(numbers))
            end_links(len(parents))
            end_runs(len(places))
            end_done(len(complete))

    def _put_read(self, value: Any) -> None:
        """Append what was read, or nothing."""
        parts = (self.events, self.links, self.runs, self.done)
        if value is None:
            self.counts.append(None)
            self.timers.append(None)
        elif len(value) == 2:
            shelf, number = value
            self.counts.append(shelf.counts[number])
            self.timers.append(shelf.timers[number])
            for mine, theirs in zip(parts, (shelf.events, shelf.links, shelf.runs, shelf.done), strict=True):
                mine.extend(theirs, number)
        else:
            self.counts.append(value[0])
            self.timers.append(value[1])
            for part, rows in zip(parts, value[2:], strict=True):
                part.extend_rows(rows)

    def _put_all(self, partials: Partials) -> None:
        """Append partial matches: each link once, after the one before it, and each record once."""
        linked: dict[int, int] = {}
        seen: dict[int, int] = {}
        numbers, times, values = self.events.columns
        parents, names, taken = self.links.columns
        (places, ends), (complete,) = self.runs.columns, self.done.columns
        for is_done, some in ((False, partials.runs), (True, partials.done)):
            for place, _, newest in some:
                link, new = newest, list[Link]()
                while link is not None and id(link) not in linked:
                    new.append(link)
                    link = link[0]
                before = -1 if link is None else linked[id(link)]
                for each in reversed(new):
                    _, name, event = each
                    at = seen.get(id(event))
                    if at is None:
                        at = seen[id(event)] = len(seen)
                        numbers.append(event[0])
                        times.append(event[1])
                        values.append(event[2])
                    parents.append(before)
                    names.append(name)
                    taken.append(at)
                    before = linked[id(each)] = len(linked)
                if is_done:
                    complete.append(before)
                else:
                    places.append(place)
                    ends.append(before)

    def take(self, number: int) -> Partials:
        """Return the partial matches of one key."""
        partials = Partials()
        partials.count, partials.timer = self.counts[number], self.timers[number]
        offsets = self.runs.offsets
        first, stop = offsets[number], offsets[number + 1]
        done = self.done.offsets
        if stop - first != 1 or done[number] != done[number + 1]:
            self._take_all(number, partials)
            return partials
        # One partial match is one chain: its links and records are in order, and nobody shares them.
        numbers, times, values = self.events.columns
        names, at, link, start = self.links.columns[1], self.links.offsets[number], None, None
        begin, end = self.events.offsets[number], self.events.offsets[number + 1]
        for which in range(begin, end):
            event = (numbers[which], times[which], values[which])
            start = start or event
            link = (link, names[at], event)
            at += 1
        chain: Any = (self.runs.columns[0][first], start, link)
        partials.runs.append(Partial._make(chain))
        return partials

    def _take_all(self, number: int, partials: Partials) -> None:
        """Fill in the partial matches of a key with several, or with complete ones that wait."""
        parents, names, taken = self.links.cells(number)
        events: list[Any] = list(zip(*self.events.cells(number), strict=True))
        links: list[Link] = []
        starts: list[Event] = []
        for parent, name, which in zip(parents, names, taken, strict=True):
            event = events[which]
            links.append((None if parent < 0 else links[parent], name, event))
            starts.append(event if parent < 0 else starts[parent])
        places, ends = self.runs.cells(number)
        partials.runs = [Partial(place, starts[end], links[end]) for place, end in zip(places, ends, strict=True)]
        partials.done = [Partial("", starts[end], links[end]) for end in self.done.cells(number)[0]]


def _is_ours(kind: Kind) -> bool:
    """Whether a column has the shape in which partial matches are written."""
    if type(kind) is not list or kind[0] != "tuple" or len(kind[1]) != 2 + len(_WIDTHS):
        return False
    for part, width in zip(kind[1][2:], _WIDTHS, strict=True):
        if type(part) is not list or part[0] != "list":
            return False
        inner = part[1]
        if inner != "none" and (type(inner) is not list or inner[0] != "tuple" or len(inner[1]) != width):
            return False
    return True


def encode_partials(values: Sequence[Partials | Packed | Stored | None]) -> tuple[pa.Array, Kind]:
    """Return the partial matches of many keys as one column; None for a key that has none."""
    shelf = Shelf([], [], [_Lists.empty(width) for width in _WIDTHS])
    shelf.put(values)
    columns = [(pa.array(column, pa.int64()), "int") for column in (shelf.counts, shelf.timers)]
    columns += [part.array() for part in (shelf.events, shelf.links, shelf.runs, shelf.done)]
    mask = pa.array([value is None for value in values]) if None in shelf.counts else None
    names = [f"f{number}" for number in range(len(columns))]
    array = pa.StructArray.from_arrays([array for array, _ in columns], names, mask=mask)
    return array, ["tuple", [kind for _, kind in columns]]


def unpack(value: Any) -> Partials:
    """Return the objects of what was read, from a file or out of a working store."""
    if len(value) == 2:
        shelf, number = value
        return shelf.take(number)
    packed = Shelf([], [], [_Lists.empty(width) for width in _WIDTHS])
    packed.put([value])
    return packed.take(0)


class PartialsTable(Table):
    """Partial matches by key: `Partials`, or as they were read."""

    def __init__(self) -> None:
        super().__init__("partial-matches")

    def of(self, key: Any) -> Partials | None:
        """Return the partial matches of a key, None if it has none."""
        found: Any = self.data[key]
        if type(found) is tuple:
            found = self.data[key] = unpack(found)
        return found

    def read_values(self, batch: pa.RecordBatch) -> Sequence[Any]:
        column = batch.schema.get_field_index("value")
        shelf = Shelf.read(batch.column(column), kind_of_field(batch.schema.field(column)))
        return super().read_values(batch) if shelf is None else list(zip(repeat(shelf), range(batch.num_rows)))

    def dirty_rows(self) -> Iterator[tuple[Any, Any]]:
        return map(_plain, super().dirty_rows())

    def rows(self) -> Iterator[tuple[Any, Any]]:
        return map(_plain, super().rows())

    def encode_values(self, values: list[Any]) -> tuple[pa.Array, Kind]:
        return encode_partials(values)


def _plain(row: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return a row with plain values, as a working store keeps them."""
    entry, value = row
    if isinstance(value, Partials) or (type(value) is tuple and len(value) == 2):
        return entry, decode(*encode_partials([value]))[0]
    return row
