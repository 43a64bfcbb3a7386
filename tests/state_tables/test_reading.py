"""State is shown as typed columns, out of checkpoints and savepoints alike, and no code of it is run."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flintstream import (
    CollectSink,
    KeyedProcessFunction,
    ProcessWindowFunction,
    Row,
    ValueStateDescriptor,
    WatermarkStrategy,
    avg,
    count,
    savepoint,
    session,
    sum_of,
    tumbling,
)
from flintstream.api.state_tables import SavepointReader
from flintstream.engine.manifest import FOLDER
from flintstream.errors import CorruptStateError, InvalidArgumentError, SavepointError, UnknownUidError
from flintstream.state.storage import LocalStorage
from tests.capabilities.support import Lists
from tests.state_tables.programs import Rules, declare, savepoint_of, stopped

WAIT_SECONDS = 60


@pytest.fixture
def new_env(make_env: Any) -> Any:
    """The runtime in this process."""
    return lambda **settings: make_env("local", **settings)


@pytest.fixture(params=["checkpoint", "savepoint"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A function that opens what a job left behind, in one form or the other."""

    def opened(folder: Path) -> SavepointReader:
        return savepoint(folder if request.param == "checkpoint" else savepoint_of(folder, tmp_path / "sp"))

    return opened


def rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=str)


def test_every_state_of_a_function_is_a_table(new_env, place, tmp_path):
    found = place(stopped(new_env, tmp_path / "cp", epochs=2, records=2))
    assert found.operators() == ["all"]
    assert {info.name: info.kind for info in found.states("all")} == {
        "count": "value",
        "account": "value",
        "numbers": "list",
        "by-number": "map",
        "fresh": "value",
        "event-timers": "timers",
    }
    assert rows(found.state("all", "count", arrow=True)) == [
        {"key": "a", "value": 2},
        {"key": "b", "value": 1},
        {"key": "c", "value": 1},
    ]
    assert rows(found.state("all", "account", arrow=True))[0] == {"key": "a", "balance": 4, "owner": "a"}
    assert rows(found.state("all", "numbers", arrow=True))[0] == {"key": "a", "value": [1, 3]}
    assert rows(found.state("all", "by-number", arrow=True))[:2] == [
        {"key": "a", "map_key": 1, "value": "a1"},
        {"key": "a", "map_key": 3, "value": "a3"},
    ]
    assert rows(found.state("all", "fresh", arrow=True))[0] == {"key": "a", "value": 3, "last_access": 20}


def test_types_and_rows_are_told_without_reading_them(new_env, tmp_path):
    folder = stopped(new_env, tmp_path / "cp")
    of_checkpoint = {info.name: info for info in savepoint(folder).states("all")}
    of_savepoint = {info.name: info for info in savepoint(savepoint_of(folder, tmp_path / "sp")).states("all")}
    assert of_savepoint["account"].columns == {"key": "string", "balance": "int64", "owner": "string"}
    assert of_checkpoint["account"].columns == of_savepoint["account"].columns
    assert of_savepoint["account"].rows == 3
    assert of_checkpoint["account"].rows is None


def test_lists_can_be_shown_element_by_element(new_env, place, tmp_path):
    found = place(stopped(new_env, tmp_path / "cp"))
    exploded = found.state("all", "numbers", explode=True, arrow=True)
    assert rows(exploded)[:2] == [{"key": "a", "position": 0, "value": 1}, {"key": "a", "position": 1, "value": 3}]
    with pytest.raises(InvalidArgumentError, match=r"state 'count' of operator 'all' has no lists; .*test_reading.py"):
        found.state("all", "count", explode=True, arrow=True)


