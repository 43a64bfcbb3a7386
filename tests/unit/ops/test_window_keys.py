from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from flintstream.model.row import Row
from flintstream.ops.window_keys import are_of_one_type, joined_key, key_columns, key_names, numbered_keys, tidied
from flintstream.state.codec import decode, encode
from flintstream.state.partials import concat
from tests.unit.values import Frozen, exactly, law
from tests.unit.values import key_columns as columns_of_keys


def table_of(*batches: list[Any]) -> pa.Table:
    """Return the key columns of batches, put together as state and shuffle do."""
    return concat([pa.table(key_columns(*encode(batch))) for batch in batches])


@law
@given(columns_of_keys(min_size=1))
def test_keys_of_one_batch_come_back_as_they_were(keys: list[Any]) -> None:
    zeros = [0.0 if type(key) is float and key == 0 else key for key in keys]
    if exactly(zeros) == exactly(keys):  # 0.0 stands for -0.0, which equals it
        assert exactly(decode(*joined_key(table_of(keys)))) == exactly(keys)


NAMES = [
    ([1, None], ["k0:int"]),
    (["a"], ["k0:str"]),
    ([None], ["k0:none"]),
    ([(1, "a")], ["k0/2:int", "k1/2:str"]),
    ([(1, None), (None, "a")], ["k0/2:int", "k1/2:str"]),
    ([(1, "a"), None], ["k0:pickle"]),
    ([(None, None)], ["k0:pickle"]),
    ([(1,)], ["k0:pickle"]),
    ([()], ["k0:pickle"]),
    ([(1, (2, 3))], ["k0:pickle"]),
    ([(1, 2), (1, "b")], ["k0:pickle"]),
    ([Row(1, 2)], ["k0:pickle"]),
    ([Frozen("a")], ["k0:pickle"]),
    ([1, "a"], ["k0:pickle"]),
]


@pytest.mark.parametrize(("keys", "names"), NAMES, ids=repr)
def test_the_names_of_the_columns_say_what_keys_there_are(keys: list[Any], names: list[str]) -> None:
    assert key_names(table_of(keys)) == names


def test_a_tuple_of_many_fields_keeps_their_order() -> None:
    key = tuple(range(12))
    table = table_of([key])
    shuffled = table.select(sorted(table.column_names))
    assert decode(*joined_key(shuffled)) == [key]


TOGETHER: list[tuple[list[list[Any]], list[str], bool]] = [
    ([[1, 2], [2, 3]], ["k0:int"], True),
    ([[1], [None]], ["k0:int"], True),
    ([[None], [None]], ["k0:none"], True),
    ([[(1, "a")], [(2, None)]], ["k0/2:int", "k1/2:str"], True),
    ([[(None, "a")], [(None, "b")]], ["k0/2:none", "k1/2:str"], True),
    ([[1], [1.0]], ["k0:int", "k0:float"], False),
    ([[1], ["a"]], ["k0:int", "k0:str"], False),
    ([[(1, 2)], [1]], ["k0/2:int", "k1/2:int", "k0:int"], False),
    ([[(1, 2)], [None]], ["k0/2:int", "k1/2:int"], False),
    ([[(1, 2)], [(1, "a")]], ["k0/2:int", "k1/2:int", "k1/2:str"], False),
    ([[Row(1)], [Row(2)]], ["k0:pickle"], False),
]


@pytest.mark.parametrize(("batches", "names", "uniform"), TOGETHER, ids=repr)
def test_columns_in_which_there_is_nothing_are_left_out(
    batches: list[list[Any]], names: list[str], uniform: bool
) -> None:
    table = tidied(table_of(*batches))
    assert sorted(key_names(table)) == sorted(names)
    assert are_of_one_type(table) == uniform


def test_a_part_of_a_mixed_table_is_of_one_type_again() -> None:
    table = table_of([1, 2], ["a"])
    assert are_of_one_type(tidied(table.slice(0, 2)))
    assert decode(*joined_key(tidied(table.slice(2)))) == ["a"]


@law
@given(columns_of_keys(min_size=1, max_size=4), columns_of_keys(min_size=1, max_size=4))
def test_equal_keys_get_equal_numbers_whatever_their_types(first: list[Any], second: list[Any]) -> None:
    keys = [*first, *second]
    if any(key != key for key in keys) or "nan" in repr(keys):
        return  # a NaN equals nothing
    numbers, columns = numbered_keys(tidied(table_of(first, second)))
    found = decode(*joined_key(pa.table(columns)))
    assert [found[number] for number in numbers.tolist()] == keys
    distinct: dict[Any, int] = {}
    assert numbers.tolist() == [distinct.setdefault(key, len(distinct)) for key in keys]


def test_both_zeros_are_one_key() -> None:
    column = table_of([0.0, -0.0]).column(0)
    assert column.to_numpy().tobytes() == b"\0" * 16
