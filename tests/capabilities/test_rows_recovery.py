"""Row 65: a checkpoint that cannot be written is tried again, and only several in a row fail the job."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from flintstream import CollectSink
from flintstream.errors import CommitError
from tests.capabilities.support import Lists

WAIT_SECONDS = 120
RECORDS = [(n % 2, n) for n in range(20)]
SUMS = [(key, sum(n for n in range(last + 1) if n % 2 == key)) for key, last in RECORDS]


class Unwritable(logging.Handler):
    """Makes the folder of manifests unusable after an epoch, until so many warnings have been logged about it."""

    def __init__(self, folder: Path, after: int, warnings: int) -> None:
        super().__init__(logging.WARNING)
        self._folder = folder / "manifests"
        self._aside = folder / "aside"
        self._after = after
        self._left = warnings
        self.told: list[str] = []

    def __call__(self, manifest: Any, *_: Any) -> None:
        if manifest.epoch == self._after:
            # Permissions would not stop a user who may do everything.
            self._folder.rename(self._aside)
            self._folder.touch()

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())
        self._left -= 1
        if self._left == 0:
            self.mend()

    def mend(self) -> None:
        self._folder.unlink()
        self._aside.rename(self._folder)


def run(env: Any, unwritable: Unwritable, sink: CollectSink) -> None:
    env.add_listener(unwritable)
    env.from_source(Lists(RECORDS)).key_by(0).sum(1).sink_to(sink)
    log = logging.getLogger("flintstream")
    log.addHandler(unwritable)
    try:
        env.execute("sums")
    finally:
        log.removeHandler(unwritable)


@pytest.mark.row(65)
def test_a_directory_that_cannot_be_written_once_costs_a_warning(new_env, tmp_path):
    sink, unwritable = CollectSink(), Unwritable(tmp_path, after=2, warnings=1)
    run(new_env(max_records=4, checkpoint_dir=tmp_path), unwritable, sink)
    (told,) = unwritable.told
    assert "failure 1 of 2 tolerable ones: epoch 3 could not be written" in told and "manifests" in told
    assert sink.results == SUMS


@pytest.mark.row(65)
def test_three_in_a_row_fail_the_job_with_that_reason_and_nothing_is_lost(new_env, tmp_path):
    sink, unwritable = CollectSink(), Unwritable(tmp_path, after=2, warnings=3)
    with pytest.raises(CommitError, match=r"epoch 3 could not be written \(.*manifests") as caught:
        run(new_env(max_records=4, checkpoint_dir=tmp_path), unwritable, sink)
    assert any("3 failures in a row to write epoch 3" in note for note in caught.value.__notes__)
    assert len(unwritable.told) == 2
    unwritable.mend()
    run(new_env(max_records=4, checkpoint_dir=tmp_path), Unwritable(tmp_path, after=0, warnings=0), sink)
    assert sink.results == SUMS


@pytest.mark.spark
@pytest.mark.row(65)
def test_a_stream_of_sparks_tries_again_with_the_same_batch(make_env, spark_session, tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.txt").write_text(f"{number}\n")
    sink, unwritable = CollectSink(), Unwritable(tmp_path / "checkpoints", after=1, warnings=1)
    env = make_env("spark", checkpoint_dir=tmp_path / "checkpoints")
    env.add_listener(unwritable)
    reader = spark_session.readStream.schema("value STRING").option("maxFilesPerTrigger", 1)
    env.from_dataframe(reader.text(str(tmp_path / "in"))).map(lambda row: row.value).sink_to(sink)
    log = logging.getLogger("flintstream")
    log.addHandler(unwritable)
    read = threading.Event()
    env.add_listener(lambda *_: read.set() if len(sink.results) == 3 else None)
    client = env.execute_async("lines")
    try:
        assert read.wait(WAIT_SECONDS), client.get_job_execution_result().exception()
    finally:
        client.cancel().result(WAIT_SECONDS)
        log.removeHandler(unwritable)
    assert sorted(sink.results) == ["0", "1", "2"]
    assert [told for told in unwritable.told if "failure 1 of 2 tolerable ones: epoch 2" in told]
