"""Jobs whose checkpoints and output are objects: they stop, die and go on as on a disk."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from flintstream import (
    Configuration,
    FileSink,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)
from flintstream.connectors.files_remote import RemoteFileCommitter, RemoteFolder
from flintstream.errors import EnvironmentSetupError, FlintstreamError, SinkError
from flintstream.model.connect import WriterContext
from tests.crash.ports import Crash, Fault
from tools.servers import ObjectStore

RECORDS = [(f"k{number % 7}", number) for number in range(400)]
RUNTIMES = ["local", pytest.param("spark", marks=pytest.mark.spark)]


class Running(KeyedProcessFunction):
    """Emits (key, sum so far)."""

    def __init__(self, fails_at: int | None = None) -> None:
        self._fails_at = fails_at

    def open(self, runtime_context: RuntimeContext) -> None:
        self._sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[dict[str, Any]]:
        if value[1] == self._fails_at:
            msg = "struck by lightning"
            raise RuntimeError(msg)
        total = (self._sum.value() or 0) + value[1]
        self._sum.update(total)
        yield {"key": value[0], "sum": total}


def run(store: ObjectStore, place: str, runtime: str, fails_at: int | None = None) -> None:
    settings = Configuration.from_dict({"flintstream.epoch.max-records": "50"})
    env = StreamExecutionEnvironment.get_execution_environment(settings, runtime=runtime).set_parallelism(2)
    env.set_checkpoint_dir(f"{place}/checkpoints", storage_options=store.options)
    stream = env.from_collection(RECORDS, Types.TUPLE([Types.STRING(), Types.LONG()]))
    sums = stream.key_by(lambda record: record[0]).process(Running(fails_at)).uid("sum")
    sums.sink_to(FileSink.json(f"{place}/out", storage_options=store.options)).uid("out")
    env.execute("sums")


def read(files: Any, place: str) -> list[tuple[str, int]]:
    found = files.find(place.removeprefix("s3://") + "/out")
    lines = [line for name in found if "/." not in name for line in files.cat_file(name).splitlines()]
    return [(row["key"], row["sum"]) for row in map(json.loads, lines)]


def expected() -> Counter[tuple[str, int]]:
    sums: Counter[str] = Counter()
    rows: Counter[tuple[str, int]] = Counter()
    for key, number in RECORDS:
        sums[key] += number
        rows[key, sums[key]] += 1
    return rows


@pytest.mark.row(62, 73)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_job_that_failed_goes_on_from_its_checkpoint(
    store: ObjectStore, files: Any, place: str, runtime: str
) -> None:
    with pytest.raises(FlintstreamError, match="struck by lightning"):
        run(store, place, runtime, fails_at=333)
    before = read(files, place)
    assert 0 < len(before) < len(RECORDS)
    run(store, place, runtime)
    assert Counter(read(files, place)) == expected()
    assert not [name for name in files.find(place.removeprefix("s3://") + "/out") if "/.flintstream/" in name]


def staged(store: ObjectStore, place: str, rows: int) -> tuple[FileSink, Any]:
    sink = FileSink.json(place, storage_options=store.options)
    writer = sink.create_writer(WriterContext("job", "out", epoch=1, subtask=0, attempt="a"))
    writer.write([{"n": number} for number in range(rows)], [0] * rows)
    return sink, writer.prepare_commit()


@pytest.mark.parametrize(("step", "nth"), [("write", 1), ("move", 1), ("remove", 1), ("remove", 2)])
def test_a_commit_that_dies_at_any_step_is_repeated(
    store: ObjectStore, files: Any, place: str, monkeypatch: pytest.MonkeyPatch, step: str, nth: int
) -> None:
    sink, committable = staged(store, place, 3)
    fault = Fault(step, nth)
    act = getattr(RemoteFolder, step)

    def dying(self: Any, *args: Any) -> Any:
        fault.reach(step)
        return act(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(RemoteFolder, step, dying)
        with pytest.raises(Crash):
            sink.create_committer().commit("job", "out", 1, [committable])
    sink.create_committer().commit("job", "out", 1, [committable])
    sink.create_committer().commit("job", "out", 1, [committable])
    names = files.find(place.removeprefix("s3://"))
    assert [name.rpartition("/")[2] for name in names] == ["part-out-000001-000.json"]
    assert files.cat_file(names[0]) == b'{"n":0}\n{"n":1}\n{"n":2}\n'


def test_a_file_of_an_earlier_run_stays(store: ObjectStore, files: Any, place: str) -> None:
    for rows in (3, 5):
        sink, committable = staged(store, place, rows)
        sink.create_committer().commit("job", "out", 1, [committable])
    sizes = [len(files.cat_file(name).splitlines()) for name in files.find(place.removeprefix("s3://"))]
    assert sorted(sizes) == [3, 5]


def test_output_that_was_taken_away_is_missed(store: ObjectStore, files: Any, place: str) -> None:
    _, committable = staged(store, place, 3)
    files.rm(place.removeprefix("s3://"), recursive=True)
    committer = RemoteFileCommitter(RemoteFolder(place, store.options))
    with pytest.raises(SinkError, match="output is lost"):
        committer.commit("job", "out", 1, [committable])


def test_an_aborted_writer_leaves_nothing(store: ObjectStore, files: Any, place: str) -> None:
    sink = FileSink.parquet(place, storage_options=store.options, part_size=1)
    writer = sink.create_writer(WriterContext("job", "out", epoch=1, subtask=0, attempt="a"))
    writer.write([{"n": 1}], [0])
    assert files.find(place.removeprefix("s3://"))
    writer.abort()
    assert not files.find(place.removeprefix("s3://"))


def test_a_store_that_cannot_be_reached_is_named() -> None:
    options = {"key": "k", "secret": "s3cret", "client_kwargs": {"endpoint_url": "http://127.0.0.1:9"}}
    options["config_kwargs"] = {"retries": {"max_attempts": 1}, "connect_timeout": 1}
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    env.set_checkpoint_dir("s3://flint/nowhere", storage_options=options)
    env.from_collection([1]).print()
    with pytest.raises(EnvironmentSetupError, match="no checkpoint can be written to s3://flint/nowhere") as caught:
        env.execute()
    assert "s3cret" not in str(caught.value)
