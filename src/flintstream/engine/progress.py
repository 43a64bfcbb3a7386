"""One line of live progress: records in and out, event time, epoch. On a terminal it stays one line."""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Sequence
from typing import TextIO

from flintstream.engine.epoch import TaskReport
from flintstream.engine.loop import Listener
from flintstream.engine.manifest import Manifest
from flintstream.engine.notebook import is_notebook
from flintstream.engine.options import JobOptions
from flintstream.graph.nodes import SinkNode, SourceNode
from flintstream.model.dead_letters import DEAD_LETTERS
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.planner.plan import Plan

_SECONDS_BETWEEN_LINES = 2.0


class ProgressLine:
    """A listener that shows where a job stands."""

    def __init__(self, plan: Plan, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._sources = [op.uid for op in plan.operators if isinstance(op.node, SourceNode)]
        self._sinks = [op.uid for op in plan.operators if isinstance(op.node, SinkNode)]
        self._live = self._stream.isatty()
        self._shown = 0.0

    def __call__(self, manifest: Manifest, reports: Sequence[TaskReport], seconds: float) -> None:
        """Show a committed epoch."""
        now = time.monotonic()
        if not self._live and not manifest.finished and now - self._shown < _SECONDS_BETWEEN_LINES:
            return
        self._shown = now
        text = self.text(manifest, seconds)
        if self._live:
            self._stream.write(f"\r\x1b[K{text}" + ("\n" if manifest.finished else ""))
        else:
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def text(self, manifest: Manifest, seconds: float) -> str:
        """Return the line."""
        read = sum(manifest.counters.get(uid, {}).get("out", 0) for uid in self._sources)
        written = sum(manifest.counters.get(uid, {}).get("in", 0) for uid in self._sinks)
        late = sum(counts.get("late", 0) for counts in manifest.counters.values())
        known = [watermark for watermark in manifest.watermarks.values() if watermark != MIN_TIMESTAMP]
        words = [f"epoch {manifest.epoch}", f"{read:,} in", f"{written:,} out"]
        if late:
            words.append(f"{late:,} late")
        if dead := sum(counts.get(DEAD_LETTERS, 0) for counts in manifest.counters.values()):
            words.append(f"{dead:,} dead letters")
        words += [f"watermark {clock(min(known))}" if known else "no watermark yet", f"{seconds:.1f} s"]
        return " · ".join(words)


def listener_of(plan: Plan, options: JobOptions) -> Listener:
    """Return one listener for all that the options ask for."""
    listeners: list[Listener] = list(options.listeners)
    if options.progress and not is_notebook():
        listeners.append(ProgressLine(plan))

    def tell_all(manifest: Manifest, reports: Sequence[TaskReport], seconds: float) -> None:
        for listener in listeners:
            listener(manifest, reports, seconds)

    return tell_all


def clock(timestamp: int) -> str:
    """Return event time as people read it."""
    if timestamp == MAX_TIMESTAMP:
        return "end of input"
    try:
        moment = datetime.datetime.fromtimestamp(timestamp / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp)
    return moment.strftime("%Y-%m-%d %H:%M:%S")
