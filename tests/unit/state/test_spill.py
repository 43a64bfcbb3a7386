"""State larger than memory behaves like a dict: random programs, random limits, restarts and failed attempts."""

import copy
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from flintstream.engine import partition, statefiles
from flintstream.engine.epoch import EpochContext, NewState, StateHandle
from flintstream.engine.partition import PartitionState
from flintstream.engine.statefiles import next_handle
from flintstream.state import disk
from flintstream.state.backend import KeyedBackend
from flintstream.state.local_folder import FOLDER_VARIABLE, local_root
from flintstream.state.map_table import MapTable
from flintstream.state.partials import PartialTable
from flintstream.state.storage import MemoryStorage
from flintstream.state.table import Table
from flintstream.state.timers import TimerTable
from flintstream.state.views import KeyedListState, KeyedMapState, KeyedValueState

MAX_PARALLELISM = 8
KEYS = [0, 1, 1.0, True, -5, 2.5, "a", "ab", "", "x" * 300, "x" * 301, (1, "a"), ("a", ("b",)), b"a", *range(10, 40)]
INNER = [0, 1.0, "a", "y" * 200, *range(5, 15)]


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    """Sizes so small that every boundary is met."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setenv(FOLDER_VARIABLE, folder)
        patch.setattr(partition, "LEAST_CHUNK", 4)
        patch.setattr(partition, "ROWS_PER_WRITE", 5)
        patch.setattr(disk, "ROWS_PER_WRITE", 7)
        patch.setattr(disk, "FIRST_MAP_BYTES", 1 << 16)
        patch.setattr(statefiles, "LEAST_LOGGED", 10)
        patch.setattr(statefiles, "MERGE_WIDTH", 3)
        patch.setattr(statefiles, "INLINE_BYTES", 4096)
        yield


def sum_rows(table: pa.Table) -> pa.Table:
    return table.group_by(["key_group"]).aggregate([("n", "sum")]).rename_columns(["key_group", "n"])


class Process:
    """What a worker process keeps between epochs: the backend with its tables, the last epoch and its token."""

    def __init__(self) -> None:
        self.backend = KeyedBackend(MAX_PARALLELISM, range(MAX_PARALLELISM))
        self.done: tuple[int, str | None] = (0, None)

    def claim(self) -> None:
        table = self.backend.table
        self.value = KeyedValueState(self.backend, table("op/value", lambda: Table("value")))
        self.list = KeyedListState(self.backend, table("op/list", lambda: Table("list")))
        self.map = KeyedMapState(self.backend, table("op/map", lambda: MapTable("map")))
        self.windows = table("op/windows", lambda: Table("windows", parts=2))
        self.timers = table("op/timers", lambda: TimerTable("timers"))
        self.partials = table("op/partials", lambda: PartialTable(sum_rows))


class Model:
    """The same state as plain dicts."""

    def __init__(self) -> None:
        self.value: dict[Any, Any] = {}
        self.list: dict[Any, list[Any]] = {}
        self.map: dict[Any, dict[Any, Any]] = {}
        self.windows: dict[Any, Any] = {}
        self.timers: set[Any] = set()
        self.partials: dict[int, int] = {}


class Driver:
    """Runs epochs of one partition as the engine does, on any of several processes of one node."""

    _count = 0

    def __init__(self) -> None:
        Driver._count += 1
        self.incarnation = f"job{Driver._count}"
        self.storage = MemoryStorage()
        self.handles: tuple[StateHandle, ...] = (StateHandle(),)
        self.epoch = 0
        self.processes = [Process(), Process()]
        self.current = 0
        self.limit = 50
        self.model, self.committed = Model(), Model()
        self.attempts = 0
        self.state: PartitionState | None = None
        self.spilled = 0

    @property
    def process(self) -> Process:
        return self.processes[self.current]

    def context(self) -> EpochContext:
        handles = {(1, 0): self.handles}
        base = EpochContext("job", self.incarnation, self.epoch + 1, 0, {}, frozenset(), {}, (), handles)
        return replace(base, entries_in_memory=self.limit)

    def begin(self) -> Process:
        """Start an attempt, if none is under way."""
        process = self.process
        if self.state is None:
            self.attempts += 1
            self.token = f"t{self.attempts}"
            backends = {"op": process.backend}
            self.state = PartitionState(backends, self.context(), (1, 0), self.token, self.storage)
            self.state.bring_forward(*process.done)
            process.claim()
        return process

    def end_run(self) -> None:
        self.begin()
        assert self.state is not None
        self.state.relieve()
        held = sum(len(table) for table in self.process.backend.spillable().values())
        assert held <= self.limit
        self.spilled += self.process.backend.spill is not None

    def commit(self) -> NewState | None:
        self.end_run()
        assert self.state is not None
        self.check_counts()
        new = self.state.write(self.process.backend.entries())
        self.state.close()
        self.state = None
        self.epoch += 1
        self.process.done = (self.epoch, self.token)
        self.handles = (next_handle(self.handles, self._stored(new), self.epoch, self.token),)
        self.committed = copy.deepcopy(self.model)
        return new

    def _stored(self, new: NewState | None) -> NewState | None:
        if new is None or new.data is None:
            return new
        self.storage.write(new.files[-1].path, new.data)
        return replace(new, data=None)

    def fail(self, after_writing: bool) -> None:
        """The attempt dies; its process is not used again."""
        self.begin()
        assert self.state is not None
        if after_writing:
            self.state.write(self.process.backend.entries())
        self.state.close()
        self.state = None
        self.processes[self.current] = Process()
        self.model = copy.deepcopy(self.committed)

    def lose_commit(self) -> None:
        """The attempt ends well, but the epoch is not committed: what its process keeps is worth nothing."""
        done = self.epoch + 1
        self.end_run()
        assert self.state is not None
        self.state.write(self.process.backend.entries())
        self.state.close()
        self.state = None
        self.process.done = (done, self.token)
        self.model = copy.deepcopy(self.committed)

    def switch(self, other: int) -> None:
        if self.state is None:
            self.current = other

    def restart(self, moved: bool) -> None:
        """All processes die; with `moved` the job has another layout, so state is taken out of all files."""
        if self.state is None:
            self.processes = [Process(), Process()]
            if moved:
                self.handles = (*self.handles, StateHandle())

    def check_counts(self) -> None:
        """The number of rows is exact, whether they are in memory or not."""
        counts, model = self.process.backend.entries(), self.model
        assert counts["op/value"] == len(model.value)
        assert counts["op/list"] == sum(map(bool, model.list.values()))
        assert counts["op/map"] == sum(map(len, model.map.values()))
        assert counts["op/windows"] == len(model.windows)

    def check(self) -> None:
        """Compare all that there is, in a process that has seen nothing."""
        process, model = self.begin(), self.model
        backend = process.backend
        for key in KEYS:
            backend.key = key
            assert process.value.value() == model.value.get(key)
            assert process.list.get() == model.list.get(key, [])
            assert dict(process.map.items()) == model.map.get(key, {})
            for window in range(3):
                assert process.windows.data[key, window] == model.windows.get((key, window))
        assert dict(process.value._table.rows()) == model.value
        assert dict(process.list._table.rows()) == {key: held for key, held in model.list.items() if held}
        maps = {(key, inner): value for key, held in model.map.items() for inner, value in held.items()}
        assert dict(process.map._table.rows()) == maps
        assert set(process.timers.data) == model.timers
        assert {start: total(parts) for start, parts in process.partials.windows.items()} == model.partials


def total(parts: list[pa.Table]) -> int:
    return sum(sum(part.column("n").to_pylist()) for part in parts)


def apply(step: tuple[Any, ...], driver: Driver) -> None:
    """Do one step of a program to the state and to the model."""
    what, *arguments = step
    if what in ("end_run", "commit", "fail", "switch", "restart", "lose_commit", "check"):
        getattr(driver, what)(*arguments)
        return
    process, model = driver.begin(), driver.model
    key, inner, number = arguments
    process.backend.key = key
    match what:
        case "put":
            process.value.update(number)
            model.value[key] = number
        case "get":
            assert process.value.value() == model.value.get(key)
        case "clear":
            process.value.clear()
            model.value.pop(key, None)
        case "append":
            process.list.add(number)
            model.list[key] = [*model.list.get(key, []), number]
        case "set_list":
            process.list.update([number] * (number % 3))
            model.list[key] = [number] * (number % 3)
        case "put_in":
            process.map.put(inner, number)
            model.map.setdefault(key, {})[inner] = number
        case "remove_in":
            process.map.remove(inner)
            model.map.get(key, {}).pop(inner, None)
        case "get_in":
            assert process.map.get(inner) == model.map.get(key, {}).get(inner)
        case "clear_map":
            process.map.clear()
            model.map.pop(key, None)
        case "put_window":
            process.windows.put((key, number % 3), inner)
            model.windows[key, number % 3] = inner
        case "drop_window":
            process.windows.delete((key, number % 3))
            model.windows.pop((key, number % 3), None)
        case "register":
            process.timers.register(key, None, number)
            model.timers.add((key, None, number))
        case "fire":
            while process.timers.pop_due(number) is not None:
                pass
            model.timers = {timer for timer in model.timers if timer[2] > number}
        case "add_partial":
            columns = {"key_group": pa.array(np.array([0], np.int32)), "n": pa.array([number])}
            process.partials.add(number % 4, pa.table(columns))
            model.partials[number % 4] = model.partials.get(number % 4, 0) + number
        case "pop_partial":
            if number % 4 in model.partials:
                assert total([process.partials.pop(number % 4)]) == model.partials.pop(number % 4)


OPERATIONS = [
    *("put", "put", "put", "get", "clear", "append", "set_list", "put_in", "put_in", "put_in", "remove_in", "get_in"),
    *("clear_map", "put_window", "drop_window", "register", "fire", "add_partial", "pop_partial"),
]


def program(random: Random, length: int) -> Iterator[tuple[Any, ...]]:
    """Yield random steps on a few keys, so that the same entry is met again and again."""
    keys = random.sample(KEYS, random.randint(3, 25))
    inner = random.sample(INNER, random.randint(1, 6))
    for _ in range(length):
        match random.choices(range(8), (80, 6, 8, 1, 5, 1, 1, 2))[0]:
            case 0:
                yield random.choice(OPERATIONS), random.choice(keys), random.choice(inner), random.randint(1, 50)
            case 1:
                yield ("end_run",)
            case 2:
                yield ("commit",)
            case 3:
                yield "fail", random.random() < 0.5
            case 4:
                yield "switch", random.randint(0, 1)
            case 5:
                yield "restart", random.random() < 0.3
            case 6:
                yield ("lose_commit",)
            case _:
                yield ("check",)


# A seed, and not a list of steps: what Hypothesis prefers to try is far from what goes wrong in long programs.
@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 1 << 32), st.integers(3, 50), st.integers(100, 400))
def test_state_equals_a_dict_whatever_the_limit(seed: int, limit: int, length: int) -> None:
    random = Random(seed)
    driver = Driver()
    driver.limit = limit
    for step in program(random, length):
        if step[0] == "switch" and random.random() < 0.2:
            limit = random.randint(3, 50)
        if driver.state is None:
            driver.limit = limit
        apply(step, driver)
    driver.commit()
    driver.check()
    driver.commit()
    driver.restart(False)
    driver.check()
    driver.fail(False)
    assert [path.name for path in local_root().iterdir() if path.name.startswith(("overlay", "private"))] == []


def filled(limit: int, rows: int) -> Driver:
    driver = Driver()
    driver.limit = limit
    for number in range(rows):
        apply(("put", number, None, number), driver)
        if number % 10 == 9:
            driver.end_run()
    driver.commit()
    return driver


def test_a_failed_attempt_leaves_the_working_store_untouched() -> None:
    driver = filled(10, 100)
    driver.begin()
    for number in range(100):
        apply(("put", number, None, -1), driver)
        driver.end_run()
    driver.fail(after_writing=True)
    asked: list[Any] = []
    store = disk.WorkingStore(driver.incarnation, 1, 0)
    view = store.bring_forward(driver.handles[0].tokens[-1], lambda mark: (asked.append(mark), (False, []))[1])
    assert asked == []
    assert sorted(view.read("op/value")) == [(n, n) for n in range(100)]
    store.close()


def test_a_working_store_takes_in_the_changes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a snapshot too: it shows the state before the epoch, so who had that needs only what follows."""
    driver = filled(10, 100)
    driver.check()
    driver.commit()
    read: list[Any] = []
    original = partition.read_file
    monkeypatch.setattr(partition, "read_file", lambda storage, file: (read.append(file), original(storage, file))[1])
    snapshots = 0
    for round_ in range(30):
        for number in range(20):
            apply(("put", (round_ * 7 + number) % 100, None, round_ + 1), driver)
        driver.end_run()
        new = driver.commit()
        assert new is not None
        snapshots += any(file.is_snapshot for file in new.files)
        if read:
            assert max(file.last_epoch for file in read) == driver.epoch - 1
        assert not any(file.is_snapshot for file in read)
        read.clear()
    assert snapshots > 2


