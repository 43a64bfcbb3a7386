"""Rows 76 and 115: a table as source, lookup and sink, on both runtimes and with processes killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flintstream import bounded, count, tumbling
from flintstream.datastream.connectors.base import DeliveryGuarantee
from flintstream.datastream.connectors.jdbc import JdbcLookup, JdbcSink, JdbcSource
from flintstream.errors import UserFunctionError
from tests.conftest import ROOT
from tests.postgres.database import Database

ORDERS = 160


@pytest.fixture
def shop(database: Database) -> Database:
    database.ask("create table orders (id int primary key, item text, at bigint)")
    database.ask(f"insert into orders select n, 'i' || n % 5, n * 100 from generate_series(1, {ORDERS}) n")
    database.ask("create table items (item text primary key, colour text)")
    database.ask(
        "insert into items select 'i' || n, case when n % 2 = 0 then 'red' else 'blue' end from generate_series(0, 3) n"
    )
    database.ask("create table history (item text, n bigint)")
    database.ask("create table latest (item text primary key, n bigint)")
    return database


def totals() -> Counter[str]:
    return Counter(f"i{n % 5}" for n in range(1, ORDERS + 1))


def check(database: Database) -> None:
    wanted = sorted((item, number + 1) for item, total in totals().items() for number in range(total))
    assert database.ask("select item, n from history order by item, n") == wanted
    assert database.ask("select item, n from latest order by item") == sorted(totals().items())


@pytest.mark.row(115)
def test_orders_are_read_looked_up_and_written(new_env: Any, shop: Database, tmp_path: Path) -> None:
    shop.ask("create table coloured (id int, colour text)")

    def run(breaks: bool) -> None:
        env = new_env(max_records=60, checkpoint_dir=tmp_path)

        def checked(order: Any, row: Any) -> tuple[int, str | None]:
            if breaks and order.id > 150:
                raise ValueError(order.id)
            return order.id, row and row.colour

        orders = env.from_source(JdbcSource("orders", "id", shop.options, partitions=1)).uid("in")
        joined = orders.lookup_join(JdbcLookup("items", "item", shop.options), on="item", how="left")
        joined.apply(checked).uid("join").sink_to(JdbcSink.append("coloured", shop.options)).uid("out")
        env.execute()

    with pytest.raises(UserFunctionError):
        run(True)
    run(False)
    colours = {0: "red", 1: "blue", 2: "red", 3: "blue", 4: None}
    assert shop.ask("select * from coloured order by id") == [(n, colours[n % 5]) for n in range(1, ORDERS + 1)]


@pytest.mark.row(76)
def test_upserts_by_key_and_window_end_with_the_right_values_though_rows_are_written_again(
    new_env: Any, shop: Database, tmp_path: Path
) -> None:
    shop.ask("create table counts (item text, window_start bigint, n bigint, primary key (item, window_start))")

    def run(breaks: bool) -> None:
        env = new_env(max_records=60, checkpoint_dir=tmp_path)

        def checked(row: Any) -> Any:
            if breaks and row["window_start"] >= 8000:
                raise ValueError(row)
            return row

        orders = env.from_source(JdbcSource("orders", "id", shop.options, partitions=1), bounded(0, on="at")).uid("in")
        windows = orders.key_by("item").window(tumbling("2s")).agg(n=count()).uid("windows")
        rows = windows.map(lambda row: {name: row[name] for name in ("item", "window_start", "n")}).uid("rows")
        eager = {"delivery_guarantee": DeliveryGuarantee.AT_LEAST_ONCE}
        rows.sink_to(JdbcSink.upsert("counts", ["item", "window_start"], shop.options, **eager)).uid("out")
        rows.map(checked).uid("check").print()
        env.execute()

    with pytest.raises(UserFunctionError):
        run(True)
    run(False)
    wanted = Counter((f"i{n % 5}", n * 100 // 2000 * 2000) for n in range(1, ORDERS + 1))
    assert {(item, start): n for item, start, n in shop.ask("select * from counts")} == wanted


def start(shop: Database, checkpoints: Path, runtime: str, *more: str) -> int:
    command = [sys.executable, "-m", "tests.postgres.job", "--url", shop.url, "--password", shop.server.password]
    command += ["--checkpoints", str(checkpoints), "--runtime", runtime, *more]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert shop.server.password not in ended.stdout + ended.stderr
    return ended.returncode


@pytest.mark.row(115)
def test_a_killed_driver_leaves_neither_gap_nor_duplicate(shop: Database, tmp_path: Path) -> None:
    for step, nth in [("commit done", "2"), ("number", "1"), ("write", "3")]:
        assert start(shop, tmp_path, "local", "--die", step, nth) == -signal.SIGKILL
    assert start(shop, tmp_path, "local") == 0
    check(shop)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.row(115)
def test_a_killed_driver_leaves_neither_gap_nor_duplicate_on_spark(shop: Database, tmp_path: Path) -> None:
    assert start(shop, tmp_path, "spark", "--die", "commit done", "2") == -signal.SIGKILL
    assert start(shop, tmp_path, "spark") == 0
    check(shop)
