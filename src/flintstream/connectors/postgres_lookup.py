"""Rows of a table of PostgreSQL, looked up by key, for `lookup_join`: all keys of a batch in one question.

Flink: JdbcRowDataLookupFunction, which asks for one key at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flintstream.connectors.postgres_client import columns_of, connection, identifier, library, reason_of
from flintstream.connectors.postgres_columns import array_text
from flintstream.connectors.postgres_options import JdbcConnectionOptions
from flintstream.errors import InvalidArgumentError, JobError, describe
from flintstream.model.functions_lookup import LookupFunction
from flintstream.model.location import refused
from flintstream.model.row import Row

KEYS_AT_A_TIME = 10_000


class JdbcLookup(LookupFunction):
    """Finds the rows of a table that have a key; answers are lists of `Row`s with the names of the columns.

    Failures of the connection are tried again as `with_retries(...)` of the join says.

    Args:
        table: A table, or "schema.table".
        key: The column that holds the key, or several, if the key is a tuple.
        jdbc_connection_options: Where the database is.
        columns: Which columns the rows have; all, unless said otherwise.
    """

    def __init__(
        self,
        table: str,
        key: str | Sequence[str],
        jdbc_connection_options: JdbcConnectionOptions,
        columns: Sequence[str] | None = None,
    ) -> None:
        if not isinstance(jdbc_connection_options, JdbcConnectionOptions):  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass anything
            what = f"{type(jdbc_connection_options).__name__} is no JdbcConnectionOptions"
            raise refused(InvalidArgumentError, what, "make them by JdbcConnectionOptionsBuilder()")
        self._key = (key,) if isinstance(key, str) else tuple(key)
        if not self._key or isinstance(columns, str) or (columns is not None and not columns):
            raise refused(InvalidArgumentError, "a lookup without a key or without columns", "name them")
        library()
        self._table, self._options = table, jdbc_connection_options
        self._columns = None if columns is None else tuple(columns)
        self._query: Any = None

    def __repr__(self) -> str:
        return f"JdbcLookup({self._table} at {self._options.place})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_query": None}

    def lookup(self, key: Any) -> Any:
        return self.lookup_many([key])[0]

    def lookup_many(self, keys: Sequence[Any]) -> Sequence[Any]:
        answers: list[list[Any]] = [[] for _ in keys]
        try:
            with connection(self._options) as link, link.cursor() as cursor:
                if self._query is None:
                    self._query = self._made_query(cursor)
                for begin in range(0, len(keys), KEYS_AT_A_TIME):
                    self._ask(cursor, keys[begin : begin + KEYS_AT_A_TIME], begin, answers)
        except library().Error as error:
            reason = reason_of(error, self._options)
            what = f"{self._table} cannot be looked up in PostgreSQL at {self._options.place} ({reason})"
            # No error of the job's: those are not tried again.
            raise ConnectionError(describe(what, remedy="see that it runs, lets us in and has it")) from None
        return answers

    def _ask(self, cursor: Any, keys: Sequence[Any], begin: int, answers: list[list[Any]]) -> None:
        parts = [list(keys)] if len(self._key) == 1 else [[key[i] for key in keys] for i in range(len(self._key))]
        # As text, which the server reads as what the columns hold: a batch may have keys of several types of Python.
        cursor.execute(self._query, [array_text(part) for part in parts])
        make = Row.builder([each.name for each in cursor.description][1:])
        for place, *values in cursor:
            answers[begin + place - 1].append(make(values))

    def _made_query(self, cursor: Any) -> Any:
        """Return the question; keys come with their places, so that nobody has to compare them here."""
        sql = library().sql
        types = {column.name: column.declared for column in columns_of(cursor, self._table)}
        missing = [name for name in (*self._key, *(self._columns or ())) if name not in types]
        if not types or missing:
            what = (
                f"there is no table {self._table!r}" if not types else f"{self._table!r} has no column {missing[0]!r}"
            )
            remedy = "name what is there (names count as they are written, with their case)"
            raise JobError(describe(f"{what} at {self._options.place}", remedy=remedy))
        names = sql.SQL(", ").join(sql.SQL("t.{}").format(sql.Identifier(name)) for name in self._columns or types)
        keys = sql.SQL(", ").join(sql.SQL("%s::{}[]").format(sql.SQL(types[name])) for name in self._key)
        aliases = [sql.Identifier(f"k{index}") for index in range(len(self._key))]
        matches = sql.SQL(" AND ").join(
            sql.SQL("t.{} = k.{}").format(sql.Identifier(name), alias)
            for name, alias in zip(self._key, aliases, strict=True)
        )
        return sql.SQL(
            "SELECT k.place, {names} FROM unnest({keys}) WITH ORDINALITY AS k ({aliases}, place) "
            "JOIN {table} AS t ON {matches} ORDER BY k.place"
        ).format(
            names=names,
            keys=keys,
            aliases=sql.SQL(", ").join(aliases),
            table=identifier(self._table),
            matches=matches,
        )
