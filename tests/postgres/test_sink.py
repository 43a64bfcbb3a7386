"""The sink of PostgreSQL against a real server: what is in the tables, and that no crash at any step shows in it."""

from __future__ import annotations

import datetime as dt
import decimal
import threading
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flintstream import Change, Configuration, Row, RowKind, StreamExecutionEnvironment, Types
from flintstream.connectors import staged
from flintstream.connectors.postgres_sink import JdbcCommitter
from flintstream.datastream.connectors.base import DeliveryGuarantee
from flintstream.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from flintstream.engine import manifest as manifests
from flintstream.engine.options import JobOptions
from flintstream.errors import InvalidArgumentError, SinkError, UserFunctionError
from flintstream.model.connect import WriterContext
from flintstream.model.no_effect import NoEffectWarning, warned
from tests.crash.ports import Crash, Fault, FaultyStorage, plan_of
from tests.crash.ports import local as storage_in
from tests.crash.ports import run as run_until_it_ends
from tests.kafka.job import Count
from tests.postgres.database import Database, tries
from tests.postgres.faults import STEPS, faulty
from tools.servers import Postgres

ONCE, AT_LEAST = DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE


def local(records: int = 0, checkpoints: Path | None = None, parallelism: int = 2) -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict({"flintstream.epoch.max-records": str(records)})
    env = StreamExecutionEnvironment.get_execution_environment(configuration, runtime="local")
    env.set_parallelism(parallelism)
    return env if checkpoints is None else env.set_checkpoint_dir(str(checkpoints))


def counts(env: StreamExecutionEnvironment, count: int) -> Any:
    """Every count of seven words, as (word, number)."""
    words = env.generate(generator=lambda n: f"w{n % 7}", count=count, splits=2)
    numbered = words.key_by(lambda word: word).process(Count()).uid("count")
    return numbered.map(lambda text: (text.partition(":")[0], int(text.partition(":")[2])))


def counted(count: int) -> list[tuple[str, int]]:
    totals = Counter(f"w{n % 7}" for n in range(count))
    return sorted((word, number + 1) for word, total in totals.items() for number in range(total))


def run_plan(plan: Any, storage: Any, options: JobOptions) -> None:
    run_until_it_ends(plan, storage, options).get_job_execution_result().result(0)


INSERT = "insert into counts (word, n) values (?, ?)"
INTS = Types.ROW([Types.INT(), Types.INT()])
PAIR = Types.ROW([Types.STRING(), Types.LONG()])


@pytest.mark.parametrize("records", [0, 30], ids=["one epoch", "many epochs"])
@pytest.mark.parametrize("kind", ["append", "append eagerly", "sql", "sql once"])
def test_every_row_is_there_once_if_nothing_fails(database: Database, tmp_path: Path, kind: str, records: int) -> None:
    database.ask("create table counts (word text not null, n bigint not null, at timestamptz default now())")
    sinks = {
        "append": lambda: JdbcSink.append("counts", database.options),
        "append eagerly": lambda: JdbcSink.append("counts", database.options, delivery_guarantee=AT_LEAST),
        "sql": lambda: JdbcSink.sink(INSERT, PAIR, database.options),
        "sql once": lambda: JdbcSink.exactly_once_sink(INSERT, PAIR, database.options),
    }
    env, sink = local(records, tmp_path), sinks[kind]()
    counts(env, 200).sink_to(sink)
    assert f"Guarantee: {sink.delivery}" in env.explain()
    env.execute()
    assert database.ask("select word, n from counts order by 1, 2") == counted(200)


@pytest.mark.parametrize("guarantee", [ONCE, AT_LEAST])
@pytest.mark.parametrize("records", [0, 30], ids=["one epoch", "many epochs"])
def test_an_upsert_keeps_the_last_of_each_key(database: Database, guarantee: Any, records: int) -> None:
    database.ask("create table counts (word text primary key, n bigint, note text default 'kept')")
    database.ask("insert into counts values ('w0', -1, 'old'), ('other', 5, 'old')")
    env = local(records)
    counts(env, 200).sink_to(JdbcSink.upsert("counts", "word", database.options, delivery_guarantee=guarantee))
    env.execute()
    last = dict(counted(200))
    found = {word: (n, note) for word, n, note in database.ask("select * from counts")}
    notes = {word: (n, "old" if word == "w0" else "kept") for word, n in last.items()}
    assert found == {**notes, "other": (5, "old")}


