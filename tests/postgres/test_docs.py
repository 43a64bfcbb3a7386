"""The page about PostgreSQL tells the truth: its program runs against a real server."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.postgres.database import Database


def test_the_program_of_the_page_does_what_it_says(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database.ask("create table orders (id int, item text, price float8, at bigint)")
    database.ask("insert into orders select n, 'i' || n % 2, n, n * 10000 from generate_series(0, 9) n")
    database.ask("create table items (item text, colour text)")
    database.ask("insert into items values ('i0', 'red')")
    database.ask("create table history (id serial, item text, window_start bigint, total float8)")
    database.ask("create table totals (item text, window_start bigint, total float8, primary key (item, window_start))")
    database.ask("create table log (item text, at timestamptz, total float8)")
    text = (ROOT / "docs/how-to/postgresql.md").read_text()
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    code = code.replace("jdbc:postgresql://localhost:5432/shop", database.url).replace(
        '"secret"', repr(database.server.password)
    )
    code = code.replace("environment()", 'environment(runtime="local")')
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = vars(module)
    exec(compile(code, "postgresql.md", "exec"), names)
    names["env"].execute()
    wanted = [("i0", 0, 6.0), ("i0", 60000, 14.0), ("i1", 0, 9.0), ("i1", 60000, 16.0)]
    for table in ("history", "totals"):
        assert database.ask(f"select item, window_start, total from {table} order by 1, 2") == wanted
    logged = database.ask("select item, (extract(epoch from at) * 1000)::bigint, total from log order by 1, 2")
    assert logged == wanted
    printed = capsys.readouterr().out
    assert printed.count("('i0', 'red')") == 5 or printed.count("(i0,red)") == 5
