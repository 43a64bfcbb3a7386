"""The path that explain() names for an operator, proved by counting Python calls: none, some per batch, one per record.

A job of one batch runs twice, with few records and with ten times as many. Whatever is called once per batch is called
as often in both, so the calls of all our code and the user's must not grow; on the record path they must.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import flintstream
from flintstream import (
    CollectSink,
    Configuration,
    DiscardingSink,
    FileSink,
    ProcessFunction,
    StreamExecutionEnvironment,
    WatermarkStrategy,
    avg,
    bounded,
    count,
    integers,
    sequence,
    sum_of,
    tumbling,
)
from flintstream.spark.sources import apply_steps
from tests.capabilities.support import Epochs

FEW, MANY, KEYS = 500, 5000, 2
OURS = str(Path(flintstream.__file__).parent)
HERE = __file__


class Calls:
    """Counts Python calls of our package and of this module while it is entered."""

    def __init__(self) -> None:
        self.by_name: Counter[str] = Counter()

    def __enter__(self) -> Calls:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename == HERE:
            self.by_name[code.co_name] += 1
        elif event == "call" and code.co_filename.startswith(OURS):
            self.by_name[f"{Path(code.co_filename).name} {code.co_qualname}"] += 1


def rows(records: int) -> Any:
    """Return a stream of rows that is read as columns, in one epoch and one batch."""
    configuration = Configuration.from_dict({"flintstream.epoch.max-records": "100000"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration, runtime="local").set_parallelism(1)
    fields = {"n": sequence(), "ts": sequence(), "key": integers(0, KEYS)}
    return env.generate(fields, count=records, splits=1)


def timed(records: int) -> Any:
    return rows(records).assign_timestamps_and_watermarks(bounded("1s", on="ts"))


def calls(declare: Any, records: int) -> tuple[Counter[str], str]:
    """Run a program; return its calls, and the path that explain() names for its operator `tried`."""
    env = declare(records).get_execution_environment()
    path = next(op.path for op in env.compile().operators if op.node.name == "tried")
    assert any(line.split()[:1] == ["tried"] and path in line for line in env.explain().splitlines())
    with Calls() as seen:
        env.execute()
    return seen.by_name, path


def ends(stream: Any) -> Any:
    stream.sink_to(DiscardingSink())
    return stream


def user_map(value: Any) -> Any:
    return value


def user_keep(value: Any) -> bool:
    return True


def user_each(value: Any) -> list[Any]:
    return [value]


def user_reduce(left: Any, right: Any) -> Any:
    return right


def user_time(value: Any, previous: int) -> int:
    return value.ts


class Passes(ProcessFunction):
    def process_element(self, value, ctx):
        yield user_map(value)


COLUMNS = {
    "source": lambda n: ends(rows(n).name("tried")),
    "timestamps by column": lambda n: ends(timed(n).name("tried")),
    "window of built-in aggregates": lambda n: ends(
        timed(n).key_by("key").window(tumbling("10 s")).agg(n=count(), all=sum_of("n"), mean=avg("n")).name("tried")
    ),
    "sink that takes columns": lambda n: with_sink(n, DiscardingSink()),
}


def with_sink(records: int, sink: Any) -> Any:
    stream = rows(records)
    stream.sink_to(sink).name("tried")
    return stream


RECORDS = {
    "map": (lambda n: ends(rows(n).map(user_map).name("tried")), "user_map"),
    "filter": (lambda n: ends(rows(n).filter(user_keep).name("tried")), "user_keep"),
    "flat_map": (lambda n: ends(rows(n).flat_map(user_each).name("tried")), "user_each"),
    "process": (lambda n: ends(rows(n).process(Passes()).name("tried")), "user_map"),
    "keyed map": (lambda n: ends(rows(n).key_by("key").map(user_map).name("tried")), "user_map"),
    "keyed reduce": (lambda n: ends(rows(n).key_by("key").reduce(user_reduce).name("tried")), "user_reduce"),
    "window": (
        lambda n: ends(timed(n).key_by("key").window(tumbling("1 d")).aggregate(Counts()).name("tried")),
        "add",
    ),
    "timestamps by function": (
        lambda n: ends(
            rows(n)
            .assign_timestamps_and_watermarks(
                WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(user_time)
            )
            .name("tried")
        ),
        "user_time",
    ),
}


class Counts(flintstream.AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


@pytest.mark.parametrize("declare", COLUMNS.values(), ids=COLUMNS.keys())
def test_vectorised_operators_are_called_by_batches(declare):
    assert growth(declare, "vectorised") == {}, "these are called for every record"


def test_a_sink_of_files_with_columns_is_called_by_batches(tmp_path):
    files = (tmp_path / str(number) for number in range(2))
    assert growth(lambda n: with_sink(n, FileSink.parquet(next(files))), "vectorised") == {}


def test_a_projection_goes_from_record_to_record():
    assert growth(lambda n: ends(rows(n).project(0, 1).name("tried")), "per record") != {}


def growth(declare: Any, wanted: str) -> dict[str, int]:
    """Return what is called more often with more records, and how much more."""
    (few, path), (many, _) = calls(declare, FEW), calls(declare, MANY)
    assert path == wanted
    return {name: number - few[name] for name, number in many.items() if number - few[name] > (MANY - FEW) / 100}


@pytest.mark.parametrize(("declare", "function"), RECORDS.values(), ids=RECORDS.keys())
def test_functions_of_the_user_are_called_once_for_every_record(declare, function):
    for records in (FEW, MANY):
        seen, path = calls(declare, records)
        assert path == "per record"
        # The first record of a key is what a reduce begins with.
        assert seen[function] == (records - KEYS if function == "user_reduce" else records)


@pytest.mark.spark
def test_column_expressions_run_without_any_python(make_env, spark_session):
    """Rows that Spark filters out never reach Python, and no Python runs before: all of its plan is Spark's own."""
    env, epochs = make_env("spark"), Epochs()
    env.add_listener(epochs)
    stream = env.from_dataframe(spark_session.range(MANY)).where("id % 1000 = 0").select(n="id * 2").name("tried")
    stream.sink_to(CollectSink())
    (source, _) = env.compile().operators
    assert source.path == "native"
    frame = apply_steps(source.node.source.frame, source.node.native)
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert not re.search("Python|Arrow|Pandas", plan), plan
    env.execute()
    assert epochs.counts(source.uid, "out") == MANY // 1000
