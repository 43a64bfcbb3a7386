from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flintstream.ops.batch import FIRST, LAST, NO_TIMESTAMP, Batch, Values, sort_order
from flintstream.ops.run import Emissions, Run, Span, watermarks_before, widen
from tests.unit.values import law


def numbers(values: Any) -> Any:
    return np.array(values, np.int64)


def make_run(count: int, advances: list[tuple[int, int]], start: int = 0, inputs: list[int] | None = None) -> Run:
    """A run of records 0, 1, 2... of one lane; `advances` are (watermark, records before it)."""
    watermarks = numbers([watermark for watermark, _ in advances])
    insertion = numbers([before for _, before in advances])
    befores = watermarks_before(start, watermarks, insertion, count)
    stamp = [befores, numbers([0] * count), numbers(range(count))]
    batch = Batch(Values([f"v{i}" for i in range(count)]), numbers(range(100, 100 + count)), stamp, befores)
    steps = [
        numbers([start, *watermarks[:-1]][: len(watermarks)]),
        numbers([0] * len(watermarks)),
        insertion - 1,
    ]
    return Run(batch, watermarks, insertion, steps, start, 7, None if inputs is None else np.array(inputs, np.int64))


@st.composite
def runs(draw: st.DrawFn) -> Run:
    count = draw(st.integers(0, 12))
    levels = sorted(draw(st.sets(st.integers(1, 50), max_size=6)))
    places = sorted(draw(st.lists(st.integers(0, count), min_size=len(levels), max_size=len(levels))))
    inputs = draw(st.none() | st.lists(st.integers(0, 1), min_size=count, max_size=count))
    return make_run(count, list(zip(levels, places, strict=True)), inputs=inputs)


@law
@given(runs())
def test_the_watermark_before_a_record_is_that_of_the_last_advance_before_it(run: Run) -> None:
    wanted: list[int] = []
    for index in range(len(run.batch)):
        passed = [w for w, place in zip(run.watermarks.tolist(), run.insertion.tolist(), strict=True) if place <= index]
        wanted.append(passed[-1] if passed else run.start)
    assert watermarks_before(run.start, run.watermarks, run.insertion, len(run.batch)).tolist() == wanted


@law
@given(runs(), st.integers(1, 14))
def test_the_pieces_of_a_run_are_the_run(run: Run, size: int) -> None:
    pieces = list(run.pieces(size))
    assert all(len(piece.batch) <= size for piece in pieces)
    assert [row for piece in pieces for row in piece.batch.values.rows()] == run.batch.values.rows()
    assert [w for piece in pieces for w in piece.watermarks.tolist()] == run.watermarks.tolist()
    begins = np.cumsum([0, *(len(piece.batch) for piece in pieces)]).tolist()
    places = [begin + p for begin, piece in zip(begins, pieces, strict=False) for p in piece.insertion.tolist()]
    assert places == run.insertion.tolist()
    for column in range(3):
        assert [s for piece in pieces for s in piece.stamp[column].tolist()] == run.stamp[column].tolist()
    assert [piece.start for piece in pieces] == [run.start, *(piece.end for piece in pieces[:-1])]
    assert pieces[-1].end == run.end
    if run.inputs is not None:
        assert [port for piece in pieces if piece.inputs is not None for port in piece.inputs] == run.inputs.tolist()


@law
@given(runs(), st.integers(1, 14))
def test_no_record_of_a_piece_stands_before_an_advance_of_the_piece_before(run: Run, size: int) -> None:
    for piece in run.pieces(size):
        befores = watermarks_before(piece.start, piece.watermarks, piece.insertion, len(piece.batch))
        assert piece.batch.watermarks is not None
        assert befores.tolist() == piece.batch.watermarks.tolist()


def test_a_run_without_advances_ends_where_it_started() -> None:
    assert make_run(2, [], start=5).end == 5
    assert make_run(2, [(9, 1)], start=5).end == 9