@pytest.mark.parametrize("guarantee", [ONCE, AT_LEAST])
@pytest.mark.parametrize("records", [0, 1, 2])
def test_an_upsert_follows_a_changelog(database: Database, guarantee: Any, records: int) -> None:
    database.ask("create table t (id int primary key, n int)")
    database.ask("insert into t values (9, 9)")
    changes = [
        Row(id=1, n=1),
        Row.of_kind(RowKind.UPDATE_BEFORE, id=1, n=1),
        Row.of_kind(RowKind.UPDATE_AFTER, id=1, n=2),
        Row.of_kind(RowKind.DELETE, id=9, n=9),
        Row(id=2, n=1),
        Row.of_kind(RowKind.DELETE, id=2, n=1),
        Change(RowKind.INSERT, Row(id=3, n=3)),
        Row.of_kind(RowKind.DELETE, id=4, n=0),
        Row(id=4, n=4),
    ]
    env = local(records, parallelism=1)
    env.from_collection(changes).sink_to(JdbcSink.upsert("t", "id", database.options, delivery_guarantee=guarantee))
    env.execute()
    assert database.ask("select * from t order by id") == [(1, 2), (3, 3), (4, 4)]


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.booleans()), max_size=12),
    st.integers(0, 4),
    st.sampled_from([ONCE, AT_LEAST]),
    st.sampled_from([None, 1, 3]),
)
def test_an_upsert_is_a_dict_however_epochs_and_batches_are_cut(
    database: Database, changes: list[tuple[int, int, bool]], records: int, guarantee: Any, size: int | None
) -> None:
    database.ask("create table if not exists t (id int primary key, n int)")
    database.ask("truncate t")
    execution = JdbcExecutionOptions.builder()
    if size is not None and guarantee is AT_LEAST:
        execution.with_batch_size(size)
    env, wanted = local(records, parallelism=1), dict[int, int]()
    for key, number, is_gone in changes:
        wanted.pop(key, None) if is_gone else wanted.update({key: number})
    kinds = {True: RowKind.DELETE, False: RowKind.INSERT}
    rows = env.from_collection([Row.of_kind(kinds[is_gone], id=key, n=number) for key, number, is_gone in changes])
    rows.sink_to(JdbcSink.upsert("t", "id", database.options, execution.build(), delivery_guarantee=guarantee))
    env.execute()
    assert dict(database.ask("select id, n from t")) == wanted


def test_a_sink_that_only_adds_refuses_to_take_back(database: Database) -> None:
    database.ask("create table t (id int primary key, n int)")
    for sink in (
        JdbcSink.append("t", database.options),
        JdbcSink.sink("insert into t values (?, ?)", INTS, database.options),
    ):
        env = local()
        env.from_collection([Row.of_kind(RowKind.DELETE, id=1, n=1)]).sink_to(sink)
        with pytest.raises(
            SinkError, match=r"takes back what was written: -D Row\(id=1, n=1\).*test_sink.*JdbcSink.upsert"
        ):
            env.execute()


def test_a_key_of_several_columns_and_nothing_else(database: Database) -> None:
    database.ask('create table "Pairs" ("A" int, b int, primary key ("A", b))')
    env = local()
    pairs = env.from_collection([Row(b=2, A=1), Row(b=2, A=1), Row(b=3, A=1)])
    pairs.sink_to(JdbcSink.upsert("Pairs", ["A", "b"], database.options))
    env.execute()
    assert database.ask('select * from "Pairs" order by b') == [(1, 2), (1, 3)]


