"""The law of the codec: whatever goes in comes out, value for value and type for type."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.model.row import Row, RowKind
from flintstream.state.codec import decode, encode, encode_pickled, field_of, kind_of_arrow, kind_of_field
from tests.unit.values import Frozen, Pair, columns, exactly, law


def through_ipc(array: pa.Array, kind: Any) -> tuple[pa.Array, Any]:
    """Send a column as blobs and changelogs do: an Arrow stream whose schema carries the kind."""
    schema = pa.schema([field_of("value", array, kind)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([array], schema=schema))
    with pa.ipc.open_stream(sink.getvalue()) as reader:
        batch = reader.read_next_batch()
        return batch.column(0), kind_of_field(reader.schema.field(0))


@law
@given(columns())
def test_decode_is_the_inverse_of_encode_down_to_the_types(values: list[Any]) -> None:
    array, kind = encode(values)
    assert exactly(decode(array, kind)) == exactly(values)


@law
@given(columns(min_size=1), st.data())
def test_a_slice_of_a_column_is_the_slice_of_its_values(values: list[Any], data: st.DataObject) -> None:
    array, kind = encode(values)
    start = data.draw(st.integers(0, len(values)))
    stop = data.draw(st.integers(start, len(values)))
    piece = array.slice(start, stop - start)
    assert exactly(decode(piece, kind)) == exactly(values[start:stop])
    inner = data.draw(st.integers(0, stop - start))
    assert exactly(decode(piece.slice(inner), kind)) == exactly(values[start:stop][inner:])
    assert exactly(decode(*through_ipc(piece, kind))) == exactly(values[start:stop])


@law
@given(columns(min_size=1), st.data())
def test_values_can_be_taken_in_any_order(values: list[Any], data: st.DataObject) -> None:
    array, kind = encode(values)
    indices = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=10))
    taken = array.take(pa.array(indices, pa.int64()))
    assert exactly(decode(taken, kind)) == exactly([values[index] for index in indices])
    assert exactly(decode(*through_ipc(taken, kind))) == exactly([values[index] for index in indices])


@law
@given(columns())
def test_a_column_and_its_kind_survive_an_arrow_stream(values: list[Any]) -> None:
    array, kind = through_ipc(*encode(values))
    assert exactly(decode(array, kind)) == exactly(values)


@law
@given(columns(), columns())
def test_columns_of_one_kind_can_be_concatenated(first: list[Any], second: list[Any]) -> None:
    (a, kind), (b, other) = encode(first), encode(second)
    if kind == other and a.type == b.type:
        assert exactly(decode(pa.concat_arrays([a, b]), kind)) == exactly(first + second)


@law
@given(columns())
def test_any_values_can_be_pickled_one_by_one(values: list[Any]) -> None:
    assert exactly(decode(encode_pickled(values), "pickle")) == exactly(values)


KINDS = [
    ([1, None, -(2**63)], "int"),
    ([1.5, float("nan")], "float"),
    (["a", "", None], "str"),
    ([b"a"], "bytes"),
    ([True, None], "bool"),
    ([None, None], "none"),
    ([], "none"),
    ([dt.datetime(2026, 1, 1)], "datetime"),
    ([dt.date(2026, 1, 1)], "date"),
    ([dt.time(1, 2)], "time"),
    ([(1, "a"), None], ["tuple", ["int", "str"]]),
    ([()], ["tuple", []]),
    ([{"a": 1, "b": None}], ["dict", ["a", "b"], ["int", "none"]]),
    ([{}], ["dict", [], []]),
    ([[1], [], None], ["list", "int"]),
    ([[]], ["list", "none"]),
    ([Row(1, "a")], ["row", None, ["int", "str"]]),
    ([Row(a=1)], ["row", ["a"], ["int"]]),
    ([Pair(1, 2)], ["class", 'tests.unit.values:Pair|["Any", "Any"]', ["left", "right"], ["int", "int"]]),
    ([((1, 2.0), [("a",)])], ["tuple", [["tuple", ["int", "float"]], ["list", ["tuple", ["str"]]]]]),
]


@pytest.mark.parametrize(("values", "kind"), KINDS, ids=[json.dumps(kind) for _, kind in KINDS])
def test_uniform_values_become_a_column_other_tools_can_read(values: list[Any], kind: Any) -> None:
    assert encode(values)[1] == kind


SLICED = [
    [1, None, 2**40, 4],
    ["a", None, "longer", ""],
    [True, None, False, True],
    [(1, "a"), None, (2, None), (3, "c")],
    [{"a": 1}, {"a": None}, None, {"a": 2}],
    [[1], [], None, [2, 3]],
    [[[1], []], None, [], [[2, 3], None]],
    [Row(a=[1], b=(2,)), None, Row(a=[], b=(None,)), Row(a=None, b=None)],
    [Pair([1, 2], "a"), Pair([], None), None, Pair(None, "b")],
    [1, "a", None, 2.5],
]


@pytest.mark.parametrize("values", SLICED, ids=repr)
def test_every_part_of_a_column_is_the_part_of_its_values(values: list[Any]) -> None:
    array, kind = encode(values)
    for start in range(5):
        for stop in range(start, 5):
            piece = array.slice(start, stop - start)
            assert exactly(decode(piece, kind)) == exactly(values[start:stop])
            assert exactly(decode(piece.slice(1), kind)) == exactly(values[start:stop][1:])
    for part in (array.slice(1, 2), array.slice(1).take(pa.array([2, 0, 2]))):
        assert exactly(decode(*through_ipc(part, kind))) == exactly(decode(part, kind))
    assert exactly(decode(array.slice(1).take(pa.array([2, 0, 2])), kind)) == exactly([values[i] for i in (3, 1, 3)])


PICKLED = [
    [1, 1.0],
    [1, True],
    [2**63],
    ["\ud800"],
    [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)],
    [dt.datetime(2026, 1, 1, fold=1)],
    [(1,), (1, 2)],
    [{"a": 1}, {"b": 1}],
    [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
    [{1: 2}],
    [{"\ud800": 1}],
    [Row(a=1), Row(b=1)],
    [Row(1, 2)(3, 4)],
    [Row.of_kind(RowKind.DELETE, 1)],
    [Frozen("a")],
    [{1, 2}],
]


@pytest.mark.parametrize("values", PICKLED, ids=repr)
def test_what_has_no_column_of_its_own_is_pickled(values: list[Any]) -> None:
    array, kind = encode(values)
    assert kind == "pickle"
    assert exactly(decode(array, kind)) == exactly(values)


def test_only_the_field_that_needs_it_is_pickled() -> None:
    assert encode([(1, 2), (2, "b")])[1] == ["tuple", ["int", "pickle"]]


def test_a_row_with_an_empty_list_of_names_keeps_it() -> None:
    row = Row()
    row.set_field_names([])
    assert exactly(decode(*encode([row]))) == exactly([row])


@dataclass
class KeywordOnly:
    a: int
    b: int = field(kw_only=True, default=0)


@dataclass
class Derived:
    a: int
    double: int = field(init=False, default=0)


@dataclass
class Checked:
    a: int

    def __post_init__(self) -> None:
        self.a = abs(self.a)


@dataclass
class Handmade:
    a: int

    def __init__(self, a: int) -> None:
        self.a = a + 1


@dataclass
class Seeded:
    a: int
    seed: InitVar[int] = 3


@dataclass
class WithConstant:
    limit: ClassVar[int] = 3
    a: int


class Inheriting(Pair):
    def __init__(self) -> None:
        super().__init__(1, 2)


@dataclass
class Counting:
    a: int

    def __reduce__(self) -> Any:
        return Counting, (self.a + 1,)


class ReducingBase:
    def __reduce__(self) -> Any:
        return RestoredElsewhere, (7,)


@dataclass
class RestoredElsewhere(ReducingBase):
    a: int


@dataclass
class Prickly:
    a: int

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("do not compare me")


HANDMADE = [
    KeywordOnly(1, b=2),
    Derived(1),
    Checked(-1),
    Handmade(1),
    Seeded(1, 4),
    Inheriting(),
]


@pytest.mark.parametrize("value", HANDMADE, ids=lambda value: type(value).__name__)
def test_a_dataclass_that_its_fields_cannot_rebuild_comes_back_unchanged(value: Any) -> None:
    (back,) = decode(*encode([value]))
    assert type(back) is type(value)
    assert vars(back) == vars(value)


@pytest.mark.parametrize("value", [Counting(1), RestoredElsewhere(1)], ids=lambda value: type(value).__name__)
def test_a_dataclass_that_says_how_it_is_pickled_is_pickled(value: Any) -> None:
    assert encode([value])[1] == "pickle"


def test_attributes_added_or_deleted_by_hand_are_kept() -> None:
    added, deleted = Pair(1, 2), Pair(1, 2)
    added.more = 3  # type: ignore[attr-defined]
    del deleted.right
    assert [vars(value) for value in decode(*encode([added]))] == [{"left": 1, "right": 2, "more": 3}]
    assert [vars(value) for value in decode(*encode([deleted]))] == [{"left": 1}]


def test_constants_of_a_class_are_no_fields() -> None:
    assert encode([WithConstant(1)])[1][2:] == [["a"], ["int"]]


def test_encoding_never_compares_the_users_objects() -> None:
    array, kind = encode([Prickly(1), None])
    assert kind[0] == "class"
    assert decode(array, kind)[0].a == 1


def test_a_class_made_in_a_function_travels_by_value() -> None:
    @dataclass
    class Local:
        a: int

    (back,) = decode(*encode([Local(1)]))
    assert type(back) is Local
    assert back.a == 1


def test_foreign_columns_have_their_natural_kind() -> None:
    struct = pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.large_string())]))])
    assert kind_of_arrow(struct) == ["row", ["a", "b"], ["int", ["row", ["c"], ["str"]]]]
    assert kind_of_arrow(pa.float32()) == "float"
    assert kind_of_arrow(pa.decimal128(10, 2)) == "any"
    foreign = pa.array([{"a": 1, "b": {"c": "x"}}, None], struct)
    assert exactly(decode(foreign, kind_of_arrow(struct))) == exactly([Row(a=1, b=Row(c="x")), None])


def test_a_dictionary_of_texts_is_read_as_texts() -> None:
    array = pa.array(["a", "b", "a"]).dictionary_encode()
    assert decode(array, "str") == ["a", "b", "a"]
    assert decode(array.slice(1), "str") == ["b", "a"]
