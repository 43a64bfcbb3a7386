"""A rate from outside: it replaces that of every source, and a file may change it while the job runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.engine.pacing import Pacer
from flintstream.engine.source_rate import SourceRate
from flintstream.errors import InvalidArgumentError
from flintstream.model.connect import Source, Split
from tests.unit.engine.test_pacing import Splits
from tests.unit.graphs import Sketch
from tests.unit.values import law

ENDLESS = [Split(0), Split(1)]


class Paced:
    """A pacer under a rate from outside, with the positions that its driver would keep."""

    def __init__(self, rate: SourceRate, splits: list[Split] = ENDLESS, own: float | None = None) -> None:
        sketch = Sketch()
        self.node = sketch.source(Splits(splits, own))
        sketch.sink(self.node)
        self.positions = {self.node: {split.number: split.start for split in splits}}
        self.pacer = Pacer(sketch.plan(), {self.node: splits}, 1_000_000_000, 1000, rate)

    def read(self, now: int) -> int:
        ranges = self.pacer.next_ranges(self.positions, now)
        for piece in ranges:
            self.positions[self.node][piece.split] = piece.end
        return sum(piece.end - piece.start for piece in ranges)


class OfSpark(Source):
    """A source without ranges."""

    @property
    def is_bounded(self) -> bool:
        return False


@pytest.mark.parametrize("text", ["", "fast", "0", "-1", "nan", "inf", "file:/nowhere/at/all"])
def test_what_is_no_rate_is_refused(text):
    with pytest.raises(InvalidArgumentError, match=r"flintstream\.source\.rate"):
        SourceRate(text)


def test_a_file_is_read_again_and_remembered_when_it_is_gone(tmp_path: Path):
    file = tmp_path / "rate"
    file.write_text("10\n")
    rate = SourceRate(f"file:{file}")
    assert rate.now() == 10
    file.write_text("25.5")
    assert rate.now() == 25.5
    file.write_text("half a num")
    assert rate.now() == 25.5
    file.unlink()
    assert rate.now() == 25.5


@pytest.mark.parametrize("own", [None, 5.0, 1e9])
def test_it_replaces_the_rate_of_the_source(own):
    paced = Paced(SourceRate("100"), own=own)
    assert paced.read(0) == 0
    assert paced.read(1000) == 100
    assert paced.read(1500) == 50


def test_a_new_rate_counts_from_where_the_source_is(tmp_path: Path):
    file = tmp_path / "rate"
    file.write_text("1000")
    paced = Paced(SourceRate(f"file:{file}"))
    assert paced.read(0) == 0
    assert paced.read(1000) == 1000
    # Ten seconds in which nothing was read are a backlog of 10,000, which the next rate forgets.
    file.write_text("10")
    assert paced.read(11_000) == 0
    assert paced.read(12_000) == 10


@law
@given(st.integers(1, 1000), st.lists(st.integers(1, 5000), min_size=1, max_size=20))
def test_never_more_than_is_due(rate, waits):
    paced, now, total = Paced(SourceRate(str(rate))), 0, 0
    paced.read(0)
    for wait in waits:
        now += wait
        total += paced.read(now)
        assert total <= rate * now / 1000
        assert total >= rate * now / 1000 - len(ENDLESS)


def test_a_split_that_is_found_later_is_read_as_well():
    paced = Paced(SourceRate("100"), splits=(splits := [Split(0)]))
    paced.read(0)
    splits.append(Split(1))
    paced.positions[paced.node][1] = 0
    assert paced.read(1000) >= 0
    assert paced.read(3000) > 0
    assert paced.positions[paced.node][1] > 0


def test_a_source_that_spark_reads_cannot_be_paced():
    sketch = Sketch()
    node = sketch.source(OfSpark())  # type: ignore[arg-type]
    sketch.sink(node)
    with pytest.raises(InvalidArgumentError, match="which Spark reads itself"):
        Pacer(sketch.plan(), {}, 0, 1000, SourceRate("1"))
