"""A plan as a picture: an SVG of boxes, lines and levels, drawn by our own hand so that it shows anywhere by itself.

Numbers that change while a job runs have texts of their own (`data-uid`, `data-field`): a page that holds the picture
fills them in place, and `picture(plan, status)` draws them filled. Lines and letters take the colour of the page, and
alone in a browser the picture follows its light or dark scheme. What matters is said by attributes, so that it looks
right also where a page forbids styles. Separate from the layout, which knows no operators.

Flink: the job graph of the web dashboard, and the plan visualiser.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from flintstream.graph.nodes import Node, SinkNode, SourceNode
from flintstream.model.job_graph import JobGraph
from flintstream.planner.explain import full_name, way_of
from flintstream.planner.picture_layout import Box, Item, Layout, Line, arrange
from flintstream.planner.picture_text import cut, escaped, quoted, shown, text_width
from flintstream.planner.plan import Link, Plan, PlannedOperator

_WIDTH = 260.0
_HEAD = 48.0
_ROW = 16.0
_LABEL_ROOM = 150.0

# What a row of a box says: its label, and the fields of its two numbers.
_IN = ("in", "records_in_per_second", "bytes_in_per_second")
_OUT = ("out", "records_out_per_second", "bytes_out_per_second")
_TIME = ("watermark", "watermark", "watermark_lag_ms")
_LOAD = ("busy, waiting", "busy", "waiting")
_STATE = ("state", "state_entries", "state_bytes")
_BACKLOG = ("backlog", "lag_records", "lag_ms")
_LATENCY = ("latency p50, p99", "latency_p50", "latency_p99")

_STYLE = """
svg.fs-graph:root{color-scheme:light dark;color:CanvasText;background:Canvas}
.fs-graph text{fill:currentColor;font:12px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
.fs-graph .fs-name{font-size:13px;font-weight:600}
.fs-graph .fs-dim{font-size:11px;opacity:.75}
.fs-graph .fs-number{font-variant-numeric:tabular-nums}
.fs-graph .fs-label{font-size:11px;opacity:.85}
.fs-graph .fs-box{stroke-opacity:.55;stroke-width:1.2}
.fs-graph .fs-source .fs-box{stroke:#1a8f6a;stroke-opacity:1;stroke-width:1.8}
.fs-graph .fs-sink .fs-box{stroke:#3b78d8;stroke-opacity:1;stroke-width:1.8}
.fs-graph .fs-line{stroke-opacity:.6;stroke-width:1.3}
.fs-graph .fs-exchange .fs-line{stroke-width:2.2}
.fs-graph .fs-arrow{fill-opacity:.75}
.fs-graph .fs-badge{font-size:11px;font-weight:700;fill:#d9480f}
.fs-graph .fs-slow .fs-badge{display:inline}
.fs-graph .fs-slow .fs-box{stroke:#d9480f;stroke-opacity:1;stroke-width:3}
""".strip()


@dataclass(frozen=True, slots=True)
class _Arrow:
    """A link as it is drawn: with its label, cut to the room there is."""

    link: Link
    label: str

    @property
    def kind(self) -> str:
        side = " fs-side" if self.link.tag else ""
        return ("fs-forward" if self.link.exchange.is_forward else "fs-exchange") + side


def picture(plan: Plan, status: Mapping[str, Any] | None = None, *, live: bool = True) -> str:
    """Return a plan as an SVG.

    Args:
        plan: What to draw.
        status: The numbers of a running job, as its report has them; without it those places are empty.
        live: Whether boxes have places for numbers at all.
    """
    arrows = [_Arrow(link, cut(_label(link), 11, _LABEL_ROOM)) for link in plan.links]
    items = [Item(op.id, op.level, _WIDTH, _height(op.node, live)) for op in plan.operators]
    lines = [Line(each.link.source, each.link.target, text_width(each.label, 11)) for each in arrows]
    layout = arrange(items, lines)
    size = f"{layout.width:.0f}", f"{layout.height:.0f}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="fs-graph" role="img" viewBox="0 0 {size[0]} {size[1]}"'
        f' width="{size[0]}" height="{size[1]}" fill="currentColor" font-family="sans-serif" font-size="12"'
        f" aria-label={quoted(f'Dataflow of job {plan.name}')}>",
        f"<title>{escaped(f'Dataflow of job {plan.name}')}</title>",
        f"<desc>{escaped(in_words(plan))}</desc>",
        f"<style>{_STYLE}</style>",
        *_bands(layout),
        *(_arrow(plan, arrow, route) for arrow, route in zip(arrows, layout.routes, strict=True)),
        *(_box(op, layout.boxes[op.id], status or {}, live) for op in plan.operators),
        "</svg>",
    ]
    return "\n".join(parts)


def graph_of(plan: Plan, status: Mapping[str, Any] | None = None, *, live: bool = True) -> JobGraph:
    """Return the picture as the user holds it."""
    operators, levels = len(plan.operators), plan.levels
    summary = f"{operators} operator{'s' * (operators > 1)}, {levels} level{'s' * (levels > 1)}"
    return JobGraph(picture(plan, status, live=live), summary)


def in_words(plan: Plan) -> str:
    """Return what the picture shows as sentences, for those who do not see it."""
    sentences: list[str] = []
    for op in plan.operators:
        ways = [
            f"{plan.operator(link.target).node.name}"
            + (f" ({_label(link)})" if link.tag or not link.exchange.is_forward else "")
            for link in plan.links_from(op.id)
        ]
        onward = f" goes to {', '.join(ways)}" if ways else ""
        sentences.append(f"Level {op.level}: {full_name(op.node)}{onward}.")
    return " ".join(sentences)


def _label(link: Link) -> str:
    """Return what is written at a line: how records travel, and of which side output they are."""
    way = "" if link.exchange.is_forward else way_of(link.exchange)
    kind, by, rest = way.partition(" ")
    words = [kind.lower() + by + rest] if way else []
    return ", ".join([*words, *([f"side output {link.tag}"] if link.tag else [])])


def _rows(node: Node) -> Sequence[tuple[str, str, str]]:
    if isinstance(node, SourceNode):
        return _BACKLOG, _OUT, _TIME, _LOAD, _STATE
    if isinstance(node, SinkNode):
        return _IN, _LATENCY, _TIME, _LOAD, _STATE
    return _IN, _OUT, _TIME, _LOAD, _STATE


def _height(node: Node, live: bool) -> float:
    return _HEAD + (_ROW * len(_rows(node)) + 6.0 if live else _ROW)


def _bands(layout: Layout) -> Iterator[str]:
    for band in layout.bands:
        size = f'width="{band.width:.1f}" height="{layout.height - 8:.1f}"'
        yield (
            f'<g class="fs-level" data-level="{band.level}">'
            f'<rect class="fs-band" fill-opacity=".035" x="{band.x:.1f}" y="4" {size} rx="8"/>'
            f"{_text('fs-dim', band.x + 10, 20, f'level {band.level}', 11)}</g>"
        )


def _text(kind: str, x: float, y: float, words: str, size: int = 12, *, to_left: bool = False, more: str = "") -> str:
    """Return a text that begins at a place, or ends there."""
    anchor = ' text-anchor="end"' if to_left else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" font-size="{size}"{anchor}{more}>{escaped(words)}</text>'


def _arrow(plan: Plan, arrow: _Arrow, route: Sequence[tuple[float, float]]) -> str:
    source, target = plan.operator(arrow.link.source), plan.operator(arrow.link.target)
    told = f"{source.node.name} to {target.node.name}: {_label(arrow.link) or 'forward'}"
    x, y = route[-1]
    dashes = ' stroke-dasharray="6 4"' if arrow.link.tag else ""
    parts = [
        f'<g class="fs-edge {arrow.kind}" data-from={quoted(source.uid)} data-to={quoted(target.uid)}>',
        f"<title>{escaped(told)}</title>",
        f'<path class="fs-line" fill="none" stroke="currentColor"{dashes} d="{_curve(route)}"/>',
        f'<path class="fs-arrow" d="M{x - 8:.1f},{y - 4:.1f} l8,4 -8,4 z"/>',
    ]
    if arrow.label:
        parts.append(_text("fs-label", x - 12, y - 4, arrow.label, 11, to_left=True))
    return "".join([*parts, "</g>"])


def _curve(route: Sequence[tuple[float, float]]) -> str:
    """Return the path of a line: bends and straight pieces by turns, up to the arrow's head."""
    path = f"M{route[0][0]:.1f},{route[0][1]:.1f}"
    for index, ((x, y), (to_x, to_y)) in enumerate(itertools.pairwise(route)):
        if index % 2:
            path += f" H{to_x - (7.0 if index == len(route) - 2 else 0.0):.1f}"
        else:
            middle = (x + to_x) / 2
            path += f" C{middle:.1f},{y:.1f} {middle:.1f},{to_y:.1f} {to_x:.1f},{to_y:.1f}"
    return path


def _box(op: PlannedOperator, box: Box, status: Mapping[str, Any], live: bool) -> str:
    node, uid, right = op.node, quoted(op.uid), _WIDTH - 14
    kind = "fs-source" if isinstance(node, SourceNode) else "fs-sink" if isinstance(node, SinkNode) else "fs-step"
    told = f"{full_name(node)}\nuid {op.uid}\n{node.location}\n{op.path}, parallelism {op.parallelism}"
    values = _values(op, status)
    slow = " fs-slow" if values.get("slowest") else ""
    parts = [
        f'<g class="fs-operator {kind}{slow}" data-uid={uid} transform="translate({box.x:.1f},{box.y:.1f})">',
        f"<title>{escaped(told)}</title>",
        f'<path class="fs-box" fill-opacity=".05" stroke="currentColor" d="{_outline(kind, box)}"/>',
        _text("fs-name", 14, 20, cut(full_name(node), 13, _WIDTH - 28), 13, more=' font-weight="600"'),
        _text("fs-dim", 14, 37, f"{op.path}, {op.parallelism} task{'s' if op.parallelism > 1 else ''}", 11),
        _text("fs-badge", right, 37, "slowest", 11, to_left=True, more=' display="none"'),
    ]
    if not live:
        parts.append(_text("fs-dim", 14, 53, cut(node.location, 11, _WIDTH - 28), 11))
    for index, (label, *fields) in enumerate(_rows(node) if live else ()):
        y = _HEAD + 10 + index * _ROW
        parts.append(_text("fs-dim", 14, y, label, 11))
        for field, x in zip(fields, (right - 64, right), strict=True):
            named = f' data-uid={uid} data-field="{field}"'
            parts.append(_text("fs-number", x, y, _number(field, values), to_left=True, more=named))
    return "".join([*parts, "</g>"])


def _outline(kind: str, box: Box) -> str:
    """Return the outline of a box: a source bulges to where records come from, a sink to where they go."""
    w, h = box.width, box.height
    if kind == "fs-source":
        return f"M12,0 H{w - 6} q6,0 6,6 V{h - 6} q0,6 -6,6 H12 C-4,{h} -4,0 12,0 z"
    if kind == "fs-sink":
        return f"M6,0 H{w - 12} C{w + 4},0 {w + 4},{h} {w - 12},{h} H6 q-6,0 -6,-6 V6 q0,-6 6,-6 z"
    return f"M6,0 H{w - 6} q6,0 6,6 V{h - 6} q0,6 -6,6 H6 q-6,0 -6,-6 V6 q0,-6 6,-6 z"


def _values(op: PlannedOperator, status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of one operator by field, gathered from where the report has them."""
    values: dict[str, Any] = dict(_part(status, "operators", op.uid))
    source = _part(status, "sources", op.uid)
    values.update({name: source.get(name) for name in ("lag_records", "lag_ms")})
    latency = _part(_part(status, "sinks", op.uid), "latency_ms")
    values.update({f"latency_{name}": latency.get(name) for name in ("p50", "p99")})
    return values


def _number(field: str, values: Mapping[str, Any]) -> str:
    """Return what stands at a field: a rate, or the total where no rate is known, as of a job that has ended."""
    if values.get(field) is None and field.endswith("_per_second"):
        field = field.removesuffix("_per_second")
    return shown(field, values.get(field)).strip()


def _part(document: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        found = document.get(name)
        document = cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}
    return document
