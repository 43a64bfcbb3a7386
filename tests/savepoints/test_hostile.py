"""Checkpoints and savepoints that someone else has made: opening them runs nothing, and nothing leads out of them."""

from __future__ import annotations

import base64
import datetime
import decimal
import hashlib
import io
import json
import os
import pickle
import shutil
import subprocess
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from flintstream import CollectSink, KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor, savepoints
from flintstream.connectors.files_staging import FileCommitter
from flintstream.engine.manifest import Manifest
from flintstream.engine.savepoint_format import read_document, savepoint_storage, to_bytes
from flintstream.errors import CorruptStateError, FlintstreamError, IncompatibleStateError, SavepointError
from flintstream.state.changelog import pack, unpack
from flintstream.state.codec import decode, encode, field_of
from flintstream.state.judge import judge, judge_texts, marked
from flintstream.state.parquet import part_bytes, read_part
from flintstream.state.pickles import dumps, loads
from flintstream.state.trust import adopt_modules, judge_until, restricted
from tests.capabilities.support import Lists
from tests.savepoints.support import held_at, local_env
from tests.unit.values import columns, exactly, law

RAN: list[str] = []


def run(word: str) -> str:
    """What an attacker would like to have called."""
    RAN.append(word)
    return word


class Calls:
    """Pickles as a call of anything."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def chain() -> bytes:
    """Return a pickle that finds `os.system` by going from attribute to attribute."""
    out = io.BytesIO()
    out.write(b"\x80\x04cbuiltins\ngetattr\n(cos\nsystem\nX\x08\x00\x00\x00__call__tR(X\x09\x00\x00\x00touch pwndtR.")
    return out.getvalue()


@pytest.fixture(autouse=True)
def nothing_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Whatever a test does, nothing was called, and no file came up."""
    monkeypatch.chdir(tmp_path)
    RAN.clear()
    yield
    judge_until(None)
    adopt_modules(frozenset())
    assert not RAN
    assert not (tmp_path / "pwnd").exists()


