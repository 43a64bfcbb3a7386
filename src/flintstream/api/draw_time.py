"""The picture of a stream's time: event time from left to right, arrival from bottom to top.

A dot is a record, the line is the watermark, a bar is a pane: as wide as its window, as high up as it fired. Records to
the left of the line came after the watermark had passed them; a cross is one that its window did not take any more.
Drawn by matplotlib, which only this file needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from flintstream.errors import EnvironmentSetupError, InvalidArgumentError, describe

_PANES = {
    "EARLY": ("#e69f00", "early pane"),
    "ON_TIME": ("#0072b2", "pane on time"),
    "LATE": ("#d55e00", "late pane"),
}
_RECORDS = {
    "record": ("#333333", "o", 16, "record"),
    "behind": ("#cc79a7", "o", 16, "record behind the watermark"),
    "late": ("#c00000", "x", 32, "record that came too late"),
}
_DISTANT = 1 << 52
KINDS = (".svg", ".png", ".pdf")


class Moment(NamedTuple):
    """A record or a late one (`start` and `end` are its timestamp) or a pane (its window's), and when it came about."""

    kind: str
    start: int
    end: int
    watermark: int
    processing_time: int
    timing: str


def picture_path(path: str | Path) -> Path:
    """Read the path of a picture; its ending says what kind it is."""
    if Path(path).suffix not in KINDS:
        what = f"{str(path)!r} is not the name of a picture"
        raise InvalidArgumentError(describe(what, remedy=f"let it end in {', '.join(KINDS)}"))
    return Path(path)


def draw(moments: Sequence[Moment], path: Path, is_cut: bool = False) -> Path:
    """Draw moments, in the order in which they came about."""
    pyplot = _matplotlib()
    heard = marked(moments)
    near = [each.start for each in heard if abs(each.start) < _DISTANT]
    if not near:
        what = f"nothing can be drawn into {path.name!r}: no record with a timestamp has come"
        raise InvalidArgumentError(describe(what, remedy="give the stream a watermark strategy, and let its job run"))
    zero = min(near)
    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    _draw_panes(axes, heard, zero)
    _draw_watermark(axes, heard, zero)
    _draw_records(axes, heard, zero)
    axes.set_xlabel("event time (seconds since the first)")
    axes.set_ylabel("order of arrival" + (", the first of them" if is_cut else ""))
    axes.grid(visible=True, axis="x", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper left", ncols=3, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A picture of the same moments is the same file.
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
    return path


def marked(moments: Sequence[Moment]) -> list[Moment]:
    """Return records and panes; a record that came too late is heard of twice, and is marked instead."""
    late = Counter(each.start for each in moments if each.kind == "late")
    marked: list[Moment] = []
    for moment in reversed(moments):
        if moment.kind == "late":
            continue
        if moment.kind == "record" and late[moment.start]:
            # Of records with one timestamp those that came last were too late.
            late[moment.start] -= 1
            marked.append(moment._replace(kind="late"))
        elif moment.kind == "record" and moment.start <= moment.watermark:
            marked.append(moment._replace(kind="behind"))
        else:
            marked.append(moment)
    return marked[::-1]


def _matplotlib() -> Any:
    try:
        import matplotlib as mpl  # noqa: PLC0415 - few need it
        from matplotlib import pyplot  # noqa: PLC0415
    except ImportError as error:
        message = describe("plots need matplotlib", remedy="pip install 'flintstream[plot]'")
        raise EnvironmentSetupError(message) from error
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "flintstream"
    # Letters, not their outlines: a tenth of the size.
    mpl.rcParams["svg.fonttype"] = "none"
    return pyplot


def _draw_records(axes: Any, moments: Sequence[Moment], zero: int) -> None:
    for kind, (colour, marker, size, words) in _RECORDS.items():
        places = [(_seconds(each.start, zero), place) for place, each in enumerate(moments) if each.kind == kind]
        if places:
            axes.scatter(*zip(*places, strict=True), s=size, color=colour, marker=marker, label=words, zorder=3)


def _draw_watermark(axes: Any, moments: Sequence[Moment], zero: int) -> None:
    steps = [
        (_seconds(each.watermark, zero), place) for place, each in enumerate(moments) if abs(each.watermark) < _DISTANT
    ]
    if steps:
        axes.plot(*zip(*steps, strict=True), drawstyle="steps-pre", color="#009e73", label="watermark", zorder=2)


def _draw_panes(axes: Any, moments: Sequence[Moment], zero: int) -> None:
    for timing, (colour, words) in _PANES.items():
        panes = [(place, each) for place, each in enumerate(moments) if each.timing == timing]
        if panes:
            axes.hlines(
                [place for place, _ in panes],
                [_seconds(each.start, zero) for _, each in panes],
                [_seconds(each.end, zero) for _, each in panes],
                color=colour,
                linewidth=4,
                alpha=0.7,
                label=words,
                zorder=1,
            )


def _seconds(time: int, zero: int) -> float:
    return (time - zero) / 1000