def test_widen_fills_stamps_up() -> None:
    stamp = [numbers([1, 2])]
    assert [column.tolist() for column in widen(stamp, 3)] == [[1, 2], [LAST, LAST], [LAST, LAST]]
    assert [column.tolist() for column in widen(stamp, 2, FIRST)] == [[1, 2], [FIRST, FIRST]]
    assert widen(stamp, 1) == stamp


def emitted(batch: Batch) -> list[tuple[Any, ...]]:
    """Rows of (value, timestamp, watermark, stamp), sorted as they must be."""
    assert sort_order(batch.stamp) is None
    assert batch.watermarks is not None
    stamps = zip(*(column.tolist() for column in batch.stamp), strict=True)
    return list(zip(batch.values.rows(), batch.timestamps.tolist(), batch.watermarks.tolist(), stamps, strict=True))


def test_one_output_for_each_record_has_the_records_place() -> None:
    run = make_run(2, [(5, 1)])
    assert emitted(Emissions(["a", "b"], [1, 2]).batch(run)) == [
        ("a", 100, 0, (0, 0, 0, FIRST, 0, 0)),
        ("b", 101, 5, (5, 0, 1, FIRST, 0, 0)),
    ]


def test_several_outputs_of_a_record_are_numbered() -> None:
    run = make_run(3, [])
    assert emitted(Emissions(["a", "b", "c"], [2, 2, 3]).batch(run)) == [
        ("a", 100, 0, (0, 0, 0, FIRST, 0, 0)),
        ("b", 100, 0, (0, 0, 0, FIRST, 0, 1)),
        ("c", 102, 0, (0, 0, 2, FIRST, 0, 0)),
    ]


def test_outputs_of_timers_stand_at_their_advance_and_do_not_change_the_numbers_of_records() -> None:
    run = make_run(2, [(5, 1), (9, 2)])
    emissions = Emissions(["r0", "t1", "t2", "r1", "r1'", "t3"], [1, 5])
    emissions.spans += [Span(1, 3, -1, 0, 4, 77, 4), Span(5, 6, -1, 1, 8, 55, 8)]
    assert emitted(emissions.batch(run)) == [
        ("r0", 100, 0, (0, 0, 0, FIRST, 0, 0)),
        ("t1", 4, 0, (0, 0, 0, 4, 77, 0)),
        ("t2", 4, 0, (0, 0, 0, 4, 77, 1)),
        ("r1", 101, 5, (5, 0, 1, FIRST, 0, 0)),
        ("r1'", 101, 5, (5, 0, 1, FIRST, 0, 1)),
        ("t3", 8, 5, (5, 0, 1, 8, 55, 0)),
    ]


def test_timers_without_records_stand_before_everything() -> None:
    run = make_run(0, [], start=3)
    emissions = Emissions(["t"])
    emissions.end_timer(0, -1, 6, 44, NO_TIMESTAMP)
    assert emitted(emissions.batch(run)) == [("t", NO_TIMESTAMP, 3, (FIRST, FIRST, FIRST, 6, 44, 0))]


def test_a_timer_that_another_set_for_an_earlier_time_follows_it() -> None:
    run = make_run(1, [(20, 1)])
    emissions = Emissions([], [0])
    for row, time, key_hash in (("a", 10, 900), ("b", 5, 900), ("c", 10, 950), ("d", 10, 950), ("e", 11, 3)):
        emissions.rows.append(row)
        emissions.end_timer(len(emissions.rows) - 1, 0, time, key_hash, time)
    assert [(value, timestamp, stamp[3:]) for value, timestamp, _, stamp in emitted(emissions.batch(run))] == [
        ("a", 10, (10, 900, 0)),
        ("b", 5, (10, 900, 1)),
        ("c", 10, (10, 950, 0)),
        ("d", 10, (10, 950, 1)),
        ("e", 11, (11, 3, 0)),
    ]