HOSTILE = {
    "os.system": pickle.dumps(Calls(os.system, "touch pwnd")),
    "subprocess.Popen": pickle.dumps(Calls(subprocess.Popen, ["touch", "pwnd"])),
    "builtins.eval": pickle.dumps(Calls(eval, "open('pwnd', 'w')")),
    "builtins.exec": pickle.dumps(Calls(exec, "open('pwnd', 'w')")),
    "builtins.__import__": b"\x80\x04cbuiltins\n__import__\n(X\x04\x00\x00\x00thistR.",
    "builtins.getattr": chain(),
    "a function of the program": pickle.dumps(Calls(run, "mine")),
    "partial": pickle.dumps(partial(run, "mine")),
    "an attribute of a class": b"\x80\x04\x8c\x0bcollections\x94\x8c\x1aOrderedDict.__init__.__globals__\x94\x93.",
    "a module that is not there": b"\x80\x04cantigravity\nwhatever\n.",
    "io": b"\x80\x04cio\nFileIO\n(X\x04\x00\x00\x00pwndX\x01\x00\x00\x00wtR.",
    "shutil by another name": b"\x80\x04cos.path\nos.system\n(X\x0a\x00\x00\x00touch pwndtR.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_pickle_that_calls_something_is_refused(name: str):
    with restricted(), pytest.raises((IncompatibleStateError, pickle.UnpicklingError, AttributeError)):
        loads(HOSTILE[name])


def test_the_error_names_what_was_to_be_called_and_what_to_do():
    with (
        restricted(),
        pytest.raises(IncompatibleStateError, match=r"posix\.system.*flintstream\.state-recovery\.trust"),
    ):
        loads(HOSTILE["os.system"])


class Colour(Enum):
    RED = 1


class Point(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True)
class Money:
    cents: int
    of: Any = None


class Plain:
    """An ordinary class of a program's module."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and other.value == self.value

    __hash__ = None  # type: ignore[assignment]


HARMLESS = [
    {1, 2, "three"},
    frozenset([1]),
    10**40,
    1 + 2j,
    bytearray(b"x"),
    range(3),
    OrderedDict(a=1),
    defaultdict(list, a=[1]),
    deque([1], 3),
    Counter("aab"),
    datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
    datetime.timedelta(1),
    decimal.Decimal("1.5"),
    Fraction(1, 3),
    uuid.UUID(int=1),
    np.int64(3),
    np.float32(1.5),
    Colour.RED,
    Point(1, 2),
    Money(3, [Money(4), None]),
    Plain([Plain(1), {"a": (1, 2.0)}]),
    ValueError("wrong"),
    Path("x"),
]


@pytest.mark.parametrize("value", HARMLESS, ids=lambda value: type(value).__name__)
def test_data_and_the_programs_own_classes_are_read(value: Any):
    with restricted():
        read = loads(dumps(value))
    assert type(read) is type(value)
    assert repr(read) == repr(value) if isinstance(value, ValueError) else read == value


def test_arrays_are_read():
    with restricted():
        assert loads(dumps(np.arange(5))).tolist() == [0, 1, 2, 3, 4]


def test_a_class_by_value_is_the_programs_own_or_none():
    @dataclass
    class Local:
        n: int

    data = dumps([Local(1), "mixed"])
    with restricted(), pytest.raises(IncompatibleStateError, match="Local by value"):
        loads(data)
    from flintstream.state.classes import adopt_classes

    adopt_classes((Local,))
    try:
        with restricted():
            assert loads(data) == [Local(1), "mixed"]
    finally:
        adopt_classes(())


def test_a_class_by_value_in_a_column_runs_nothing():
    """The reference to a class in a column brings the class itself, as a pickle: here one that calls."""
    packed = base64.b85encode(HOSTILE["os.system"]).decode()
    kind = ["class", f'!tests.job:Event|["int"]!{packed}', ["n"], ["int"]]
    array = pa.StructArray.from_arrays([pa.array([1])], ["n"])
    batch = pa.RecordBatch.from_arrays([array], schema=pa.schema([field_of("value", array, kind)]))
    judge_until(5)
    with pytest.raises(IncompatibleStateError, match="Event by value"):
        judge(marked({"t": batch}, 3)["t"])


@pytest.mark.parametrize("name", ["subprocess:Popen", "random:Random", "os:_Environ"])
def test_a_class_by_name_in_a_column_must_be_harmless(name: str):
    array = pa.StructArray.from_arrays([pa.array(["touch pwnd"])], ["args"])
    field = field_of("value", array, ["class", f'{name}|["str"]', ["args"], ["str"]])
    judge_until(5)
    with pytest.raises(IncompatibleStateError, match="names"):
        judge(marked({"t": pa.RecordBatch.from_arrays([array], schema=pa.schema([field]))}, 3)["t"])


def test_a_module_that_the_program_does_not_have_is_not_imported():
    judge_until(5)
    array = pa.StructArray.from_arrays([pa.array([1])], ["n"])
    with pytest.raises(IncompatibleStateError, match="antigravity"):
        decode(array, ["class", "antigravity:Fly|[]", ["n"], ["int"]])


@pytest.mark.parametrize("kind", [["sorcery", []], ["class"], ["list"], {"a": 1}.items().__class__.__name__])
def test_a_kind_that_is_none(kind: Any):
    array = pa.StructArray.from_arrays([pa.array([1])], ["n"])
    batch = pa.RecordBatch.from_arrays([array], schema=pa.schema([field_of("value", array, kind)]))
    judge_until(5)
    if isinstance(kind, str):
        judge(marked({"t": batch}, 3)["t"])  # an unknown scalar is plain data
    else:
        with pytest.raises(CorruptStateError):
            judge(marked({"t": batch}, 3)["t"])


@law
@given(columns())
def test_what_an_honest_job_writes_is_read(values: list[Any]):
    """Judging refuses nothing that the types of the tests can be, and leaves rows as they are."""
    array, kind = encode(values)
    batch = pa.RecordBatch.from_arrays([array], schema=pa.schema([field_of("value", array, kind)]))
    judge_until(5)
    read = judge(marked({"t": batch}, 3)["t"])
    judge_until(None)
    assert read.schema.equals(batch.schema, check_metadata=True)
    assert exactly(decode(read.column(0), kind)) == exactly(values)


def test_files_of_the_jobs_own_epochs_are_believed():
    array, kind = encode([Plain(1), 2])
    batch = pa.RecordBatch.from_arrays([array], schema=pa.schema([field_of("value", array, kind)]))
    judge_until(5)
    assert marked({"t": batch}, 6)["t"] is batch
    assert judge(batch) is batch


def test_what_generators_have_kept_is_judged():
    judge_texts(["", "no pickle", base64.b64encode(pickle.dumps({"a": 1})).decode()])
    for name in ("os.system", "builtins.getattr"):
        with pytest.raises(IncompatibleStateError):
            judge_texts(["generator:" + base64.b64encode(HOSTILE[name]).decode()])


class Keeps(KeyedProcessFunction):
    """Keeps values of several types, which are pickled."""

    def open(self, runtime_context: Any) -> None:
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value, repr(self.kept.value())
        self.kept.update(Plain(value) if value % 2 else {value})


def keeping(env: StreamExecutionEnvironment, sink: CollectSink, source: Any = None) -> None:
    stream = env.from_source(source or Lists(list(range(20)))).uid("numbers")
    stream.key_by(lambda value: value % 4).process(Keeps()).uid("keeps").sink_to(sink)


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    """A savepoint whose state is pickled, made by an honest job."""
    env = local_env(max_records=4, checkpoint_dir=tmp_path / "checkpoints")
    keeping(env, CollectSink())
    with held_at(env, "numbers", 12) as (client, gate):
        stopped = client.stop_with_savepoint(False, str(tmp_path / "savepoints"))
        gate.go_on()
        return Path(stopped.result(60))


def with_values(path: Path, data: bytes) -> None:
    """Replace the pickles of a savepoint by others, with all checksums right, as an attacker would."""
    storage = savepoint_storage(str(path))
    document = read_document(storage)
    operators = []
    for each in document.operators:
        tables = []
        for table in each.tables:
            parts = []
            for part in table.parts:
                batch = read_part(storage.read(part.file), part.file, part.rows)
                index = batch.schema.get_field_index("value")
                column = pa.array([data] * batch.num_rows, pa.large_binary())
                field = (
                    batch.schema.field(index)
                    .with_type(pa.large_binary())
                    .with_metadata({"flintstream.kind": '"pickle"'})
                )
                changed = part_bytes(batch.set_column(index, field, column))
                storage.write(part.file, changed)
                parts.append(replace(part, bytes=len(changed), sha256=hashlib.sha256(changed).hexdigest()))
            tables.append(replace(table, parts=tuple(parts)))
        operators.append(replace(each, tables=tuple(tables)))
    storage.write("savepoint.json", to_bytes(replace(document, operators=tuple(operators))))


def test_an_honest_savepoint_is_restored(savepoint: Path):
    sink = CollectSink()
    env = local_env().start_from_savepoint(str(savepoint))
    keeping(env, sink)
    env.execute("job")
    assert (12, "{8}") in sink.results


@pytest.mark.parametrize("name", HOSTILE)
def test_a_savepoint_that_calls_something_is_refused(savepoint: Path, name: str):
    with_values(savepoint, HOSTILE[name])
    savepoints.show(savepoint)
    savepoints.check(savepoint)
    savepoints.diff(savepoint, savepoint)
    env = local_env().start_from_savepoint(str(savepoint))
    keeping(env, CollectSink())
    with pytest.raises((IncompatibleStateError, CorruptStateError)) as caught:
        env.execute("job")
    assert "kept" in str(caught.value) or isinstance(caught.value, CorruptStateError)


def test_who_trusts_it_may_have_it_run(savepoint: Path):
    with_values(savepoint, pickle.dumps(Calls(run, "trusted")))
    env = local_env().start_from_savepoint(str(savepoint), trust=True)
    keeping(env, CollectSink())
    env.execute("job")
    assert set(RAN) == {"trusted"}
    RAN.clear()
    env = local_env(settings={"flintstream.state-recovery.trust": "true"}).start_from_savepoint(str(savepoint))
    keeping(env, CollectSink())
    env.execute("job")
    assert set(RAN) == {"trusted"}
    RAN.clear()


def test_a_checkpoint_that_calls_something_is_refused(savepoint: Path, tmp_path: Path):
    """The same in the job's own checkpoint directory: its state files are replaced, with the right checksums."""
    folder = tmp_path / "checkpoints"
    path = sorted((folder / "manifests").iterdir())[-1]
    manifest = Manifest.from_bytes(path.read_bytes(), "manifest")
    state = {}
    for place, handle in manifest.state.items():
        files = []
        for number, file in enumerate(handle.files):
            data = (folder / file.path).read_bytes()[file.offset : file.offset + file.length]
            tables = {}
            for name, batch in unpack(data, "file").items():
                index = batch.schema.get_field_index("value")
                column = pa.array([HOSTILE["os.system"]] * batch.num_rows, pa.large_binary())
                field = (
                    batch.schema.field(index)
                    .with_type(pa.large_binary())
                    .with_metadata({"flintstream.kind": '"pickle"'})
                )
                tables[name] = batch.set_column(index, field, column)
            changed = pack(tables)
            name = f"state/{place.replace('/', '-')}-{number}.bin"
            (folder / "state").mkdir(exist_ok=True)
            (folder / name).write_bytes(changed)
            import zlib

            files.append(replace(file, path=name, offset=0, length=len(changed), checksum=zlib.crc32(changed)))
        state[place] = replace(handle, files=tuple(files))
    manifest.state = state
    path.write_bytes(manifest.to_bytes())
    env = local_env(checkpoint_dir=folder)
    keeping(env, CollectSink())
    with pytest.raises(IncompatibleStateError, match=r"posix\.system"):
        env.execute("job")


PATHS = ["/etc/passwd", "../outside", "state/../../outside", "state/..\\..\\outside", "spark/x", "", "state/\0"]


@pytest.mark.parametrize("trick", PATHS)
def test_paths_that_lead_out_of_a_savepoint(savepoint: Path, trick: str):
    storage = savepoint_storage(str(savepoint))
    document = read_document(storage)
    keeps = document.operator("keeps")
    assert keeps is not None
    table = keeps.tables[0]
    wrong = replace(table, parts=(replace(table.parts[0], file=trick),))
    others = tuple(each for each in document.operators if each.uid != "keeps")
    storage.write("savepoint.json", to_bytes(replace(document, operators=(*others, replace(keeps, tables=(wrong,))))))
    for act in (savepoints.show, savepoints.check, savepoints.dispose):
        with pytest.raises(SavepointError, match="leaves the savepoint"):
            act(savepoint)


@pytest.mark.parametrize("trick", ["/etc/passwd", "../outside", "state/../../outside"])
def test_paths_that_lead_out_of_a_checkpoint(savepoint: Path, tmp_path: Path, trick: str):
    path = sorted((tmp_path / "checkpoints" / "manifests").iterdir())[-1]
    manifest = Manifest.from_bytes(path.read_bytes(), "manifest")
    manifest.state = {
        place: replace(handle, files=tuple(replace(file, path=trick) for file in handle.files))
        for place, handle in manifest.state.items()
    }
    path.write_bytes(manifest.to_bytes())
    env = local_env(checkpoint_dir=tmp_path / "checkpoints")
    keeping(env, CollectSink())
    with pytest.raises(CorruptStateError, match="leaves its directory"):
        env.execute("job")


def test_a_link_that_leads_out_of_a_savepoint(savepoint: Path, tmp_path: Path):
    outside = tmp_path / "precious"
    shutil.move(savepoint / "state", outside)
    (savepoint / "state").symlink_to(outside)
    with pytest.raises(CorruptStateError, match="link"):
        savepoints.check(savepoint)
    with pytest.raises(CorruptStateError, match="link"):
        savepoints.dispose(savepoint)
    assert list(outside.rglob("*.parquet"))


def test_disposing_touches_nothing_else(savepoint: Path):
    (savepoint.parent / "other").write_text("mine")
    (savepoint / "notes").write_text("mine too")
    savepoints.dispose(savepoint)
    assert [path.name for path in savepoint.iterdir()] == ["notes"]
    assert (savepoint.parent / "other").read_text() == "mine"
    with pytest.raises(SavepointError, match="no savepoint"):
        savepoints.dispose(savepoint.parent)


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": -1},
        {"epoch": "1"},
        {"max_parallelism": 10**9},
        {"job": None},
        {"operators": 3},
        {"sources": [{"uid": "x"}]},
        {"lanes": {"a": {}}},
        {"surprise": 1},
        {"tags": 5},
    ],
    ids=repr,
)
def test_a_document_that_says_impossible_things(savepoint: Path, change: dict[str, Any]):
    path = savepoint / "savepoint.json"
    document = {**json.loads(path.read_text()), **change}
    document.pop("sha256")
    body = json.dumps(document, indent=1)
    path.write_text(json.dumps({**document, "sha256": hashlib.sha256(body.encode()).hexdigest()}))
    with pytest.raises(SavepointError, match="cannot be read"):
        savepoints.show(savepoint)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"format": 1}', "[" * 100_000, '{"format": 99}'])
