"""A rate that is imposed on sources from outside: a number, or a file whose number may change while the job runs.

It replaces whatever rate a source has of its own, so that a benchmark can raise the load step by step on one running
job. Separate from the pacer, which only asks what the rate is now.

Flink: RateLimiterStrategy of its generator. Differs from Flink: it holds for every source that is read by ranges.
"""

from __future__ import annotations

import math
from pathlib import Path

from flintstream.errors import InvalidArgumentError, describe

KEY = "flintstream.source.rate"
FILE = "file:"


class SourceRate:
    """Says how many records a second each source may give.

    >>> SourceRate("250").now()
    250.0

    Raises:
        InvalidArgumentError: it is neither a number above 0 nor a file with one.
    """

    def __init__(self, text: str) -> None:
        self._file = Path(text.removeprefix(FILE)) if text.startswith(FILE) else None
        found = self._read() if self._file is not None else _number(text)
        if found is None:
            what = f"{KEY} is {text!r}"
            remedy = f"set it to records per second above 0, or to {FILE}PATH of a file that holds such a number"
            raise InvalidArgumentError(describe(what, None, remedy))
        self._last = found

    def now(self) -> float:
        """Return the rate; that of a file which cannot be read now is the one before."""
        found = self._read() if self._file is not None else None
        if found is not None:
            self._last = found
        return self._last

    def _read(self) -> float | None:
        assert self._file is not None
        try:
            return _number(self._file.read_text())
        except (OSError, UnicodeDecodeError):
            return None


def _number(text: str) -> float | None:
    try:
        rate = float(text)
    except ValueError:
        return None
    return rate if rate > 0 and math.isfinite(rate) else None
