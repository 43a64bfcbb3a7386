"""A job in a notebook: its graph with live numbers, drawn anew in one place until the job ends.

Only a notebook's kernel has IPython, so it is looked for among what is loaded and never asked for. Separate from the
job's handle, which only says where it stands.

Flink: none; there one opens the web dashboard.
"""

from __future__ import annotations

import html
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from flintstream.model.dead_letters import DEAD_LETTERS
from flintstream.model.job import JobStatus
from flintstream.planner.picture import picture
from flintstream.planner.picture_text import amount, shown
from flintstream.planner.plan import Plan

SECONDS_BETWEEN_LOOKS = 1.0


class Screen(Protocol):
    """A place in a notebook whose content can be replaced."""

    def show(self, page: str) -> None:
        """Show a piece of HTML instead of what was there."""
        ...


class NotebookScreen:
    """An output of the cell at hand, by IPython's display handles."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, page: str) -> None:
        """Show a piece of HTML instead of what was there."""
        tools: Any = sys.modules["IPython.display"]
        if self._handle is None:
            self._handle = tools.display(tools.HTML(page), display_id=True)
        else:
            self._handle.update(tools.HTML(page))


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook; IPython on a terminal is none."""
    ipython: Any = sys.modules.get("IPython")
    if ipython is None or "IPython.display" not in sys.modules:
        return False
    return getattr(ipython.get_ipython(), "kernel", None) is not None


def at_rest(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the status of a job as it is drawn: one that has ended has totals, and no rates any more."""
    if not JobStatus[status["status"]].is_terminal_state():
        return status
    operators: Mapping[str, Mapping[str, Any]] = status["operators"]
    return {**_without_rates(status), "operators": {uid: _without_rates(each) for uid, each in operators.items()}}


def _without_rates(document: Mapping[str, Any]) -> dict[str, Any]:
    moving = ("busy", "waiting", "watermark_lag_ms")
    return {name: each for name, each in document.items() if not name.endswith("_per_second") and name not in moving}


def page_of(plan: Plan, status: Mapping[str, Any]) -> str:
    """Return a job as a piece of HTML: a line that says where it stands, and its graph."""
    status = at_rest(status)
    words = [str(status["status"]), f"epoch {status['epoch']}"]
    for name, label in (("records_in", "in"), ("records_out", "out")):
        rate = status.get(f"{name}_per_second")
        speed = f" ({amount(rate).strip()}/s)" if rate is not None else ""
        words.append(f"{status[name]:,} {label}{speed}")
    words += [f"{status[name]:,} {label}" for name, label in _RARE.items() if status.get(name)]
    watermark = shown("watermark", status.get("watermark"))
    words += [f"watermark {watermark}"] if watermark else []
    line = html.escape(" · ".join(words))
    return (
        f'<div style="overflow-x:auto"><p><strong>{html.escape(plan.name)}</strong> · {line}</p>'
        f"{picture(plan, status)}</div>"
    )


_RARE = {"late": "late", DEAD_LETTERS: "dead letters"}


class LiveView:
    """Shows a job until it has ended: at once, then again and again from a thread of its own."""

    def __init__(self, screen: Screen, page: Callable[[], str], has_ended: Callable[[float], bool]) -> None:
        self._screen = screen
        self._page = page
        self._has_ended = has_ended
        self._shown = ""

    def start(self) -> threading.Thread:
        """Show the job, and return the thread that goes on showing it."""
        self._refresh()
        thread = threading.Thread(target=self._follow, name="flintstream-notebook", daemon=True)
        thread.start()
        return thread

    def _follow(self) -> None:
        while not self._has_ended(SECONDS_BETWEEN_LOOKS):
            self._refresh()
        self._refresh()

    def _refresh(self) -> None:
        page = self._page()
        if page != self._shown:
            self._shown = page
            self._screen.show(page)
