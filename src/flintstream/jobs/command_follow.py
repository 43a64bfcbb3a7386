"""What a job prints, followed while it runs: both streams of its program, until it ends or the reader leaves.

Separate from the commands: `run` follows both streams to the job's end, `logs -f` one of them for ever.

Flink: the attached mode of `flink run`, and `tail -f log/*.out`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from flintstream.errors import NoManagerError
from flintstream.jobs.client import Client
from flintstream.jobs.shown import FAILED, INTERRUPTED, show_json, tell
from flintstream.jobs.view import JobView

POLL_SECONDS = 0.3
PIECE = 65_536
SECONDS_WITHOUT_MANAGER = 60.0
"""A standby takes over, or someone starts the manager again, within this time."""
OUT, ERR = "out", "err"


class Link:
    """Holds on to a manager that is away for a while, or has become another: jobs run on without one.

    Args:
        find: Finds the manager that leads now.
        seconds: How long nobody may answer.
    """

    def __init__(self, find: Callable[[], Client], seconds: float = SECONDS_WITHOUT_MANAGER) -> None:
        self._find = find
        self._seconds = seconds
        self._away_since: float | None = None
        self.client = find()

    def __call__(self, look: Callable[[], None]) -> None:
        """Look, or be patient; raise what the look raised when it took too long."""
        try:
            look()
        except NoManagerError:
            now = time.monotonic()
            if self._away_since is None:
                self._away_since = now
                tell("the manager does not answer; jobs run on without it, waiting for one that leads")
            elif now - self._away_since > self._seconds:
                raise
            with suppress(NoManagerError):
                self.client = self._find()
        else:
            self._away_since = None


class Tail:
    """Reads one stream of a job from a position on."""

    def __init__(self, link: Link, job: str, stream: str, offset: int = 0) -> None:
        self._link = link
        self._job = job
        self._stream = stream
        self._offset = offset

    def read(self, write: Callable[[str], None]) -> bool:
        """Hand over what is new; return whether there was anything."""
        found = False
        while True:
            piece = self._link.client.log(self._job, self._stream, self._offset, PIECE)
            self._offset = piece.next_offset
            if not piece.text:
                return found
            found = True
            write(piece.text)
            if piece.next_offset >= piece.size:
                return True


def follow(link: Link, job: str, *, as_json: bool = False) -> int:
    """Show what a job prints until it ends; return the exit status that its end means. Ctrl-C cancels it."""
    tails = [(Tail(link, job, stream), _writer(stream, as_json)) for stream in (OUT, ERR)]
    views: list[JobView] = []
    waits = False

    def look() -> None:
        nonlocal waits
        view = link.client.job(job)
        if view.status == "CREATED" and not waits:
            waits = True
            tell("it waits for a slot of the manager")
        # Asked for before the last look at the logs: a job that has ended prints nothing more.
        for tail, write in tails:
            tail.read(write)
        if view.has_ended:
            views.append(view)

    try:
        while not views:
            link(look)
            if not views:
                time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        tell(f"canceling job {job}")
        link.client.cancel(job)
        return INTERRUPTED
    return _end(views[0], as_json)


def _end(view: JobView, as_json: bool) -> int:
    if as_json:
        show_json(view.as_dict())
    elif view.status == "FAILED":
        tell(f"flintstream: job {view.id} failed: {view.error or 'its log says why'}")
    return FAILED if view.status == "FAILED" else 0


def follow_stream(link: Link, job: str, stream: str, offset: int) -> None:
    """Show what a job prints on one stream, until it has ended and all is shown."""
    tail, write = Tail(link, job, stream, offset), _writer(OUT, as_json=False)
    ended = False

    def look() -> None:
        nonlocal ended
        ended = link.client.job(job).has_ended
        tail.read(write)

    while not ended:
        link(look)
        if not ended:
            time.sleep(POLL_SECONDS)


def last_lines(text: str, count: int) -> str:
    r"""Return the last lines of a text, whole.

    >>> last_lines("a\nb\nc\n", 2)
    'b\nc\n'
    """
    lines: Sequence[str] = text.splitlines(keepends=True)
    return "".join(lines[-count:]) if count else ""


def _writer(stream: str, as_json: bool) -> Callable[[str], None]:
    """Return how a piece is shown: as it is, on the stream it was written to."""

    def write(text: str) -> None:
        # With JSON, stdout is for the document alone.
        target = sys.stderr if as_json or stream == ERR else sys.stdout
        target.write(text)
        target.flush()

    return write
