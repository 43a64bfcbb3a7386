"""Windows of the calendar: on days when clocks change, and at the borders of every unit."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.errors import InvalidArgumentError, JobError
from flintstream.model.assigners_calendar import CalendarWindows, calendar
from flintstream.model.time import to_timestamp_ms
from flintstream.model.triggers import EventTimeTrigger
from tests.unit.values import law

HOUR = 3_600_000
UNITS = ["day", "week", "month", "quarter", "year"]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Pacific/Apia", "Australia/Lord_Howe"]


def shown(assigner: CalendarWindows, moment: str) -> tuple[str, str]:
    """Return the window of a moment as its time zone's clocks show it."""
    window = assigner.window_at(to_timestamp_ms(moment))
    zone = ZoneInfo(assigner.tz)
    start, end = (dt.datetime.fromtimestamp(at / 1000, zone).isoformat() for at in (window.start, window.end))
    return start, end


@pytest.mark.parametrize(
    ("tz", "moment", "start", "hours"),
    [
        ("UTC", "2026-03-29T12:00Z", "2026-03-29T00:00:00+00:00", 24),
        ("Europe/Berlin", "2026-03-29T12:00Z", "2026-03-29T00:00:00+01:00", 23),
        ("Europe/Berlin", "2026-10-25T12:00Z", "2026-10-25T00:00:00+02:00", 25),
        ("Australia/Lord_Howe", "2026-04-05T00:00Z", "2026-04-05T00:00:00+11:00", 24.5),
        # Clocks skip midnight; from 23:30 on; a whole day; and show midnight twice.
        ("America/Sao_Paulo", "2018-11-04T12:00Z", "2018-11-04T01:00:00-02:00", 23),
        ("America/Toronto", "1919-03-31T12:00Z", "1919-03-31T00:30:00-04:00", 23.5),
        ("Pacific/Apia", "2011-12-30T10:00Z", "2011-12-31T00:00:00+14:00", 24),
        ("America/St_Johns", "2010-11-07T12:00Z", "2010-11-07T00:00:00-02:30", 25),
    ],
)
def test_a_day_is_one_window_however_long_it_is(tz: str, moment: str, start: str, hours: float) -> None:
    window = calendar("day", tz).window_at(to_timestamp_ms(moment))
    assert shown(calendar("day", tz), moment)[0] == start
    assert (window.end - window.start) / HOUR == hours


@pytest.mark.parametrize(
    ("assigner", "start", "end"),
    [
        (CalendarWindows.days("Europe/Berlin"), "2026-11-16", "2026-11-17"),
        (CalendarWindows.weeks("Europe/Berlin"), "2026-11-16", "2026-11-23"),
        (CalendarWindows.weeks("Europe/Berlin", "sunday"), "2026-11-15", "2026-11-22"),
        (CalendarWindows.weeks("Europe/Berlin", "tuesday"), "2026-11-10", "2026-11-17"),
        (CalendarWindows.months("Europe/Berlin"), "2026-11-01", "2026-12-01"),
        (CalendarWindows.quarters("Europe/Berlin"), "2026-10-01", "2027-01-01"),
        (CalendarWindows.years("Europe/Berlin"), "2026-01-01", "2027-01-01"),
    ],
)
def test_units_of_the_calendar(assigner: CalendarWindows, start: str, end: str) -> None:
    first, last = shown(assigner, "2026-11-15T23:00Z")
    assert (first[:19], last[:19]) == (f"{start}T00:00:00", f"{end}T00:00:00")


@law
@given(st.sampled_from(UNITS), st.sampled_from(ZONES), st.integers(-(2**40), 2**42))
def test_windows_lie_end_to_end(unit: str, tz: str, timestamp: int) -> None:
    assigner = calendar(unit, tz)
    window = assigner.window_at(timestamp)
    assert window.start <= timestamp < window.end
    assert assigner.window_at(window.end).start == window.end
    assert assigner.window_at(window.start - 1).end == window.start
    assert assigner.window_at(window.start) == assigner.window_at(window.end - 1) == window


def test_it_is_an_assigner_of_event_time() -> None:
    assigner = calendar("week", "Europe/Berlin", "sunday")
    assert assigner.is_event_time()
    assert assigner.get_default_trigger() == EventTimeTrigger()
    assert str(assigner) == "CalendarWindows(week, Europe/Berlin, first day sunday)"
    assert list(assigner.assign_windows(None, 5, None)) == [assigner.window_at(5)]  # type: ignore[arg-type]
    with pytest.raises(JobError, match="no timestamp"):
        assigner.assign_windows(None, -(2**63), None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("hour",), r"no unit 'hour'; test_assigners_calendar.py:\d+; use one of day, week"),
        (("day", "Mars/Base"), "no time zone 'Mars/Base'"),
        (("day", ""), "no time zone ''"),
        (("week", "UTC", "mon"), "'mon' is not a day of the week"),
        (("day", "UTC", "sunday"), "a day does not begin with a sunday"),
    ],
)
def test_what_the_calendar_does_not_have_is_refused(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        calendar(*arguments)


def test_a_time_beyond_the_calendar_is_an_error() -> None:
    with pytest.raises(JobError, match=r"no year from 1 to 9999; give timestamps in milliseconds"):
        calendar("day").window_at(10**17)