VALUES: dict[str, Any] = {
    "small": -7,
    "big": 2**62,
    "number": decimal.Decimal("12345678901234567890.50"),
    "ratio": 1.1e-300,
    "flag": False,
    "words": 'a\n\\.\n"b",\tc\\',
    "short": "abc",
    "raw": b"\x00\xff\\",
    "day": dt.date(1999, 12, 31),
    "clock": dt.time(1, 2, 3, 4),
    "moment": dt.datetime(1900, 1, 2, 3, 4, 5, 6),
    "instant": dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC),
    "tags": ['x"y', "", "NULL", "\\"],
    "doc": {"a": [1, None], "b": "é"},
}
TYPES = (
    "small smallint, big bigint, number numeric, ratio float8, flag boolean, words text, short varchar(3), raw bytea, "
    "day date, clock time, moment timestamp, instant timestamptz, tags text[], doc jsonb"
)


@pytest.mark.parametrize("guarantee", [ONCE, AT_LEAST])
def test_values_come_back_as_they_were(database: Database, guarantee: Any) -> None:
    database.ask(f"create table kinds ({TYPES})")
    env = local(parallelism=1)
    nothing = dict.fromkeys(VALUES)
    empty = {**nothing, "words": "", "tags": [], "ratio": float("inf")}
    env.from_collection([VALUES, nothing, empty]).sink_to(
        JdbcSink.append("kinds", database.options, delivery_guarantee=guarantee)
    )
    env.execute()
    names = ", ".join(VALUES)
    wanted = [tuple(record.values()) for record in (VALUES, nothing, empty)]
    assert database.ask(f"select {names} from kinds") == wanted


@pytest.mark.parametrize("records", [0, 1], ids=["together", "one by one"])
def test_a_value_does_not_depend_on_those_beside_it(database: Database, records: int) -> None:
    database.ask("create table t (id int, doc jsonb, words text, number numeric, ids uuid)")
    tag = uuid.UUID(int=7)
    rows = [
        {"id": 1, "doc": {"a": 1}, "words": 1, "number": decimal.Decimal("1.5"), "ids": tag},
        {"id": 2, "doc": {"b": ["x", None]}, "words": 2.5, "number": decimal.Decimal("2.25"), "ids": str(tag)},
        {"id": 3, "doc": [1, "x"], "words": "three", "number": 10**30},
        {"id": "4", "doc": 7, "words": None, "number": None, "ids": None},
    ]
    env = local(records, parallelism=1)
    env.from_collection(rows).sink_to(JdbcSink.append("t", database.options))
    env.execute()
    found = database.ask("select id, doc, words, number::text, ids from t order by id")
    assert found == [
        (1, {"a": 1}, "1", "1.5", tag),
        (2, {"b": ["x", None]}, "2.5", "2.25", tag),
        (3, [1, "x"], "three", str(10**30), None),
        (4, 7, None, None, None),
    ]


def test_a_single_column_may_be_null(database: Database) -> None:
    database.ask("create table one (n int)")
    env = local(parallelism=1)
    env.from_collection([1, None, 3], Types.INT()).sink_to(JdbcSink.append("one", database.options))
    env.execute()
    assert database.ask("select n from one") == [(1,), (None,), (3,)]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"id": 2**40, "name": "a"}, r"column 'id' \(integer, not null\) cannot take a field: .*1099511627776"),
        ({"id": None, "name": "a"}, r"column 'id' \(integer, not null\) .* no value"),
        ({"name": "a"}, r"column 'id' \(integer, not null\) .* no value"),
        ({"id": 1, "name": "abcd"}, r"column 'name' \(character varying\(3\)\) .* 4 characters"),
        ({"id": 1, "name": "a\0"}, r"column 'name' .* NUL"),
        ({"id": 1, "name": object}, r"column 'name' .*"),
        ({"id": 2**70, "name": "a"}, r"column 'id' .*"),
        ({"id": 1, "at": 5}, r"column 'at' .* values are int64"),
        ({"id": 1, "name": b"a"}, r"column 'name' .* values are binary"),
        ({"id": 1, "other": 1}, r"field 'other' is none of the columns"),
        ({"id": 1, "made": 1}, r"field 'made' is none of the columns"),
        ((1, "a"), r"records have 2 fields, but 3 columns are written: id, name, at"),
    ],
)
def test_what_a_table_cannot_take_is_refused_before_the_commit(
    database: Database, tmp_path: Path, record: Any, message: str
) -> None:
    database.ask("create table t (id int not null, name varchar(3), at timestamptz, made int default 1)")
    env = local(0, tmp_path)
    env.from_collection([record]).sink_to(JdbcSink.append("t", database.options))
    with pytest.raises(SinkError, match=message + r".*test_sink\.py:\d+"):
        env.execute()
    assert manifests.newest(storage_in(tmp_path)) is None
    assert database.ask("select * from t") == []


