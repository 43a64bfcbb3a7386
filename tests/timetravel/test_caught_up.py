"""The word that a job has caught up: when it comes, what it says, and when it cannot come."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import CancelledError
from typing import Any

import pytest

from flintstream import CollectSink, DataGeneratorSource, DiscardingSink, JobStatus
from flintstream.engine.epoch import ReadRange
from flintstream.engine.replay_catchup import PENDING, CatchUp
from flintstream.errors import UserFunctionError
from flintstream.model.connect import Split
from tests.timetravel.log import FileLog, append, filled

WAIT = 60


@pytest.fixture
def local(make_env: Any) -> Any:
    return lambda **settings: make_env("local", **settings)


def test_a_job_reads_the_past_says_so_and_goes_on(local, tmp_path, caplog, capsys):
    folder = filled(tmp_path / "log", a=[(n, n) for n in range(100)])
    came, sink = threading.Event(), CollectSink(lambda epoch, values: came.set() if "live" in values else None)
    env = local(max_records=30)
    env.show_progress()
    env.from_source(FileLog(folder), start_from={"a": 10}).uid("log").sink_to(sink)
    with caplog.at_level(logging.INFO, logger="flintstream"):
        client = env.execute_async("travel")
        word = client.caught_up().result(WAIT)
    assert (word.epoch, word.records) == (3, 90)
    assert client.get_job_status().result() is JobStatus.RUNNING
    assert client.get_accumulators().result()["log"][PENDING] == 0
    append(folder, "a", [(100, "live")])
    assert came.wait(WAIT)
    client.cancel().result(WAIT)
    assert client.caught_up().result() is word
    told = f"job 'travel' {word}"
    assert "has caught up: 90 records in" in told and "by epoch 3; it goes on live" in told
    assert [record.getMessage() for record in caplog.records].count(told) == 1
    assert capsys.readouterr().err.count(told) == 1


def test_a_job_that_has_nothing_to_catch_up_with_says_so_at_once(local, tmp_path):
    env = local()
    env.from_source(FileLog(filled(tmp_path / "log", a=[])), start_from="now").sink_to(DiscardingSink())
    client = env.execute_async()
    assert client.caught_up().result(WAIT).records == 0
    client.cancel().result(WAIT)


def test_a_bounded_job_has_caught_up_at_its_end(local):
    env = local(max_records=3)
    env.from_source(DataGeneratorSource(generator=int, count=10)).sink_to(DiscardingSink())
    client = env.execute_async()
    client.get_job_execution_result().result(WAIT)
    assert client.caught_up().result().records == 10


def test_who_waits_for_a_job_that_fails_is_told_why(local, tmp_path):
    env = local()
    log = FileLog(filled(tmp_path / "log", a=[(0, 0)]))
    env.from_source(log).map(lambda n: 1 // n).sink_to(DiscardingSink())
    with pytest.raises(UserFunctionError):
        env.execute_async().caught_up().result(WAIT)


def test_who_waits_for_a_job_that_is_cancelled_waits_no_longer(local, tmp_path):
    entered, leave = threading.Event(), threading.Event()

    def wait(n: int) -> int:
        entered.set()
        assert leave.wait(WAIT)
        return n

    class Never(FileLog):
        def available(self, names):
            return dict.fromkeys(names, 1 << 40)

        def read_part(self, name, start, end):
            wait(start)
            return super().read_part(name, 0, 1)

    env = local(max_records=1)
    env.from_source(Never(filled(tmp_path / "log", a=[(0, 0)]))).sink_to(DiscardingSink())
    client = env.execute_async()
    assert entered.wait(WAIT)
    ended = client.cancel()
    leave.set()
    ended.result(WAIT)
    with pytest.raises(CancelledError):
        client.caught_up().result(WAIT)


def plan_with(local: Any, *sources: Any) -> Any:
    env = local()
    for source in sources:
        env.from_source(source).sink_to(DiscardingSink())
    return env.compile("job")


def test_an_epoch_that_takes_all_that_is_there_is_what_counts(local, tmp_path):
    plan = plan_with(local, FileLog(filled(tmp_path / "log", a=[])))
    source = plan.operators[0].id
    catch_up, splits = CatchUp(plan), {source: [Split(0, name="a"), Split(1, name="b")]}

    def epoch(
        number: int, positions: tuple[int, int], ends: tuple[int, int], there: tuple[int, int], closed=()
    ) -> bool:
        ranges = [ReadRange(source, split, positions[split], ends[split]) for split in (0, 1)]
        available = {(source, split): there[split] for split in (0, 1)}
        catch_up.planned(splits, {source: dict(enumerate(positions))}, ranges, available, closed)
        catch_up.committed(number)
        return catch_up.future.done()

    assert not epoch(1, (0, 0), (5, 5), (10, 5))
    assert catch_up.metrics() == {"filelog-1": {PENDING: 5}}
    # All that was there at the start is read, but as much has come since: it is still behind.
    assert not epoch(2, (5, 5), (10, 5), (10, 9))
    assert not epoch(3, (10, 5), (10, 9), (12, 9))
    assert epoch(4, (10, 9), (12, 9), (12, 9))
    assert catch_up.future.result().records == 15
    # A split whose range of time is over is read no further, and nobody waits for it.
    other = catch_up = CatchUp(plan)
    assert epoch(1, (0, 0), (0, 9), (10, 9), {(source, 0)})
    assert other.metrics() == {"filelog-1": {PENDING: 0}}


def test_what_never_ends_and_never_waits_has_no_backlog(local):
    plan = plan_with(local, DataGeneratorSource(generator=int))
    catch_up, source = CatchUp(plan), plan.operators[0].id
    catch_up.planned({source: [Split(0)]}, {source: {0: 7}}, [ReadRange(source, 0, 7, 9)], {})
    assert catch_up.metrics() == {}
