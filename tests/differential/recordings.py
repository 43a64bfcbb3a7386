"""Recordings of what Flink made of a pipeline: how they are stored, and how two runs of a pipeline are compared.

Imports neither Flintstream nor PyFlink: the recorder and the test share it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "recordings"

Emitted = list[Any]
"""[name of the stream, record]: a record that a pipeline emitted, with lists for tuples and rows."""


@dataclass(frozen=True)
class Recording:
    """What a pipeline emitted on Flink, and with which versions."""

    versions: dict[str, str]
    records: list[list[Any]]
    emitted: list[Emitted]


def to_json(stream: str) -> Callable[[Any], str]:
    """Return the function that turns a record of this stream into what is compared."""
    return lambda record: json.dumps([stream, record], default=list)


def write(name: str, recording: Recording) -> None:
    """Store a recording: a line with the versions, then one for each record that went in, or came out."""
    lines: list[dict[str, Any]] = [{"pipeline": name, **recording.versions}]
    lines += [{"in": record} for record in recording.records]
    lines += [{"out": emitted} for emitted in recording.emitted]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def read(name: str) -> Recording:
    """Load a recording."""
    head, *lines = map(json.loads, (FOLDER / f"{name}.jsonl").read_text().splitlines())
    return Recording(
        {key: value for key, value in head.items() if key != "pipeline"},
        [line["in"] for line in lines if "in" in line],
        [line["out"] for line in lines if "out" in line],
    )


def by_key(emitted: Iterable[Emitted]) -> dict[str, list[Any]]:
    """Return the records of each stream and key in their order; that across keys means nothing."""
    groups: dict[str, list[Any]] = defaultdict(list)
    for stream, record in emitted:
        groups[f"{stream}: {record[0]}"].append(record)
    return dict(groups)
