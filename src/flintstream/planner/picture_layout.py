"""Where the boxes and lines of a dataflow's picture go: columns from left to right, few crossings, no box on another.

A column holds operators that lie as many steps behind the sources, level after level; a line that passes a column has
a place there like a box, so lines never run through boxes. The order in a column follows the barycentres of the
neighbours, swept to and fro, and the heights are the best ones that keep that order. It knows boxes and lines and
nothing of streams, so its laws are tested on any graph.

Flink: the web dashboard leaves this to the library dagre.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MARGIN = 16.0
BAND_HEAD = 24.0
_PASSAGE = 18.0
_BETWEEN = 22.0
_PORT = 16.0
_STRAIGHT = 16.0
_BEND = 36.0
_LONG_BEND = 56.0
_SWEEPS = 8


@dataclass(frozen=True, slots=True)
class Item:
    """A box to place: its level, and its size; all boxes of a picture are equally wide."""

    id: int
    level: int
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line to draw from one box to another; `room` is what its label needs between their columns."""

    source: int
    target: int
    room: float = 0.0


@dataclass(frozen=True, slots=True)
class Box:
    """A box in its place."""

    id: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Band:
    """The strip that the columns of a level take."""

    level: int
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Layout:
    """All places: boxes by id, the points of each line (bends and straight pieces by turns), bands, the size."""

    boxes: Mapping[int, Box]
    routes: Sequence[Sequence[tuple[float, float]]]
    bands: Sequence[Band]
    width: float
    height: float


@dataclass(slots=True)
class _Slot:
    """A place in a column: a box, or where a line passes."""

    key: tuple[int, int]
    column: int
    height: float
    before: list[_Slot]
    behind: list[_Slot]
    y: float = 0.0


def arrange(items: Sequence[Item], lines: Sequence[Line]) -> Layout:
    """Return the places of boxes and lines; lines lead to higher levels, and in a level never in a circle."""
    columns = _columns(items, lines)
    slots, paths = _slots(items, lines, columns)
    ordered = _ordered(slots, 1 + max(columns.values()))
    _settle(ordered)
    lefts, zones, width = _lefts(items, lines, columns)
    top = min(slot.y - slot.height / 2 for column in ordered for slot in column)
    for column in ordered:
        for slot in column:
            slot.y += MARGIN + BAND_HEAD - top
    by_key = {slot.key: slot for column in ordered for slot in column}
    boxes = {
        item.id: Box(item.id, lefts[columns[item.id]], slot.y - slot.height / 2, item.width, slot.height)
        for item in items
        for slot in (by_key[item.id, -1],)
    }
    height = MARGIN + max(slot.y + slot.height / 2 for slot in by_key.values())
    box_width = max(item.width for item in items)
    routes = _routes(paths, boxes, lefts, zones, _ports(lines, paths, boxes))
    return Layout(boxes, routes, _bands(items, columns, lefts, box_width), width, height)


def _columns(items: Sequence[Item], lines: Sequence[Line]) -> dict[int, int]:
    """Return the column of each box: all of a level stand left of those of the next."""
    level = {item.id: item.level for item in items}
    inner = defaultdict[int, list[int]](list)
    for line in lines:
        if level[line.source] == level[line.target]:
            inner[line.target].append(line.source)
    depths: dict[int, int] = {}
    # Deep chains are long, so the depth is found without recursion.
    for item in items:
        waiting = [item.id]
        while waiting:
            missing = [each for each in inner[waiting[-1]] if each not in depths]
            if missing:
                waiting += missing
                continue
            node = waiting.pop()
            depths[node] = 1 + max((depths[each] for each in inner[node]), default=-1)
    first, offset = 0, dict[int, int]()
    for number in sorted(set(level.values())):
        offset[number] = first
        first += 1 + max(depths[item.id] for item in items if item.level == number)
    return {item.id: offset[item.level] + depths[item.id] for item in items}


def _slots(
    items: Sequence[Item], lines: Sequence[Line], columns: Mapping[int, int]
) -> tuple[list[_Slot], list[list[_Slot]]]:
    """Return all places in columns, and for each line those it goes through, its ends included."""
    ways = defaultdict[int, list[int]](lambda: [0, 0])
    for line in lines:
        ways[line.source][1] += 1
        ways[line.target][0] += 1
    boxes = {
        item.id: _Slot((item.id, -1), columns[item.id], max(item.height, _PORT * (1 + max(ways[item.id]))), [], [])
        for item in items
    }
    slots, paths = list(boxes.values()), list[list[_Slot]]()
    for number, line in enumerate(lines):
        start, end = boxes[line.source], boxes[line.target]
        passages = [_Slot((number, column), column, _PASSAGE, [], []) for column in range(start.column + 1, end.column)]
        slots += passages
        path = [start, *passages, end]
        for one, other in itertools.pairwise(path):
            one.behind.append(other)
            other.before.append(one)
        paths.append(path)
    return slots, paths


def _ordered(slots: Sequence[_Slot], count: int) -> list[list[_Slot]]:
    """Return the columns with their places in the order that has the fewest crossings of those tried."""
    columns: list[list[_Slot]] = [[] for _ in range(count)]
    for slot in slots:
        columns[slot.column].append(slot)
    best, fewest = [list(column) for column in columns], _crossings(columns)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        forward = sweep % 2 == 0
        for index in range(1, count) if forward else range(count - 2, -1, -1):
            _sort_by_barycentre(columns[index], columns[index - 1 if forward else index + 1], forward)
        found = _crossings(columns)
        if found < fewest:
            best, fewest = [list(column) for column in columns], found
    return best


