from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from flintstream import CloseableIterator, DataGeneratorSource
from flintstream.api.collect import Mailbox
from flintstream.errors import InvalidArgumentError, UserFunctionError
from flintstream.model.job import CompletableFuture, JobClient, JobID, JobStatus


class Job(JobClient):
    """A job that ends when it is told to."""

    def __init__(self):
        self.future = Future()
        self.cancelled = 0

    def get_job_id(self):
        return JobID.generate()

    def get_job_status(self):
        return CompletableFuture.completed(JobStatus.RUNNING)

    def cancel(self):
        self.cancelled += 1
        return CompletableFuture.completed(None)

    def get_accumulators(self):
        return CompletableFuture.completed({})

    def get_job_execution_result(self):
        return CompletableFuture(self.future)

    def caught_up(self):
        return CompletableFuture(Future())

    def trigger_savepoint(self, savepoint_directory=None, **notes):
        return CompletableFuture(Future())

    def stop_with_savepoint(self, advance_to_end_of_event_time, savepoint_directory=None, **notes):
        return CompletableFuture(Future())

    def metrics(self):
        raise NotImplementedError

    def graph(self):
        raise NotImplementedError

    def guarantee(self):
        raise NotImplementedError


def test_records_come_while_the_job_runs():
    job, mailbox = Job(), Mailbox()
    results = CloseableIterator(job, mailbox)
    mailbox.put(1, ["a", "b"])
    assert next(results) == "a"
    assert results.next() == "b"
    mailbox.put(2, [])
    mailbox.put(3, ["c"])
    job.future.set_result(None)
    assert list(results) == ["c"]


def test_a_failure_comes_after_the_records_that_were_committed():
    job, mailbox = Job(), Mailbox()
    mailbox.put(1, ["a"])
    job.future.set_exception(RuntimeError("boom"))
    results = CloseableIterator(job, mailbox)
    assert next(results) == "a"
    with pytest.raises(RuntimeError, match="boom"):
        next(results)


def test_closing_cancels_once_and_ends_the_iteration():
    job, mailbox = Job(), Mailbox()
    with CloseableIterator(job, mailbox) as results:
        mailbox.put(1, ["a", "b"])
        assert next(results) == "a"
    results.close()
    assert job.cancelled == 1
    assert list(results) == []


def test_a_job_that_is_far_ahead_waits_until_closed():
    mailbox = Mailbox()

    def produce():
        for epoch in range(100):
            mailbox.put(epoch, [epoch])

    producer = threading.Thread(target=produce, daemon=True)
    producer.start()
    producer.join(0.3)
    assert producer.is_alive()
    mailbox.close()
    producer.join(5)
    assert not producer.is_alive()


def test_an_endless_job_can_be_left(env):
    source = DataGeneratorSource(generator=lambda index: index, rate=2000.0, splits=1)
    with env.from_source(source).execute_and_collect("numbers") as numbers:
        assert [next(numbers) for _ in range(3)] == [0, 1, 2]


def test_a_limit_gives_a_list(env):
    source = DataGeneratorSource(generator=lambda index: index, rate=2000.0, splits=1)
    assert env.from_source(source).execute_and_collect("numbers", 3) == [0, 1, 2]
    assert env.from_collection([1]).execute_and_collect(limit=3) == [1]
    with pytest.raises(InvalidArgumentError, match=r"limit is 0; test_collect\.py"):
        env.from_collection([1]).execute_and_collect(limit=0)


def test_other_sinks_of_the_program_run_too(env, capsys):
    stream = env.from_collection([1])
    stream.print()
    assert list(stream.execute_and_collect()) == [1]
    assert capsys.readouterr().out == "1\n"


def test_a_failing_job_raises_from_the_iterator(env):
    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        list(env.from_collection([0]).map(lambda x: 1 // x).execute_and_collect())


def test_a_job_that_has_ended_delivers_nothing_again(new_env, tmp_path):
    def results():
        env = new_env(max_records=2, checkpoint_dir=tmp_path)
        return list(env.from_collection(range(5)).map(lambda n: n * n).execute_and_collect())

    assert results() == [0, 1, 4, 9, 16]
    assert results() == []


def test_output_that_was_not_published_before_the_end_is_delivered_by_the_next_start(make_env, tmp_path):
    def results():
        env = make_env("local", checkpoint_dir=tmp_path)
        return list(env.from_collection(range(3)).execute_and_collect())

    assert results() == [0, 1, 2]
    for mark in (tmp_path / "settled").iterdir():
        mark.unlink()  # as if the driver had been killed right after its last commit
    assert results() == [0, 1, 2]
    assert results() == []
