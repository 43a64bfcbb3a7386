"""A job in a notebook: shown at once, again while it runs, and as it ended; only where there is a kernel."""

from __future__ import annotations

import re
import sys
import threading
import types
from typing import Any

import pytest

from flintstream import CollectSink, JobStatus, MapFunction, StreamExecutionEnvironment
from flintstream.engine import notebook
from flintstream.engine.notebook import LiveView


class Display:
    """Stands for IPython's display: keeps the pages of every handle."""

    def __init__(self) -> None:
        self.pages: dict[int, list[str]] = {}

    def HTML(self, page: str) -> str:
        return page

    def display(self, page: str, display_id: bool) -> Any:
        assert display_id
        pages = self.pages.setdefault(len(self.pages), [page])
        return types.SimpleNamespace(update=pages.append)

    @property
    def states(self) -> list[list[str]]:
        """The status on each page, by handle."""
        return [[re.findall(r"</strong> · (\w+)", page)[0] for page in pages] for pages in self.pages.values()]


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> Display:
    """A kernel with a display; views look a hundred times a second."""
    shell = types.SimpleNamespace(kernel=object())
    made = Display()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", made)
    monkeypatch.setattr(notebook, "SECONDS_BETWEEN_LOOKS", 0.01)
    return made


class Gate(MapFunction):
    """Lets the record 1 pass when it is told to."""

    opened = threading.Event()

    def map(self, value: Any) -> Any:
        assert value != 1 or Gate.opened.wait(60)
        return value


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    Gate.opened.clear()
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(1)
    env.from_collection([0, 1, 2]).map(Gate()).name("gate").sink_to(CollectSink())
    return env


def views() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "flintstream-notebook"]


def test_a_job_is_shown_at_once_and_as_it_ended(env, display):
    job = env.execute_async("shown")
    job._ipython_display_()
    assert list(map(len, display.pages.values())) == [1]
    Gate.opened.set()
    for view in views():
        view.join(60)
    states = display.states[0]
    assert states[0] in ("CREATED", "RUNNING") and states[-1] == "FINISHED"
    last = display.pages[0][-1]
    assert "<strong>shown</strong>" in last and "3 in · 3 out" in last
    assert 'class="fs-graph"' in last and ">gate<" in last


def test_a_page_that_has_not_changed_is_not_sent_again():
    shown: list[str] = []
    pages = iter(["a", "a", "b", "b", "b"])
    ends = iter([False, False, False, True])
    screen = types.SimpleNamespace(show=shown.append)
    LiveView(screen, lambda: next(pages), lambda seconds: next(ends)).start().join()
    assert shown == ["a", "b"]


def test_a_job_that_failed_says_so(display):
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(1)
    env.from_collection([1]).map(lambda x: 1 // 0).sink_to(CollectSink())
    job = env.execute_async("broken")
    job._ipython_display_()
    for view in views():
        view.join(60)
    assert display.states[0][-1] == "FAILED"


def test_a_name_cannot_bring_markup_into_the_page(env, display):
    Gate.opened.set()
    job = env.execute_async("<script>alert(1)</script>")
    job.get_job_execution_result().result(60)
    page = job._repr_html_()
    assert "<script" not in page and "&lt;script&gt;" in page


def test_progress_of_a_job_that_a_cell_waits_for_is_the_view(env, display, capsys):
    Gate.opened.set()
    env.show_progress().execute("waited for")
    assert display.states[0][-1] == "FINISHED"
    assert capsys.readouterr().err == ""


def test_progress_without_a_kernel_is_a_line(env, capsys):
    Gate.opened.set()
    env.show_progress().execute("waited for")
    assert "3 in · 3 out" in capsys.readouterr().err


def test_on_a_terminal_a_job_is_a_line_of_text(env, display):
    sys.modules["IPython"].get_ipython = lambda: types.SimpleNamespace()  # type: ignore[attr-defined]
    Gate.opened.set()
    job = env.execute_async("plain")
    job.get_job_execution_result().result(60)
    with pytest.raises(NotImplementedError):
        job._ipython_display_()
    assert not display.pages
    assert repr(job) == f"<job 'plain', {job.get_job_id()}: FINISHED behind epoch {job.newest_manifest().epoch}>"
    assert job.get_job_status().result() is JobStatus.FINISHED


def test_the_graph_of_a_running_job_has_its_numbers(env):
    job = env.execute_async("numbers")
    first = str(job.graph())
    Gate.opened.set()
    job.get_job_execution_result().result(60)
    gate = next(op.uid for op in job._plan.operators if op.node.name == "gate")
    place = re.compile(rf'data-uid="{gate}" data-field="records_in_per_second">([^<]*)<')
    assert place.findall(first)[0] in ("", "0", "0 /s", "0/s")
    # A job that has ended has totals instead of rates.
    assert place.findall(str(job.graph())) == ["3"]


@pytest.mark.row(149)
def test_a_program_and_its_job_are_pictures(new_env, tmp_path):
    env = new_env()
    env.from_collection(["a", "b"]).key_by(lambda word: word).map(str.upper).name("upper").sink_to(CollectSink())
    drawn = env.graph().save(tmp_path / "program.svg").read_text()
    job = env.execute_async("words")
    job.get_job_execution_result().result(120)
    for svg in (drawn, str(job.graph())):
        assert svg.startswith("<svg ") and svg.endswith("</svg>")
        assert ">upper<" in svg and "hash by a function" in svg
    assert job.graph()._repr_svg_() == str(job.graph())
