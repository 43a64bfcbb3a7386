"""A small plot for terminals: latency over the rate, both by powers of ten, in Braille dots.

A terminal's cell holds two by four dots, so twelve lines are enough to see where a curve bends. Without Unicode it is
made of stars.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

WIDTH, HEIGHT = 60, 12
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BLANK = 0x2800
Point = tuple[float, float]


def plot(points: Sequence[Point], marked: Point | None, names: tuple[str, str], *, is_plain: bool = False) -> str:
    """Return points joined by lines; `marked` is the one to be seen, `names` are those of the axes."""
    usable = sorted((x, y) for x, y in points if x > 0 and y > 0)
    if not usable:
        return "nothing to plot"
    columns, rows = (1, 1) if is_plain else (2, 4)
    across, up = _scale([x for x, _ in usable]), _scale([y for _, y in usable])
    width, height = WIDTH * columns, HEIGHT * rows
    places = [(_place(x, across, width), _place(y, up, height)) for x, y in usable]
    dots = set(places[:1])
    for (x0, y0), (x1, y1) in pairwise(places):
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        dots |= {(x0 + (x1 - x0) * n // steps, y0 + (y1 - y0) * n // steps) for n in range(steps + 1)}
    grid = [[_cell(dots, column, row, is_plain) for column in range(WIDTH)] for row in range(HEIGHT)]
    if marked is not None and marked[0] > 0 and marked[1] > 0:
        column = _place(marked[0], across, width) // columns
        row = HEIGHT - 1 - _place(marked[1], up, height) // rows
        grid[row][column] = "X" if is_plain else "●"
    return _framed(grid, across, up, names, is_plain)


def _scale(values: Sequence[float]) -> tuple[float, float]:
    """Return the logarithms between which the values are; never the same twice."""
    low, high = math.log10(min(values)), math.log10(max(values))
    return (low, high) if high - low > 0.1 else (low - 0.05, high + 0.05)


def _place(value: float, scale: tuple[float, float], size: int) -> int:
    low, high = scale
    share = (math.log10(value) - low) / (high - low)
    return min(size - 1, max(0, round(share * (size - 1))))


def _cell(dots: set[tuple[int, int]], column: int, row: int, is_plain: bool) -> str:
    if is_plain:
        return "*" if (column, HEIGHT - 1 - row) in dots else " "
    bits = 0
    for dx in range(2):
        for dy in range(4):
            # Dots are counted from the bottom, the bits of a cell from its top.
            if (column * 2 + dx, (HEIGHT - 1 - row) * 4 + 3 - dy) in dots:
                bits |= _DOTS[dx][dy]
    return chr(_BLANK + bits) if bits else " "


def _framed(
    grid: list[list[str]], across: tuple[float, float], up: tuple[float, float], names: tuple[str, str], is_plain: bool
) -> str:
    wall, floor, corner = ("|", "-", "+") if is_plain else ("│", "─", "└")
    labels = {0: _label(10 ** up[1]), HEIGHT - 1: _label(10 ** up[0])}
    margin = max(len(text) for text in labels.values())
    lines = [f"{names[1]}"]
    lines += [f"{labels.get(row, ''):>{margin}} {wall}{''.join(cells)}".rstrip() for row, cells in enumerate(grid)]
    lines.append(f"{'':>{margin}} {corner}{floor * WIDTH}")
    left, right = _label(10 ** across[0]), _label(10 ** across[1])
    middle = names[0].center(WIDTH - len(left) - len(right))
    lines.append(f"{'':>{margin}}  {left}{middle}{right}")
    return "\n".join(lines)


def _label(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:.3g}"
