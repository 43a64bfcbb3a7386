"""The PostgreSQL source and sinks keep the contracts that users' connectors are put to."""

from __future__ import annotations

from flintstream.datastream.connectors.jdbc import JdbcSink, JdbcSource
from flintstream.testing import check_sink, check_source
from tests.postgres.database import Database


def test_the_source(database: Database) -> None:
    database.ask("create table orders (id bigint primary key, name text)")
    database.ask("insert into orders select n, 'name ' || n from generate_series(1, 100) n")
    assert check_source(lambda: JdbcSource("orders", "id", database.options)).records == 100


def test_the_appending_sink(database: Database) -> None:
    database.ask("create table counts (word text not null, n bigint not null)")
    check_sink(
        lambda: JdbcSink.append("counts", database.options),
        lambda: database.ask("select word, n from counts"),
        record=lambda n: (f"w{n}", n),
        crashes=4,
    )


def test_the_upserting_sink(database: Database) -> None:
    database.ask("create table counts (word text primary key, n bigint not null)")
    check_sink(
        lambda: JdbcSink.upsert("counts", "word", database.options),
        lambda: database.ask("select word, n from counts"),
        record=lambda n: (f"w{n}", n),
        ordered=False,
        crashes=4,
    )
