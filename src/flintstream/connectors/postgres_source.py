"""A table of PostgreSQL, or what a query gives, as a source: read in the tasks, by ranges of a column.

The column's values are the positions, so a job that was stopped goes on where it was, and an epoch that is run again
reads the same rows, as long as nobody changes those that it has not read yet. Ranges are made once, when the job first
starts: rows that come later are not read.

Flink: JdbcSource with JdbcNumericBetweenParametersProvider.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from flintstream.connectors.postgres_client import connection, identifier, library, reason_of, retrying
from flintstream.connectors.postgres_options import DEFAULT_MAX_RETRIES, JdbcConnectionOptions
from flintstream.errors import InvalidArgumentError, SourceError, describe
from flintstream.model.connect import LogPart, LogSource
from flintstream.model.location import refused
from flintstream.model.row import Row

_WIDEST = 1 << 40


class JdbcSource(LogSource):
    """Reads rows once, in parallel, in the order of a column; records are `Row`s with the names of the columns.

    Args:
        table: A table, "schema.table", or a query in parentheses.
        partition_column: A column with whole numbers, never null, best without large gaps and with an index.
        jdbc_connection_options: Where the database is.
        columns: Which columns to read; all, unless said otherwise.
        where: A condition in SQL for the rows to read.
        partitions: Into how many ranges to cut it; they are read in parallel.
        max_retries: How often a connection that fails is tried again.
    """

    def __init__(
        self,
        table: str,
        partition_column: str,
        jdbc_connection_options: JdbcConnectionOptions,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        partitions: int = 4,
        max_retries: int = DEFAULT_MAX_RETRIES,
    ) -> None:
        if not isinstance(jdbc_connection_options, JdbcConnectionOptions):  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass anything
            what = f"{type(jdbc_connection_options).__name__} is no JdbcConnectionOptions"
            raise refused(InvalidArgumentError, what, "make them by JdbcConnectionOptionsBuilder()")
        if not str(table).strip() or isinstance(columns, str) or (columns is not None and not columns):
            raise refused(InvalidArgumentError, "a table without a name or without columns", "name them")
        for name, number, least in (("partitions", partitions, 1), ("max_retries", max_retries, 0)):
            if isinstance(number, bool) or not isinstance(number, int) or number < least:  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass anything
                raise refused(InvalidArgumentError, f"{name} is {number!r:.100}", f"give a number from {least} on")
        library()
        self._table, self._column, self._options = str(table).strip(), partition_column, jdbc_connection_options
        self._columns = None if columns is None else tuple(columns)
        self._where, self._partitions, self._retries = where, partitions, max_retries

    @property
    def is_bounded(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"JdbcSource({self._table} at {self._options.place})"

    def _from(self) -> Any:
        sql = library().sql
        if self._table.startswith("("):
            origin = sql.SQL("FROM {} AS query").format(sql.SQL(self._table))
        else:
            origin = sql.SQL("FROM {}").format(identifier(self._table))
        return origin if self._where is None else sql.SQL("{} WHERE ({})").format(origin, sql.SQL(self._where))

    def _asked(self, query: Any) -> tuple[list[str], list[Any]]:
        """Return the names and the rows of an answer."""

        def ask() -> tuple[list[str], list[Any]]:
            with connection(self._options) as link:
                cursor = link.execute(query)
                return [each.name for each in cursor.description], cursor.fetchall()

        try:
            return retrying(ask, self._retries)
        except library().Error as error:
            what = f"{self._table} cannot be read from PostgreSQL at {self._options.place}"
            remedy = "see that it runs, lets us in and has it, then start the job again: nothing is lost"
            raise SourceError(describe(f"{what} ({reason_of(error, self._options)})", remedy=remedy)) from None

    def discover(self, known: Collection[str], is_first: bool) -> Sequence[LogPart]:
        sql = library().sql
        if not is_first:
            return ()
        column = sql.Identifier(self._column)
        text = "SELECT min({0}), max({0}), count(*) FILTER (WHERE {0} IS NULL) {1}"
        _, [(least, most, nulls)] = self._asked(sql.SQL(text).format(column, self._from()))
        if nulls:
            what = f"{nulls:,} rows of {self._table} have no value in {self._column!r}, so nobody would read them"
            raise SourceError(describe(what, remedy="leave them out by `where`, or take another column"))
        if least is None:
            return ()
        if isinstance(least, bool) or not isinstance(least, int) or most - least >= _WIDEST:
            what = f"the values of {self._column!r}, {least!r:.50} to {most!r:.50}, make no positions"
            remedy = "take whole numbers without large gaps, such as row_number() OVER (ORDER BY ...) of a query"
            raise SourceError(describe(what, remedy=remedy))
        # A position is a distance from the least value, because positions are never negative.
        count = most - least + 1
        bounds = [count * number // self._partitions for number in range(self._partitions + 1)]
        ranges = [(begin, end) for begin, end in pairwise(bounds) if begin < end]
        return [LogPart(f"{number} from {least}", begin, end) for number, (begin, end) in enumerate(ranges)]

    def available(self, names: Collection[str]) -> Mapping[str, int]:
        return dict.fromkeys(names, _WIDEST)

    def read_part(self, name: str, start: int, end: int) -> Any:
        sql = library().sql
        least, column = int(name.rpartition(" ")[2]), sql.Identifier(self._column)
        names = None if self._columns is None else sql.SQL(", ").join(map(sql.Identifier, self._columns))
        bounds = sql.SQL("{0} >= {1} AND {0} < {2}").format(
            column, sql.Literal(least + start), sql.Literal(least + end)
        )
        glue = "{} WHERE {}" if self._where is None else "{} AND {}"
        origin = sql.SQL(glue).format(self._from(), bounds)
        query = sql.SQL("SELECT {} {} ORDER BY {}").format(names or sql.SQL("*"), origin, column)
        found, rows = self._asked(query)
        make = Row.builder(found)
        return [make(row) for row in rows]