def test_timers_are_a_table_and_so_are_none(new_env, place, tmp_path):
    found = place(stopped(new_env, tmp_path / "cp"))
    assert rows(found.timers("all", arrow=True))[0] == {"key": "a", "time": 1000, "domain": "event"}

    def untimed(env: Any, sink: CollectSink) -> None:
        env.from_source(Lists([(n % 2, n) for n in range(9)])).key_by(0).sum(1).uid("sums").sink_to(sink)

    without = savepoint(stopped(new_env, tmp_path / "untimed", untimed)).timers("sums", arrow=True)
    assert without.num_rows == 0
    assert without.column_names == ["key", "time", "domain"]


def test_positions_of_sources_are_a_table(new_env, place, tmp_path):
    found = place(stopped(new_env, tmp_path / "cp"))
    (row,) = found.positions(arrow=True).to_pylist()
    assert (row["split"], row["part"], row["position"]) == (0, None, 4)


WATERMARKS = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])


class Seen(ProcessWindowFunction):
    def process(self, key, context, elements):
        context.window_state().get_state(ValueStateDescriptor("fired")).update(True)
        yield key

    def clear(self, context):
        pass


class Keys(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key

    def clear(self, context):
        pass


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        (
            lambda keyed: keyed.window(tumbling("10ms")).process(Seen()),
            {"key": "a", "window_start": 10, "window_end": 20},
        ),
        (lambda keyed: keyed.window(session("5ms")).process(Keys()), {"key": "a"}),
        (lambda keyed: keyed.window(tumbling("10ms")).agg(n=count(), mean=avg(1)), {"key": "a", "window_start": 10}),
        (
            lambda keyed: keyed.window(session("5ms")).agg(n=sum_of(1)),
            {"key": "a", "window_start": 11, "window_end": 17},
        ),
    ],
    ids=["records", "merging", "columns", "sessions"],
)
def test_open_windows_are_shown_with_their_borders(new_env, place, tmp_path, windows, expected):
    def program(env: Any, sink: CollectSink) -> None:
        records = [("a", 1), ("b", 2), ("a", 11), ("a", 12), ("a", 50)]
        windows(env.from_source(Lists(records), watermark=WATERMARKS).key_by(0)).uid("w").sink_to(sink)

    found = place(stopped(new_env, tmp_path / "cp", program))
    name = "window-contents" if "window-contents" in {info.name for info in found.states("w")} else "windows"
    shown = rows(found.state("w", name, arrow=True))
    assert (
        expected.items()
        <= next(row for row in shown if row["key"] == "a" and row.get("window_start", 10) >= 10).items()
    )


def test_broadcast_state_is_in_the_order_of_its_keys(new_env, place, tmp_path):
    def program(env: Any, sink: CollectSink) -> None:
        rules = env.from_source(Lists([("z", 1), ("a", 2), ("z", 3)])).broadcast(Rules.descriptor)
        values = env.from_source(Lists(range(90)))
        values.connect(rules).process(Rules()).uid("rules").sink_to(sink)

    found = place(stopped(new_env, tmp_path / "cp", program, records=20))
    assert [info.kind for info in found.states("rules")] == ["broadcast"]
    shown = found.state("rules", "rules", arrow=True).to_pylist()
    assert shown == [{"map_key": "z", "value": 3}, {"map_key": "a", "value": 2}]


class Keep(KeyedProcessFunction):
    """Keeps the second field of each record."""

    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("kept"))

    def process_element(self, value, ctx):
        self.state.update(value[1])
        yield value[1]


