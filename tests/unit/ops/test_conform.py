from __future__ import annotations

import datetime as dt
import pickle
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from flintstream.errors import TypeMismatchError
from flintstream.model.row import Row, RowKind
from flintstream.model.time import Instant
from flintstream.model.types import Types
from flintstream.ops.batch import Values
from flintstream.ops.conform import TypedKey, conform_to
from flintstream.ops.selectors import FieldKey, FunctionKey


@dataclass(frozen=True)
class Reading:
    sensor: str
    value: float


class Named:
    def __init__(self, n, s):
        self.n = n
        self.s = s

    def __repr__(self):
        return "Named"


def conformed(type_info, rows):
    return conform_to(type_info, "count", "job.py:7")(Values(rows)).rows()


def refuse(type_info, rows) -> TypeMismatchError:
    with pytest.raises(TypeMismatchError) as caught:
        conformed(type_info, rows)
    return caught.value


FITTING = [
    (Types.STRING(), ["a", None]),
    (Types.BOOLEAN(), [True]),
    (Types.BYTE(), [-128, 127]),
    (Types.SHORT(), [-32768, 32767]),
    (Types.INT(), [-(2**31), 2**31 - 1, None]),
    (Types.LONG(), [-(2**63), 2**63 - 1]),
    (Types.BIG_INT(), [2**80]),
    (Types.BIG_DEC(), [Decimal("1.5")]),
    (Types.FLOAT(), [0.5, None]),
    (Types.DOUBLE(), [0.1, float("inf")]),
    (Types.CHAR(), ["x"]),
    (Types.INSTANT(), [Instant(1, 0)]),
    (Types.SQL_DATE(), [dt.date(2026, 1, 1)]),
    (Types.SQL_TIME(), [dt.time(1)]),
    (Types.SQL_TIMESTAMP(), [dt.datetime(2026, 1, 1)]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"x"]),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [[1, 2], []]),
    (Types.BASIC_ARRAY(Types.STRING()), [["a", None]]),
    (Types.OBJECT_ARRAY(Types.TUPLE([Types.INT()])), [[(1,)]]),
    (Types.LIST(Types.LONG()), [[1], [], None]),
    (Types.MAP(Types.STRING(), Types.INT()), [{"a": 1}, {}]),
    (Types.TUPLE([Types.STRING(), Types.INT()]), [("a", 1), None, ("b", None)]),
    (Types.ROW([Types.INT()]), [Row(1)]),
    (Types.ROW_NAMED(["n"], [Types.INT()]), [Row(n=1)]),
    (Types.DICT({"n": Types.INT()}), [{"n": 1}]),
    (Types.DATACLASS(Reading), [Reading("a", 1.0)]),
    (Types.PICKLED_BYTE_ARRAY(), [object, 1, "x", None]),
]


@pytest.mark.parametrize(("type_info", "rows"), FITTING, ids=lambda each: str(each)[:40])
def test_values_of_the_declared_type_pass_as_the_same_objects(type_info, rows):
    values = Values(rows)
    assert conform_to(type_info, "count", "job.py:7")(values) is values


REFUSED = [
    (Types.STRING(), [1], "1"),
    (Types.INT(), ["1"], "'1'"),
    (Types.INT(), [True], "True"),
    (Types.INT(), [2**31], "2147483648"),
    (Types.BYTE(), [-129], "-129"),
    (Types.LONG(), [2**63], "9223372036854775808"),
    (Types.LONG(), [1.0], "1.0"),
    (Types.DOUBLE(), ["x"], "'x'"),
    (Types.DOUBLE(), [10**400], "too great"),
    (Types.FLOAT(), [1e300], "1e+300"),
    (Types.BOOLEAN(), [1], "1"),
    (Types.CHAR(), ["xy"], "'xy'"),
    (Types.SQL_DATE(), [dt.datetime(2026, 1, 1)], "datetime"),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [[1, None]], "None inside"),
    (Types.LIST(Types.INT()), ["ab"], "'ab'"),
    (Types.LIST(Types.INT()), [[1, "x"]], "'x'"),
    (Types.MAP(Types.STRING(), Types.INT()), [{None: 1}], "None as a key"),
    (Types.MAP(Types.STRING(), Types.INT()), [[1]], "[1]"),
    (Types.TUPLE([Types.INT()]), [(1, 2)], "2 fields instead of 1"),
    (Types.TUPLE([Types.INT()]), [3], "3"),
    (Types.ROW([Types.INT()]), [Row(1, 2)], "2 fields instead of 1"),
    (Types.ROW_NAMED(["n"], [Types.INT()]), [Row(m=1)], "no field m is declared"),
    (Types.ROW_NAMED(["n"], [Types.INT()]), [{"n": 1, "more": 0}], "no field more is declared"),
    (Types.ROW_NAMED(["n"], [Types.INT()]), [3], "3"),
    (Types.DICT({"n": Types.INT()}), [{"m": 1}], "keys other than n"),
    (Types.DICT({"n": Types.INT()}), [(1,)], "(1,)"),
    (Types.DATACLASS(Reading), [("a", 1.0)], "('a', 1.0)"),
]


@pytest.mark.parametrize(("type_info", "rows", "named"), REFUSED, ids=lambda each: str(each)[:40])
def test_a_value_that_does_not_fit_is_named(type_info, rows, named):
    assert named in str(refuse(type_info, rows))