def test_columns_that_the_database_fills_are_written_if_they_are_named(database: Database) -> None:
    database.ask("create table t (id serial, name text)")
    env = local()
    env.from_collection([(7, "a")]).sink_to(JdbcSink.append("t", database.options, columns=["id", "name"]))
    env.from_collection(["b"]).sink_to(JdbcSink.append("t", database.options))
    env.execute()
    assert sorted(database.ask("select id, name from t")) == [(1, "b"), (7, "a")]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda o: JdbcSink.append("nowhere", o), r"there is no table 'nowhere' at 127.0.0.1:\d+/postgres"),
        (lambda o: JdbcSink.append("t", o, columns=["x"]), r"table 't' has no column 'x', but id, name"),
        (lambda o: JdbcSink.upsert("t", "x", o), r"the key 'x' is none of the columns"),
        (lambda o: JdbcSink.upsert("t", "id", o), r"table 't' has no unique index over id"),
        (
            lambda o: JdbcSink.sink("insert into t valuez (?)", Types.ROW([Types.INT()]), o),
            r"cannot read the statement",
        ),
        (lambda o: JdbcSink.sink("insert into t values (?)", Types.ROW([Types.STRING()]), o), r"column 'f0'|declared"),
    ],
)
def test_a_table_that_does_not_do_is_refused_before_the_commit(
    database: Database, tmp_path: Path, make: Any, message: str
) -> None:
    database.ask("create table t (id int, name text)")
    env = local(0, tmp_path)
    env.from_collection([("a",)]).sink_to(make(database.options))
    with pytest.raises(SinkError, match=message + r".*test_sink\.py:\d+"):
        env.execute()
    assert manifests.newest(storage_in(tmp_path)) is None


def test_sql_of_the_users_own(database: Database) -> None:
    database.ask("create table t (a text, b int, c timestamptz)")
    env = local(parallelism=1)
    kind = Types.ROW_NAMED(["x", "y"], [Types.STRING(), Types.INT()])
    sql = "insert into t values (? || ' 100 % ? ''', ? % 10, '2020-01-01') -- what?"
    env.from_collection([Row(y=17, x="a"), Row(y=8, x="b")]).sink_to(
        JdbcSink.exactly_once_sink(sql, kind, database.options)
    )
    env.execute()
    assert database.ask("select a, b from t") == [("a 100 % ? '", 7), ("b 100 % ? '", 8)]


def breaks_at(number: int) -> Any:
    def check_one(value: int) -> int:
        if value == number:
            raise ValueError(value)
        return value

    return check_one


@pytest.mark.parametrize(("size", "early"), [(4, 8), (None, 0)])
def test_at_least_once_rows_are_there_as_soon_as_a_batch_is_full(
    database: Database, tmp_path: Path, size: int | None, early: int
) -> None:
    database.ask("create table t (n int)")
    execution = JdbcExecutionOptions.builder()
    if size is not None:
        execution.with_batch_size(size)

    def declared(function: Any) -> StreamExecutionEnvironment:
        env = local(0, tmp_path, parallelism=1)
        numbers = env.generate(generator=lambda n: n, count=10, splits=1).map(function, Types.INT())
        numbers.sink_to(JdbcSink.append("t", database.options, execution.build(), delivery_guarantee=AT_LEAST)).uid(
            "out"
        )
        numbers.map(breaks_at(9) if function is early_one else lambda n: n).print("")
        return env

    def early_one(value: int) -> int:
        return value

    with pytest.raises(UserFunctionError):
        declared(early_one).execute()
    assert len(database.ask("select * from t")) == early
    declared(lambda n: n).execute()
    assert Counter(n for (n,) in database.ask("select * from t")) == Counter([*range(10), *range(early)])


