"""Tables of PostgreSQL as a sink: exactly once, or at least once as in Flink.

Exactly once: tasks stage rows, and after the epoch's commit the driver writes all of them in one transaction, with the
epoch's number in a ledger: a table that has a row for each sink of each job. Whoever commits an epoch locks that row
first, and has nothing to do if the number is there already: so neither a crash at any moment, nor a connection lost
while it commits, nor a driver that was thought dead can write an epoch twice, and readers see all of it or nothing.

Flink: JdbcSink and its options. Differs from Flink: exactly once needs no XA, and so no prepared transactions that hold
locks until they are found; `append` and `upsert` write to a table without SQL, by COPY.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from flintstream.connectors.postgres_client import connection, identifier, library, reason_of, retrying
from flintstream.connectors.postgres_options import JdbcConnectionOptions, JdbcExecutionOptions
from flintstream.connectors.postgres_statements import Append, Sql, Statement, Upsert
from flintstream.connectors.postgres_table import PostgresTable
from flintstream.connectors.records import batch_of_column
from flintstream.connectors.staged import NoCommitter, Shares, StagedBatches
from flintstream.errors import FlintstreamError, InvalidArgumentError, SinkError, describe
from flintstream.model.connect import Committer, HeldTable, Sink, SinkWriter, WriterContext
from flintstream.model.delivery import AT_MOST_ONCE, DIRECT, EXACTLY_ONCE, Delivery, DeliveryGuarantee
from flintstream.model.location import refused
from flintstream.model.no_effect import warn_once
from flintstream.model.typeinfo import RowTypeInfo

LEDGER = "flintstream_ledger"


class JdbcSink(Sink):
    """Writes to PostgreSQL; made by `sink`, `exactly_once_sink`, `append` or `upsert`.

    Example:
        >>> where = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:postgresql://db/shop").build()
        >>> sink = JdbcSink.upsert("counts", ["word"], where)
        >>> sink, sink.delivery
        (JdbcSink(table 'counts' at db:5432/shop), 'exactly-once')
    """

    def __init__(
        self,
        statement: Statement,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None,
        delivery_guarantee: DeliveryGuarantee | None,
        ledger_table: str = LEDGER,
    ) -> None:
        _check(jdbc_connection_options, JdbcConnectionOptions, "make them by JdbcConnectionOptionsBuilder()")
        if jdbc_execution_options is not None:
            _check(jdbc_execution_options, JdbcExecutionOptions, "make them by JdbcExecutionOptions.builder()")
        guarantee = DeliveryGuarantee.EXACTLY_ONCE if delivery_guarantee is None else delivery_guarantee
        _check(guarantee, DeliveryGuarantee, "give DeliveryGuarantee.EXACTLY_ONCE, say")
        if guarantee is DeliveryGuarantee.NONE:
            what = "a sink of PostgreSQL does not do without a guarantee"
            raise refused(InvalidArgumentError, what, "use EXACTLY_ONCE, AT_LEAST_ONCE or AT_MOST_ONCE")
        library()
        self.delivery, self.is_chosen = guarantee.value, delivery_guarantee is not None
        self.overwrites = isinstance(statement, Upsert)
        self._statement = statement
        self._connection = jdbc_connection_options
        self._execution = jdbc_execution_options or JdbcExecutionOptions.defaults()
        self._guarantee = guarantee
        self._ledger = _table(ledger_table)
        if self._is_staged and self._execution.given_batch_size is not None:
            warn_once("with_batch_size(...)", f"{guarantee.value}, all rows of an epoch are one transaction")

    @staticmethod
    def sink(
        sql: str,
        type_info: RowTypeInfo,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Return a sink that runs SQL for each record at once, a `?` for each field: at least once, as in Flink."""
        statement = _sql(sql, type_info)
        return JdbcSink(statement, jdbc_connection_options, jdbc_execution_options, DeliveryGuarantee.AT_LEAST_ONCE)

    @staticmethod
    def exactly_once_sink(
        sql: str,
        type_info: RowTypeInfo,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
        ledger_table: str = LEDGER,
    ) -> JdbcSink:
        """Return a sink that runs SQL for each record, exactly once."""
        statement, once = _sql(sql, type_info), DeliveryGuarantee.EXACTLY_ONCE
        return JdbcSink(statement, jdbc_connection_options, jdbc_execution_options, once, ledger_table)

    @staticmethod
    def append(
        table: str,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
        *,
        columns: Sequence[str] | None = None,
        delivery_guarantee: DeliveryGuarantee | None = None,
        ledger_table: str = LEDGER,
    ) -> JdbcSink:
        """Return a sink that adds a row for each record to a table.

        Fields go to the columns of their names, those of tuples to the columns in their order. Without `columns` these
        are all that the database does not fill by itself, by a default or as identity.
        """
        statement = Append(_table(table), _names("columns", columns))
        return JdbcSink(statement, jdbc_connection_options, jdbc_execution_options, delivery_guarantee, ledger_table)

    @staticmethod
    def upsert(
        table: str,
        key: str | Sequence[str],
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
        *,
        columns: Sequence[str] | None = None,
        delivery_guarantee: DeliveryGuarantee | None = None,
        ledger_table: str = LEDGER,
    ) -> JdbcSink:
        """Return a sink that adds a row for each record to a table, or replaces the row that has its key.

        A `Row` or a `Change` of the kind DELETE removes the row that has its key.
        The key's columns need a unique index. Records with one key must come by one subtask to count in their order, as
        they do behind `key_by` of that key.
        """
        names = _names("key", [key] if isinstance(key, str) else key)
        statement = Upsert(_table(table), _names("columns", columns), names or ())
        return JdbcSink(statement, jdbc_connection_options, jdbc_execution_options, delivery_guarantee, ledger_table)

    def deliveries(self) -> tuple[Delivery, ...]:
        possible = (EXACTLY_ONCE, DIRECT, AT_MOST_ONCE)
        return tuple(sorted(possible, key=lambda each: each.guarantee is not self._guarantee))

    def delivering(self, delivery: Delivery) -> JdbcSink:
        return JdbcSink(self._statement, self._connection, self._execution, delivery.guarantee, self._ledger)

    @property
    def _is_staged(self) -> bool:
        return self._guarantee is not DeliveryGuarantee.AT_LEAST_ONCE

    def create_writer(self, context: WriterContext) -> SinkWriter:
        if self._is_staged:
            return _StagingWriter(self._statement, self._connection, self._execution, context)
        return _DirectWriter(self._statement, self._connection, self._execution)

    def create_committer(self) -> Committer:
        if self._is_staged:
            return JdbcCommitter(self._statement, self._connection, self._execution, self._ledger)
        return NoCommitter()

    def held_table(self) -> HeldTable | None:
        if not isinstance(self._statement, Upsert):
            return None
        return PostgresTable(self._statement, self._connection, self._execution.get_max_retries())

    def __repr__(self) -> str:
        return f"JdbcSink({self._statement.target} at {self._connection.place})"