def kept(new_env: Any, folder: Path, records: list[Any], key: Any = 0, epochs: int = 1) -> Path:
    def program(env: Any, sink: CollectSink) -> None:
        keyed = env.from_source(Lists([*records, (None, 0), (None, 0), (None, 0)])).key_by(key)
        keyed.process(Keep()).uid("keep").sink_to(sink)

    return stopped(new_env, folder, program, epochs, max(1, len(records) // epochs))


def test_keys_and_values_with_fields_are_columns_of_their_own(new_env, place, tmp_path):
    def by_row(value: Any) -> Row:
        return Row(town=value[0], street=1)

    found = place(kept(new_env, tmp_path / "cp", [("x", (1, "one")), ("y", (2, "two"))], by_row))
    assert rows(found.state("keep", "kept", arrow=True)) == [
        {"town": "x", "street": 1, "value_0": 1, "value_1": "one"},
        {"town": "y", "street": 1, "value_0": 2, "value_1": "two"},
    ]


def test_fields_that_are_called_as_the_key_get_another_name(new_env, place, tmp_path):
    found = place(kept(new_env, tmp_path / "cp", [("x", {"key": 1, "Value": 2}), ("y", {"key": 3, "Value": 4})]))
    assert rows(found.state("keep", "kept", arrow=True))[0] == {"key": "x", "value_key": 1, "Value": 2}


def test_kinds_that_do_not_fit_into_one_column_get_one_each(new_env, place, tmp_path):
    records = [("x", 1), ("y", 2), ("x", 1 << 80), ("z", 3)]
    found = place(kept(new_env, tmp_path / "cp", records, epochs=2))
    shown = found.state("keep", "kept", arrow=True)
    assert shown.schema.field("value").type == pa.int64()
    by_key = {row["key"]: row for row in shown.to_pylist()}
    assert by_key["z"] == {"key": "z", "value": 3, "value_pickle": None}
    assert by_key["x"]["value"] is None
    assert isinstance(by_key["x"]["value_pickle"], bytes)


class Trap:
    """Unpickling an object of this class makes a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return sprung, (self.path,)


def sprung(path: str) -> Trap:
    Path(path).touch()
    return Trap(path)


def test_pickled_values_are_bytes_and_stay_so(new_env, place, tmp_path):
    trap = tmp_path / "made"
    folder = kept(new_env, tmp_path / "cp", [("x", Trap(str(trap))), ("y", Trap(str(trap)))])
    # The records went through pickle themselves; from here on nobody may open them.
    trap.unlink()
    found = place(folder)
    assert [info.columns["value"] for info in found.states("keep")] == ["binary"]
    shown = found.state("keep", "kept", arrow=True)
    assert b"sprung" in shown.column("value")[0].as_py()
    assert found.diff(folder).summary()[0].is_same
    assert not trap.exists()


def test_state_whose_class_is_gone_shows_its_fields(new_env, place, tmp_path, monkeypatch):
    folder = stopped(new_env, tmp_path / "cp")
    monkeypatch.delattr("tests.state_tables.programs.Account")
    assert rows(place(folder).state("all", "account", arrow=True))[1] == {"key": "b", "balance": 2, "owner": "b"}


def test_what_is_not_there_is_refused_by_name(new_env, tmp_path):
    found = savepoint(stopped(new_env, tmp_path / "cp"))
    with pytest.raises(
        UnknownUidError, match=r"no operator with state has uid 'al'; .*use one of those .*'all'"
    ) as error:
        found.state("al", "count", arrow=True)
    assert error.value.location is not None
    with pytest.raises(InvalidArgumentError, match=r"operator 'all' has no state 'cont'; .*it has 'count', 'account'"):
        found.state("all", "cont", arrow=True)
    with pytest.raises(SavepointError, match="neither a savepoint nor a checkpoint"):
        savepoint(tmp_path / "elsewhere")


def test_a_retained_manifest_is_looked_at_as_it_was(new_env, tmp_path):
    folder = stopped(new_env, tmp_path / "cp", epochs=2, records=2)
    first = sorted((folder / FOLDER).iterdir())[0]
    assert rows(savepoint(first).state("all", "count", arrow=True)) == [
        {"key": "a", "value": 1},
        {"key": "b", "value": 1},
    ]


def test_a_damaged_file_is_named(new_env, tmp_path):
    path = Path(savepoint_of(stopped(new_env, tmp_path / "cp"), tmp_path / "sp"))
    document = json.loads((path / "savepoint.json").read_text())
    tables = [table for each in document["operators"] for table in each["tables"]]
    (table,) = [each for each in tables if each["name"] == "all/count"]
    file = table["parts"][0]["file"]
    data = bytearray((path / file).read_bytes())
    data[20] ^= 1
    (path / file).write_bytes(data)
    with pytest.raises(CorruptStateError, match=file):
        savepoint(path).state("all", "count", arrow=True)


@pytest.mark.parametrize(
    "garbage",
    [b"", b"FLNT0001", b"FLNT0001\xff\xff\xff\x7f", b"FLNT0001\x02\0\0\0[]", b'FLNT0001\x10\0\0\0{"all/x":[-9,8]}'],
    ids=["nothing", "cut", "long", "list", "outside"],
)
def test_a_changelog_of_somebody_else_is_refused_by_name(new_env, tmp_path, garbage):
    folder = stopped(new_env, tmp_path / "cp")
    for file in (folder / "epochs").iterdir():
        file.write_bytes(garbage + b"\0" * (file.stat().st_size - len(garbage)) if garbage else b"")
        with pytest.raises(CorruptStateError, match=file.name):
            savepoint(folder).state("all", "count", arrow=True)


class Vanishing(LocalStorage):
    """A storage whose job commits, and deletes what it no longer needs, just before somebody reads a state file."""

    def __init__(self, root: str, commit: Any) -> None:
        super().__init__(root)
        self._commit = commit

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        if not path.startswith(FOLDER):
            self._commit()
        return super().read(path, offset, length)


def test_files_that_a_job_deletes_under_a_reader_send_it_to_the_newest_manifest(new_env, tmp_path):
    folder = stopped(new_env, tmp_path / "cp", epochs=1, records=2)
    reader = savepoint(folder)
    goes_on: list[int] = [1]

    def commit() -> None:
        if goes_on:
            goes_on.clear()
            env = new_env(max_records=2, checkpoint_dir=folder, settings={"execution.checkpointing.num-retained": "1"})
            declare(env, CollectSink())
            env.execute("job")

    source: Any = reader._looker.source
    source.storage = Vanishing(str(folder), commit)
    assert rows(reader.state("all", "count", arrow=True)) == [
        {"key": "a", "value": 3},
        {"key": "b", "value": 2},
        {"key": "c", "value": 1},
    ]
    assert reader._looker.source is not source


def test_a_checkpoint_directory_can_be_looked_at_while_the_job_runs(new_env, tmp_path, caplog):
    caplog.set_level(logging.ERROR)
    env, committed = new_env(max_records=20, checkpoint_dir=tmp_path), threading.Event()
    env.add_listener(lambda manifest, *_: manifest.epoch >= 3 and committed.set())
    numbers = env.generate(generator=lambda i: (i % 5, 1), splits=1)
    numbers.key_by(0).sum(1).uid("sums").sink_to(CollectSink())
    client = env.execute_async("job")
    try:
        assert committed.wait(WAIT_SECONDS)
        totals = []
        for _ in range(10):
            found = savepoint(tmp_path)
            name = found.states("sums")[0].name
            table = found.state("sums", name, arrow=True)
            assert table.num_rows == 5
            totals.append(sum(table.column(table.column_names[-1]).to_pylist()))
        # Every look sees the end of an epoch, and none an earlier one than the look before.
        assert totals == sorted(totals)
        assert all(total % 20 == 0 for total in totals)
    finally:
        client.cancel().result(WAIT_SECONDS)


def test_arrow_tables_are_read_without_spark(new_env, tmp_path):
    folder = stopped(new_env, tmp_path / "cp")
    program = f"""
import sys
from flintstream import savepoint
found = savepoint({str(folder)!r})
assert found.state("all", "count", arrow=True).num_rows == 3
assert found.timers("all", arrow=True).num_rows == 4
assert found.diff(found).summary()[0].is_same
assert not [name for name in sys.modules if name.partition(".")[0] in ("pyspark", "py4j")]
# Nor was the program of the job needed.
assert not [name for name in sys.modules if name.startswith("tests")]
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)
