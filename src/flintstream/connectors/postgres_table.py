"""What a table of PostgreSQL holds, for those who compare it with what it should hold.

Apart from the sink, which only writes. Records and rows are compared in the types of the table's own columns: the same
code that fits records to them before they are written fits the rows that are read, so equal values are equal here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from flintstream.connectors.postgres_client import Column, connection, identifier, library, reason_of, retrying
from flintstream.connectors.postgres_columns import fit_rows
from flintstream.connectors.postgres_options import JdbcConnectionOptions
from flintstream.connectors.postgres_statements import Upsert
from flintstream.errors import SinkError, describe
from flintstream.model.connect import HeldTable

T = TypeVar("T")
_READ: dict[str, Callable[[str], Any]] = {"numeric": Decimal, "json": json.loads, "jsonb": json.loads}
"""Types whose values have several spellings, which travel as text."""


class PostgresTable(HeldTable):
    """The rows of a table that an upsert sink writes, in the columns that it writes."""

    def __init__(self, statement: Upsert, options: JdbcConnectionOptions, retries: int) -> None:
        self._statement, self._options, self._retries = statement, options, retries
        self._columns: list[Column] | None = None

    @property
    def key(self) -> tuple[str, ...]:
        return self._statement.key

    def rows(self) -> Iterable[Mapping[str, Any]]:
        sql, names = library().sql, [column.name for column in self._known()]
        text = sql.SQL("SELECT {} FROM {}").format(
            sql.SQL(", ").join(map(sql.Identifier, names)), identifier(self._statement.table)
        )
        found = self._asked(lambda cursor: cursor.execute(text).fetchall())
        return self.fitted([dict(zip(names, row, strict=True)) for row in found])

    def fitted(self, records: Sequence[Any]) -> Sequence[Mapping[str, Any]]:
        if not records:
            return []
        columns = self._known()
        read = [(column.name, _READ[column.kind]) for column in columns if column.kind in _READ]
        rows: list[dict[str, Any]] = fit_rows(records, columns).to_pylist()
        for row in rows:
            row.update({name: convert(row[name]) for name, convert in read if row[name] is not None})
        return rows

    def _known(self) -> list[Column]:
        found = self._columns
        if found is None:
            found = self._columns = self._asked(lambda cursor: self._statement.columns(cursor, self._options))
        return found

    def _asked(self, question: Callable[[Any], T]) -> T:
        def ask() -> T:
            with connection(self._options) as link, link.cursor() as cursor:
                return question(cursor)

        try:
            return retrying(ask, self._retries)
        except library().Error as error:
            reason = reason_of(error, self._options)
            what = f"{self._statement.target} cannot be read from PostgreSQL at {self._options.place} ({reason})"
            raise SinkError(describe(what, remedy="see that it runs and lets us in")) from None
