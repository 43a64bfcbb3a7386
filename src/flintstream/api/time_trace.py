"""`plot_time()`: listens to a stream while its job runs, and keeps what a picture of its time needs.

What is listened to are a window's input, its panes and what came too late, in the order in which they came about. A
window that does not tell all that is declared a second time, beside the first: so the job itself stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from flintstream.api.arguments import read
from flintstream.api.draw_time import Moment, draw, picture_path
from flintstream.api.program import Program
from flintstream.api.stream import Origin, add_node
from flintstream.connectors.driver_sinks import CollectSink
from flintstream.graph.nodes import FORWARD, AggregateNode, FunctionNode, SinkNode, Upstream, WindowNode
from flintstream.model.functions_process import ProcessFunction
from flintstream.model.panes import Pane, PaneMode, Panes, PaneTiming
from flintstream.model.time import MIN_TIMESTAMP

MOST_MOMENTS = 100_000


class TimePlot:
    """What was seen of a stream's time so far; `draw(path)` makes a picture of it, at any time."""

    def __init__(self, path: str | Path | None) -> None:
        self._path = None if path is None else picture_path(path)
        self.moments: list[Moment] = []

    def take(self, epoch: int, rows: list[Any]) -> None:
        """Called with what an epoch brought."""
        room = MOST_MOMENTS - len(self.moments)
        self.moments += [Moment(*row) for row in rows[:room]]

    def at_the_end(self, manifest: Any, reports: Any, seconds: float) -> None:
        """Called after each epoch: draws the picture when the job has ended."""
        if manifest.finished and self._path is not None:
            self.draw(self._path)

    def draw(self, path: str | Path) -> Path:
        """Draw the picture into a file, whose ending says what kind it is: .svg, .png, .pdf."""
        return draw(self.moments, picture_path(path), is_cut=len(self.moments) >= MOST_MOMENTS)


class _Records(ProcessFunction):
    """Says of each record when it came."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        timers = ctx.timer_service()
        timestamp = ctx.timestamp()
        if timestamp is not None:
            yield "record", timestamp, timestamp, timers.current_watermark(), timers.current_processing_time(), ""


class _Late(ProcessFunction):
    """Says of each record that no window took when it came."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        timers, timestamp = ctx.timer_service(), ctx.timestamp()
        yield "late", timestamp, timestamp, timers.current_watermark(), timers.current_processing_time(), ""


class _Panes(ProcessFunction):
    """Says of each pane when it fired."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        timers = ctx.timer_service()
        if isinstance(value, Pane):
            pane: Pane[Any] = value
            if pane.info.is_retraction:
                return
            timing = pane.info.timing.value
            start, end = getattr(pane.window, "start", None), getattr(pane.window, "end", None)
        else:
            timing, start, end = PaneTiming.ON_TIME.value, value["window_start"], value["window_end"]
        if start is None or end is None:
            start = end = max(ctx.timestamp() or MIN_TIMESTAMP, MIN_TIMESTAMP)
        yield "pane", start, end, timers.current_watermark(), timers.current_processing_time(), timing


def trace_time(program: Program, origin: Origin, path: str | Path | None) -> TimePlot:
    """Listen to a stream; of a window's results its input is shown too."""
    only = origin.only
    node = None if only is None or only.tag else program.declarations.node(only.node)
    plot = read(TimePlot, path)
    heard: list[Upstream] = []
    if isinstance(node, WindowNode | AggregateNode):
        source = tuple(replace(each, exchange=FORWARD) for port in node.inputs for each in port)
        heard += _listen(Origin(program, source), _Records())
        telling = _telling(program, node)
        heard += _listen(Origin(program, (Upstream(telling.id, telling.late_tag or ""),)), _Late())
        heard += _listen(Origin(program, (Upstream(telling.id),)), _Panes())
    else:
        heard += _listen(origin, _Records())
    sink = CollectSink(plot.take)
    program.declarations.add(
        lambda number, line: SinkNode(
            id=number, location=line, inputs=(tuple(heard),), name="Plot of time", sink=sink, parallelism=1
        )
    )
    program.add_listener(plot.at_the_end)
    return plot


def _listen(origin: Origin, function: ProcessFunction) -> tuple[Upstream, ...]:
    """Put a listener behind a stream, in one instance, where the watermarks of all its splits meet."""
    listened: Origin = add_node(
        [origin],
        _itself,
        FunctionNode,
        name="Listen",
        shape="process",
        function=function,
        methods=("process_element",),
        parallelism=1,
    )
    return listened.upstreams


def _itself(origin: Origin) -> Origin:
    return origin


def _telling(program: Program, node: WindowNode | AggregateNode) -> WindowNode | AggregateNode:
    """Return a window's node that tells its panes and what came too late: itself, or another beside it."""
    tells_panes = isinstance(node, AggregateNode) or (node.panes is not None and node.panes.shown)
    if tells_panes and node.late_tag is not None:
        return node
    changes: dict[str, Any] = {"uid": None, "late_tag": "plotted", "logs_late": False, "name": f"{node.name} (plotted)"}
    if isinstance(node, WindowNode):
        mode = PaneMode.ACCUMULATING if node.panes is None else node.panes.mode
        changes |= {"panes": Panes(mode, shown=True), "output_type": None}
    return program.declarations.add(lambda number, line: replace(node, id=number, location=line, **changes))
