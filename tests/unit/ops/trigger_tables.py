"""Truth tables of triggers: a script of steps, and for every trigger the panes that each step fires.

Steps are records, named by their timestamps (`5`, and `5!` for one that matters), watermarks (`W9`) and the clock
(`T12`). A pane is `window:timing number[records]`, with `.` behind it if it is known to be the last: `0:E0[3,5]`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flintstream.model.functions_window import ProcessWindowFunction
from flintstream.model.panes import Pane, PaneMode, Panes
from flintstream.model.windows import TimeWindow
from flintstream.ops.window import WindowOperator
from tests.unit.ops.window_harness import Emission, Record, Watermark, WindowHarness


class Records(ProcessWindowFunction[Any, Any, Any, Any]):
    """Emits the records of a window as text, and checks that the function was told the same pane."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield ",".join(elements), context.pane()


def play_table(harness: WindowHarness, script: str, restarts: bool = False) -> list[str]:
    """Play a script and return what each step fired, as `step -> panes`; steps that fired nothing are left out."""
    fired: list[str] = []
    for step in script.split():
        if step.startswith("W"):
            emitted = harness.feed(Watermark(int(step[1:])))
        elif step.startswith("T"):
            emitted = harness.set_processing_time(int(step[1:]))
        else:
            emitted = harness.feed(Record("key", step, int(step.strip("!"))))
        if emitted:
            fired.append(f"{step} -> {' '.join(map(describe, emitted))}")
        if restarts:
            harness.restart()
    return fired


def describe(emission: Emission) -> str:
    pane: Pane[Any] = emission.value
    (records, told), info, window = pane.value, pane.info, pane.window
    assert told == info if not info.is_retraction else (told.timing, told.number) == (info.timing, info.number)
    name = f"{window.start}" if isinstance(window, TimeWindow) else f"{getattr(window, 'id', 'all')}"
    last, back = "." if info.last else "", "-" if info.is_retraction else ""
    return f"{back}{name}:{info.timing.name[0]}{info.number}[{records}]{last}"


def paned(
    assigner: Any, trigger: Any, mode: PaneMode = PaneMode.ACCUMULATING, lateness: int = 0
) -> Callable[[], WindowOperator]:
    """Return how to build windows that show their panes."""

    def build() -> WindowOperator:
        operator = WindowOperator(assigner, trigger, lateness, "late", apply=Records())
        operator.panes = Panes(mode, shown=True)
        return operator

    return build
