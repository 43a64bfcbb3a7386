"""Reads where the user wants a source to begin and to end, and refuses what it cannot do while the program is built.

Apart from the environment, which only has the arguments: what a source can be asked depends on its kind. A log is
looked up by its own time or by positions, files by the time of their last change, a DataFrame is the user's to filter.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from flintstream.connectors.files_source import FileSource
from flintstream.errors import InvalidArgumentError, UnsupportedError
from flintstream.graph.location import users_line
from flintstream.model.connect import LogSource, Source, SplitSource
from flintstream.model.location import refused
from flintstream.model.positions import Place, PlaceLike, knows_time, read_place


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A source, and where reading it begins and ends."""

    source: Source
    start_from: Place | None = None
    until: Place | None = None


def excerpt_of(source: Source, start_from: PlaceLike | None, until: PlaceLike | None) -> Excerpt:
    """Return what to read of a source.

    Raises:
        InvalidArgumentError: there is nothing between the two, or `until` is in the future.
        UnsupportedError: the source cannot be read so.
    """
    start = None if start_from is None else read_place("start_from", start_from)
    end = None if until is None else read_place("until", until)
    if start is None and end is None:
        return Excerpt(source)
    if start is not None and end is not None:
        _check_order(start, end)
    if end is not None and end.time is not None and end.time > time.time() * 1000:
        remedy = 'give a time that is over, "now", or leave it out to go on'
        raise refused(
            InvalidArgumentError, f"until={until!r:.100} is in the future: who knows what comes by then", remedy
        )
    if isinstance(source, FileSource):
        return _of_files(source, start, end)
    if not isinstance(source, SplitSource):
        what = f"{type(source).__name__} has no positions to begin or end at"
        raise _unsupported(what, "filter it before")
    for name, place in (("start_from", start), ("until", end)):
        if place is not None:
            _check_kind(source, name, place)
    return Excerpt(source, start, end)


def _check_order(start: Place, end: Place) -> None:
    ends = dict(end.positions)
    empty = [name for name, position in start.positions if position > ends.get(name, position)]
    if empty or (start.time is not None and end.time is not None and start.time >= end.time):
        what = f"there is nothing from {start} to {end}"
        raise refused(InvalidArgumentError, what, "give a start_from before until")


def _check_kind(source: SplitSource, name: str, place: Place) -> None:
    if place.time is not None and not knows_time(source):
        what = f"{name} is a time, and {type(source).__name__} keeps none with its records"
        remedy = "give positions by split, or choose event times by watermark=... .between(start, end)"
        raise _unsupported(what, remedy)
    if place.is_now and not isinstance(source, LogSource):
        what = f'{name} is "now", and {type(source).__name__} does not grow'
        raise _unsupported(what, "give positions by split")


def _of_files(source: FileSource, start: Place | None, end: Place | None) -> Excerpt:
    for name, place in (("start_from", start), ("until", end)):
        if place is not None and place.positions:
            what = f"{name} has positions, and files have none"
            raise _unsupported(what, "give the time of their last change")
    if end is not None and not source.is_bounded:
        what = "until ends a source that is watched for new files"
        raise refused(InvalidArgumentError, what, "leave out monitor, or until")
    now = int(time.time() * 1000)
    borders = [place and (now if place.time is None else place.time) for place in (start, end)]
    return Excerpt(source.modified_between(*borders))


def _unsupported(what: str, remedy: str) -> UnsupportedError:
    line = users_line()
    return UnsupportedError(f"{what}; {line}; {remedy}", location=line)
