"""Row 88 on PostgreSQL: a table that a bug wrote to is compared in its own types, and mended in one transaction."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from flintstream import repair
from flintstream.datastream.connectors.jdbc import JdbcSink
from flintstream.errors import SinkError
from tests.capabilities.support import Lists
from tests.postgres.database import Database

DAY = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
SALES = [("tea", 2, DAY), ("pen", 1, DAY), ("tea", 3, DAY), ("ink", 4, DAY)]


def sales(database: Database, factor: int, leaves_out: str = "") -> Any:
    """Return the program that writes the turnover of each item."""

    def declare(env: Any) -> None:
        rows = env.from_source(Lists(SALES)).uid("sales").filter(lambda sale: sale[0] != leaves_out).uid("some")
        sums = rows.key_by(0).sum(1).uid("sums")
        sums.map(
            lambda row: {
                "item": row[0],
                "turnover": Decimal(row[1] * factor) / 10,
                "sold": row[2],
                "notes": {"pieces": row[1]},
                "share": row[1] / 10,
            }
        ).uid("rows").sink_to(JdbcSink.upsert("turnover", "item", database.options)).uid("out")

    return declare


@pytest.fixture
def shop(database: Database) -> Database:
    columns = "item text primary key, turnover numeric(10, 2), sold timestamptz, notes jsonb, share real"
    database.ask(f"create table turnover ({columns})")
    return database


@pytest.mark.row(88)
def test_a_table_is_mended_by_corrections_alone(new_env: Any, shop: Database) -> None:
    wrong, mended = sales(shop, 20), sales(shop, 20, leaves_out="pen")
    env = new_env()
    wrong(env)
    env.execute()
    shop.ask("insert into turnover values ('old', 1.5, now(), null, null)")
    shop.ask("update turnover set turnover = 99 where item = 'tea'")
    before = shop.ask("select *, xmin::text from turnover order by item")
    shown = repair(new_env(), mended, wrong=wrong)
    assert [(each.kind, each.key) for each in shown.corrections] == [("update", ("tea",)), ("delete", ("pen",))]
    assert (shown.right, shown.left_alone) == (1, 1)
    assert shop.ask("select *, xmin::text from turnover order by item") == before
    assert shown.apply().is_applied
    after = shop.ask("select item, turnover, xmin::text from turnover order by item")
    assert [row[:2] for row in after] == [("ink", Decimal("8.00")), ("old", Decimal("1.50")), ("tea", Decimal("10.00"))]
    # What was right was not written: its row is still of the transaction that wrote it first.
    written = {row[0]: row[-1] for row in before}
    assert [row[0] for row in after if written[row[0]] == row[-1]] == ["ink", "old"]
    assert repair(new_env(), mended, wrong=wrong, apply=True).corrections == []


def test_a_table_that_is_not_there_is_told(make_env: Any, database: Database) -> None:
    with pytest.raises(SinkError, match="there is no table 'turnover'"):
        repair(make_env("local"), sales(database, 1))