def test_a_document_that_is_none(savepoint: Path, text: str):
    (savepoint / "savepoint.json").write_text(text)
    with pytest.raises(SavepointError):
        savepoints.show(savepoint)


def test_a_part_that_would_fill_the_memory(savepoint: Path):
    """A column of one value repeated is tiny on disk, however many rows it has."""
    rows = 1 << 22
    table = pa.table({"key": pa.array(np.zeros(rows, np.int64)), "key_group": pa.array(np.zeros(rows, np.int32))})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    data = sink.getvalue().to_pybytes()
    assert len(data) < 100_000
    with pytest.raises(CorruptStateError, match="rows"):
        read_part(data, "part", 10)
    with pytest.raises(CorruptStateError, match="rows"):
        read_part(data, "part", 1 << 40)


def test_lengths_beyond_the_file(savepoint: Path, tmp_path: Path):
    path = sorted((tmp_path / "checkpoints" / "manifests").iterdir())[-1]
    manifest = Manifest.from_bytes(path.read_bytes(), "manifest")
    for length in (1 << 62, -5):
        manifest.state = {
            place: replace(handle, files=tuple(replace(file, length=length) for file in handle.files))
            for place, handle in manifest.state.items()
        }
        path.write_bytes(manifest.to_bytes())
        env = local_env(checkpoint_dir=tmp_path / "checkpoints")
        keeping(env, CollectSink())
        with pytest.raises(FlintstreamError, match="damaged"):
            env.execute("job")