def test_all_files_of_a_spilling_partition_are_about_the_limit() -> None:
    driver = filled(20, 400)
    assert len(driver.handles[0].files) >= 20
    driver.restart(moved=True)
    apply(("put", 0, None, 0), driver)
    new = driver.commit()
    assert new is not None
    snapshot = [file for file in new.files if file.is_snapshot]
    assert [file.rows for file in snapshot] == [20] * 20
    assert {file.last_epoch for file in snapshot} == {driver.epoch - 1}
    assert max(file.rows for file in driver.handles[0].files) <= 20


def test_a_partition_stops_spilling_when_its_state_has_become_small() -> None:
    driver = filled(50, 100)
    assert driver.process.backend.spill is not None
    for number in range(90):
        apply(("clear", number, None, 1), driver)
    driver.commit()
    driver.begin()
    assert driver.process.backend.spill is None
    assert dict(driver.process.backend.spillable()["op/value"].data) == {number: number for number in range(90, 100)}
    driver.fail(after_writing=False)


def test_a_small_state_never_touches_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "WorkingStore", None)
    driver = filled(100, 100)
    driver.restart(moved=False)
    for number in range(100):
        apply(("put", number, None, number + 1), driver)
        driver.end_run()
    driver.commit()


def test_what_was_read_and_not_changed_is_no_change() -> None:
    driver = filled(10, 100)
    for number in range(100):
        apply(("get", number, None, 0), driver)
        driver.end_run()
    assert driver.commit() is None


