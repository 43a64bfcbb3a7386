"""The way to PostgreSQL: the client library, connections that are used again, and failures in our words.

The library is psycopg 3: an extra, so it is imported where it is first used. A connection belongs to one thread at a
time; one that has failed is thrown away. Messages never hold a password.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from flintstream.connectors.postgres_options import JdbcConnectionOptions
from flintstream.model.extras import extra

T = TypeVar("T")
_RETRY_SECONDS = 1.0
MOST_IDLE = 4
"""How many connections a process keeps for the next epoch: a server has few to give, and many workers ask."""
_IDLE: list[tuple[tuple[int, JdbcConnectionOptions], Any]] = []
_LOCK = threading.Lock()

_COLUMNS = """\
select a.attname, t.typname, t.typcategory, a.atttypmod, a.attnotnull,
       a.atthasdef or a.attidentity <> '', format_type(a.atttypid, a.atttypmod)
from pg_attribute a join pg_type t on t.oid = a.atttypid
where a.attrelid = to_regclass(%s) and a.attnum > 0 and not a.attisdropped order by a.attnum"""


def library() -> Any:
    """Return the client library."""
    return extra("psycopg", "PostgreSQL needs the package psycopg", "postgres")


@dataclass(frozen=True)
class Column:
    """A column of a table: its type, whether it must have a value, and whether the database gives it one by itself."""

    name: str
    kind: str
    category: str = ""
    length: int | None = None
    is_required: bool = False
    is_filled: bool = False
    declared: str = ""


@contextmanager
def connection(options: JdbcConnectionOptions) -> Generator[Any]:
    """Yield a connection that nobody else has now; whatever was begun and not committed is rolled back."""
    with _LOCK:
        place = next((index for index, (whose, _) in enumerate(_IDLE) if whose == (os.getpid(), options)), None)
        found = None if place is None else _IDLE.pop(place)[1]
    if found is None or not _is_alive(found):
        found = library().connect(**options.settings())
    try:
        yield found
        found.rollback()
    except BaseException:
        found.close()
        raise
    with _LOCK:
        _IDLE.append(((os.getpid(), options), found))
        surplus = _IDLE.pop(0)[1] if len(_IDLE) > MOST_IDLE else None
    if surplus is not None:
        surplus.close()


@atexit.register
def _close_all() -> None:
    """Take leave of servers; a connection of the process that this one was forked from is that one's."""
    for (process, _), found in _IDLE:
        if process == os.getpid():
            found.close()
    _IDLE.clear()


def _is_alive(found: Any) -> bool:
    """Whether the server still answers: it may have been started again since the connection was used."""
    try:
        found.execute("select 1")
    except library().Error:
        found.close()
        return False
    return True


def is_passing(error: Exception) -> bool:
    """Whether it may go better another time: a connection that fails, a deadlock, but nothing that is refused."""
    postgres = library()
    refused = (postgres.errors.InvalidPassword, postgres.errors.InvalidAuthorizationSpecification)
    return isinstance(error, postgres.OperationalError | postgres.InterfaceError) and not isinstance(error, refused)


def retrying(work: Callable[[], T], retries: int) -> T:
    """Return what a piece of work gives; what may go better another time is tried again, later and later."""
    tried = 0
    while True:
        try:
            return work()
        except Exception as error:
            if tried == retries or not is_passing(error):
                raise
        tried += 1
        time.sleep(_RETRY_SECONDS * tried)


def reason_of(error: Exception, options: JdbcConnectionOptions) -> str:
    """Return what the server, or the client, says is wrong, in one line."""
    return options.without_secrets(" ".join(str(error).split())) or type(error).__name__


def identifier(name: str) -> Any:
    """Return a name, with its schema if it has one, as SQL."""
    return library().sql.Identifier(*name.split("."))


def columns_of(cursor: Any, table: str) -> list[Column]:
    """Return the columns of a table, none if there is no such table."""
    found = cursor.execute(_COLUMNS, [identifier(table).as_string(cursor)]).fetchall()
    return [
        Column(name, kind, category, _length(kind, modifier), must, has, text)
        for name, kind, category, modifier, must, has, text in found
    ]


def _length(kind: str, modifier: int) -> int | None:
    """Return how many characters fit, if that was declared."""
    return modifier - 4 if kind in ("varchar", "bpchar") and modifier > 4 else None