def test_the_error_names_operator_line_field_and_type():
    error = refuse(Types.TUPLE([Types.STRING(), Types.ROW_NAMED(["n"], [Types.INT()])]), [("a", Row(n="one"))])
    assert error.code == "type-mismatch"
    assert error.location == "job.py:7"
    assert str(error) == (
        "'count' emitted 'one' in field f1.n, but its declared type is TUPLE<STRING, ROW<n: INT>>; job.py:7; "
        "return what was declared, or declare another type"
    )


def test_integers_become_floats_where_floats_are_declared():
    assert list(map(repr, conformed(Types.DOUBLE(), [1, 2.5, None]))) == ["1.0", "2.5", "None"]
    assert list(map(repr, conformed(Types.TUPLE([Types.STRING(), Types.DOUBLE()]), [("a", 1)]))) == ["('a', 1.0)"]
    assert repr(*conformed(Types.DATACLASS(Reading), [Reading("a", 1)])).endswith("value=1.0)")
    assert list(map(repr, conformed(Types.DICT({"x": Types.DOUBLE()}), [{"x": 1}]))) == ["{'x': 1.0}"]
    assert list(map(repr, conformed(Types.LIST(Types.DOUBLE()), [[1], [], [2, 3]]))) == ["[1.0]", "[]", "[2.0, 3.0]"]
    assert list(map(repr, conformed(Types.MAP(Types.STRING(), Types.DOUBLE()), [{"a": 1}, {}]))) == ["{'a': 1.0}", "{}"]


def test_a_float_of_32_bits_is_rounded_to_them():
    assert conformed(Types.FLOAT(), [0.1, None, 2]) == [0.10000000149011612, None, 2.0]


def test_numbers_of_numpy_become_numbers_of_python():
    (whole,) = conformed(Types.LONG(), [np.int32(3)])
    (part,) = conformed(Types.DOUBLE(), [np.float32(0.5)])
    assert (type(whole), whole, type(part), part) == (int, 3, float, 0.5)


@pytest.mark.parametrize(
    "value",
    [Row(1, "a"), (1, "a"), [1, "a"], Row(n=1, s="a"), Row(s="a", n=1), {"n": 1, "s": "a"}, Named(1, "a")],
    ids=repr,
)
def test_what_has_the_fields_becomes_a_row_with_the_declared_names(value):
    (row,) = conformed(Types.ROW_NAMED(["n", "s"], [Types.INT(), Types.STRING()]), [value])
    assert type(row) is Row
    assert row.get_field_names() == ["n", "s"]
    assert list(row) == [1, "a"]


def test_a_row_keeps_its_kind():
    (row,) = conformed(Types.ROW_NAMED(["n"], [Types.DOUBLE()]), [Row.of_kind(RowKind.DELETE, 1)])
    assert row.get_row_kind() is RowKind.DELETE
    assert row.n == 1.0


@pytest.mark.parametrize("value", [(1, 2), [1, 2], Row(1, 2)], ids=repr)
def test_sequences_become_tuples(value):
    assert conformed(Types.TUPLE([Types.INT(), Types.INT()]), [value, None]) == [(1, 2), None]


def test_tuples_become_lists_and_bytearrays_bytes():
    assert conformed(Types.LIST(Types.INT()), [(1, 2)]) == [[1, 2]]
    (data,) = conformed(Types.PRIMITIVE_ARRAY(Types.BYTE()), [bytearray(b"x")])
    assert type(data) is bytes


def column_only(rows):
    """Values that fail when somebody looks at single records."""
    array, kind = Values(rows).column()

    class Blind(Values):
        def rows(self):
            raise AssertionError("looked at rows")

    return Blind(None, array, kind)


@pytest.mark.parametrize(
    ("type_info", "rows"),
    [
        (Types.LONG(), [1, None]),
        (Types.INT(), [1, 2]),
        (Types.STRING(), ["a"]),
        (Types.TUPLE([Types.STRING(), Types.PICKLED_BYTE_ARRAY()]), [("a", 1)]),
        (Types.ROW_NAMED(["n", "m"], [Types.INT(), Types.DOUBLE()]), [Row(n=1, m=0.5)]),
        (Types.DICT({"n": Types.BOOLEAN()}), [{"n": True}]),
        (Types.SQL_TIMESTAMP(), [dt.datetime(2026, 1, 1)]),
    ],
    ids=str,
)
def test_a_column_of_the_declared_type_is_not_taken_apart(type_info, rows):
    values = column_only(rows)
    assert conform_to(type_info, "count", "job.py:7")(values) is values


def test_a_column_out_of_range_is_refused():
    with pytest.raises(TypeMismatchError, match="2147483648"):
        conform_to(Types.INT(), "count", "job.py:7")(Values(None, pa.array([1, 2**31]), "int"))


def test_a_column_with_other_names_becomes_rows_with_the_declared_ones():
    array, kind = Values([(1, 2)]).column()
    result = conform_to(Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()]), "count", "x")(
        Values(None, array, kind)
    )
    assert result.rows() == [Row(a=1, b=2)]


def test_a_typed_key_checks_what_its_source_gives_and_travels_by_pickle():
    key = TypedKey(FieldKey((0,)), Types.STRING(), "key_by", "job.py:7")
    assert isinstance(key, FunctionKey)
    again = pickle.loads(pickle.dumps(key))
    assert again == key
    assert again.keys(Values([("a", 1)])).rows() == ["a"]
    assert again.function(("b", 2)) == "b"
    with pytest.raises(TypeMismatchError, match="key_by"):
        key.keys(Values([(1, 1)]))
