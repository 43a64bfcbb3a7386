"""Reads what a user says of a DataFrame and its order; apart from other arguments, since only a source has columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flintstream.api.arguments import located
from flintstream.connectors.frames import FrameSource
from flintstream.errors import InvalidArgumentError, describe

Names = str | Sequence[str] | None


def read_frame(df: Any, split_by: Names, order_by: Names) -> FrameSource:
    """Return a DataFrame as a source, or refuse what is none and columns that it has not."""
    if not hasattr(df, "isStreaming"):
        what = f"{type(df).__name__} is not a Spark DataFrame"
        raise _invalid(what, "pass one, or use from_collection(...) for Python records")
    splits, places = _columns(df, "split_by", split_by), _columns(df, "order_by", order_by)
    if splits and not places:
        what = "split_by= says nothing of the order inside a split"
        raise _invalid(what, "name the columns with order_by= too")
    return FrameSource(df, splits, places)


def _columns(df: Any, argument: str, names: Names) -> tuple[str, ...]:
    if names is None:
        return ()
    wanted = (names,) if isinstance(names, str) else tuple(names)
    known: list[str] = list(df.columns)
    missing = [name for name in wanted if name not in known]
    if missing or not wanted:
        named = ", ".join(map(repr, missing)) or "no column"
        what = f"{argument}= names {named}, and the DataFrame has {', '.join(map(repr, known))}"
        raise _invalid(what, "name some of those")
    return wanted


def _invalid(what: str, remedy: str) -> Exception:
    return located(InvalidArgumentError(describe(what, remedy=remedy)))
