"""kill -9 of the driver, again and again on one checkpoint directory; the files come out as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.crash.harness import (
    IN_MEMORY,
    RECORDS,
    RETAINED,
    Folders,
    JobProcess,
    check_manifests,
    check_output,
    describe_phase,
    moments,
    write_events,
)


def kill_repeatedly(
    folders: Folders,
    start: Callable[..., JobProcess],
    events: int,
    *,
    kills: int,
    seed: int,
    longest: float = 0.6,
    **options: object,
) -> None:
    print(f"\nseed {seed}")
    for number, (epochs, delay) in enumerate(moments(seed, kills, longest), 1):
        running = start(events, **options)
        alive = running.wait_for_epochs(epochs) and running.wait_seconds(delay)
        assert alive, f"the job ended before kill {number}\n{running.said()}"
        running.kill()
        print(f"kill {number}, {delay:.3f} s behind {epochs} new epochs: {describe_phase(folders)}")
        assert not check_visible(folders), "a file of an epoch that was never committed is visible"
    last = start(events, **options)
    assert last.finish() == 0, last.said()
    check_output(folders, events)


def check_visible(folders: Folders) -> list[str]:
    """Return visible files that belong to no committed epoch."""
    return [name for name in folders.files() if int(name.rsplit("-", 2)[1]) > folders.epoch()]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "entries",
    [
        pytest.param(2_000_000, id="state in memory", marks=pytest.mark.slow),
        pytest.param(1_000, id="state on local disk"),
    ],
)
def test_in_process_runtime_survives_ten_kills(
    folders: Folders, start: Callable[..., JobProcess], entries: int
) -> None:
    options = {"runtime": "local", RECORDS: 2_000, RETAINED: 1_000, IN_MEMORY: entries}
    kill_repeatedly(folders, start, 100_000, kills=10, seed=1, longest=0.1, **options)
    assert check_manifests(folders)[0].epoch == 1


@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.row(67, 71)
def test_driver_on_spark_survives_four_kills(folders: Folders, start: Callable[..., JobProcess]) -> None:
    # State on local disks: a killed driver's workers leave their working stores behind, for others to go on with.
    kill_repeatedly(folders, start, 200_000, kills=4, seed=2, **{RECORDS: 10_000, RETAINED: 1, IN_MEMORY: 4_000})
    check_manifests(folders)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.row(67, 71)
def test_driver_on_spark_survives_ten_kills_over_a_million_events(
    folders: Folders, start: Callable[..., JobProcess]
) -> None:
    kill_repeatedly(folders, start, 1_000_000, kills=10, seed=3, **{RECORDS: 25_000, RETAINED: 1_000})
    assert check_manifests(folders)[0].epoch == 1


@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.row(67, 71)
def test_driver_that_reads_a_stream_of_sparks_survives_four_kills(
    folders: Folders, start: Callable[..., JobProcess]
) -> None:
    """Here Spark has a log of its own: a batch that it hands over again must be recognised."""
    files = folders.root / "input"
    write_events(files, 100_000, files=20)
    kills = 4
    kill_repeatedly(folders, start, 100_000, kills=kills, seed=7, files=files, **{RETAINED: 1_000})
    *read, end = check_manifests(folders)
    assert [m.spark["batch"] for m in read] == list(range(len(read))), "each batch of Spark's is one epoch, no more"
    assert end.spark == read[-1].spark
    # A file each, but two in a batch whose driver died between Spark's list of files and its log of offsets.
    assert 20 - kills <= len(read) <= 20
