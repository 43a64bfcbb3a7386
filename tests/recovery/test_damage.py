"""Files of a checkpoint that are damaged or gone: named, all of them, with the checkpoint that is still whole."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintstream import (
    CollectSink,
    FileSink,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)
from flintstream.engine.manifest import Manifest
from flintstream.errors import CorruptStateError
from tests.capabilities.support import StopAfter, StoppedOnPurpose

DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "flipped": lambda data: bytes([*data[:-9], data[-9] ^ 1, *data[-8:]]),
    "cut short": lambda data: data[:-1],
    "deleted": lambda data: None,
}


class Keep(KeyedProcessFunction):
    """Keeps `ballast` bytes for every key, so that state is small (inline) or large (a file of its own)."""

    def __init__(self, ballast: int) -> None:
        self._ballast = ballast

    def open(self, runtime_context: Any) -> None:
        self._kept = runtime_context.get_state(ValueStateDescriptor("kept", Types.STRING()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Any:
        before = self._kept.value() or ""
        self._kept.update(before[:1] + f"{value}" * self._ballast)
        yield value


def declare(env: StreamExecutionEnvironment, ballast: int, sink: Any) -> None:
    numbers = env.generate(generator=lambda i: i, count=400, splits=1)
    numbers.key_by(lambda n: n % 50).process(Keep(ballast)).uid("keep").sink_to(sink)


def interrupt(make: Callable[..., Any], folder: Path, ballast: int, sink: Any) -> list[Manifest]:
    """Run some epochs and stop; return the manifests that are left, oldest first."""
    env = make(max_records=50, checkpoint_dir=folder)
    env.add_listener(StopAfter(5))
    declare(env, ballast, sink)
    with pytest.raises(StoppedOnPurpose):
        env.execute("keep")
    return [Manifest.from_bytes(path.read_bytes(), path.name) for path in sorted((folder / "manifests").iterdir())]


def spoil(path: Path, damage: str) -> None:
    data = DAMAGES[damage](path.read_bytes())
    path.unlink() if data is None else path.write_bytes(data)


def refusal(make: Callable[..., Any], folder: Path, ballast: int, sink: Any) -> str:
    """Return what a start in this directory is refused with; it must leave no trace in the output."""
    env = make(max_records=50, checkpoint_dir=folder)
    declare(env, ballast, sink)
    with pytest.raises(CorruptStateError) as caught:
        env.execute("keep")
    return str(caught.value)


def only_in(newest: Manifest, older: list[Manifest]) -> str:
    """Return a state file that only the newest of some manifests names."""
    files = {file.path for handle in newest.state.values() for file in handle.files}
    return sorted(files.difference(*(each.files() for each in older)))[0]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("ballast", [1, 3000], ids=["small state", "large state"])
def test_the_checkpoint_before_the_damaged_one_is_named(make_env, tmp_path, damage, ballast):
    make, sink = (lambda **options: make_env("local", **options)), CollectSink()
    *older, newest = interrupt(make, tmp_path, ballast, sink)
    spoiled = only_in(newest, older)
    spoil(tmp_path / spoiled, damage)
    before = sink.results
    text = refusal(make, tmp_path, ballast, sink)
    assert f"{spoiled!r}" in text
    assert f"epoch {newest.epoch - 1} is whole" in text
    path = tmp_path / "manifests" / f"{newest.epoch - 1:012d}.json"
    assert f"'execution.state-recovery.path': {str(path)!r}" in text
    assert sink.results == before
    assert len(list((tmp_path / "manifests").iterdir())) == len(older) + 1


@pytest.mark.spark
def test_on_spark_damage_is_found_before_anything_is_committed(make_env, tmp_path):
    make, sink = (lambda **options: make_env("spark", **options)), CollectSink()
    *older, newest = interrupt(make, tmp_path, 3000, sink)
    spoiled = only_in(newest, older)
    spoil(tmp_path / spoiled, "flipped")
    # Other code, or workers that still have the state in memory would not look at files.
    text = refusal(make, tmp_path, 3001, sink)
    assert f"{spoiled!r}" in text and f"epoch {newest.epoch - 1} is whole" in text
    assert len(sink.results) == 250
    assert sorted(path.stem for path in (tmp_path / "manifests").iterdir())[-1] == f"{newest.epoch:012d}"


@pytest.mark.parametrize("damage", ["flipped", "cut short"])
def test_a_damaged_manifest_is_named_and_the_one_before_it(make_env, tmp_path, damage):
    make, sink = (lambda **options: make_env("local", **options)), CollectSink()
    *_, newest = interrupt(make, tmp_path, 1, sink)
    name = f"manifests/{newest.epoch:012d}.json"
    spoil(tmp_path / name, damage)
    text = refusal(make, tmp_path, 1, sink)
    assert name in text and f"epoch {newest.epoch - 1} is whole" in text


def test_all_that_is_damaged_is_named_and_what_is_older_and_damaged_is_not_offered(make_env, tmp_path):
    make, sink = (lambda **options: make_env("local", **options)), CollectSink()
    first, second, newest = interrupt(make, tmp_path, 3000, sink)
    spoiled = sorted(file.path for handle in newest.state.values() for file in handle.files)
    for path in {*spoiled, only_in(second, [first])}:
        spoil(tmp_path / path, "cut short")
    text = refusal(make, tmp_path, 3000, sink)
    assert len(spoiled) > 1 and all(path in text for path in spoiled)
    assert f"epoch {first.epoch} is whole" in text
    spoil(tmp_path / "manifests" / f"{first.epoch:012d}.json", "flipped")
    text = refusal(make, tmp_path, 3000, sink)
    assert "no older checkpoint there is whole" in text


def test_an_older_manifest_that_is_damaged_keeps_no_job_from_starting(make_env, tmp_path, caplog):
    make, sink = (lambda **options: make_env("local", **options)), CollectSink()
    first, *_ = interrupt(make, tmp_path, 1, sink)
    spoil(tmp_path / "manifests" / f"{first.epoch:012d}.json", "flipped")
    env = make(max_records=50, checkpoint_dir=tmp_path)
    declare(env, 1, sink)
    env.execute("keep")
    assert sorted(sink.results) == list(range(400))
    assert re.search(rf"an older checkpoint is lost.*{first.epoch:012d}", caplog.text)


def test_the_job_goes_on_from_the_checkpoint_that_the_message_names(make_env, tmp_path):
    make, sink = (lambda **options: make_env("local", **options)), CollectSink()
    *older, newest = interrupt(make, tmp_path / "old", 3000, sink)
    spoil(tmp_path / "old" / only_in(newest, older), "cut short")
    text = refusal(make, tmp_path / "old", 3000, sink)
    (path,) = re.findall(r"'execution\.state-recovery\.path': '([^']+)'", text)
    again = CollectSink()
    settings = {"execution.state-recovery.path": path}
    env = make(max_records=50, checkpoint_dir=tmp_path / "new", settings=settings)
    declare(env, 3000, again)
    env.execute("keep")
    assert sorted(again.results) == list(range((newest.epoch - 1) * 50, 400))


def staged(output: Path) -> Path:
    (path,) = [path for path in output.rglob("*") if path.is_file() and "staging" in str(path)]
    return path


class DiesBeforePublishing(Exception):
    """Ends a run between the commit of an epoch and its sinks."""


@pytest.mark.parametrize("damage", DAMAGES)
def test_staged_output_that_is_damaged_is_never_published(make_env, tmp_path, monkeypatch, damage):
    from flintstream.connectors.files_staging import FileCommitter

    output, folder = tmp_path / "out", tmp_path / "checkpoints"
    commit = FileCommitter.commit

    def dies(self: FileCommitter, job: str, uid: str, epoch: int, committables: Any) -> None:
        if epoch == 3:
            raise DiesBeforePublishing
        commit(self, job, uid, epoch, committables)

    make = lambda **options: make_env("local", 1, **options)  # noqa: E731
    env = make(max_records=50, checkpoint_dir=folder)
    declare(env, 1, FileSink.json(output))
    with monkeypatch.context() as patch:
        patch.setattr(FileCommitter, "commit", dies)
        with pytest.raises(Exception, match="DiesBeforePublishing"):
            env.execute("keep")
    path = staged(output)
    whole = path.read_bytes()
    visible = sorted(output.glob("*.json"))
    spoil(path, damage)
    env = make(max_records=50, checkpoint_dir=folder)
    declare(env, 1, FileSink.json(output))
    with pytest.raises(Exception, match=path.name):
        env.execute("keep")
    assert sorted(output.glob("*.json")) == visible
    path.write_bytes(whole)
    env = make(max_records=50, checkpoint_dir=folder)
    declare(env, 1, FileSink.json(output))
    env.execute("keep")
    assert sum(len(each.read_text().splitlines()) for each in output.glob("*.json")) == 400


def test_a_damaged_savepoint_is_named_and_not_the_empty_checkpoint_directory(tmp_path):
    from flintstream import CollectSink, StreamExecutionEnvironment, savepoints

    def program(checkpoints: str) -> StreamExecutionEnvironment:
        env = StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(1)
        env.set_checkpoint_dir(str(tmp_path / checkpoints))
        pairs = env.from_collection([("a", 1), ("a", 2)]).uid("in")
        pairs.key_by(lambda pair: pair[0]).sum(1).uid("sums").sink_to(CollectSink()).uid("out")
        return env

    program("first").execute()
    savepoint = Path(savepoints.take(tmp_path / "first", tmp_path / "savepoints"))
    part = next(savepoint.rglob("*.parquet"))
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(bytes(data))
    env = program("second")
    env.start_from_savepoint(str(savepoint))
    with pytest.raises(CorruptStateError, match="of the savepoint is damaged") as caught:
        env.execute()
    assert str(savepoint) in str(caught.value)
    assert str(tmp_path / "second") not in str(caught.value)
