"""The contract of sinks: one that keeps it passes, and for each rule one that breaks it is told so."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest

from flintstream import Committer, Sink, SinkWriter, WriterContext
from flintstream.errors import ContractError, InvalidArgumentError
from flintstream.testing import check_sink, log_contract, sink_job, sink_trial
from flintstream.testing.crashes import some_steps
from tests.testing.sinks import BROKEN, Backwards, EarlyFiles, Files, Ledger, LosesColumns, LosesTheLast, visible

RULES = {log_contract.TRAVELS, sink_job.NAMED} | {
    value
    for name, value in vars(sink_trial).items()
    if name.isupper() and isinstance(value, str) and " " in value and not name.startswith("_")
}


def check(make: Any, folder: Path, **options: Any) -> Any:
    folder.mkdir(exist_ok=True)
    return check_sink(lambda: make(folder), lambda: visible(folder), **options)


def test_a_sink_that_keeps_the_contract_passes(tmp_path: Path):
    checked = check(Files, tmp_path)
    assert set(checked.rules) == RULES - {sink_trial.COLUMNS, sink_trial.SHOWN, sink_trial.TAKEN_BACK}
    assert checked.records > 200


def test_a_sink_that_can_show_output_early_is_tried_in_that_too(tmp_path: Path):
    assert {sink_trial.SHOWN, sink_trial.TAKEN_BACK} <= set(check(EarlyFiles, tmp_path, crashes=1).rules)


def test_what_was_there_before_does_not_matter(tmp_path: Path):
    (tmp_path / "old.txt").write_text("0\n1\n2\n")
    check(Files, tmp_path, crashes=1)


@pytest.mark.parametrize(("rule", "make"), [pytest.param(*each, id=each[1].__name__) for each in BROKEN])
def test_a_broken_rule_is_named(rule: str, make: Any, tmp_path: Path):
    with pytest.raises(ContractError) as caught:
        check(make, tmp_path)
    assert caught.value.rule == rule, caught.value
    assert str(caught.value).startswith(f"the sink breaks the rule '{rule}': ")
    assert re.search(r"; test_check_sink\.py:\d+; \w", str(caught.value))


def test_every_rule_has_a_sink_that_breaks_it():
    assert {rule for rule, _ in BROKEN} == RULES


def test_the_records_that_show_it_are_in_the_message(tmp_path: Path):
    with pytest.raises(ContractError, match=r"readers miss \['\d+'\]; "):
        check(LosesTheLast, tmp_path)


def test_a_target_without_an_order_is_not_asked_for_one(tmp_path: Path):
    assert sink_trial.ORDER not in check(Backwards, tmp_path, ordered=False, crashes=1).rules


def test_a_job_that_never_starts_anew_is_not_made_to(tmp_path: Path):
    assert sink_trial.ANEW not in check(Ledger, tmp_path, starts_anew=False, crashes=0).rules


def test_records_are_what_the_target_takes(tmp_path: Path):
    class Numbers(Files):
        class writer(Files.writer):
            def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
                super().write([value + 1 for value in values], timestamps)

    check_sink(lambda: Numbers(tmp_path), lambda: [int(line) - 1 for line in visible(tmp_path)], record=int, crashes=1)
    with pytest.raises(ContractError, match="can only concatenate str"):
        check(Numbers, tmp_path)


class Counted(Files):
    """Counts what is asked of its writers."""

    calls: ClassVar[list[str]] = []

    class writer(Files.writer):
        def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
            Counted.calls.append("write")
            super().write(values, timestamps)

        def prepare_commit(self) -> Any:
            Counted.calls.append("prepare_commit")
            return super().prepare_commit()


def calls(folder: Path, **options: Any) -> int:
    Counted.calls.clear()
    check(Counted, folder, **options)
    return len(Counted.calls)


def test_crashes_are_as_many_as_asked_for(tmp_path: Path):
    none, one, all_of_them = (calls(tmp_path, crashes=crashes) for crashes in (0, 1, 1000))
    assert none < one < all_of_them


def test_another_seed_crashes_elsewhere():
    chosen = [some_steps(50, 6, Random(seed)) for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert {0, 49} < set(chosen[0])
    assert some_steps(4, 6, Random(0)) == [0, 1, 2, 3]


def test_another_seed_reaches_the_sink(tmp_path: Path):
    """A writer that dies early is asked for less."""
    assert len({calls(tmp_path / str(seed), crashes=1, seed=seed) for seed in range(5)}) > 1


def test_tracing_is_put_back(tmp_path: Path):
    before = sys.gettrace()
    check(Files, tmp_path, crashes=2)
    assert sys.gettrace() is before


class Telling(Sink):
    """Tells each record when it comes, and again if it comes again."""

    delivery = "at-least-once"
    told: ClassVar[list[Any]] = []
    forgets = False

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Teller(type(self).forgets)

    def create_committer(self) -> Committer:
        return _Nothing()


class _Teller(SinkWriter):
    def __init__(self, forgets: bool) -> None:
        self.forgets = forgets

    def write(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        Telling.told += values[1:] if self.forgets else values

    def prepare_commit(self) -> Any:
        return None


class _Nothing(Committer):
    def commit(self, job: str, uid: str, epoch: int, committables: Sequence[Any]) -> None:
        """All is told."""


def test_a_sink_that_delivers_at_least_once_may_show_records_early_but_loses_none():
    checked = check_sink(Telling, lambda: Telling.told)
    assert {sink_trial.SHOWS, sink_trial.COMMITTER_DIES} <= set(checked.rules)
    assert sink_trial.ZOMBIE not in checked.rules

    class Forgets(Telling):
        forgets = True

    with pytest.raises(ContractError, match="readers miss"):
        check_sink(Forgets, lambda: Telling.told)


def test_a_sink_without_a_promise_is_refused(tmp_path: Path):
    class Whatever(Files):
        delivery = "none"

    with pytest.raises(InvalidArgumentError, match="promises nothing that could be proved"):
        check(Whatever, tmp_path)


def test_columns_are_tried_where_a_sink_takes_them(tmp_path: Path):
    class TakesColumns(LosesColumns):
        class writer(Files.writer):
            def write_column(self, array: Any, kind: Any, timestamps: Any) -> bool:
                self.write(array.to_pylist(), timestamps)
                return True

    assert sink_trial.COLUMNS in check(TakesColumns, tmp_path, crashes=1).rules
