"""Each guarantee of the sink of PostgreSQL, whose driver dies between two steps of a commit."""

from __future__ import annotations

import pytest

from flintstream.datastream.connectors.jdbc import JdbcSink
from tests.delivery.servers import CASES, at_death_and_end


@pytest.mark.parametrize(("guarantee", "phase", "at_death", "at_end"), CASES)
def test_rows_are_lost_and_doubled_as_promised(database, tmp_path, guarantee, phase, at_death, at_end):
    database.ask("create table numbers (n bigint)")
    found = at_death_and_end(
        lambda: JdbcSink.append("numbers", database.options),
        lambda n: (n,),
        lambda: [n for (n,) in database.ask("select n from numbers")],
        guarantee,
        phase,
        tmp_path,
    )
    assert found == (at_death, at_end)


@pytest.mark.parametrize("phase", ["before the manifest", "after the manifest"])
def test_upserts_come_right_though_written_again(database, tmp_path, phase):
    database.ask("create table numbers (n bigint primary key, twice bigint)")
    _, found = at_death_and_end(
        lambda: JdbcSink.upsert("numbers", "n", database.options),
        lambda n: {"n": n, "twice": 2 * n},
        lambda: [n for n, twice in database.ask("select n, twice from numbers") if twice == 2 * n],
        "at-least-once",
        phase,
        tmp_path,
    )
    assert found == [0, 1, 2, 3, 4, 5]
