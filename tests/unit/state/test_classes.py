from __future__ import annotations

from dataclasses import dataclass

import pytest

from flintstream.errors import IncompatibleStateError
from flintstream.state.classes import class_of, reference_to
from tests.unit.values import Pair


class Outer:
    class Inner:
        pass


def test_a_class_of_a_module_is_named() -> None:
    assert reference_to(Pair) == 'tests.unit.values:Pair|["Any", "Any"]'
    assert class_of("tests.unit.values:Pair") is Pair


def test_a_nested_class_is_found_by_its_full_name() -> None:
    assert class_of(reference_to(Outer.Inner)) is Outer.Inner


def test_a_class_made_in_a_function_is_one_class_per_process() -> None:
    @dataclass
    class Local:
        a: int

    reference = reference_to(Local)
    assert reference.startswith("!")
    assert class_of(reference) is Local


def test_a_class_whose_name_is_taken_by_another_travels_by_value() -> None:
    made = type("Pair", (), {"__module__": "tests.unit.values", "__qualname__": "Pair", "own": 1})
    assert class_of(reference_to(made)) is made
    assert class_of(reference_to(made)) is not Pair


@pytest.mark.parametrize("reference", ["tests.unit.values:Renamed", "no.such.module:Pair", "tests.unit.values:law"])
def test_a_class_that_is_gone_is_named_in_the_error(reference: str) -> None:
    with pytest.raises(IncompatibleStateError, match=reference.partition(":")[2]):
        class_of(reference)
