"""The partial matches of one key: objects with shared chains in memory, plain columns in a changelog.

What a partial match has taken is a chain of links from its newest record backwards, so that those which began alike
share what they have in common, and Python frees what none needs any longer. Written, chains become lists with numbers,
each record once, all of plain values: so state is typed columns and not pickles, which are ten times slower. What was
read stays as it was written until its key comes.

Flink: NFAState, ComputationState and SharedBuffer, whose version numbers and locks the chains make needless.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from flintstream.state.codec import Kind, decode, encode
from flintstream.state.table import Table

Event = tuple[int, int, Any]
"""Number among the records that its key's matches have taken, time, value."""
Link = tuple[Any, str, Event]
"""What was taken before (a link or None), for which stage, and the record."""
Packed = tuple[
    int, int | None, list[Event], list[tuple[int, str, int]], list[tuple[str, int]], list[tuple[int]]
]  # fmt: skip
"""Count, timer, records, links (the one before, stage, record), partial matches (place, link), complete ones (link)."""
_Columns = list[list[Any]]


class Partial(NamedTuple):
    """A partial match, at a place of the automaton; a complete one has none."""

    place: str
    start: Event
    link: Link


class Partials:
    """All partial matches of one key, and complete ones that wait for earlier partial ones.

    Partial matches are kept in the order of their first records: matches come by it, and strategies that skip look at
    the earliest one only. `count` is how many records were taken, `timer` when to look for those whose time is over.
    """

    __slots__ = ("count", "done", "runs", "timer")

    def __init__(self) -> None:
        self.runs: list[Partial] = []
        self.done: list[Partial] = []
        self.count = 0
        self.timer: int | None = None


def chain(link: Link | None) -> Iterator[Link]:
    """Yield a link and all before it, newest first."""
    while link is not None:
        yield link
        link = link[0]


class _Lists:
    """A column of lists of tuples, each position of the tuples in a list of its own."""

    def __init__(self, width: int) -> None:
        self.columns: list[list[Any]] = [[] for _ in range(width)]
        self.offsets = [0]

    def array(self) -> tuple[pa.Array, Kind]:
        """Return the column and its kind, as `encode` would."""
        encoded = [encode(column) for column in self.columns]
        arrays, kinds = [array for array, _ in encoded], [kind for _, kind in encoded]
        rows = pa.StructArray.from_arrays(arrays, [f"f{number}" for number in range(len(arrays))])
        return pa.LargeListArray.from_arrays(pa.array(self.offsets, pa.int64()), rows), ["list", ["tuple", kinds]]


def encode_partials(values: Sequence[Partials | Packed | None]) -> tuple[pa.Array, Kind]:
    """Return the partial matches of many keys as one column; None for a key that has none."""
    events, links, runs, done = _Lists(3), _Lists(3), _Lists(2), _Lists(1)
    parts = (events, links, runs, done)
    for value in values:
        if isinstance(value, Partials):
            _pack(value, *(part.columns for part in parts))
        elif value is not None:
            for part, rows in zip(parts, value[2:], strict=True):
                for column, cells in zip(part.columns, zip(*rows, strict=True), strict=False):
                    column.extend(cells)
        for part in parts:
            part.offsets.append(len(part.columns[0]))
    scalars = [(None, None) if v is None else (v.count, v.timer) if isinstance(v, Partials) else v[:2] for v in values]
    columns = [(pa.array([row[number] for row in scalars], pa.int64()), "int") for number in range(2)]
    columns += [part.array() for part in parts]
    mask = pa.array([value is None for value in values])
    names = [f"f{number}" for number in range(len(columns))]
    array = pa.StructArray.from_arrays([array for array, _ in columns], names, mask=mask)
    return array, ["tuple", [kind for _, kind in columns]]


def _pack(partials: Partials, events: _Columns, links: _Columns, runs: _Columns, done: _Columns) -> None:
    """Append partial matches to columns: each link once, after the one before it, and each record once."""
    numbers: dict[int, int] = {}
    seen: dict[int, int] = {}
    (event_numbers, times, values), (parents, names, taken), (places, ends), (complete,) = events, links, runs, done
    for is_done, some in ((False, partials.runs), (True, partials.done)):
        for place, _, newest in some:
            link, new = newest, list[Link]()
            while link is not None and id(link) not in numbers:
                new.append(link)
                link = link[0]
            before = -1 if link is None else numbers[id(link)]
            for each in reversed(new):
                _, name, event = each
                at = seen.get(id(event))
                if at is None:
                    at = seen[id(event)] = len(seen)
                    event_numbers.append(event[0])
                    times.append(event[1])
                    values.append(event[2])
                parents.append(before)
                names.append(name)
                taken.append(at)
                before = numbers[id(each)] = len(numbers)
            if is_done:
                complete.append(before)
            else:
                places.append(place)
                ends.append(before)


def unpack(packed: Packed) -> Partials:
    """Return what `pack` has packed."""
    partials = Partials()
    partials.count, partials.timer, events, rows, runs, done = packed
    links: list[Link] = []
    starts: list[Event] = []
    for parent, name, event in rows:
        links.append((None if parent < 0 else links[parent], name, events[event]))
        starts.append(events[event] if parent < 0 else starts[parent])
    partials.runs = [Partial(place, starts[link], links[link]) for place, link in runs]
    partials.done = [Partial("", starts[link], links[link]) for (link,) in done]
    return partials


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

    def dirty_rows(self) -> Iterator[tuple[Any, Any]]:
        return map(_plain, super().dirty_rows())

    def rows(self) -> Iterator[tuple[Any, Any]]:
        return map(_plain, super().rows())

    def encode_values(self, values: list[Any]) -> tuple[pa.Array, Kind]:
        return encode_partials(values)


def _plain(row: tuple[Any, Any]) -> tuple[Any, Any]:
    entry, value = row
    return entry, decode(*encode_partials([value]))[0] if isinstance(value, Partials) else value
