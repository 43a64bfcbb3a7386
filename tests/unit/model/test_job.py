"""Jobs as their client sees them."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from flintstream.errors import InvalidArgumentError
from flintstream.model.job import CompletableFuture, JobExecutionResult, JobID, JobStatus


def test_which_states_are_the_end() -> None:
    over = {status for status in JobStatus if status.is_globally_terminal_state()}
    assert over == {JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED}
    assert {status for status in JobStatus if status.is_terminal_state()} == over | {JobStatus.SUSPENDED}


def test_job_ids_are_32_hexadecimal_digits() -> None:
    one, other = JobID.generate(), JobID.generate()
    assert one != other
    assert JobID(str(one)) == one
    for wrong in ("", "abc", "g" * 32, "A" * 32):
        with pytest.raises(InvalidArgumentError):
            JobID(wrong)


def test_results_say_what_ran_and_how_long() -> None:
    job_id = JobID.generate()
    result = JobExecutionResult(job_id, 1_500, {"n": 3})
    assert (result.get_job_id(), result.get_net_runtime()) == (job_id, 1_500)
    assert (result.get_accumulator_result("n"), result.get_accumulator_result("m")) == (3, None)
    assert result.get_all_accumulator_results() == {"n": 3}
    assert JobExecutionResult(job_id, 0).get_all_accumulator_results() == {}
    assert str(result) == f"job {job_id} ran for 1500 ms"


def test_a_future_that_is_not_done_has_no_exception_yet() -> None:
    inner: Future[int] = Future()
    future = CompletableFuture(inner)
    assert (future.done(), future.cancelled(), future.exception()) == (False, False, None)
    with pytest.raises(TimeoutError):
        future.result(timeout=0.01)
    inner.set_result(5)
    assert (future.done(), future.result(), future.exception()) == (True, 5, None)


def test_a_failed_future_gives_and_raises_what_went_wrong() -> None:
    inner: Future[int] = Future()
    error = KeyError("x")
    inner.set_exception(error)
    future = CompletableFuture(inner)
    assert future.done() and future.exception() is error
    with pytest.raises(KeyError):
        future.result()


def test_a_cancelled_future_says_so() -> None:
    future = CompletableFuture(Future[int]())
    assert future.cancel()
    assert future.cancelled() and future.done()
    assert isinstance(future.exception(), CancelledError)


def test_a_callback_gets_the_future_itself() -> None:
    seen: list[Any] = []
    done = CompletableFuture.completed(7)
    done.add_done_callback(seen.append)
    inner: Future[int] = Future()
    later = CompletableFuture(inner)
    later.add_done_callback(seen.append)
    assert seen == [done]
    inner.set_result(1)
    assert seen == [done, later]
    assert not done.cancel()
