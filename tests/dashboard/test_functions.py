"""The page's own arithmetic: words for numbers, marks of axes, rates out of epochs; in the browser that runs it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.dashboard.conftest import OpenPage
from tests.dashboard.fake_manager import FakeManager


@pytest.fixture
def page(open_page: OpenPage, manager: FakeManager) -> Page:
    return open_page(manager.url)


def call(page: Page, module: str, function: str, *arguments: Any) -> Any:
    code = f"async (values) => (await import('/{module}.js')).{function}(...values)"
    return page.evaluate(code, list(arguments))


def test_numbers_in_words(page: Page) -> None:
    hour = 3_600_000
    cases: list[tuple[str, list[Any], str]] = [
        ("duration", [0], "0 ms"),
        ("duration", [850.4], "850 ms"),
        ("duration", [2400], "2.4 s"),
        ("duration", [200_000], "3 min 20 s"),
        ("duration", [60_000], "1 min"),
        ("duration", [59_600], "1 min"),
        ("duration", [5 * hour + 120_000], "5 h 2 min"),
        ("duration", [24 * hour + 60_000], "1 d"),
        ("duration", [-1500], "-1.5 s"),
        ("duration", [None], "–"),  # noqa: RUF001 - what the page shows for nothing
        ("bytes", [0], "0 B"),
        ("bytes", [1536], "1.5 KiB"),
        ("bytes", [5 * 1024**3], "5 GiB"),
        # A unit changes before its number needs four digits, which is before 1024, and where rounding makes it 1000.
        ("bytes", [999], "999 B"),
        ("bytes", [1000], "0.977 KiB"),
        ("bytes", [999 * 1024], "999 KiB"),
        ("bytes", [999.7 * 1024], "0.976 MiB"),
        ("bytes", [1020 * 1024], "0.996 MiB"),
        ("bytes", [1020 * 1024, True], "1 MiB"),
        ("bytes", [-1020 * 1024, True], "-1 MiB"),
        ("bytes", [1234.56 * 1024**4], "1,230 TiB"),
        ("duration", [999.7], "1 s"),
        ("rate", [48_200], "48.2k/s"),
        ("rate", [0.25], "0.25/s"),
        ("compact", [999], "999"),
        ("compact", [999.7], "1k"),
        ("compact", [999_700], "1m"),
        ("whole", [1_234_567], "1,234,567"),
        ("percent", [0.974], "97%"),
        ("watermark", [-9223372036854775808], "none yet"),
        ("watermark", [9223372036854775807], "end of input"),
        ("ago", [1000, 1500], "just now"),
        ("ago", [1000, 66_000], "1 min 5 s ago"),
        ("plain", [{"a": 1}], '{\n  "a": 1\n}'),
        ("plain", [0.123456], "0.123"),
    ]
    found = [call(page, "format", name, *arguments) for name, arguments, _ in cases]
    assert found == [text for _, _, text in cases]


@pytest.mark.parametrize("top", [0.003, 1, 7, 48_200, 3.2e9])
def test_axes_have_few_round_marks_that_cover_all(page: Page, top: float) -> None:
    marks = call(page, "charts", "ticks", top)
    assert marks[0] == 0
    assert marks[-1] >= top
    assert 3 <= len(marks) <= 6
    assert len({round((after - before) / marks[1], 6) for before, after in itertools.pairwise(marks)}) == 1


def test_an_axis_of_nothing_has_marks_too(page: Page) -> None:
    assert call(page, "charts", "ticks", 0) == [0, 1]


def test_axes_of_sizes_have_marks_in_their_own_unit(page: Page) -> None:
    mebi = 1024**2
    assert call(page, "charts", "ticks", 500 * mebi, 4, 1024) == [0, 200 * mebi, 400 * mebi, 600 * mebi]


def test_rates_are_records_over_the_time_since_the_commit_before(page: Page) -> None:
    epochs = [
        {"committed_ms": at, "records_in": count} for at, count in ((0, 50), (500, 100), (2000, 300), (10_000, 800))
    ]
    # The last epoch took eight seconds: those before it are out of its view.
    assert call(page, "series", "rates", epochs, "records_in") == [[500, 200], [2000, 200], [10_000, 100]]


def test_thinning_keeps_peaks_and_ends(page: Page) -> None:
    points = [[at, 1000 if at == 777 else 1] for at in range(2000)]
    code = "async (points) => { const m = await import('/series.js'); return m.thin(points, m.highest); }"
    thinned = page.evaluate(code, points)
    assert len(thinned) <= 240
    assert max(value for _, value in thinned) == 1000
    assert thinned[-1] == [1999, 1]
    assert page.evaluate(code, points[:10]) == points[:10]
