"""What a sink does to a database: add rows to a table, add or replace them by key, or whatever the user's SQL says.

Each knows two things: which columns it takes, asked from the database in the task that writes, and how to apply batches
of them inside a transaction that someone else has begun.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from flintstream.connectors.changes import last_values, only_additions
from flintstream.connectors.fields import fields_of
from flintstream.connectors.postgres_client import Column, columns_of, identifier, library
from flintstream.connectors.postgres_columns import array_of, csv_of, fit, fit_rows
from flintstream.connectors.postgres_options import JdbcConnectionOptions
from flintstream.connectors.schema import to_arrow_schema
from flintstream.errors import SinkError, describe
from flintstream.model.typeinfo import RowTypeInfo

_STAGE = "flintstream_stage"
_PLACE = "flintstream_place"
_GONE = "flintstream_gone"
_TOKENS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$|\?|%", re.DOTALL)


class Statement(ABC):
    """What happens to the rows of a sink."""

    @property
    @abstractmethod
    def target(self) -> str:
        """What it writes to, for messages."""

    @abstractmethod
    def columns(self, cursor: Any, options: JdbcConnectionOptions) -> list[Column]:
        """Return the columns that it takes; raises if the database cannot do what it is to do."""

    def fit(self, batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
        """Return records as columns to apply."""
        return fit(batch, columns)

    def fit_rows(self, values: Sequence[Any], columns: Sequence[Column]) -> pa.RecordBatch | None:
        """Return Python records as columns to apply, if any are left."""
        rows = only_additions(values, "write to a table with JdbcSink.upsert(...), which removes rows too")
        return fit_rows(rows, columns)

    @abstractmethod
    def apply(self, cursor: Any, batches: Iterable[pa.RecordBatch]) -> None:
        """Write batches, inside the transaction that the cursor is in."""


@dataclass(frozen=True)
class Append(Statement):
    """Adds rows to a table by COPY; without `names`, to all columns that the database does not fill by itself."""

    table: str
    names: tuple[str, ...] | None = None

    @property
    def target(self) -> str:
        return f"table {self.table!r}"

    def columns(self, cursor: Any, options: JdbcConnectionOptions) -> list[Column]:
        found = {column.name: column for column in columns_of(cursor, self.table)}
        if not found:
            what = f"there is no {self.target} at {options.place}"
            raise SinkError(describe(what, remedy="create it first (names count as they are written, with their case)"))
        if self.names is None:
            return [column for column in found.values() if not column.is_filled]
        missing = [name for name in self.names if name not in found]
        if missing:
            what = f"{self.target} has no column {missing[0]!r}, but {', '.join(found)}"
            raise SinkError(describe(what, remedy="name columns that it has"))
        return [found[name] for name in self.names]

    def apply(self, cursor: Any, batches: Iterable[pa.RecordBatch]) -> None:
        copy_into(cursor, identifier(self.table), batches)


def copy_into(cursor: Any, table: Any, batches: Iterable[pa.RecordBatch]) -> None:
    """Copy batches, which have one schema, into a table."""
    rows = iter(batches)
    first = next(rows, None)
    if first is None:
        return
    copy_text = library().sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(table, _listed(first.schema.names))
    with cursor.copy(copy_text) as copy:
        for batch in chain([first], rows):
            copy.write(csv_of(batch))


@dataclass(frozen=True)
class Upsert(Append):
    """Adds rows to a table, or replaces or removes those with the same key; of several the last one counts."""

    key: tuple[str, ...] = ()

    def columns(self, cursor: Any, options: JdbcConnectionOptions) -> list[Column]:
        found = super().columns(cursor, options)
        missing = [name for name in self.key if name not in [column.name for column in found]]
        if missing:
            what = f"the key {missing[0]!r} is none of the columns that are written to {self.target}"
            raise SinkError(describe(what, remedy="name columns of the table as key"))
        sql, names = library().sql, [column.name for column in found]
        rows = sql.SQL("SELECT {} FROM {}").format(_listed(names), identifier(self.table))
        try:
            # Whether there is an index to find keys by shows when the statement is planned, not before.
            cursor.execute(sql.SQL("EXPLAIN {}").format(self._insert(names, rows)))
        except library().errors.InvalidColumnReference:
            what = f"{self.target} has no unique index over {', '.join(self.key)}, by which rows could be replaced"
            remedy = "make these columns its primary key, or create a unique index over exactly these"
            raise SinkError(describe(what, remedy=remedy)) from None
        return found

    def fit(self, batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
        return fit(batch, columns).append_column(_GONE, pa.array(np.zeros(batch.num_rows, bool)))

    def fit_rows(self, values: Sequence[Any], columns: Sequence[Column]) -> pa.RecordBatch | None:
        rows, are_gone = last_values(values)
        return fit_rows(rows, columns).append_column(_GONE, pa.array(are_gone)) if rows else None

    def _insert(self, names: Sequence[str], rows: Any) -> Any:
        sql = library().sql
        sets = [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in names if name not in self.key]
        action = sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(sets)) if sets else sql.SQL("NOTHING")
        return sql.SQL("INSERT INTO {} ({}) {} ON CONFLICT ({}) DO {}").format(
            identifier(self.table), _listed(names), rows, _listed(self.key), action
        )

    def apply(self, cursor: Any, batches: Iterable[pa.RecordBatch]) -> None:
        rows = _placed(batches)
        first = next(rows, None)
        if first is None:
            return
        sql, names = library().sql, [name for name in first.schema.names if name not in (_PLACE, _GONE)]
        words = {
            "stage": sql.Identifier(_STAGE),
            "place": sql.Identifier(_PLACE),
            "gone": sql.Identifier(_GONE),
            "names": _listed(names),
            "key": _listed(self.key),
            "table": identifier(self.table),
        }
        words["last"] = sql.SQL(
            "(SELECT DISTINCT ON ({key}) * FROM {stage} ORDER BY {key}, {place} DESC) AS last"
        ).format(**words)
        words["match"] = sql.SQL(" AND ").join(
            sql.SQL("{}.{} = last.{}").format(words["table"], sql.Identifier(name), sql.Identifier(name))
            for name in self.key
        )

        def run(text: str) -> None:
            cursor.execute(sql.SQL(text).format(**words))

        run(
            "CREATE TEMP TABLE {stage} ON COMMIT DROP AS "
            "SELECT {names}, false AS {gone}, 0::bigint AS {place} FROM {table} WITH NO DATA"
        )
        copy_into(cursor, words["stage"], chain([first], rows))
        run("DELETE FROM {table} USING {last} WHERE last.{gone} AND {match}")
        cursor.execute(self._insert(names, sql.SQL("SELECT {names} FROM {last} WHERE NOT {gone}").format(**words)))
        run("DROP TABLE {stage}")


def _listed(names: Iterable[str]) -> Any:
    sql = library().sql
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _placed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches with the place of each row among all of them."""
    count = 0
    for batch in batches:
        yield batch.append_column(_PLACE, pa.array(np.arange(count, count + batch.num_rows)))
        count += batch.num_rows