def test_large_output_waits_in_files(database: Database, tmp_path: Path) -> None:
    database.ask("create table t (n int, pad text)")
    env, fault = local(0, tmp_path, parallelism=1), Fault()
    rows = env.generate(generator=lambda n: (n, "x" * 50_000), count=400, splits=1)
    rows.sink_to(JdbcSink.append("t", database.options))
    run_plan(plan_of(env), FaultyStorage(storage_in(tmp_path), fault), JobOptions(retained=1))
    assert fault.steps["write output"] >= 400 * 50_000 // staged.PIECE_BYTES
    assert database.ask("select count(*), count(distinct n), min(length(pad)) from t") == [(400, 400, 50_000)]


def declared_counts(database: Database, kind: str, retries: int = 0) -> StreamExecutionEnvironment:
    env = local(25)
    sinks = {
        "append": lambda: JdbcSink.append("counts", database.options, tries(retries)),
        "upsert": lambda: JdbcSink.upsert("counts", "word", database.options, tries(retries)),
        "sql": lambda: JdbcSink.exactly_once_sink(INSERT, PAIR, database.options, tries(retries)),
    }
    counts(env, 100).sink_to(sinks[kind]()).uid("out")
    return env


def check(database: Database, kind: str) -> None:
    wanted = counted(100)
    if kind == "upsert":
        wanted = sorted(dict(wanted).items())
    assert database.ask("select word, n from counts order by 1, 2") == wanted


@pytest.mark.parametrize("nth", [1, 3])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", ["append", "upsert", "sql"])
def test_a_crash_at_any_step_of_the_commit_shows_in_no_table(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, step: str, nth: int
) -> None:
    unique = " primary key" if kind == "upsert" else ""
    database.ask(f"create table counts (word text{unique}, n bigint)")
    fault = Fault(step, nth)
    with monkeypatch.context() as patch:
        faulty(patch, fault)
        with pytest.raises(Crash):
            run_plan(plan_of(declared_counts(database, kind)), storage_in(tmp_path), JobOptions(max_records=25))
    run_plan(plan_of(declared_counts(database, kind)), storage_in(tmp_path), JobOptions(max_records=25))
    check(database, kind)


@pytest.mark.parametrize("step", ["write epochs", "create manifests", "create manifests done"])
def test_a_crash_around_the_manifest_shows_in_no_table(database: Database, tmp_path: Path, step: str) -> None:
    database.ask("create table counts (word text, n bigint)")
    fault = Fault(step, 2)
    storage = FaultyStorage(storage_in(tmp_path), fault)
    with pytest.raises(Crash):
        run_plan(plan_of(declared_counts(database, "append")), storage, JobOptions(max_records=25))
    run_plan(plan_of(declared_counts(database, "append")), storage_in(tmp_path), JobOptions(max_records=25))
    check(database, "append")


def committable(sink: JdbcSink, incarnation: str, epoch: int, *values: Any) -> Any:
    writer = sink.create_writer(WriterContext("job", "out", epoch, 0, "a", 1, incarnation))
    writer.write(list(values), [0] * len(values))
    return writer.prepare_commit()


