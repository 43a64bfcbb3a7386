"""What this release asks of other packages, read from its own metadata, and whether a version will do.

Only as much of the rules for versions as our own requirements use. Separate from the doctor, so that it can be tested
on texts alone.
"""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*([^;]*?)\s*(?:;(.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_CLAUSE = re.compile(r"(==|!=|>=|<=|<|>|~=)\s*([0-9][0-9A-Za-z.]*?)(\.\*)?$")


@dataclass(frozen=True)
class Requirement:
    """A package that is asked for: its name, which versions, and for which extra."""

    package: str
    wanted: str
    extra: str | None


def requirements() -> list[Requirement]:
    """Return what this release asks for; nothing if it is not installed."""
    try:
        lines = importlib.metadata.requires("flintstream") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [found for line in lines if (found := read_requirement(line)) is not None]


def read_requirement(line: str) -> Requirement | None:
    """Read a line of metadata; None for one that asks for an extra of our own.

    >>> read_requirement("pandas<3,>=2.2")
    Requirement(package='pandas', wanted='<3,>=2.2', extra=None)
    >>> read_requirement("redis>=5; extra == 'redis'")
    Requirement(package='redis', wanted='>=5', extra='redis')
    """
    match = _REQUIREMENT.fullmatch(line.strip())
    if match is None or match.group(1) == "flintstream":
        return None
    extra = _EXTRA.search(match.group(3) or "")
    return Requirement(match.group(1), match.group(2).strip("() "), extra.group(1) if extra else None)


def fits(version: str, wanted: str) -> bool:
    """Whether a version is one of those that are wanted; what cannot be read is not held against it.

    >>> fits("4.3.0", "==4.3.*"), fits("3.0.1", "<3,>=2.2"), fits("2.10", ">=2.2")
    (True, False, True)
    """
    have = _numbers(version)
    for clause in filter(None, (part.strip() for part in wanted.split(","))):
        match = _CLAUSE.match(clause)
        if match is not None and not _holds(have, match.group(1), _numbers(match.group(2)), bool(match.group(3))):
            return False
    return True


def _numbers(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in text.split("."):
        digits = re.match(r"\d+", part)
        if digits is None:
            break
        found.append(int(digits.group()))
        if digits.group() != part:
            break
    return tuple(found)


def _holds(have: tuple[int, ...], sign: str, limit: tuple[int, ...], is_prefix: bool) -> bool:
    if is_prefix or sign == "~=":
        same = have[: len(limit)] == limit if is_prefix else have[: len(limit) - 1] == limit[:-1] and have >= limit
        return not same if sign == "!=" else same
    width = max(len(have), len(limit))
    left, right = have + (0,) * (width - len(have)), limit + (0,) * (width - len(limit))
    return {
        "==": left == right, "!=": left != right, ">=": left >= right, "<=": left <= right,
        ">": left > right, "<": left < right,
    }[sign]  # fmt: skip
