"""`plot_time()`: what it hears of a stream, and that it leaves the job as it is."""

from __future__ import annotations

import builtins

import pytest

from flintstream import (
    CollectSink,
    OutputTag,
    StreamExecutionEnvironment,
    after_count,
    after_watermark,
    bounded,
    count,
    each,
    tumbling,
)
from flintstream.api.draw_time import Moment, marked
from flintstream.errors import EnvironmentSetupError, InvalidArgumentError

TIMES = [1000, 4000, 12000, 5000, 25000, 3000]
HEARD = [("record", 5, 0), ("record", 30, 5), ("record", 20, 29), ("record", 5, 29), ("late", 5, 29)]


def stream(env):
    records = [{"key": "a", "ts": time} for time in TIMES]
    return env.from_collection(records).assign_timestamps_and_watermarks(bounded("0s", on="ts"))


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment(runtime="local")


def test_records_are_heard_in_order_with_the_watermark_before_them(env):
    timed = stream(env)
    plot = timed.plot_time()
    timed.print()
    env.execute()
    assert [(each.kind, each.start) for each in plot.moments] == [("record", time) for time in TIMES]
    assert [each.watermark for each in plot.moments[1:]] == [999, 3999, 11999, 11999, 24999]


def test_a_window_shows_its_input_and_its_panes_and_emits_what_it_did_before(env):
    windows = stream(env).key_by("key").window(tumbling("10s")).allowed_lateness("5s")
    windows = windows.trigger(after_watermark(early=after_count(2), late=each()))
    firsts = windows.reduce(lambda first, _: first)
    plot = firsts.plot_time()
    assert [record["ts"] for record in firsts.execute_and_collect()] == [1000, 1000, 1000, 12000, 25000]
    panes = [(pane.start, pane.end, pane.timing) for pane in plot.moments if pane.kind == "pane"]
    assert panes == [
        (0, 10000, "EARLY"),
        (0, 10000, "ON_TIME"),
        (0, 10000, "LATE"),
        (10000, 20000, "ON_TIME"),
        (20000, 30000, "ON_TIME"),
    ]
    assert sum(moment.kind == "record" for moment in plot.moments) == len(TIMES)


def test_columnar_windows_show_their_panes_too(env):
    plot = (counts := stream(env).key_by("key").window(tumbling("10s")).agg(n=count())).plot_time()
    assert len(list(counts.execute_and_collect())) == 3
    assert [(pane.start, pane.timing) for pane in plot.moments if pane.kind == "pane"] == [
        (0, "ON_TIME"),
        (10000, "ON_TIME"),
        (20000, "ON_TIME"),
    ]


def test_what_came_too_late_is_heard_of_and_a_side_output_of_the_users_stays(env):
    tag, late = OutputTag("mine"), CollectSink()
    counts = stream(env).key_by("key").window(tumbling("10s")).side_output_late_data(tag).agg(n=count())
    plot = counts.plot_time()
    counts.get_side_output(tag).sink_to(late)
    counts.print()
    env.execute()
    assert [record["ts"] for record in late.results] == [5000, 3000]
    assert [each.start for each in plot.moments if each.kind == "late"] == [5000, 3000]


def test_of_records_with_one_timestamp_the_last_are_marked_late():
    moments = [Moment(kind, start, start, watermark, 0, "") for kind, start, watermark in HEARD]
    assert [each.kind for each in marked(moments)] == ["record", "record", "behind", "late"]


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_picture_is_drawn_when_the_job_ends(env, tmp_path, ending):
    path = tmp_path / "pictures" / f"time.{ending}"
    timed = stream(env)
    timed.plot_time(path)
    timed.print()
    env.execute()
    assert path.read_bytes()[:5] in (b"<?xml", b"\x89PNG\r")


def test_there_is_no_picture_of_nothing(env, tmp_path):
    with pytest.raises(InvalidArgumentError, match="no record with a timestamp"):
        stream(env).plot_time().draw(tmp_path / "time.svg")


def test_without_matplotlib_the_error_says_how_to_get_it(env, tmp_path, monkeypatch):
    plain = builtins.__import__

    def without_matplotlib(name, *rest, **more):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return plain(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    with pytest.raises(EnvironmentSetupError, match=r"flintstream\[plot\]"):
        stream(env).plot_time().draw(tmp_path / "time.svg")


def test_a_picture_of_no_known_kind_is_refused_at_once(env):
    with pytest.raises(InvalidArgumentError, match=r"let it end in \.svg, \.png, \.pdf") as refused:
        stream(env).plot_time("time.xyz")
    assert "test_plot_time.py:" in refused.value.location
