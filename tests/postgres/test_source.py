"""Tables of PostgreSQL as a source, and rows looked up in them, against a real server."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from flintstream import CollectSink, LookupCache, Row
from flintstream.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcLookup, JdbcSource
from flintstream.errors import InvalidArgumentError, JobError, SourceError, UserFunctionError
from tests.postgres.database import Database
from tools.servers import Postgres


def read(make_env: Any, source: JdbcSource, records: int = 0, runtime: str = "local") -> list[Any]:
    env = make_env(runtime, max_records=records)
    return list(env.from_source(source).execute_and_collect())


@pytest.fixture
def orders(database: Database) -> Database:
    database.ask("create table orders (id bigint primary key, item text, price numeric(6, 2))")
    database.ask("insert into orders select n * 3 - 50, 'i' || n % 4, n / 2.0 from generate_series(1, 100) n")
    return database


@pytest.mark.parametrize("records", [0, 17], ids=["one epoch", "many epochs"])
@pytest.mark.parametrize("partitions", [1, 3, 1000])
def test_every_row_is_read_once_in_the_order_of_its_range(
    make_env: Any, orders: Database, partitions: int, records: int
) -> None:
    rows = read(make_env, JdbcSource("orders", "id", orders.options, partitions=partitions), records)
    assert sorted(tuple(row) for row in rows) == orders.ask("select * from orders order by id")
    assert rows[0].get_field_names() == ["id", "item", "price"]
    if partitions == 1:
        assert [row.id for row in rows] == [n * 3 - 50 for n in range(1, 101)]


def test_columns_conditions_and_queries(make_env: Any, orders: Database) -> None:
    source = JdbcSource("orders", "id", orders.options, columns=["item", "id"], where="item like 'i%3' or id = 250")
    wanted = orders.ask("select item, id from orders where item like 'i%3' or id = 250 order by id")
    assert sorted(((row[0], row[1]) for row in read(make_env, source)), key=lambda row: row[1]) == wanted
    query = "(select row_number() over (order by id desc) as place, item from orders)"
    rows = read(make_env, JdbcSource(query, "place", orders.options, where="place <= 2", partitions=1))
    assert rows == [Row(place=1, item="i0"), Row(place=2, item="i3")]


def test_an_empty_table_gives_nothing(make_env: Any, orders: Database) -> None:
    assert read(make_env, JdbcSource("orders", "id", orders.options, where="id > 1000")) == []


@pytest.mark.spark
def test_a_table_is_read_on_spark(make_env: Any, orders: Database) -> None:
    rows = read(make_env, JdbcSource("orders", "id", orders.options), runtime="spark")
    assert sorted(row.id for row in rows) == [n * 3 - 50 for n in range(1, 101)]


def test_a_job_that_was_stopped_goes_on_where_it_was_and_reads_no_later_rows(
    make_env: Any, orders: Database, tmp_path: Path
) -> None:
    epochs: dict[int, list[int]] = {}

    def run(breaks: bool) -> None:
        env = make_env("local", 1, max_records=60, checkpoint_dir=tmp_path)

        def check(row: Any) -> Any:
            if breaks and row.id > 100:
                raise ValueError(row.id)
            return row

        rows = (
            env.from_source(JdbcSource("orders", "id", orders.options, partitions=1)).uid("in").map(check).uid("check")
        )
        # The last epoch's commit is heard again after a restart.
        rows.sink_to(CollectSink(lambda epoch, values: epochs.update({epoch: [row.id for row in values]}))).uid("out")
        env.execute()

    with pytest.raises(UserFunctionError):
        run(True)
    assert epochs and max(max(rows) for rows in epochs.values()) <= 100
    orders.ask("insert into orders values (-1000, 'early', 0), (1000, 'late', 0)")
    run(False)
    assert [row for epoch in sorted(epochs) for row in epochs[epoch]] == [n * 3 - 50 for n in range(1, 101)]


@pytest.mark.parametrize(
    ("table", "column", "message"),
    [
        ("nowhere", "id", 'relation "nowhere" does not exist'),
        ("orders", "nothing", 'column "nothing" does not exist'),
        ("orders", "item", "the values of 'item', 'i0' to 'i3', make no positions"),
        ("(select null::int as n)", "n", "1 rows of .* have no value in 'n'"),
        ("(select n * 10000000000000 as n from generate_series(1, 2) n)", "n", "make no positions"),
    ],
)
def test_what_cannot_be_read_is_said(make_env: Any, orders: Database, table: str, column: str, message: str) -> None:
    env = make_env("local")
    env.from_source(JdbcSource(table, column, orders.options)).print()
    with pytest.raises(SourceError, match=message + r".*test_source\.py:\d+"):
        env.execute()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table": " "}, "without a name"),
        ({"columns": []}, "without columns"),
        ({"partitions": 0}, "partitions is 0"),
        ({"max_retries": -1}, "max_retries is -1"),
        ({"jdbc_connection_options": "url"}, "str is no JdbcConnectionOptions"),
    ],
)
def test_bad_arguments_are_refused_in_the_users_line(arguments: dict[str, Any], message: str) -> None:
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("postgresql://db/shop").build()
    good = {"table": "t", "partition_column": "id", "jdbc_connection_options": options}
    with pytest.raises(InvalidArgumentError, match=message + r".*test_source\.py:\d+"):
        JdbcSource(**{**good, **arguments})


def test_a_dead_server_is_said(make_env: Any, mortal_postgres: Postgres) -> None:
    database = Database.fresh(mortal_postgres)
    database.ask("create table t as select 1 as id")
    source = JdbcSource("t", "id", database.options, max_retries=0)
    lookup = JdbcLookup("t", "id", database.options)
    mortal_postgres.kill()
    for use, error in [
        (lambda env: env.from_source(source), SourceError),
        (
            lambda env: env.from_collection([1]).lookup_join(lookup, on=lambda n: n).apply(lambda a, b: b),
            UserFunctionError,
        ),
    ]:
        env = make_env("local")
        use(env).print()
        with pytest.raises(error, match=r"PostgreSQL at 127.0.0.1:\d+/postgres .*see that it runs") as caught:
            env.execute()
        assert mortal_postgres.password not in str(caught.value)
    mortal_postgres.start()
    assert read(make_env, source) == [Row(id=1)]


@pytest.fixture
def users(database: Database) -> Database:
    database.ask("create table users (id int, tag uuid, name text)")
    database.ask(
        "insert into users select n, format('00000000-0000-0000-0000-%s', lpad(n::text, 12, '0'))::uuid, 'u' || n "
        "from generate_series(1, 30000) n"
    )
    database.ask("insert into users values (1, null, 'twin')")
    return database


def looked_up(make_env: Any, lookup: JdbcLookup, keys: list[Any], runtime: str = "local") -> list[Any]:
    env = make_env(runtime, 1)
    joined = env.from_collection([(key,) for key in keys]).lookup_join(lookup, on=0, how="left")
    named = joined.with_cache(LookupCache(100_000)).apply(lambda order, row: (order[0], row and row.name))
    return list(named.execute_and_collect())


def test_keys_of_a_batch_are_looked_up_together(make_env: Any, users: Database) -> None:
    lookup = JdbcLookup("users", "id", users.options)
    wanted = [(n, None if n in (0, 30001) else f"u{n}") for n in range(0, 30_002)]
    wanted[1:2] = [(1, "twin"), (1, "u1")]
    assert sorted(looked_up(make_env, lookup, list(range(0, 30_002))), key=lambda row: (row[0], row[1] or "")) == wanted


def test_a_key_may_have_several_columns_and_types_that_python_writes_otherwise(make_env: Any, users: Database) -> None:
    tag = "00000000-0000-0000-0000-000000000007"
    lookup = JdbcLookup("users", ["tag", "id"], users.options, columns=["name"])
    assert lookup.lookup_many([(tag, 7), (tag, 8), (uuid.UUID(tag), 7)]) == [[Row(name="u7")], [], [Row(name="u7")]]
    assert lookup.lookup((tag, 7)) == [Row(name="u7")]
    assert looked_up(make_env, JdbcLookup("users", "tag", users.options), [tag]) == [(tag, "u7")]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda o: JdbcLookup("nobody", "id", o), "there is no table 'nobody'"),
        (lambda o: JdbcLookup("users", "x", o), "'users' has no column 'x'"),
        (lambda o: JdbcLookup("users", "id", o, columns=["y"]), "'users' has no column 'y'"),
    ],
)
def test_a_lookup_that_cannot_be_is_said(make_env: Any, users: Database, make: Any, message: str) -> None:
    with pytest.raises(JobError, match=message):
        looked_up(make_env, make(users.options), [1])


def test_a_lookup_without_a_key_is_refused(users: Database) -> None:
    for arguments in ({"key": []}, {"key": "id", "columns": []}):
        with pytest.raises(InvalidArgumentError, match=r"without a key or without columns; test_source\.py:\d+"):
            JdbcLookup("users", jdbc_connection_options=users.options, **arguments)
