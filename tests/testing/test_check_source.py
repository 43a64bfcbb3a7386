"""The contract of sources: one that keeps it passes, and for each rule one that breaks it is told so."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import pytest

from flintstream import NumberSequenceSource
from flintstream.errors import ContractError
from flintstream.testing import check_source, log_contract, ranges, source_contract
from tests.testing.sources import (
    BROKEN,
    BROKEN_LOGS,
    COUNT,
    AnotherEveryTime,
    Blocks,
    Fixed,
    Log,
    NewestOfAll,
    Numbers,
    Shares,
    kept,
)

RULES = {
    value
    for module in (source_contract, log_contract, ranges)
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, str)
}


def test_a_source_that_keeps_the_contract_passes():
    checked = check_source(Numbers)
    assert checked.records == 3 * COUNT
    assert set(checked.rules) == RULES - {
        log_contract.NAMES,
        log_contract.KNOWN,
        log_contract.AVAILABLE,
        log_contract.ONWARDS,
        log_contract.COMMITTED,
        log_contract.TIMES,
        source_contract.GROWN,
        ranges.TIMED,
    }


def test_a_log_that_keeps_the_contract_passes():
    log = kept()

    def grow() -> None:
        log["left"] += [20, 21]
        log["new"] = [1]

    checked = check_source(lambda: Log(log), grow=grow)
    assert checked.records == 30
    assert set(checked.rules) == {
        source_contract.IS_SOURCE,
        *(value for name, value in vars(log_contract).items() if name.isupper() and isinstance(value, str)),
        *(value for name, value in vars(ranges).items() if name.isupper() and isinstance(value, str)),
    }


@pytest.mark.parametrize(("rule", "make"), [pytest.param(*each, id=each[1].__name__) for each in BROKEN])
def test_a_broken_rule_is_named(rule: str, make: Any):
    with pytest.raises(ContractError) as caught:
        check_source(make)
    assert caught.value.rule == rule, caught.value
    assert str(caught.value).startswith(f"the source breaks the rule '{rule}': ")
    assert re.search(r"; test_check_source\.py:\d+; \w", str(caught.value))


@pytest.mark.parametrize(("rule", "make"), [pytest.param(*each, id=each[1].__name__) for each in BROKEN_LOGS])
def test_a_broken_rule_of_logs_is_named(rule: str, make: Any):
    log = kept()
    with pytest.raises(ContractError) as caught:
        check_source(lambda: make(log), grow=lambda: log["left"].append(20))
    assert caught.value.rule == rule, caught.value


def test_every_rule_has_a_source_that_breaks_it():
    assert {source_contract.GROWN, *(rule for rule, _ in [*BROKEN, *BROKEN_LOGS])} == RULES


def test_the_values_that_show_it_are_in_the_message():
    with pytest.raises(ContractError, match=r"read\(0, 0, 30\) gave \(0, \d+\) as record 0, and again \(0, \d+\)"):
        check_source(AnotherEveryTime)


def test_a_log_that_does_not_grow_is_told_so():
    with pytest.raises(ContractError, match="nothing more can be read after the log has grown"):
        check_source(lambda: Log(kept()), grow=lambda: None)


def test_a_source_that_raises_is_told_so():
    class Raises(Numbers):
        def read(self, split: int, start: int, end: int) -> Any:
            raise OSError("the disk is gone")

    with pytest.raises(ContractError, match="raised OSError: the disk is gone"):
        check_source(Raises)


def test_positions_bound_how_much_is_read():
    assert check_source(lambda: NumberSequenceSource(1, 10**9), positions=10).records == (1 + 2 + 3) * 20


class Remembers(Numbers):
    """Remembers what was read of it."""

    cuts: ClassVar[set[tuple[int, int]]] = set()

    def read(self, split: int, start: int, end: int) -> Any:
        Remembers.cuts.add((start, end))
        return super().read(split, start, end)


def test_another_seed_cuts_elsewhere():
    seen = []
    for seed in (0, 0, 1):
        Remembers.cuts = set()
        check_source(Remembers, seed=seed)
        seen.append(Remembers.cuts)
    assert seen[0] == seen[1] != seen[2]


@pytest.mark.parametrize(
    ("make", "rule"),
    [(Blocks, None), (Shares, source_contract.GROWN), (NewestOfAll, ranges.AGAIN), (Fixed, source_contract.GROWN)],
)
def test_a_source_that_grows_between_two_starts_keeps_its_positions(make: Any, rule: str | None):
    kept = list(range(30))
    if rule is None:
        assert source_contract.GROWN in check_source(lambda: make(kept), grow=lambda: kept.extend(range(30, 50))).rules
        return
    with pytest.raises(ContractError) as caught:
        check_source(lambda: make(kept), grow=lambda: kept.extend(range(30, 50)))
    assert caught.value.rule == rule, caught.value
