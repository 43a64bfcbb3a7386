"""Small documents that processes of one home leave for each other: written whole or not at all, read with patience.

A reader may find no file yet, or lines whose writer was killed in their midst; it goes by what is whole.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast


def write_json(path: Path, document: Mapping[str, Any], durable: bool = False) -> None:
    """Replace a document; with `durable` it is there even after a power cut."""
    staged = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(document, file)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    staged.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """Return a document; an empty one if there is none, or none that can be read."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the documents of a file that has one in each line."""
    try:
        data = path.read_bytes()
    except OSError:
        return
    for line in data.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield cast("dict[str, Any]", found)


def append_line(path: Path, document: Mapping[str, Any]) -> None:
    """Append a document to a file that has one in each line."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        # One write: what two processes append does not mix.
        os.write(descriptor, f"{json.dumps(document)}\n".encode())
    finally:
        os.close(descriptor)