@dataclass(frozen=True)
class Sql(Statement):
    """The user's own statement, once for each record, with a `?` for each field."""

    text: str
    type_info: RowTypeInfo

    @property
    def target(self) -> str:
        return f"{' '.join(self.text.split())[:60]!r}"

    @property
    def count(self) -> int:
        """How many fields it takes."""
        return sum(found[0] == "?" for found in _TOKENS.finditer(self.text))

    def columns(self, cursor: Any, options: JdbcConnectionOptions) -> list[Column]:
        numbers = iter(range(1, self.count + 1))
        text = _TOKENS.sub(lambda found: f"${next(numbers)}" if found[0] == "?" else found[0], self.text)
        server = cursor.connection.pgconn
        asked = server.prepare(b"", text.encode())
        postgres = library()
        if asked.status != postgres.pq.ExecStatus.COMMAND_OK:
            reason = " ".join(asked.get_error_message("utf-8").split())
            what = f"PostgreSQL cannot read the statement {self.target} ({reason})"
            raise SinkError(describe(what, remedy="correct it"))
        described = server.describe_prepared(b"")
        kinds = [described.param_type(index) for index in range(described.nparams)]
        cursor.execute("select oid, typname, typcategory from pg_type where oid = any(%s)", [kinds])
        types = {oid: (kind, category) for oid, kind, category in cursor.fetchall()}
        names = self.type_info.get_field_names()
        return [Column(name, *types.get(kind, ("text", "S"))) for name, kind in zip(names, kinds, strict=True)]

    def _declared(self) -> pa.Schema:
        declared = to_arrow_schema(self.type_info)
        assert declared is not None
        return declared

    def fit(self, batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
        declared = self._declared()
        self._check(batch.schema.names, declared)
        if set(batch.schema.names) != set(declared.names):
            batch = pa.RecordBatch.from_arrays(batch.columns, declared.names)
        arrays = [_cast(batch.column(name), declared.field(name)) for name in declared.names]
        return fit(pa.RecordBatch.from_arrays(arrays, declared.names), columns)

    def fit_rows(self, values: Sequence[Any], columns: Sequence[Column]) -> pa.RecordBatch | None:
        declared = self._declared()
        rows = [fields_of(value) for value in only_additions(values, "write to a table with JdbcSink.upsert(...)")]
        for row in rows:
            self._check(list(row), declared)
        # Without the declared names, fields count by their places.
        placed = [row if set(row) == set(declared.names) else dict(zip(declared.names, row.values())) for row in rows]  # noqa: B905 - checked
        arrays = [_made([row[field.name] for row in placed], field) for field in declared]
        return fit(pa.RecordBatch.from_arrays(arrays, declared.names), columns)

    def _check(self, names: Sequence[str], declared: pa.Schema) -> None:
        if len(names) != len(declared.names):
            what = f"records have the fields {', '.join(names)}, not {', '.join(declared.names)}"
            raise SinkError(describe(what, remedy="declare the fields that they have"))

    def apply(self, cursor: Any, batches: Iterable[pa.RecordBatch]) -> None:
        # The client library has its own sign for a field, and takes a lone percent sign for one.
        signs = {"?": "%s", "%": "%%"}
        text = _TOKENS.sub(lambda found: signs.get(found[0], found[0].replace("%", "%%")), self.text)
        for batch in batches:
            cursor.executemany(text, list(zip(*(column.to_pylist() for column in batch.columns), strict=True)))


def _made(values: Sequence[Any], field: pa.Field) -> pa.Array:
    try:
        return array_of(values, lambda array: _cast(array, field))
    except (pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError) as error:
        raise _undeclared(field, error) from None


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return array.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _undeclared(field, error) from None


def _undeclared(field: pa.Field, error: Exception) -> SinkError:
    reason = str(error).partition("\n")[0]
    what = f"field {field.name!r} is not of the declared type {field.type} ({reason})"
    return SinkError(describe(what, remedy="declare the type that it has"))