def test_hot_entries_stay_in_memory_between_epochs() -> None:
    driver = filled(10, 100)
    for _ in range(3):
        apply(("put", 5, None, 7), driver)
        driver.commit()
    data = driver.process.backend.spillable()["op/value"].data
    driver.begin()
    assert dict.get(data, 5) == 7
    driver.fail(after_writing=False)


def test_an_other_process_does_not_see_old_entries_in_its_memory() -> None:
    driver = filled(10, 100)
    apply(("put", 5, None, 7), driver)
    driver.commit()
    driver.switch(1)
    apply(("put", 5, None, 8), driver)
    driver.commit()
    driver.switch(0)
    apply(("get", 5, None, 0), driver)
    driver.fail(after_writing=False)


def test_what_was_removed_is_not_found_on_disk_again() -> None:
    driver = filled(10, 40)
    apply(("put_in", "m", 1, 1), driver)
    apply(("put_in", "m", 2, 2), driver)
    driver.commit()
    for step in (("clear", 5, None, 0), ("remove_in", "m", 1, 0)):
        apply(step, driver)
        for _ in range(2):  # once in memory only, once in the overlay
            apply(("get", 5, None, 0), driver)
            apply(("get_in", "m", 1, 0), driver)
            apply(("get_in", "m", 2, 0), driver)
            for number in range(20, 40):
                apply(("get", number, None, 0), driver)
            driver.end_run()
    apply(("remove_in", "m", 2, 0), driver)
    apply(("get_in", "m", 2, 0), driver)
    driver.commit()
    driver.check()
    driver.fail(after_writing=False)