@pytest.mark.parametrize("data", [b"", b"FLNT0001", b"FLNT0001\xff\xff\xff\xff", b"FLNT0001\x02\x00\x00\x00{}"])
def test_changelog_bytes_that_are_none(data: bytes):
    if data.endswith(b"{}"):
        assert unpack(data, "x") == {}
    else:
        with pytest.raises(CorruptStateError):
            unpack(data, "x")


def test_a_plain_class_of_a_script_is_found_again(tmp_path: Path):
    """It travels by value, mixed with others in pickles; the program has one of the same name, so no code is needed."""

    def version() -> Any:
        class Local:
            def __init__(self, value: Any) -> None:
                self.value = value

        class Remembers(KeyedProcessFunction):
            def open(self, runtime_context: Any) -> None:
                self.kept = runtime_context.get_state(ValueStateDescriptor("kept"))

            def process_element(self, value: Any, ctx: Any) -> Any:
                held = self.kept.value()
                yield value, held.value if isinstance(held, Local) else held
                self.kept.update(Local(value) if value % 2 else {value})

        return Remembers()

    def declare(env: StreamExecutionEnvironment, sink: CollectSink) -> None:
        stream = env.from_source(Lists(list(range(20)))).uid("numbers")
        stream.key_by(lambda value: value % 4).process(version()).uid("keeps").sink_to(sink)

    env = local_env(max_records=4)
    declare(env, CollectSink())
    with held_at(env, "numbers", 12) as (client, gate):
        stopped = client.stop_with_savepoint(False, str(tmp_path / "savepoints"))
        gate.go_on()
        path = stopped.result(60)
    sink = CollectSink()
    env = local_env().start_from_savepoint(path)
    declare(env, sink)
    env.execute("job")
    assert (13, 9) in sink.results
    assert (12, {8}) in sink.results


