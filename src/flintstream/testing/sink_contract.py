"""The contract of sinks, as a check that a user's own can be put to.

A sink writes in two phases, and a job may die between any two of its steps. What is tried here is every way in which
that can go wrong, each on the real target: what readers of it see must be what was committed, once.

Flink: SinkTestSuiteBase of flink-connector-test-utils, TwoPhaseCommitSinkFunctionTest.
Differs from Flink: a writer and a committer are ended between any two lines of their code.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from flintstream.errors import InvalidArgumentError, describe
from flintstream.graph.location import users_line
from flintstream.model.connect import Sink, SinkWriter
from flintstream.model.delivery import EAGER
from flintstream.testing.contract import Checked, Judge
from flintstream.testing.crashes import dies_at, home_of, some_steps, steps_of
from flintstream.testing.log_contract import TRAVELS
from flintstream.testing.sink_job import SinkJob
from flintstream.testing.sink_trial import (
    ABORTED,
    ANEW,
    APART,
    COLUMNS,
    COMMITTER_DIES,
    DEAD,
    EMPTY,
    INVISIBLE,
    IS_SINK,
    PARALLEL,
    REPLAY,
    SHOWN,
    SHOWS,
    TAKEN_BACK,
    TWICE,
    WRITER_DIES,
    ZOMBIE,
    Trial,
)

EXACTLY, AT_LEAST = "exactly-once", "at-least-once"


def check_sink(
    make_sink: Callable[[], Sink],
    read_back: Callable[[], Iterable[Any]],
    *,
    record: Callable[[int], Any] = str,
    ordered: bool = True,
    crashes: int = 40,
    starts_anew: bool = True,
    seed: int = 0,
) -> Checked:
    """Prove that a sink keeps the contract of sinks.

    A sink whose `delivery` is "at-least-once" may show records early and more than once; that none is lost is tried.

    Args:
        make_sink: Makes the sink as the program does, on one target; called often, for every start of the job is one.
        read_back: Returns all records that a reader of the target sees now, as `record` made them.
        record: Makes the record with a number; no two are the same. Texts, if nothing else is said.
        ordered: Whether the target keeps the order of records.
        crashes: At how many lines of its writers, and of its committer, the sink is ended.
        starts_anew: Whether the job may be started without its checkpoints, on the same target.
        seed: Another seed ends it at other lines, if there are more than `crashes`.

    Returns:
        The rules that held, and how many records they were tried on.

    Raises:
        ContractError: a rule is broken. The message names it, and the records that show it.
    """
    judge = Judge("the sink", Checked())
    judge.rule(IS_SINK)
    sink: Any = judge.asked("make_sink()", make_sink, "return a new sink")
    judge.require(isinstance(sink, Sink), f"make_sink() returned {sink!r:.100}", "derive it from Sink")
    if sink.delivery not in (EXACTLY, AT_LEAST):
        what = f"a sink whose delivery is {sink.delivery!r} promises nothing that could be proved"
        raise InvalidArgumentError(describe(what, users_line(), f"check it with delivery {EXACTLY!r}"))
    trial = _Scenarios(judge, make_sink, read_back, record, ordered, sink.delivery == EXACTLY)
    judge.rule(TRAVELS)
    judge.copied(sink, "sink")
    trial.plain_epochs()
    trial.parallel()
    trial.empty_epochs()
    trial.columns()
    trial.neighbours()
    if starts_anew:
        trial.second_life()
    trial.lost_attempts()
    rng = random.Random(seed)
    trial.dying_writers(crashes, rng)
    trial.dying_commits(crashes, rng)
    if EAGER in sink.deliveries():
        trial.early_output()
    return judge.checked


class _Scenarios(Trial):
    """One method for each group of rules."""

    def plain_epochs(self) -> None:
        """Commit epochs one after the other, and again, and after a restart."""
        job = self.job()
        for _ in range(2):
            share = self.records()
            writer = job.writer()
            self.judge.rule(INVISIBLE)
            job.write(writer, share)
            self.invisible()
            parts = job.prepare(writer)
            self.invisible()
            self.judge.rule(SHOWS)
            job.commit(parts)
            self.expect([share])
            self.in_order(share)
            self.judge.rule(TWICE)
            job.publish(parts, job.epoch, stored=False)
            self.expect()
            self.judge.rule(REPLAY)
            job.restart()
            job.publish(parts, job.epoch)
            self.expect()

    def parallel(self) -> None:
        """Let several subtasks write one epoch."""
        self.judge.rule(PARALLEL)
        job = self.job()
        for count in (3, 2):
            shares = [self.records() for _ in range(count)]
            job.commit(job.stage(*shares), stored=True)
            self.expect(shares)
            for share in shares:
                self.in_order(share)
            self.judge.rule(PARALLEL)

    def empty_epochs(self) -> None:
        """Leave out epochs, and records."""
        job = self.job()
        self.judge.rule(EMPTY)
        writer = job.writer()
        job.write(writer, [])
        parts = job.prepare(writer)
        if parts:
            job.commit(parts)
        self.expect()
        job.epoch += 3
        share = self.records()
        job.commit(job.stage(share, []))
        self.expect([share])

    def columns(self) -> None:
        """Write Arrow columns, if the sink takes them."""
        job = self.job()
        writer = job.writer()
        if type(writer).write_column is SinkWriter.write_column:
            writer.abort()
            return
        self.judge.rule(COLUMNS)
        first, second = self.records(), self.records()
        job.write_column(writer, first)
        job.write(writer, second)
        job.commit(job.prepare(writer))
        self.expect([first, second])
        self.in_order(first + second)

    def neighbours(self) -> None:
        """Let one sink wait with its commit while another goes on."""
        self.judge.rule(APART)
        one, other = self.job(), self.job()
        waiting = self.records()
        parts = one.stage(waiting)
        for _ in range(2):
            share = self.records()
            other.commit(other.stage(share))
            self.expect([share])
            other.restart()
        one.commit(parts)
        self.expect([waiting])

    def second_life(self) -> None:
        """Start a job again without its checkpoints."""
        self.judge.rule(ANEW)
        job = self.job()
        for _ in range(2):
            for _ in range(2):
                share = self.records()
                job.commit(job.stage(share))
                self.expect([share])
            job = job.start_anew()

    def lost_attempts(self) -> None:
        """Have attempts aborted, die and come late; another one takes their place each time."""
        if not self.exactly:
            return
        job = self.job()
        for rule, lose in ((ABORTED, self._abort), (DEAD, self._drop)):
            for prepared in (False, True):
                self.judge.rule(rule)
                writer = job.writer()
                job.write(writer, self.records())
                if prepared:
                    job.prepare(writer)
                lose(writer)
                self._replace(job)
        for prepared in (False, True):
            self.judge.rule(ZOMBIE)
            zombie = job.writer()
            job.write(zombie, self.records())
            if prepared:
                job.prepare(zombie)
            share = self.records()
            job.commit(job.stage(share))
            # A latecomer may find its place gone, and fail: that is its own affair.
            with suppress(Exception):
                if not prepared:
                    zombie.write(self.records(), [0] * 4)
                    zombie.prepare_commit()
            self.expect([share])
            self._replace(job)

    def _abort(self, writer: SinkWriter) -> None:
        self.judge.asked("abort()", writer.abort, "undo what can be undone, and do not raise")

    def _drop(self, writer: SinkWriter) -> None:
        """Do nothing: a process that died says nothing."""

    def _replace(self, job: SinkJob) -> None:
        """Let another attempt commit the epoch, and an epoch after it."""
        self.invisible()
        for _ in range(2):
            share = self.records()
            job.commit(job.stage(share))
            self.expect([share])

    def dying_writers(self, crashes: int, rng: random.Random) -> None:
        """End a writer between any two of its lines, and have its epoch written again."""
        if not self.exactly:
            return
        job = self.job()
        self.judge.rule(WRITER_DIES)
        home = home_of(type(job.writer()).write)

        def attempt() -> list[Any]:
            return job.stage(self.records())

        for step in some_steps(steps_of(attempt, home), crashes, rng):
            dies_at(step, attempt, home)
            self.invisible()
            job.restart()
            share = self.records()
            job.commit(job.stage(share))
            self.expect([share])

    def dying_commits(self, crashes: int, rng: random.Random) -> None:
        """End a committer between any two of its lines, and have the epoch published again."""
        job = self.job()
        self.judge.rule(COMMITTER_DIES)
        home = home_of(type(job.committer).commit)
        shares = [self.records(), self.records()]
        parts = job.stage(*shares)
        steps = steps_of(lambda: job.commit(parts), home)
        self.expect(shares)
        for step in some_steps(steps, crashes, rng):
            shares = [self.records(), self.records()]
            parts = job.stage(*shares)
            died = dies_at(step, lambda: job.publish(parts, job.epoch + 1), home)  # noqa: B023 - called at once
            if died:
                job.restart()
            job.commit(parts, stored=died)
            self.expect(shares)
            job.restart()
            job.publish(parts, job.epoch)
            self.expect()

    def early_output(self) -> None:
        """Let output show before its commit, fail in between, and start again."""
        job = self.job(lambda: self.make_sink().delivering(EAGER))
        for _ in range(2):
            self.judge.rule(SHOWN)
            share = self.records()
            parts = job.stage(share)
            job.show(parts)
            self.expect([share])
            job.commit(parts)
            self.expect()
            self.judge.rule(TAKEN_BACK)
            # The epoch fails and runs again in the same process.
            job.show(job.stage(self.records()))
            again = self.records()
            parts = job.stage(again)
            job.show(parts)
            job.commit(parts)
            self.expect([again])
            # The process dies, and another begins with what was committed.
            job.show(job.stage(self.records()))
            job.restart()
            job.roll_back()
            job.publish(parts, job.epoch)
            self.expect()
