"""Connectors of the user's own: those of the examples pass the shipped contract tests, and a job runs between them."""

from __future__ import annotations

import ast
import runpy
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flintstream import StreamExecutionEnvironment
from flintstream.testing import check_sink, check_source
from tests.capabilities.support import StopAfter, StoppedOnPurpose

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def names_of(example: str) -> dict[str, Any]:
    """Return what an example defines; no worker finds its module, so it travels by value, as from a program."""
    return runpy.run_path(str(EXAMPLES / f"{example}.py"), run_name=example)


def lines_of(example: str, *classes: str) -> int:
    tree = ast.parse((EXAMPLES / f"{example}.py").read_text())
    found = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in classes]
    assert len(found) == len(classes)
    return sum((node.end_lineno or 0) - node.lineno + 1 for node in found)


@pytest.mark.row(121)
def test_a_short_source_and_sink_pass_the_contract_tests_and_carry_a_job(
    new_env: Callable[..., StreamExecutionEnvironment], tmp_path: Path
):
    assert lines_of("custom_source", "TableSource") <= 30
    assert lines_of("custom_sink", "TableSink", "TableWriter", "TableCommitter") <= 50
    source, sink = names_of("custom_source")["TableSource"], names_of("custom_sink")["TableSink"]
    rows_in = names_of("custom_sink")["rows_in"]
    shop, tried, result = (str(tmp_path / name) for name in ("shop.db", "tried.db", "result.db"))
    orders = [(f"c{n % 7}", n) for n in range(200)]
    with closing(sqlite3.connect(shop)) as connection, connection:
        connection.execute("CREATE TABLE orders (customer TEXT, price INTEGER)")
        connection.executemany("INSERT INTO orders VALUES (?, ?)", orders)

    check_source(lambda: source(shop, "orders"))
    check_sink(lambda: sink(tried), lambda: rows_in(tried), record=lambda n: (f"n{n}", n), crashes=2)

    for stop in (1, None):
        env = new_env(max_records=80, checkpoint_dir=tmp_path / "checkpoints")
        env.from_source(source(shop, "orders")).uid("orders").sink_to(sink(result)).uid("result")
        if stop is not None:
            env.add_listener(StopAfter(stop))
        try:
            env.execute("copy")
        except StoppedOnPurpose:
            assert stop is not None
    assert sorted(rows_in(result)) == sorted(orders)