def test_partial_results_are_not_counted_twice_when_changelogs_were_merged() -> None:
    driver = filled(100, 50)
    for number in range(1, 9):
        apply(("add_partial", 0, None, 4 * number), driver)
        driver.commit()
        driver.switch(number % 2)
    assert any(file.first_epoch < file.last_epoch for file in driver.handles[0].files)
    driver.check()
    driver.fail(after_writing=False)


def test_a_store_that_was_loaded_under_a_new_layout_is_used_by_the_next_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    wiped: list[bool] = []
    reset = disk.Records.reset
    monkeypatch.setattr(disk.Records, "reset", lambda self, wipe: (wiped.append(wipe), reset(self, wipe))[1])
    driver = filled(10, 100)
    driver.restart(moved=True)
    driver.check()
    driver.commit()
    wiped.clear()
    driver.restart(moved=False)
    driver.check()
    driver.fail(after_writing=False)
    assert wiped == [False]


def test_state_that_is_claimed_late_is_found() -> None:
    driver = filled(10, 100)
    driver.restart(moved=False)
    process = driver.process
    state = PartitionState({"op": process.backend}, driver.context(), (1, 0), "late", driver.storage)
    state.bring_forward(0, None)
    assert process.backend.tables == {}
    process.claim()
    process.backend.key = 42
    assert process.value.value() == 42
    state.close()


def test_a_resident_table_is_whole_in_memory() -> None:
    driver = filled(10, 100)
    driver.begin()

    def build() -> Table:
        return Table("held", parts=3, resident=True)

    held = driver.process.backend.table("op/#held", build)
    for number in range(50):
        held.put((number, 0, (number,)), number)
    driver.commit()
    driver.commit()
    driver.restart(moved=False)
    driver.begin()
    assert len(driver.process.backend.table("op/#held", build).data) == 50
    driver.fail(after_writing=False)