def test_an_epoch_is_written_once_however_often_and_however_late_it_is_committed(database: Database) -> None:
    database.ask("create table t (n int)")
    sink = JdbcSink.append("t", database.options)
    first, second = committable(sink, "life", 1, 1), committable(sink, "life", 2, 2)
    driver, zombie = sink.create_committer(), sink.create_committer()
    for committer, epoch, part in [(driver, 1, first), (driver, 1, first), (driver, 2, second), (zombie, 1, first)]:
        committer.commit("job", "out", epoch, [part])
    assert database.ask("select n from t order by n") == [(1,), (2,)]
    # A job that starts anew counts its epochs from 1 again, and other sinks have their own.
    driver.commit("job", "out", 1, [committable(sink, "next life", 1, 3)])
    driver.commit("job", "other", 1, [committable(sink, "life", 1, 4)])
    assert database.ask("select n from t order by n") == [(1,), (2,), (3,), (4,)]
    ledger = database.ask("select incarnation, uid, job, epoch from flintstream_ledger order by 1, 2")
    assert ledger == [("life", "other", "job", 1), ("life", "out", "job", 2), ("next life", "out", "job", 1)]


def test_drivers_that_commit_at_once_write_an_epoch_once(database: Database) -> None:
    database.ask("create table t (n int)")
    sink, drivers = JdbcSink.append("t", database.options, tries(0)), 4
    committers, together = [sink.create_committer() for _ in range(drivers)], threading.Barrier(drivers)

    def commit(committer: Any, epoch: int, part: Any) -> None:
        together.wait()
        committer.commit("job", "out", epoch, [part])

    with ThreadPoolExecutor(drivers) as pool:
        for epoch in range(1, 9):
            part = committable(sink, "life", epoch, epoch)
            for done in [pool.submit(commit, each, epoch, part) for each in committers]:
                done.result()
    assert database.ask("select n from t order by n") == [(epoch,) for epoch in range(1, 9)]


def test_no_secret_is_in_a_checkpoint(database: Database, tmp_path: Path) -> None:
    database.ask("create table counts (word text, n bigint)")
    env = local(25, tmp_path)
    counts(env, 100).sink_to(JdbcSink.append("counts", database.options))
    env.execute()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files and not [path for path in files if database.server.password.encode() in path.read_bytes()]


def test_the_ledger_may_be_another_table(database: Database) -> None:
    database.ask("create table t (n int)")
    sink = JdbcSink.append("t", database.options, ledger_table="epochs")
    sink.create_committer().commit("job", "out", 1, [committable(sink, "life", 1, 1)])
    assert database.ask("select epoch from epochs") == [(1,)]


def test_a_row_that_breaks_a_constraint_fails_the_job_and_is_written_once_that_is_mended(
    database: Database, tmp_path: Path
) -> None:
    database.ask("create table t (n int unique)")

    def declared() -> StreamExecutionEnvironment:
        env = local(0, tmp_path)
        env.from_collection([1, 2, 2]).sink_to(JdbcSink.append("t", database.options)).uid("out")
        return env

    with pytest.raises(
        SinkError, match=r"epoch 1 cannot be written to table 't'.*refuses it.*n.*=\(2\) already exists"
    ):
        declared().execute()
    assert database.ask("select * from t") == []
    database.ask("alter table t drop constraint t_n_key")
    declared().execute()
    assert database.ask("select n from t order by n") == [(1,), (2,), (2,)]


def test_a_dead_server_fails_the_job_and_nothing_is_lost(mortal_postgres: Postgres, tmp_path: Path) -> None:
    database = Database.fresh(mortal_postgres)
    database.ask("create table counts (word text, n bigint)")
    mortal_postgres.kill()
    dead = r"PostgreSQL at 127.0.0.1:\d+/postgres does not answer.*see that it runs"
    with pytest.raises(SinkError, match=dead) as caught:
        env = local(25, tmp_path)
        counts(env, 100).sink_to(JdbcSink.append("counts", database.options, tries(0))).uid("out")
        env.execute()
    assert mortal_postgres.password not in str(caught.value)
    mortal_postgres.start()
    run_plan(plan_of(declared_counts(database, "append")), storage_in(tmp_path), JobOptions(max_records=25))
    check(database, "append")


