"""A job as text: what `flintstream show` and `show --watch` print of it.

Pure functions of the manager's documents, so that the same picture is printed once or drawn again and again.

Flink: what `flink list` does not show and the dashboard does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from flintstream.jobs.command_reach import SHORT_ID
from flintstream.jobs.shown import console, moment, number, show_table, size, span, table_of
from flintstream.jobs.view import JobView

COLOURS = {
    "RUNNING": "green", "FINISHED": "blue", "CREATED": "cyan", "INITIALIZING": "cyan", "CANCELED": "yellow",
    "CANCELLING": "yellow", "RESTARTING": "yellow", "RECONCILING": "yellow", "FAILING": "red", "FAILED": "red",
}  # fmt: skip
LIST_NAMES = ("job", "name", "status", "submitted (UTC)", "up", "parallelism", "restarts", "records/s")
WATCH_SECONDS = 1.0
MOST_NAME = 60
Document = Mapping[str, Any]


def list_row(view: JobView, status: Document, now_ms: int) -> tuple[object, ...]:
    """Return a job's line in the list."""
    until = view.ended_ms or now_ms
    up = None if view.started_ms is None else until - view.started_ms
    rate = None if view.has_ended else status.get("records_in_per_second")
    return (
        view.id[:SHORT_ID], short(view.name), view.status, moment(view.submitted_ms), span(up),
        "-" if view.parallelism is None else str(view.parallelism), str(view.restarts), number(rate),
    )  # fmt: skip


def short(name: str) -> str:
    """Return a job's name as it stands in a list, beside other things.

    >>> short("orders"), len(short("orders" * 100))
    ('orders', 60)
    """
    return name if len(name) <= MOST_NAME else f"{name[: MOST_NAME - 1]}…"


def picture_of(view: JobView, status: Document, plan: Document, now_ms: int) -> RenderableType:
    """Return all that is shown of a job."""
    return Group(*_header(view, now_ms), *_progress(status, now_ms), *_operators(status, plan), *_latency(status))


def watch(look: Callable[[], tuple[RenderableType, bool]]) -> None:
    """Draw what `look` returns once a second, until it says that nothing more comes."""
    picture, ended = look()
    with Live(picture, console=console(), auto_refresh=False) as live:
        while not ended:
            time.sleep(WATCH_SECONDS)
            picture, ended = look()
            live.update(picture, refresh=True)


def _header(view: JobView, now_ms: int) -> list[RenderableType]:
    lines = [Text.assemble((view.name, "bold"), "  ", (view.status, COLOURS.get(view.status, "")))]
    facts = [f"job {view.id}"]
    if view.started_ms is not None:
        facts.append(f"{'ran' if view.ended_ms else 'up'} {span((view.ended_ms or now_ms) - view.started_ms)}")
    if view.attempt:
        facts.append(f"attempt {view.attempt}")
    if view.restarts:
        facts.append(f"{view.restarts} restarts")
    if view.parallelism is not None:
        facts.append(f"parallelism {view.parallelism}" + ("" if view.scaling == "manual" else f" ({view.scaling})"))
    if view.guarantee is not None:
        facts.append(view.guarantee)
    lines.append(Text(" · ".join(facts)))
    if view.checkpoint_dir is not None:
        lines.append(Text(f"state in {view.checkpoint_dir}"))
    if view.error is not None:
        lines.append(Text(view.error, style="red"))
    return [*lines]


def _progress(status: Document, now_ms: int) -> list[RenderableType]:
    if not status:
        return []
    words = [f"epoch {status.get('epoch', 0)} ({span(1000 * (status.get('epoch_seconds') or 0))})"]
    words.append(f"{number(status.get('records_in'))} in ({number(status.get('records_in_per_second'))}/s)")
    words.append(f"{number(status.get('records_out'))} out ({number(status.get('records_out_per_second'))}/s)")
    for name, text in (("late", "late"), ("dead_letters", "dead letters")):
        if status.get(name):
            words.append(f"{number(status[name])} {text}")
    if status.get("watermark_lag_ms") is not None:
        words.append(f"event time {span(status['watermark_lag_ms'])} behind")
    lines = [Text(" · ".join(words))]
    checkpoint = status.get("checkpoint") or {}
    if checkpoint.get("committed_ms"):
        age = span(max(0, now_ms - checkpoint["committed_ms"]))
        taken = f"checkpoint {size(int(checkpoint.get('total_bytes') or 0))}, {age} old"
        lines.append(Text(taken))
    behind = [
        f"{uid}: {number(each.get('lag_records'))} records behind"
        for uid, each in (status.get("sources") or {}).items()
        if each.get("lag_records")
    ]
    return [*lines, *map(Text, behind)]


def _operators(status: Document, plan: Document) -> list[RenderableType]:
    measured: Mapping[str, Document] = status.get("operators") or {}
    known = [(each["uid"], each.get("name", each["uid"])) for each in plan.get("operators") or ()]
    names = ("operator", "in/s", "out/s", "busy", "state", "behind", "")
    rows: list[tuple[object, ...]] = []
    for uid, name in known or [(uid, uid) for uid in measured]:
        each = measured.get(uid, {})
        busy = each.get("busy")
        rows.append((
            name, number(each.get("records_in_per_second")), number(each.get("records_out_per_second")),
            "-" if busy is None else f"{100 * busy:.0f} %", number(each.get("state_entries")),
            span(each.get("watermark_lag_ms")), "slowest" if each.get("slowest") else "",
        ))  # fmt: skip
    return [Text(), table_of(names, rows)] if rows else []


def _latency(status: Document) -> list[RenderableType]:
    rows: list[tuple[object, ...]] = []
    for uid, each in (status.get("sinks") or {}).items():
        found = each.get("latency_ms")
        if found:
            rows.append((uid, *(span(found.get(name)) for name in ("p50", "p95", "p99", "max"))))
    return [Text(), table_of(("latency to sink", "p50", "p95", "p99", "max"), rows)] if rows else []


def show_picture(picture: RenderableType) -> None:
    """Print what is shown of a job once."""
    console().print(picture)


def show_directory(document: Document) -> None:
    """Print what a checkpoint directory says of its job."""
    rows = [(name.replace("_", " "), "-" if value is None else str(value)) for name, value in document.items()]
    show_table(("", "job"), [row for row in rows if row[0] != "operators"])
    operators: Mapping[str, Mapping[str, int]] = document.get("operators") or {}
    if operators:
        show_table(
            ("operator", "in", "out", "late"),
            [(uid, each.get("in", 0), each.get("out", 0), each.get("late", 0)) for uid, each in operators.items()],
        )