def _check(value: object, kind: type, remedy: str) -> None:
    if not isinstance(value, kind):
        raise refused(InvalidArgumentError, f"{type(value).__name__} is no {kind.__name__}", remedy)


def _table(name: str) -> str:
    if not isinstance(name, str) or not all(name.split(".")):  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass anything
        raise refused(InvalidArgumentError, f"{name!r:.100} is no table", 'write "table" or "schema.table"')
    return name


def _names(what: str, names: Sequence[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str) or not names or len(set(names)) < len(names):
        raise refused(InvalidArgumentError, f"{what} is {names!r:.100}", "give a list of names, each once")
    return tuple(names)


def _sql(sql: str, type_info: RowTypeInfo) -> Sql:
    _check(type_info, RowTypeInfo, "declare the fields by Types.ROW([...])")
    statement, fields = Sql(str(sql), type_info), len(type_info.get_field_types())
    if statement.count != fields:
        what = f"the statement has {statement.count} places for fields, but {fields} fields are declared"
        raise refused(InvalidArgumentError, what, "write a ? for each field")
    return statement


class _Writer(SinkWriter):
    """Brings records into the columns of the table; what becomes of them is for others to say."""

    def __init__(self, statement: Statement, options: JdbcConnectionOptions, execution: JdbcExecutionOptions) -> None:
        self.statement, self.options, self.execution = statement, options, execution
        self._columns = self.asked("be asked for its columns", self._ask)

    def _ask(self) -> Any:
        with connection(self.options) as link, link.cursor() as cursor:
            return self.statement.columns(cursor, self.options)

    def asked(self, verb: str, work: Any) -> Any:
        """Return what a piece of work with the database gives."""
        try:
            return retrying(work, self.execution.get_max_retries())
        except library().Error as error:
            what = f"{self.statement.target} cannot {verb}"
            raise failed(what, error, self.options) from None

    def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        batch = self.statement.fit_rows(values, self._columns) if values else None
        if batch is not None:
            self.take(batch)

    def write_column(self, array: Any, kind: Any, timestamps: Any) -> bool:
        batch = batch_of_column(array, kind)
        if batch is not None and batch.num_rows:
            self.take(self.statement.fit(batch, self._columns))
        return batch is not None

    def take(self, batch: pa.RecordBatch) -> None:
        """Take a batch that fits."""
        raise NotImplementedError


class _StagingWriter(_Writer):
    def __init__(
        self,
        statement: Statement,
        options: JdbcConnectionOptions,
        execution: JdbcExecutionOptions,
        context: WriterContext,
    ) -> None:
        super().__init__(statement, options, execution)
        self._staged = StagedBatches(context)

    def take(self, batch: pa.RecordBatch) -> None:
        self._staged.add(batch)

    def prepare_commit(self) -> Any:
        return self._staged.committable()


class _DirectWriter(_Writer):
    def __init__(self, statement: Statement, options: JdbcConnectionOptions, execution: JdbcExecutionOptions) -> None:
        super().__init__(statement, options, execution)
        self._held: list[pa.RecordBatch] = []
        self._rows = 0

    def take(self, batch: pa.RecordBatch) -> None:
        size = self.execution.get_batch_size()
        while self._rows + batch.num_rows >= size:
            room = size - self._rows
            self._held.append(batch.slice(0, room))
            self._flush()
            batch = batch.slice(room)
        if batch.num_rows:
            self._held.append(batch)
            self._rows += batch.num_rows

    def _flush(self) -> None:
        if self._held:
            self.asked("be written", self._write_out)
        self._held, self._rows = [], 0

    def _write_out(self) -> None:
        with connection(self.options) as link:
            with link.cursor() as cursor:
                self.statement.apply(cursor, self._held)
            link.commit()

    def prepare_commit(self) -> Any:
        self._flush()


class JdbcCommitter(Committer):
    """Writes the rows of an epoch and its number in one transaction."""

    def __init__(
        self, statement: Statement, options: JdbcConnectionOptions, execution: JdbcExecutionOptions, ledger: str
    ) -> None:
        self._statement, self._options, self._execution = statement, options, execution
        self._ledger = ledger
        self._is_there = False

    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        shares = Shares(committables)
        try:
            retrying(lambda: self._write(job, uid, epoch, shares), self._execution.get_max_retries())
        except FlintstreamError:
            raise
        except library().Error as error:
            what = f"epoch {epoch} cannot be written to {self._statement.target}"
            raise failed(what, error, self._options) from None

    def _write(self, job: str, uid: str, epoch: int, shares: Shares) -> None:
        with connection(self._options) as link:
            if not self._is_there:
                make_ledger(link, self._ledger)
                self._is_there = True
            with link.cursor() as cursor:
                sql = library().sql
                ledger, who = identifier(self._ledger), [shares.incarnation, uid]
                begin = "INSERT INTO {} (incarnation, uid, job, epoch) VALUES (%s, %s, %s, -1) ON CONFLICT DO NOTHING"
                cursor.execute(sql.SQL(begin).format(ledger), [*who, job])
                # Whoever comes second waits here, and then sees what the first has done.
                lock = sql.SQL("SELECT epoch FROM {} WHERE incarnation = %s AND uid = %s FOR UPDATE").format(ledger)
                if cursor.execute(lock, who).fetchone()[0] >= epoch:
                    return
                self._statement.apply(cursor, shares.batches())
                done = "UPDATE {} SET epoch = %s, job = %s, written = now() WHERE incarnation = %s AND uid = %s"
                cursor.execute(sql.SQL(done).format(ledger), [epoch, job, *who])
            link.commit()


def make_ledger(link: Any, name: str) -> None:
    """Create the table of epochs, unless it is there."""
    postgres = library()
    make = """CREATE TABLE IF NOT EXISTS {} (
        incarnation text NOT NULL, uid text NOT NULL, job text NOT NULL, epoch bigint NOT NULL,
        written timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (incarnation, uid))"""
    found = link.execute("SELECT to_regclass(%s)", [identifier(name).as_string(link)]).fetchone()
    if found[0] is not None:
        return
    try:
        link.execute(postgres.sql.SQL(make).format(identifier(name)))
        link.commit()
    except (postgres.errors.UniqueViolation, postgres.errors.DuplicateTable):
        # Two jobs began at the same moment.
        link.rollback()


def failed(what: str, error: Exception, options: JdbcConnectionOptions) -> SinkError:
    """Return an error for what the database did not do."""
    postgres = library()
    reason = reason_of(error, options)
    if isinstance(error, postgres.OperationalError | postgres.InterfaceError):
        remedy = "see that it runs and lets us in, then start the job again: nothing is lost"
        return SinkError(describe(f"{what}: PostgreSQL at {options.place} does not answer ({reason})", remedy=remedy))
    remedy = "mend the table, or what is written to it, then start the job again: it begins with that"
    return SinkError(describe(f"{what}: PostgreSQL at {options.place} refuses it ({reason})", remedy=remedy))