def _sort_by_barycentre(column: list[_Slot], beside: Sequence[_Slot], forward: bool) -> None:
    place = {id(slot): index for index, slot in enumerate(beside)}
    centre: dict[int, float] = {}
    for index, slot in enumerate(column):
        neighbours = [place[id(each)] for each in (slot.before if forward else slot.behind)]
        centre[id(slot)] = sum(neighbours) / len(neighbours) if neighbours else float(index)
    column.sort(key=lambda slot: centre[id(slot)])


def _crossings(columns: Sequence[Sequence[_Slot]]) -> int:
    total = 0
    for one, other in itertools.pairwise(columns):
        place = {id(slot): index for index, slot in enumerate(other)}
        seen: list[int] = []
        for slot in one:
            ends = [place[id(each)] for each in slot.behind]
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total


def _settle(columns: Sequence[list[_Slot]]) -> None:
    """Give every place its height: near its neighbours' mean, in its order, and clear of those beside it."""
    for column in columns:
        _place(column, [0.0] * len(column))
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        for column in columns if forward else reversed(columns):
            wanted: list[float] = []
            for slot in column:
                near = (slot.before if forward else slot.behind) or slot.before or slot.behind
                wanted.append(sum(each.y for each in near) / len(near) if near else slot.y)
            _place(column, wanted)


def _place(column: Sequence[_Slot], wanted: Sequence[float]) -> None:
    """Choose the heights with the least squared distance from the wanted ones: pool adjacent violators."""
    offsets, offset = list[float](), 0.0
    for index, slot in enumerate(column):
        if index:
            offset += (column[index - 1].height + slot.height) / 2 + _BETWEEN
        offsets.append(offset)
    # Blocks that touch each other, as (sum of what their members want of the first one, how many they are).
    blocks: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=True):
        total, count = want - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            before = blocks.pop()
            total, count = total + before[0], count + before[1]
        blocks.append((total, count))
    starts = [total / count for total, count in blocks for _ in range(count)]
    for slot, start, offset in zip(column, starts, offsets, strict=True):
        slot.y = start + offset


def _lefts(
    items: Sequence[Item], lines: Sequence[Line], columns: Mapping[int, int]
) -> tuple[list[float], list[float], float]:
    """Return where columns begin, how long lines run straight before each, and how wide it all is.

    Labels stand on the straight piece before their target, where no other line bends through them.
    """
    count, width = 1 + max(columns.values()), max(item.width for item in items)
    zones = [_STRAIGHT] * count
    for line in lines:
        column = columns[line.target]
        zones[column] = max(zones[column], line.room + _STRAIGHT if line.room else 0.0)
    level_of = {columns[item.id]: item.level for item in items}
    left, lefts = MARGIN + 8.0, list[float]()
    for column in range(count):
        if column:
            left += zones[column] + (_BEND if level_of[column] == level_of[column - 1] else _LONG_BEND)
        lefts.append(left)
        left += width
    return lefts, zones, left + MARGIN + 8.0


def _routes(
    paths: Sequence[Sequence[_Slot]],
    boxes: Mapping[int, Box],
    lefts: Sequence[float],
    zones: Sequence[float],
    ports: Sequence[tuple[float, float]],
) -> list[list[tuple[float, float]]]:
    """Return the points of each line: a bend, a straight piece up to the next column or past it, a bend, and so on."""
    width = max(box.width for box in boxes.values())
    routes: list[list[tuple[float, float]]] = []
    for path, (leaving, arriving) in zip(paths, ports, strict=True):
        start, end = path[0].column, path[-1].column
        points = [(lefts[start] + width, leaving)]
        for passage in path[1:-1]:
            left = lefts[passage.column]
            points += [(left - zones[passage.column], passage.y), (left + width, passage.y)]
        routes.append([*points, (lefts[end] - zones[end], arriving), (lefts[end], arriving)])
    return routes


def _ports(
    lines: Sequence[Line], paths: Sequence[Sequence[_Slot]], boxes: Mapping[int, Box]
) -> list[tuple[float, float]]:
    """Return at which heights each line leaves and arrives: spread over the sides of boxes, in the lines' own order."""
    heights: list[dict[int, float]] = []
    for ends in (False, True):
        at = defaultdict[int, list[int]](list)
        for number, line in enumerate(lines):
            at[line.target if ends else line.source].append(number)
        found: dict[int, float] = {}
        for box, numbers in at.items():
            numbers.sort(key=lambda number: paths[number][-2 if ends else 1].y)
            middle = boxes[box].y + boxes[box].height / 2
            for index, number in enumerate(numbers):
                found[number] = middle + (index - (len(numbers) - 1) / 2) * _PORT
        heights.append(found)
    return [(heights[0][number], heights[1][number]) for number in range(len(lines))]


def _bands(items: Sequence[Item], columns: Mapping[int, int], lefts: Sequence[float], width: float) -> list[Band]:
    bands: list[Band] = []
    for level in sorted({item.level for item in items}):
        mine = [columns[item.id] for item in items if item.level == level]
        left, right = lefts[min(mine)] - 12.0, lefts[max(mine)] + width + 12.0
        bands.append(Band(level, left, right - left))
    return bands
