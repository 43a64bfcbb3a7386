"""A database that a process dies at: every step of the commit's transaction can be the last thing that it does.

No hook in the product: tests put these in the place of the connections that the client library makes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from flintstream.connectors import postgres_sink
from tests.crash.ports import Fault

STEPS = ["connect", "begin", "lock", "write", "number", "commit", "commit done"]


class _Link:
    """A connection of the committer's: its commit, and each statement by what it is for, is a step."""

    def __init__(self, link: Any, fault: Fault) -> None:
        self._link, self._fault = link, fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    def cursor(self) -> Any:
        return _Cursor(self._link.cursor(), self._fault)

    def commit(self) -> None:
        self._fault.reach("commit")
        self._link.commit()
        self._fault.reach("commit done")


class _Cursor:
    def __init__(self, cursor: Any, fault: Fault) -> None:
        self._cursor, self._fault = cursor, fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: Any) -> None:
        self._cursor.close()

    def execute(self, query: Any, *values: Any) -> Any:
        text = query if isinstance(query, str) else query.as_string(self._cursor)
        if "ledger" in text:
            verbs = {"INSERT": "begin", "SELECT": "lock", "UPDATE": "number"}
            self._fault.reach(verbs[text.split()[0]])
        return self._cursor.execute(query, *values)

    def executemany(self, query: Any, rows: Any) -> Any:
        self._cursor.executemany(query, rows)
        self._fault.reach("write")

    @contextmanager
    def copy(self, query: Any) -> Iterator[Any]:
        with self._cursor.copy(query) as copy:
            yield copy
            self._fault.reach("write")


def faulty(patch: pytest.MonkeyPatch, fault: Fault) -> None:
    """Give committers faulty connections; writers only ask, and keep theirs."""
    real, write = postgres_sink.connection, postgres_sink.JdbcCommitter._write

    @contextmanager
    def connection(options: Any) -> Iterator[Any]:
        fault.reach("connect")
        with real(options) as link:
            yield _Link(link, fault)

    def write_with_faults(self: Any, *arguments: Any) -> None:
        patch.setattr(postgres_sink, "connection", connection)
        try:
            write(self, *arguments)
        finally:
            patch.setattr(postgres_sink, "connection", real)

    patch.setattr(postgres_sink.JdbcCommitter, "_write", write_with_faults)