def test_a_server_that_comes_back_is_waited_for(
    mortal_postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database.fresh(mortal_postgres)
    database.ask("create table counts (word text, n bigint)")
    commit, killed = JdbcCommitter.commit, []

    def commit_after_a_crash(self: Any, job: str, uid: str, epoch: int, parts: Any) -> None:
        if epoch == 2 and not killed:
            killed.append(epoch)
            mortal_postgres.kill()
            mortal_postgres.start()
        commit(self, job, uid, epoch, parts)

    monkeypatch.setattr(JdbcCommitter, "commit", commit_after_a_crash)
    run_plan(plan_of(declared_counts(database, "append")), storage_in(tmp_path), JobOptions(max_records=25))
    assert killed
    check(database, "append")


def test_a_failure_of_the_connection_is_tried_again(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    from flintstream.connectors import postgres_client

    database.ask("create table counts (word text, n bigint)")
    monkeypatch.setattr(postgres_client, "_RETRY_SECONDS", 0)
    for retries, is_enough in [(2, False), (3, True)]:
        fault = Fault("lock", 1, lambda: psycopg.OperationalError("gone"), times=3)
        with monkeypatch.context() as patch:
            faulty(patch, fault)
            plan = plan_of(declared_counts(database, "append", retries))
            if is_enough:
                run_plan(plan, storage_in(tmp_path), JobOptions(max_records=25))
            else:
                with pytest.raises(SinkError, match="does not answer \\(gone\\)"):
                    run_plan(plan, storage_in(tmp_path), JobOptions(max_records=25))
    check(database, "append")


def test_a_wrong_password_is_said_and_not_shown(database: Database) -> None:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(database.url).with_user_name("flint")
    options = builder.with_password("wr0ng-word").build()
    env = local()
    sink = JdbcSink.append("t", options, tries(0))
    env.from_collection([1]).sink_to(sink)
    explained = env.explain()
    with pytest.raises(SinkError, match=r"password authentication failed for user .flint.") as caught:
        env.execute()
    shown = [str(caught.value), repr(caught.value), repr(options), repr(sink), explained]
    assert not [text for text in shown if "wr0ng-word" in text]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda o: JdbcSink.append("", o), "is no table"),
        (lambda o: JdbcSink.append("t", "jdbc:..."), "str is no JdbcConnectionOptions"),
        (lambda o: JdbcSink.append("t", o, o), "is no JdbcExecutionOptions"),
        (lambda o: JdbcSink.append("t", o, columns=[]), r"columns is \[\]"),
        (lambda o: JdbcSink.append("t", o, columns="ab"), "columns is 'ab'"),
        (lambda o: JdbcSink.append("t", o, delivery_guarantee=DeliveryGuarantee.NONE), "does not do without"),
        (lambda o: JdbcSink.upsert("t", [], o), r"key is \[\]"),
        (lambda o: JdbcSink.sink("insert into t values (?)", PAIR, o), "1 places for fields, but 2 fields"),
        (lambda o: JdbcSink.sink("insert into t values (?)", Types.INT(), o), "no RowTypeInfo"),
        (lambda o: JdbcExecutionOptions.builder().with_batch_size(0), "the batch size is 0"),
        (lambda o: JdbcExecutionOptions.builder().with_max_retries(-1), "the number of retries is -1"),
    ],
)
def test_bad_arguments_are_refused_in_the_users_line(make: Any, message: str) -> None:
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("postgresql://db/shop").build()
    with pytest.raises(InvalidArgumentError, match=message + r".*test_sink\.py:\d+"):
        make(options)


def test_what_has_no_effect_is_said() -> None:
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("postgresql://db/shop").build()
    warned.difference_update({"with_batch_interval_ms(...)", "with_batch_size(...)"})
    with pytest.warns(NoEffectWarning, match=r"with_batch_interval_ms\(...\) has no effect"):
        execution = JdbcExecutionOptions.builder().with_batch_interval_ms(10).with_batch_size(3).build()
    with pytest.warns(NoEffectWarning, match=r"with_batch_size\(...\) has no effect"):
        JdbcSink.append("t", options, execution)
