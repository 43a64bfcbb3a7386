"""The picture of a job as a value: notebooks show it, `str()` is its SVG, and it can be saved.

In this room because a job's client returns it; what draws it is the planner's business.
"""

from __future__ import annotations

from pathlib import Path

from flintstream.errors import InvalidArgumentError, describe


class JobGraph:
    """The dataflow of a job as an SVG, which a notebook shows by itself.

    >>> from flintstream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    >>> _ = env.from_collection([1, 2]).map(str).print()
    >>> env.graph()
    JobGraph(3 operators, 1 level)
    """

    def __init__(self, svg: str, summary: str) -> None:
        self._svg = svg
        self._summary = summary

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file whose name ends in .svg, and return its path."""
        target = Path(path)
        if target.suffix != ".svg":
            what = f"{str(path)!r} is not the name of an SVG"
            raise InvalidArgumentError(describe(what, remedy="let it end in .svg"))
        target.write_text(self._svg, encoding="utf-8")
        return target

    def __str__(self) -> str:
        return self._svg

    def __repr__(self) -> str:
        return f"JobGraph({self._summary})"

    def _repr_svg_(self) -> str:
        return self._svg

    def _repr_html_(self) -> str:
        # A picture wider than the page scrolls by itself, and takes the colours of the notebook's theme.
        return f'<div style="overflow-x:auto">{self._svg}</div>'
