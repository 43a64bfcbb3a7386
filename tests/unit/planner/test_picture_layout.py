"""Laws of the layout, on any graph: no box on another, lines go right and through no box, everything inside."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from flintstream.planner.picture_layout import Box, Item, Layout, Line, arrange


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Item], list[Line]]:
    """Boxes in levels, and lines that never lead back."""
    levels = sorted(draw(st.lists(st.integers(0, 3), min_size=1, max_size=12)))
    items = [Item(index + 1, level, 200.0, draw(st.sampled_from([40.0, 90.0]))) for index, level in enumerate(levels)]
    pairs = list(itertools.combinations(items, 2))
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=24)) if pairs else []
    return items, [Line(one.id, other.id, draw(st.sampled_from([0.0, 80.0]))) for one, other in chosen]


def overlap(one: Box, other: Box) -> bool:
    apart = one.x + one.width <= other.x or other.x + other.width <= one.x
    return not (apart or one.y + one.height <= other.y or other.y + other.height <= one.y)


def crossings(layout: Layout, lines: list[Line]) -> int:
    """How many pairs of lines between the same columns cross."""
    ends = [(route[0], route[-1]) for route in layout.routes]
    return sum(
        1
        for (one, to_one), (other, to_other) in itertools.combinations(ends, 2)
        if one[0] == other[0] and to_one[0] == to_other[0] and (one[1] - other[1]) * (to_one[1] - to_other[1]) < 0
    )


@given(graphs())
def test_no_box_lies_on_another(graph):
    items, lines = graph
    layout = arrange(items, lines)
    assert sorted(layout.boxes) == sorted(item.id for item in items)
    assert not [pair for pair in itertools.combinations(layout.boxes.values(), 2) if overlap(*pair)]


@given(graphs())
def test_lines_go_right_from_box_to_box(graph):
    items, lines = graph
    layout = arrange(items, lines)
    for line, route in zip(lines, layout.routes, strict=True):
        start, end = layout.boxes[line.source], layout.boxes[line.target]
        assert route[0][0] == start.x + start.width and start.y <= route[0][1] <= start.y + start.height
        assert route[-1][0] == end.x and end.y <= route[-1][1] <= end.y + end.height
        assert all(x < to_x for (x, _), (to_x, _) in itertools.pairwise(route))
        # The last gap has room for the label.
        assert route[-1][0] - route[-2][0] >= line.room


@given(graphs())
def test_lines_run_through_no_box(graph):
    items, lines = graph
    layout = arrange(items, lines)
    for route in layout.routes:
        for index, ((x, y), (to_x, to_y)) in enumerate(itertools.pairwise(route)):
            if index % 2:
                assert y == to_y
                passing = Box(0, x, y - 1, to_x - x, 2)
                assert not [box for box in layout.boxes.values() if overlap(passing, box)]
            else:
                # A bend stays between its two ends, where there is no column.
                gap = Box(0, x, 0, to_x - x, layout.height)
                assert not [box for box in layout.boxes.values() if overlap(gap, box)]


@given(graphs())
def test_everything_is_inside_and_levels_stand_side_by_side(graph):
    items, lines = graph
    layout = arrange(items, lines)
    level_of = {item.id: item.level for item in items}
    for box in layout.boxes.values():
        assert box.x >= 0 and box.x + box.width <= layout.width
        assert box.y >= 0 and box.y + box.height <= layout.height
        band = next(band for band in layout.bands if band.level == level_of[box.id])
        assert band.x < box.x and box.x + box.width < band.x + band.width
    assert all(0 <= y <= layout.height for route in layout.routes for _, y in route)
    assert all(one.x + one.width <= other.x for one, other in itertools.pairwise(layout.bands))
    assert [band.level for band in layout.bands] == sorted({item.level for item in items})


@given(graphs())
def test_lines_that_end_at_one_box_end_apart(graph):
    items, lines = graph
    layout = arrange(items, lines)
    for end in (0, -1):
        places = [route[end] for route in layout.routes]
        for one, other in itertools.combinations(places, 2):
            assert one[0] != other[0] or abs(one[1] - other[1]) > 10


def test_boxes_change_places_until_lines_do_not_cross():
    items = [Item(number, 0 if number < 5 else 1, 200, 40) for number in range(1, 9)]
    lines = [Line(1, 8), Line(2, 7), Line(3, 6), Line(4, 5)]
    assert crossings(arrange(items, lines), lines) == 0


def test_a_chain_is_straight():
    items = [Item(number, 0, 200, 40) for number in (1, 2, 3)]
    layout = arrange(items, [Line(1, 2), Line(2, 3)])
    assert len({box.y for box in layout.boxes.values()}) == 1
    assert layout.boxes[1].x < layout.boxes[2].x < layout.boxes[3].x


def test_a_box_with_many_lines_is_high_enough_for_them():
    items = [*(Item(number, 0, 200, 40) for number in range(1, 11)), Item(11, 1, 200, 40)]
    lines = [Line(number, 11, 60) for number in range(1, 11)]
    layout = arrange(items, lines)
    target, ends = layout.boxes[11], sorted(route[-1][1] for route in layout.routes)
    assert target.y < ends[0] and ends[-1] < target.y + target.height
    assert min(high - low for low, high in itertools.pairwise(ends)) >= 16


def test_a_thousand_boxes_in_a_row_are_placed():
    items = [Item(number, 0, 200, 40) for number in range(1, 1001)]
    layout = arrange(items, [Line(number, number + 1) for number in range(1, 1000)])
    assert layout.boxes[1000].x > layout.boxes[1].x
