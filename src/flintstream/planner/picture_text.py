"""Words and numbers of a picture: what fits into a box, what XML allows, and amounts as people read them.

Nothing measures text while a picture is drawn, so widths are guessed, and guessed high: a name that is cut early is
whole in its tooltip, one that runs out of its box is ugly. Separate from the drawing, which only puts words in places.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from typing import Any
from xml.sax.saxutils import quoteattr

from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP

_NARROW = frozenset("iljtfrI.,:;'|!()[]{} -")
_BROAD = frozenset("mwMW@%&—…")
# What XML 1.0 has no way to say: control characters, halves of surrogate pairs, two that are no characters.
_UNSAYABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def text_width(text: str, size: float) -> float:
    """Return how many pixels a text takes at most, in a font of this size without serifs."""
    return size * sum(_width(character) for character in text)


def _width(character: str) -> float:
    if character in _NARROW:
        return 0.42
    if character in _BROAD or unicodedata.east_asian_width(character) in "WF":
        return 1.05
    return 0.74 if character.isupper() else 0.62


def cut(text: str, size: float, room: float) -> str:
    """Return a text as far as it fits, on one line."""
    line = said(" ".join(text.split()))
    if text_width(line, size) <= room:
        return line
    room -= text_width("…", size)
    used, kept = 0.0, 0
    for character in line:
        used += size * _width(character)
        if used > room:
            break
        kept += 1
    return line[:kept].rstrip() + "…"


def said(text: str) -> str:
    """Return a text without what XML cannot say."""
    return _UNSAYABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def escaped(text: str) -> str:
    """Return a text as the content of an element."""
    return said(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def quoted(text: str) -> str:
    """Return a text as an attribute's value, with its quotes."""
    return quoteattr(said(text))


def shown(field: str, value: Any) -> str:
    """Return the value of a live field as a picture shows it; nothing for what is not known."""
    if value is None or isinstance(value, bool):
        return ""
    if not isinstance(value, int | float):
        return str(value)
    if field == "watermark":
        return _clock(int(value))
    if field in ("busy", "waiting"):
        return f"{value:.0%}"
    if field.endswith("_ms") or field.startswith("latency_"):
        return _duration(value)
    per = "/s" if field.endswith("_per_second") else ""
    return amount(value) + ("B" if "bytes" in field else "") + per


def amount(value: float) -> str:
    """Return a number of things in at most four digits.

    >>> [amount(n) for n in (0, 7, 999, 1234, 56_789, 2_000_000, 0.25)]
    ['0 ', '7 ', '999 ', '1.23 k', '56.8 k', '2 M', '0.25 ']
    """
    for scale, letter in _SCALES:
        if abs(value) >= scale * 0.9995:
            return f"{_three(value / scale)} {letter}"
    return f"{_three(value)} "


def _three(value: float) -> str:
    digits = 0 if abs(value) >= 100 or float(value).is_integer() else 1 if abs(value) >= 10 else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text


def _duration(milliseconds: float) -> str:
    seconds = milliseconds / 1000
    if abs(seconds) < 1:
        return f"{milliseconds:.0f} ms"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if abs(seconds) >= size:
            return f"{_three(seconds / size)} {unit}"
    return f"{_three(seconds)} s"


def _clock(timestamp: int) -> str:
    if timestamp >= MAX_TIMESTAMP:
        return "end of input"
    if timestamp <= MIN_TIMESTAMP:
        return ""
    try:
        moment = datetime.datetime.fromtimestamp(timestamp / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp)
    return moment.strftime("%m-%d %H:%M:%S")
