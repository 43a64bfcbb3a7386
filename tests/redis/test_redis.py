"""Sink and lookup of Redis against a real server: what is in it, and that no crash shows in it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from flintstream import (
    Change,
    Configuration,
    LookupCache,
    Row,
    RowKind,
    StreamExecutionEnvironment,
    bounded,
    count,
    tumbling,
)
from flintstream.connectors import redis_client, redis_sink, staged
from flintstream.connectors.redis_sink import RedisCommitter
from flintstream.datastream.connectors.base import DeliveryGuarantee
from flintstream.datastream.connectors.redis import RedisLookup, RedisSink
from flintstream.engine import manifest as manifests
from flintstream.engine.options import JobOptions
from flintstream.errors import FencedError, InvalidArgumentError, SinkError, UserFunctionError
from flintstream.model.connect import WriterContext
from tests.crash.ports import Crash, Fault, FaultyStorage, plan_of
from tests.crash.ports import local as storage_in
from tests.crash.ports import run as run_until_it_ends
from tests.redis.conftest import client_of
from tools.servers import Redis

ONCE, AT_LEAST = DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE


def local(records: int = 0, checkpoints: Path | None = None, parallelism: int = 2) -> StreamExecutionEnvironment:
    settings = Configuration.from_dict({"flintstream.epoch.max-records": str(records)})
    env = StreamExecutionEnvironment.get_execution_environment(settings, runtime="local").set_parallelism(parallelism)
    return env if checkpoints is None else env.set_checkpoint_dir(str(checkpoints))


def run_plan(plan: Any, storage: Any) -> None:
    run_until_it_ends(plan, storage, JobOptions(max_records=25)).get_job_execution_result().result(0)


def events(env: StreamExecutionEnvironment, number: int = 100) -> Any:
    return env.generate(generator=lambda n: {"ad": n % 7, "at": n * 100}, count=number, splits=1)


def windows(env: StreamExecutionEnvironment, number: int = 100) -> Any:
    """Events of a campaign in windows of two seconds, as the Yahoo benchmark counts them."""
    timed = events(env, number).assign_timestamps_and_watermarks(bounded("0s", on="at"))
    return timed.key_by("ad").window(tumbling("2s")).agg(n=count())


def counted(number: int = 100) -> dict[str, dict[str, str]]:
    totals = Counter((n % 7, n // 20 * 2000) for n in range(number))
    return {f"campaign:{ad}:{start}": {"n": str(n)} for (ad, start), n in totals.items()}


def flush(server: Redis, guarantee: DeliveryGuarantee = AT_LEAST, retries: int = 0) -> RedisSink:
    return RedisSink.hash(
        server.url,
        "campaign:{ad}:{window_start}",
        ["n"],
        password=server.password,
        delivery_guarantee=guarantee,
        max_retries=retries,
    )


def hashes(store: Any, pattern: str = "campaign:*") -> dict[str, Any]:
    return {key: store.hgetall(key) for key in store.scan_iter(pattern)}


@pytest.mark.parametrize("records", [0, 25], ids=["one epoch", "many epochs"])
@pytest.mark.parametrize("guarantee", [ONCE, AT_LEAST])
def test_windows_are_flushed(server: Redis, store: Any, tmp_path: Path, guarantee: Any, records: int) -> None:
    env = local(records).set_checkpoint_dir(str(tmp_path))
    windows(env).sink_to(flush(server, guarantee))
    assert f"Guarantee: {guarantee.value}" in env.explain()
    env.execute()
    assert hashes(store) == counted()


@pytest.mark.parametrize("guarantee", [ONCE, AT_LEAST])
def test_keys_are_set_and_hashes_filled(server: Redis, store: Any, guarantee: Any) -> None:
    env = local(parallelism=1)
    options: dict[str, Any] = {"password": server.password, "delivery_guarantee": guarantee}
    store.hset("h:a", mapping={"n": "old", "other": "kept", "gone": "soon"})
    words = env.from_collection([("a", 1), ("b", 2), ("a", 3)])
    words.sink_to(RedisSink.set(server.url, "w:{f0}", "{f1}", **options))
    words.sink_to(RedisSink.set(server.url, lambda w: b"raw:" + w[0].encode(), lambda w: w[1] / 2, **options))
    words.sink_to(RedisSink.set(server.url, "brief:{f0}", "{f1}", expire="1h", **options))
    dicts = env.from_collection([{"id": "a", "n": 1.5, "gone": None}])
    dicts.sink_to(RedisSink.hash(server.url, "h:{id}", **options))
    dicts.sink_to(RedisSink.hash(server.url, "f:{id}", lambda r: {"twice": 2 * r["n"]}, expire="1h", **options))
    env.execute()
    assert (store.get("w:a"), store.get("w:b"), store.get("raw:a")) == ("3", "2", "1.5")
    assert 0 < store.pttl("brief:a") <= 3_600_000 and store.pttl("w:a") == -1
    assert store.hgetall("h:a") == {"id": "a", "n": "1.5", "other": "kept"}
    assert store.hgetall("f:a") == {"twice": "3.0"} and store.pttl("f:a") > 0


@pytest.mark.parametrize("guarantee", [ONCE, AT_LEAST])
def test_deletes_of_a_changelog_remove_keys(server: Redis, store: Any, guarantee: Any) -> None:
    options: dict[str, Any] = {"password": server.password, "delivery_guarantee": guarantee}
    deleted, before = Row.of_kind(RowKind.DELETE, id="a", n=1), Row.of_kind(RowKind.UPDATE_BEFORE, id="b", n=1)
    changes = [Row(id="a", n=1), Row(id="b", n=2), deleted, before, Change(RowKind.INSERT, Row(id="c", n=3))]
    env = local(parallelism=1)
    rows = env.from_collection(changes)
    rows.sink_to(RedisSink.set(server.url, "s:{id}", "{n}", **options))
    rows.sink_to(RedisSink.hash(server.url, "h:{id}", ["n"], **options))
    env.execute()
    assert [store.get(f"s:{key}") for key in "abc"] == [None, "2", "3"]
    assert [store.hgetall(f"h:{key}") for key in "abc"] == [{}, {"n": "2"}, {"n": "3"}]
    with pytest.raises(SinkError, match="takes back what was written"):
        written(RedisSink.increment(server.url, "t", "{id}", "{n}"), "life", 1, deleted)


def increments(server: Redis, env: StreamExecutionEnvironment) -> RedisSink:
    sink = RedisSink.increment(
        server.url, "totals", "ad{ad}", lambda event: event["at"], password=server.password, max_retries=0
    )
    events(env).sink_to(sink).uid("out")
    return sink


def added() -> dict[str, str]:
    totals: Counter[str] = Counter()
    for n in range(100):
        totals[f"ad{n % 7}"] += n * 100
    return {name: str(total) for name, total in totals.items()}


class _Pipeline:
    """A pipeline whose steps are those of a fault."""

    def __init__(self, pipe: Any, fault: Fault) -> None:
        self._pipe, self._fault = pipe, fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pipe, name)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: Any) -> None:
        self._pipe.reset()

    def watch(self, *keys: Any) -> Any:
        self._fault.reach("watch")
        return self._pipe.watch(*keys)

    def execute(self) -> Any:
        self._fault.reach("execute")
        result = self._pipe.execute()
        self._fault.reach("execute done")
        return result


def faulty(patch: pytest.MonkeyPatch, fault: Fault) -> None:
    """Let the transactions of committers, and the scripts of writers, be steps."""
    make, run = redis.Redis.pipeline, redis.Redis.eval

    def pipeline(self: Any, transaction: bool = True) -> Any:
        pipe = make(self, transaction)
        return _Pipeline(pipe, fault) if transaction else pipe

    def run_script(self: Any, *arguments: Any) -> Any:
        fault.reach("script")
        result = run(self, *arguments)
        fault.reach("script done")
        return result

    patch.setattr(redis.Redis, "pipeline", pipeline)
    patch.setattr(redis.Redis, "eval", run_script)


@pytest.mark.parametrize("nth", [1, 3])
@pytest.mark.parametrize("step", ["watch", "execute", "execute done"])
def test_a_crash_at_any_step_of_the_commit_does_not_show(
    server: Redis, store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, nth: int
) -> None:
    def declared() -> Any:
        env = local()
        increments(server, env)
        return plan_of(env)

    with monkeypatch.context() as patch:
        faulty(patch, Fault(step, nth))
        with pytest.raises(Crash):
            run_plan(declared(), storage_in(tmp_path))
    run_plan(declared(), storage_in(tmp_path))
    assert store.hgetall("totals") == added()


@pytest.mark.parametrize("step", ["script", "script done", "write epochs", "create manifests", "create manifests done"])
def test_a_crash_of_an_eager_job_leaves_the_right_values_at_the_end(
    server: Redis, store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def declared() -> Any:
        env = local()
        windows(env).sink_to(flush(server)).uid("out")
        return plan_of(env)

    fault = Fault(step, 2)
    with monkeypatch.context() as patch:
        faulty(patch, fault)
        with pytest.raises(Crash):
            run_plan(declared(), FaultyStorage(storage_in(tmp_path), fault))
    run_plan(declared(), storage_in(tmp_path))
    assert hashes(store) == counted()


def written(sink: RedisSink, incarnation: str, epoch: int, *values: Any) -> Any:
    writer = sink.create_writer(WriterContext("job", "out", epoch, 0, "a", 1, incarnation))
    writer.write(list(values), [0] * len(values))
    return writer.prepare_commit()


def test_a_task_that_was_thought_dead_cannot_overwrite_newer_values(server: Redis, store: Any) -> None:
    sink = RedisSink.set(server.url, "{f0}", "{f1}", password=server.password)
    written(sink, "life", 1, ("a", "old"))
    written(sink, "life", 2, ("a", "new"))
    with pytest.raises(FencedError, match="epoch 1 of sink 'out' is over: Redis has seen epoch 2"):
        written(sink, "life", 1, ("a", "old"))
    assert store.get("a") == "new"
    # The same epoch may be run again, and a job that starts anew counts from 1.
    written(sink, "life", 2, ("a", "again"))
    written(sink, "next life", 1, ("b", "first"))
    assert (store.get("a"), store.get("b")) == ("again", "first")


def test_an_epoch_is_added_once_however_often_and_however_late_it_is_committed(server: Redis, store: Any) -> None:
    sink = RedisSink.increment(server.url, "totals", "{f0}", "{f1}", password=server.password)
    first, second = written(sink, "life", 1, ("a", 1), ("a", 2)), written(sink, "life", 2, ("a", 10))
    driver, zombie = sink.create_committer(), sink.create_committer()
    for committer, epoch, part in [(driver, 1, first), (driver, 1, first), (driver, 2, second), (zombie, 1, first)]:
        committer.commit("job", "out", epoch, [part])
    assert store.hgetall("totals") == {"a": "13"}


def test_records_are_counted_by_a_constant(server: Redis, store: Any) -> None:
    sink = RedisSink.increment(server.url, "all", "records", "1", password=server.password)
    sink.create_committer().commit("job", "out", 1, [written(sink, "life", 1, "a", "b")])
    assert store.hgetall("all") == {"records": "2"}


def test_two_drivers_at_once_add_an_epoch_once(server: Redis, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = RedisSink.increment(server.url, "totals", "{f0}", "{f1}", password=server.password)
    part = written(sink, "life", 1, ("a", 1))
    check, others = RedisCommitter._check, []

    def check_while_the_other_commits(self: Any, pipe: Any, commands: Any) -> None:
        check(self, pipe, commands)
        if not others:
            others.append(sink.create_committer())
            others[0].commit("job", "out", 1, [part])

    monkeypatch.setattr(RedisCommitter, "_check", check_while_the_other_commits)
    sink.create_committer().commit("job", "out", 1, [part])
    assert others and store.hgetall("totals") == {"a": "1"}


def test_a_key_that_is_something_else_spoils_nothing_and_can_be_mended(
    server: Redis, store: Any, tmp_path: Path
) -> None:
    store.set("totals", "a text")

    def run() -> None:
        env = local()
        increments(server, env)
        run_plan(plan_of(env), storage_in(tmp_path))

    with pytest.raises(SinkError, match="the key b'totals' is a string, not a hash"):
        run()
    store.delete("totals")
    store.hset("totals", "ad3", "many")
    with pytest.raises(SinkError, match="has b'many' in field b'ad3'"):
        run()
    assert store.hgetall("totals") == {"ad3": "many"}
    store.delete("totals")
    run()
    assert store.hgetall("totals") == added()


def test_large_output_waits_in_files_and_goes_in_one_transaction(server: Redis, store: Any, tmp_path: Path) -> None:
    env, fault = local(0, tmp_path, 1), Fault()
    rows = env.generate(generator=lambda n: (n, "x" * 50_000), count=400, splits=1)
    rows.sink_to(RedisSink.set(server.url, "k{f0}", "{f1}", password=server.password, delivery_guarantee=ONCE))
    storage = FaultyStorage(storage_in(tmp_path), fault)
    run_until_it_ends(plan_of(env), storage, JobOptions()).get_job_execution_result().result(0)
    assert fault.steps["write output"] >= 400 * 50_000 // staged.PIECE_BYTES
    assert sum(1 for _ in store.scan_iter("k*", count=1000)) == 400


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda url, **o: RedisSink.set(url, "k:{nothing}", "{f0}", **o), "a record has no field 'nothing' for key"),
        (lambda url, **o: RedisSink.set(url, "k:{f0}", lambda r: [1], **o), r"value is \[1\], but Redis holds texts"),
        (lambda url, **o: RedisSink.hash(url, "k:{f0}", ["x"], **o), "a record has no field 'x'"),
        (lambda url, **o: RedisSink.hash(url, "k:{f0}", lambda r: {"a": True}, **o), "field 'a' is True"),
    ],
)
@pytest.mark.parametrize("guarantee", [ONCE, AT_LEAST])
def test_what_redis_cannot_hold_is_refused_before_the_commit(
    server: Redis, store: Any, tmp_path: Path, make: Any, message: str, guarantee: Any
) -> None:
    env = local(0, tmp_path)
    env.from_collection([("a", 1)]).sink_to(make(server.url, password=server.password, delivery_guarantee=guarantee))
    with pytest.raises(SinkError, match=message + r".*test_redis\.py:\d+"):
        env.execute()
    assert manifests.newest(storage_in(tmp_path)) is None
    assert list(store.scan_iter("k:*")) == []


def test_what_cannot_be_added_is_refused_before_the_commit(server: Redis, tmp_path: Path) -> None:
    env = local(0, tmp_path)
    env.from_collection([("a", 1.5)]).sink_to(
        RedisSink.increment(server.url, "t{f0}", "{f0}", "{f1}", password=server.password)
    )
    with pytest.raises(SinkError, match=r"b'1.5' is not a whole number.*test_redis\.py:\d+"):
        env.execute()
    assert manifests.newest(storage_in(tmp_path)) is None


@pytest.mark.parametrize("guarantee", [ONCE, AT_LEAST])
def test_a_dead_server_fails_the_job_and_nothing_is_lost(mortal_redis: Redis, tmp_path: Path, guarantee: Any) -> None:
    def run() -> None:
        env = local()
        windows(env).sink_to(flush(mortal_redis, guarantee)).uid("out")
        run_plan(plan_of(env), storage_in(tmp_path))

    mortal_redis.kill()
    with pytest.raises(SinkError, match=r"Redis at 127.0.0.1:\d+/0 does not answer.*see that it runs") as caught:
        run()
    assert mortal_redis.password not in str(caught.value)
    mortal_redis.start()
    run()
    with client_of(mortal_redis) as store:
        assert hashes(store) == counted()


def test_a_failure_of_the_connection_is_tried_again(
    server: Redis, store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_client, "_RETRY_SECONDS", 0)
    for retries, is_enough in [(2, False), (3, True)]:
        env = local()
        windows(env).sink_to(flush(server, ONCE, retries)).uid("out")
        with monkeypatch.context() as patch:
            faulty(patch, Fault("watch", 1, lambda: redis.ConnectionError("gone"), times=3))
            if is_enough:
                run_plan(plan_of(env), storage_in(tmp_path))
            else:
                with pytest.raises(SinkError, match=r"does not answer \(gone\)"):
                    run_plan(plan_of(env), storage_in(tmp_path))
    assert hashes(store) == counted()


def test_a_wrong_password_is_said_and_not_shown(server: Redis) -> None:
    sink = RedisSink.set(server.url, "{value}", "{value}", password="wr0ng-word", max_retries=0)
    env = local()
    env.from_collection(["a"]).sink_to(sink)
    explained = env.explain()
    with pytest.raises(SinkError, match=r"WRONGPASS|invalid username-password") as caught:
        env.execute()
    shown = [str(caught.value), repr(caught.value), repr(sink), repr(sink._server), explained]
    assert not [text for text in shown if "wr0ng-word" in text]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RedisSink.set("http://a:secret@b", "{a}", "{b}"), "this is no URL of a Redis"),
        (lambda: RedisSink.set("redis://h", "constant", "{b}"), "key is 'constant'"),
        (lambda: RedisSink.set("redis://h", "{a}", "{}"), r"value is '\{\}'"),
        (lambda: RedisSink.set("redis://h", "{a", "{b}"), "key is '{a'"),
        (lambda: RedisSink.set("redis://h", "{a}", "{b}", expire="0s"), "expire is '0s'"),
        (lambda: RedisSink.set("redis://h", "{a}", "{b}", max_retries=-1), "max_retries is -1"),
        (lambda: RedisSink.set("redis://h", "{a}", "{b}", delivery_guarantee=DeliveryGuarantee.NONE), "cannot be"),
        (lambda: RedisSink.hash("redis://h", "{a}", []), r"fields is \[\]"),
        (lambda: RedisSink.increment("redis://h", "{a}", "{b}", "{c}", delivery_guarantee=AT_LEAST), "more than once"),
        (lambda: RedisSink.hash("redis://h", ""), "key is ''"),
        (lambda: RedisSink.increment("redis://h", "a", "b", "c"), "by is 'c'"),
        (lambda: RedisLookup("redis://h", "user"), "key is 'user'"),
        (lambda: RedisLookup("redis://h", decode=3), "decode is 3"),  # pyright: ignore
    ],
)
def test_bad_arguments_are_refused_in_the_users_line(make: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message + r".*test_redis\.py:\d+") as caught:
        make()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("redis://h", ("h", 6379, 0, None, None, False)),
        ("rediss://me:p%40ss@h:7/3", ("h", 7, 3, "me", "p@ss", True)),
        ("redis://:w@h", ("h", 6379, 0, None, "w", False)),
    ],
)
def test_a_url_is_read(url: str, server: tuple[Any, ...]) -> None:
    found = redis_client.RedisServer.of(url, None)
    assert (found.host, found.port, found.db, found.user, found.password, found.is_encrypted) == server


@pytest.fixture
def campaigns(store: Any) -> Iterator[Any]:
    store.mset({f"ad:{n}": f"c{n % 10}" for n in range(12_000)})
    store.set("json:1", json.dumps({"name": "Ada"}))
    store.hset("user:1:x", mapping={"name": "Ada", "age": "36"})
    yield store


def looked_up(lookup: RedisLookup, keys: list[Any], on: Any = 0) -> list[Any]:
    env = local(parallelism=1)
    joined = env.from_collection(keys).lookup_join(lookup, on=on, how="left").with_cache(LookupCache(100_000))
    return list(joined.apply(lambda record, row: row).execute_and_collect())


def test_keys_of_a_batch_are_looked_up_together(server: Redis, campaigns: Any) -> None:
    lookup = RedisLookup(server.url, "ad:{}", password=server.password)
    wanted = [f"c{n % 10}" for n in range(12_000)]
    assert looked_up(lookup, [(n,) for n in range(12_001)]) == [*wanted, None]


def test_hashes_decoders_and_keys_of_several_fields(server: Redis, campaigns: Any) -> None:
    options: dict[str, Any] = {"password": server.password}
    users = RedisLookup(server.url, "user:{}:{}", is_hash=True, **options)
    assert looked_up(users, [(1, "x"), (2, "x")], on=[0, 1]) == [{"name": "Ada", "age": "36"}, None]
    ages = RedisLookup(server.url, "user:{}:{}", is_hash=True, decode=lambda row: int(row["age"]), **options)
    assert ages.lookup((1, "x")) == [36]
    assert looked_up(RedisLookup(server.url, "json:{}", decode=json.loads, **options), [(1,)]) == [{"name": "Ada"}]


def test_a_lookup_in_a_dead_server_is_tried_again_and_said(mortal_redis: Redis) -> None:
    lookup = RedisLookup(mortal_redis.url, password=mortal_redis.password)
    mortal_redis.kill()
    env = local()
    env.from_collection([1]).lookup_join(lookup, on=lambda n: n).with_retries(1).apply(lambda n, row: row).print()
    with pytest.raises(UserFunctionError, match=r"Redis at 127.0.0.1:\d+/0.*see that it runs") as caught:
        env.execute()
    assert mortal_redis.password not in str(caught.value)


def test_commands_are_written_in_batches(server: Redis, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault()
    faulty(monkeypatch, fault)
    sink = RedisSink.set(server.url, "b{value}", "{value}", password=server.password)
    written(sink, "life", 1, *range(redis_sink.BATCH * 2 + 1))
    assert fault.steps["script"] == 3 and store.get(f"b{redis_sink.BATCH * 2}") == str(redis_sink.BATCH * 2)
