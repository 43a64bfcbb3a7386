"""Files of state as whole jobs write them: how much, how many, and what is left of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flintstream.engine import inbox, level, partition, statefiles, task
from flintstream.engine.coordinator import Coordinator
from flintstream.engine.epoch import NewState, ReadRange, StateFile, StateHandle, TaskReport
from flintstream.engine.options import JobOptions
from flintstream.engine.statefiles import files_since, next_handle, owner_of, read_file
from flintstream.engine.task import forget
from flintstream.errors import CorruptStateError
from flintstream.graph.nodes import Exchange, FunctionNode, SinkNode, SourceNode, StreamGraph, Upstream
from flintstream.local.run import LocalRunner, submit
from flintstream.model.connect import Committer, Sink, SinkWriter, Split, SplitSource, WriterContext
from flintstream.model.functions import as_reduce_function
from flintstream.model.functions_process import KeyedProcessFunction
from flintstream.model.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flintstream.ops.selectors import FunctionKey
from flintstream.planner.build import build_operator
from flintstream.planner.compile import Settings, compile_graph
from flintstream.planner.plan import Plan
from flintstream.state.backend import KeyedBackend, merged
from flintstream.state.disk import WorkingStore
from flintstream.state.local_folder import FOLDER_VARIABLE
from flintstream.state.partials import PartialTable
from flintstream.state.storage import MemoryStorage, Storage
from flintstream.state.table import Table

OUTPUT: list[Any] = []


@pytest.fixture(autouse=True)
def _local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "local"))
    OUTPUT.clear()
    yield tmp_path


class Keys(SplitSource):
    """Record `n` of one split is `(key(n), n)`."""

    def __init__(self, size: int, key: Callable[[int], Any]) -> None:
        self.size = size
        self.key = key

    @property
    def is_bounded(self) -> bool:
        return True

    def splits(self, parallelism: int) -> Sequence[Split]:
        return [Split(0, 0, self.size)]

    def read(self, split: int, start: int, end: int) -> Any:
        return [(self.key(number), number) for number in range(start, end)]


class Remember(KeyedProcessFunction):
    """Keeps a sum, the last three numbers and their remainders by three of every key, and shows the state each time."""

    def __init__(self, everything: bool) -> None:
        self.everything = everything

    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum"))
        if self.everything:
            self.last = runtime_context.get_list_state(ListStateDescriptor("last"))
            self.by_rest = runtime_context.get_map_state(MapStateDescriptor("by/rest"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        total = (self.sum.value() or 0) + value[1]
        self.sum.update(total)
        if not self.everything:
            return
        self.last.update([*self.last.get(), value[1]][-3:])
        self.by_rest.put(value[1] % 3, value[1])
        yield value[0], total, tuple(self.last), tuple(sorted(self.by_rest.items()))


class Rows(SinkWriter):
    def __init__(self) -> None:
        self.rows: list[Any] = []

    def write(self, values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        self.rows += values

    def prepare_commit(self) -> Any:
        return self.rows


class Output(Committer):
    def commit(self, job_id: str, sink_uid: str, epoch: int, committables: Sequence[Any]) -> None:
        OUTPUT.extend(tuple(row) for rows in committables for row in rows)


class Collect(Sink):
    def create_writer(self, context: WriterContext) -> SinkWriter:
        return Rows()

    def create_committer(self) -> Committer:
        return Output()


def plan_of(source: Keys, parallelism: int = 1, everything: bool = False) -> Plan:
    graph = StreamGraph()
    graph.add(SourceNode(1, "source", "here:1", source=source))
    by_key = Exchange("HASH", FunctionKey(lambda value: value[0]))
    inputs = ((Upstream(1, exchange=by_key),),)
    function = Remember(everything)
    graph.add(
        FunctionNode(
            2, "remember", "here:2", inputs, shape="keyed_process", function=function, methods=("process_element",)
        )
    )
    graph.add(SinkNode(3, "sink", "here:3", ((Upstream(2),),), sink=Collect()))
    return compile_graph(graph, Settings("job", parallelism, 128))


class Job:
    """Runs one epoch after the other, each of as many records as it is told."""

    def __init__(self, plan: Plan, storage: Storage, limit: int) -> None:
        self.coordinator = Coordinator(plan, storage)
        self.coordinator.recover()
        self.runner = LocalRunner(plan, storage)
        self.limit = limit

    def step(self, records: int) -> Sequence[TaskReport]:
        (position,) = self.coordinator.positions()[1].values()
        pieces = [ReadRange(1, 0, position, position + records)]
        context = self.coordinator.begin(0, pieces, frozenset(), False)
        context = replace(context, entries_in_memory=self.limit)
        reports = self.runner.run_epoch(context)
        self.coordinator.complete(context, reports, {})
        return reports

    def files(self) -> list[StateFile]:
        assert self.coordinator.manifest is not None
        return [file for handle in self.coordinator.manifest.state.values() for file in handle.files]

    def close(self) -> None:
        forget(self.coordinator.incarnation)


@pytest.mark.row(66)
@pytest.mark.parametrize("limit", [2_000_000, 20_000])
def test_a_checkpoint_after_touching_one_percent_is_under_a_tenth_of_the_full_one(limit: int) -> None:
    keys = 100_000
    job = Job(plan_of(Keys(1 << 40, lambda number: number % keys)), MemoryStorage(), limit)
    job.step(keys)
    full = {file.path: file.length for file in job.files()}
    job.step(keys // 100)
    new = sum(file.length for file in job.files() if file.path not in full)
    job.close()
    assert 0 < new < sum(full.values()) / 10


@pytest.mark.parametrize("limit", [2_000_000, 500])
def test_the_chain_of_files_stays_short_and_old_files_go(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "LEAST_CHUNK", 1)
    storage = MemoryStorage()
    # Two new keys and eight old ones in every epoch, of ever more keys.
    job = Job(plan_of(Keys(1 << 40, lambda n: n // 5 if n % 5 == 0 else n * 7919 % (n // 5 + 1))), storage, limit)
    longest = 0
    retained: list[set[str]] = []
    for _ in range(1000):
        job.step(10)
        longest = max(longest, len(job.files()))
        retained = [*retained, {file.path for file in job.files()}][-3:]
        state = {path for path in storage.files if path.startswith(("state/", "epochs/"))}
        assert state == set.union(*retained)
    rows = sum(file.rows for file in job.files())
    job.close()
    assert rows < 3 * 2000 + 1000
    # Eight to each size of merged changelogs, besides the pieces of the state itself.
    pieces = 0 if limit > 2000 else 2000 // limit * 8
    assert longest <= 4 * 8 + pieces


@pytest.mark.parametrize("limit", [0, 3, 40, 1000])
def test_a_job_gives_the_same_with_any_limit(limit: int, _local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Many runs in every epoch.
    monkeypatch.setattr(task, "READ_BATCH", 20)
    monkeypatch.setattr(inbox, "RUN_BYTES", 0)
    source = Keys(600, lambda number: (number * 31 % 97, "x"))
    submit(plan_of(source, 2, everything=True), JobOptions(max_records=90), background=False)
    expected = list(OUTPUT)
    OUTPUT.clear()
    options = JobOptions(max_records=90, state_entries_in_memory=limit)
    submit(plan_of(source, 2, everything=True), options, background=False)
    assert expected == OUTPUT
    assert len(expected) == 600
    left = list((_local / "local").glob("*/*"))
    assert left == []


@pytest.mark.parametrize("limit", [20, 1000])
def test_a_batch_job_gives_the_last_value_of_every_key_with_any_limit(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(level, "build_operator", lambda planned, *_: build_operator(planned, batch_mode=True))
    # Many runs in the one epoch there is.
    monkeypatch.setattr(task, "READ_BATCH", 50)
    monkeypatch.setattr(inbox, "RUN_BYTES", 0)
    graph = StreamGraph()
    graph.add(SourceNode(1, "source", "here:1", source=Keys(500, lambda number: number % 101)))
    inputs = ((Upstream(1, exchange=Exchange("HASH", FunctionKey(lambda value: value[0]))),),)
    add = as_reduce_function(lambda one, other: (one[0], one[1] + other[1]))
    graph.add(FunctionNode(2, "sum", "here:2", inputs, shape="reduce", function=add))
    graph.add(SinkNode(3, "sink", "here:3", ((Upstream(2),),), sink=Collect()))
    plan = compile_graph(graph, Settings("job", 1, 128, batch_mode=True))
    submit(plan, JobOptions(state_entries_in_memory=limit), background=False).get_job_execution_result().result()
    assert sorted(OUTPUT) == [(key, sum(range(key, 500, 101))) for key in range(101)]


def test_the_limit_of_the_options_decides_who_goes_to_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []

    class Watched(WorkingStore):
        def __init__(self, *place: Any) -> None:
            opened.append(place)
            super().__init__(*place)

    monkeypatch.setattr(partition, "WorkingStore", Watched)
    source = Keys(100, lambda number: number)
    submit(plan_of(source), JobOptions(state_entries_in_memory=100), background=False)
    assert opened == []
    submit(plan_of(source), JobOptions(state_entries_in_memory=99), background=False)
    assert len(opened) == 1


@pytest.mark.parametrize("limits", [(5, 5, 5), (5, 1000, 5), (1000, 5, 5)])
def test_state_larger_than_memory_is_rescaled(limits: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "LEAST_CHUNK", 1)
    storage = MemoryStorage()
    source = Keys(1 << 40, lambda number: f"key-{number * 7 % 101}")
    for parallelism, limit in zip((2, 3, 1), limits, strict=True):
        job = Job(plan_of(source, parallelism, everything=True), storage, limit)
        for _ in range(3):
            job.step(100)
        job.close()
    totals: dict[str, int] = {}
    for key, total, last, by_rest in OUTPUT:
        totals[key] = total
        assert last[-1] == max(dict(by_rest).values())
    expected: dict[str, int] = {}
    for number in range(900):
        key = source.key(number)
        expected[key] = expected.get(key, 0) + number
    assert totals == expected


def test_a_damaged_file_of_a_spilling_partition_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statefiles, "INLINE_BYTES", 0)
    monkeypatch.setattr(partition, "LEAST_CHUNK", 1)
    storage = MemoryStorage()
    plan = plan_of(Keys(1 << 40, lambda number: number))
    job = Job(plan, storage, 10)
    job.step(100)
    job.close()
    path = job.files()[3].path
    storage.files[path] = storage.files[path][:-1] + b"\1"
    with pytest.raises(CorruptStateError, match="damaged"):
        Job(plan, storage, 10).step(10)


def file(first: int, last: int, is_snapshot: bool = False) -> StateFile:
    return StateFile(f"{first}-{last}", 0, 0, 0, 10, first, last, is_snapshot)


CHAIN = (file(3, 3, True), file(3, 3, True), file(4, 6), file(7, 7), file(7, 7))


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ((7, "t7"), (True, 5)),
        ((6, "t6"), (True, 3)),
        ((3, "t3"), (True, 2)),
        ((2, "t2"), (False, 0)),
        ((6, "other"), (False, 0)),
        ((0, None), (False, 0)),
    ],
)
def test_what_is_held_is_brought_forward_by_the_files_behind_it(held: Any, expected: tuple[bool, int]) -> None:
    handle = StateHandle(CHAIN, tuple((epoch, f"t{epoch}") for epoch in range(2, 8)))
    assert files_since((handle,), *held) == (expected[0], list(CHAIN[expected[1] :]))


def test_state_of_another_layout_is_never_held() -> None:
    handle = StateHandle(CHAIN, ((7, "t7"),))
    assert files_since((handle, StateHandle()), 7, "t7") == (False, list(CHAIN))


def test_new_files_follow_those_that_are_kept() -> None:
    handle = StateHandle(CHAIN, ((7, "t7"),))
    new = NewState(3, (file(7, 8), file(8, 8)))
    assert next_handle((handle,), new, 8, "t8") == StateHandle((*CHAIN[:3], *new.files), ((7, "t7"), (8, "t8")))
    assert next_handle((handle,), None, 8, "t8").files == CHAIN


def test_state_of_a_new_layout_gets_a_name_of_its_own() -> None:
    new = NewState(0, (file(7, 7, True), file(8, 8)))
    handle = next_handle((StateHandle(CHAIN, ((7, "t7"),)), StateHandle()), new, 8, "t8")
    assert handle == StateHandle(new.files, ((7, "t8"), (8, "t8")))


def test_tables_find_their_operator_whatever_their_names() -> None:
    backends = {uid: KeyedBackend(8, range(8)) for uid in ("a", "b/c")}
    assert owner_of("a/state", backends) is backends["a"]
    assert owner_of("a/with/slashes", backends) is backends["a"]
    assert owner_of("b/c/state", backends) is backends["b/c"]
    assert owner_of("b/state", backends) is None
    assert owner_of("gone/state", backends) is None


def test_merged_changelogs_still_drop_windows_when_the_first_has_no_rows() -> None:
    import numpy as np
    import pyarrow as pa

    table = PartialTable()
    part = pa.table({"key_group": pa.array(np.array([0], np.int32)), "n": pa.array([1])})
    deltas: list[pa.RecordBatch] = []
    table.add(0, part)
    table.add(10, part)
    table.mark_clean()
    for start, change in ((0, "pop"), (10, "pop"), (20, "add")):
        table.pop(start) if change == "pop" else table.add(start, part)
        batch = table.delta(8)
        assert batch is not None
        deltas.append(batch)
        table.mark_clean()
    held = PartialTable()
    held.add(0, part)
    held.add(10, part)
    both = merged(deltas, 8)
    assert both is not None
    held.apply(both)
    assert list(held.windows) == [20]


def test_files_that_are_small_travel_with_the_report() -> None:
    storage = MemoryStorage()
    small, data = statefiles.new_file({}, storage, (1, 1), "small", is_snapshot=False)
    assert data is not None and small.length == len(data) and storage.files == {}
    storage.write("small", data)
    assert read_file(storage, small) == {}


def test_what_changed_is_not_put_into_columns_if_everything_is(monkeypatch: pytest.MonkeyPatch):
    storage, backend = MemoryStorage(), KeyedBackend(16, range(16))
    table = backend.table("op/value", lambda: Table("value"))

    def written(keys: range, epoch: int, files: tuple[StateFile, ...]) -> NewState:
        for key in keys:
            table.put(key, key * epoch)
        new = statefiles.write_state({"op": backend}, [StateHandle(files)], storage, epoch, f"state/{epoch}")
        assert new is not None and not table.dirty
        return new

    encoded: list[bool] = []
    delta = Table.delta
    monkeypatch.setattr(Table, "delta", lambda self, groups: encoded.append(True) or delta(self, groups))
    first = written(range(1000), 1, ())
    assert first.files[0].is_snapshot and first.files[0].rows == 1000
    assert not encoded
    # A few of many are a changelog.
    second = written(range(10), 2, first.files)
    assert not second.files[0].is_snapshot and second.files[0].rows == 10
    assert encoded == [True]