def test_a_manifest_cannot_say_that_its_files_are_the_jobs_own(savepoint: Path, tmp_path: Path):
    """Files of later epochs than the manifest's are believed, since the job itself has written them: none may be."""
    path = sorted((tmp_path / "checkpoints" / "manifests").iterdir())[-1]
    manifest = Manifest.from_bytes(path.read_bytes(), "manifest")
    manifest.state = {
        place: replace(handle, files=tuple(replace(file, last_epoch=10**6) for file in handle.files))
        for place, handle in manifest.state.items()
    }
    path.write_bytes(manifest.to_bytes())
    env = local_env(checkpoint_dir=tmp_path / "checkpoints")
    keeping(env, CollectSink())
    with pytest.raises(CorruptStateError, match="impossible numbers"):
        env.execute("job")


@pytest.mark.parametrize("name", ["staged", "final"])
def test_output_cannot_leave_the_directory_of_its_sink(tmp_path: Path, name: str):
    committer = FileCommitter(str(tmp_path / "out"))
    (tmp_path / "precious").write_text("x")
    committable = {"staged": "a", "final": "b", "rows": 1, "bytes": 1, name: "../precious"}
    with pytest.raises(CorruptStateError, match="leaves the sink's directory"):
        committer.commit("job", "uid", 1, [committable])
    assert (tmp_path / "precious").read_text() == "x"


@pytest.mark.parametrize("epoch", [0, 1, 7])
def test_a_file_of_any_epoch_may_be_anybodys(epoch: int):
    batch = pa.RecordBatch.from_pydict({"value": [1]})
    judge_until(epoch)
    assert marked({"t": batch}, epoch)["t"] is not batch
    judge_until(None)
    assert marked({"t": batch}, epoch)["t"] is batch
