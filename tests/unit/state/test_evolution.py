"""Objects written by one version of a class, read by another: from columns, from pickles, inside of others."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from flintstream import evolves
from flintstream.errors import DefinitionError, IncompatibleStateError, InvalidArgumentError, TypeMismatchError
from flintstream.model import evolution
from flintstream.state import classes
from flintstream.state.backend import KeyedBackend
from flintstream.state.codec import decode, encode
from flintstream.state.pickles import dumps, dumps_by_name, loads
from flintstream.state.table import Table

HEAD = "from __future__ import annotations\nfrom dataclasses import dataclass, field\nfrom decimal import Decimal\n"
HEAD += "from typing import Any, NamedTuple, Optional\nfrom flintstream import evolves\n"


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    known = dict(evolution.FORMER)
    yield
    for name in ("shop", "store"):
        sys.modules.pop(name, None)
    evolution.FORMER.clear()
    evolution.FORMER.update(known)
    classes.adopt_classes(())


def version(source: str, name: str = "shop") -> Any:
    """Let a module be what this source says, as after a start of the process with new code."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(HEAD + source, module.__dict__)
    return module


def of(fields: str, decorators: str = "@dataclass", name: str = "Bill") -> str:
    body = "\n".join(f"    {line}" for line in fields.split("; "))
    return f"{decorators}\nclass {name}:\n{body}\n"


WAYS: dict[str, Any] = {
    "columns": lambda value: encode([value]),
    "pickled": lambda value: dumps(value),
    "by name": lambda value: dumps_by_name(value),
}


def reread(way: str, written: Any) -> Any:
    return decode(*written)[0] if way == "columns" else loads(written)


def evolved(way: str, old: str, make: str, new: str) -> Any:
    """Return what an object made under the old version is under the new one."""
    written = WAYS[way](eval(make, version(old).__dict__))
    module = version(new)
    found = reread(way, written)
    assert type(found) is module.Bill
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("new", "fields"),
    [
        ("a: int; b: str", {"a": 1, "b": "x"}),
        ("b: str; a: int", {"a": 1, "b": "x"}),
        ("a: int; b: str; c: float = 2.5", {"a": 1, "b": "x", "c": 2.5}),
        ("a: int; b: str; c: list = field(default_factory=list)", {"a": 1, "b": "x", "c": []}),
        ("b: str", {"b": "x"}),
        ("a: float; b: str", {"a": 1.0, "b": "x"}),
        ("a: Optional[float]; b: str", {"a": 1.0, "b": "x"}),
        ("a: float | str; b: str", {"a": 1.0, "b": "x"}),
        ("a: int | float; b: str", {"a": 1, "b": "x"}),
        ("a: Decimal; b: str", {"a": Decimal(1), "b": "x"}),
        ("a: Any; b: str", {"a": 1, "b": "x"}),
    ],
)
def test_a_class_may_gain_lose_reorder_and_widen_fields(way, new, fields):
    found = evolved(way, of("a: int; b: str"), "Bill(1, 'x')", of(new))
    assert {name: repr(value) for name, value in vars(found).items()} == {k: repr(v) for k, v in fields.items()}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("flags", ["frozen=True", "slots=True", "frozen=True, slots=True", "eq=False", "order=True"])
def test_dataclasses_of_all_sorts_evolve(way, flags):
    decorator = f"@dataclass({flags})"
    found = evolved(way, of("a: int; b: str", decorator), "Bill(1, 'x')", of("b: str; c: int = 3", decorator))
    assert (found.b, found.c, hasattr(found, "a")) == ("x", 3, False)


@pytest.mark.parametrize("way", WAYS)
def test_a_renamed_field_is_found(way):
    new = of("total: float; b: str", "@evolves(renamed={'a': 'total'})\n@dataclass")
    found = evolved(way, of("a: int; b: str"), "Bill(1, 'x')", new)
    assert (repr(found.total), found.b) == ("1.0", "x")


@pytest.mark.parametrize("way", WAYS)
def test_a_moved_and_renamed_class_is_found(way):
    written = WAYS[way](eval("Bill(1, 'x')", version(of("a: int; b: str")).__dict__))
    del sys.modules["shop"]
    decorators = "@evolves(was=['shop:Bill', 'shop:Older'])\n@dataclass"
    module = version(of("a: int; b: str; c: int = 0", decorators, "Invoice"), "store")
    assert reread(way, written) == module.Invoice(1, "x", 0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("new", "message"),
    [
        ("a: int; b: str; c: int", "Bill has a field 'c', which its objects did not have, and no default for it"),
        ("a: str; b: str", "field 'a' of Bill was int and is str"),
        ("a: int; b: int", "field 'b' of Bill was str and is int"),
        ("a: int; b: Optional[float]", "field 'b' of Bill was str and is Optional"),
    ],
)
def test_what_cannot_be_is_refused_by_name(way, new, message):
    with pytest.raises(IncompatibleStateError, match=message):
        evolved(way, of("a: int; b: str"), "Bill(1, 'x')", of(new))


@pytest.mark.parametrize("way", WAYS)
def test_a_class_that_is_gone_is_named_with_its_remedy(way):
    written = WAYS[way](eval("Bill(1)", version(of("a: int")).__dict__))
    version("")
    with pytest.raises(IncompatibleStateError, match=r"class 'Bill', which is not in module 'shop' .*was='shop:Bill'"):
        reread(way, written)


@pytest.mark.parametrize("way", WAYS)
def test_a_class_that_has_no_fields_any_more_is_refused(way):
    with pytest.raises(IncompatibleStateError, match="Bill was a dataclass or a NamedTuple and is none any more"):
        evolved(way, of("a: int"), "Bill(1)", of("a: int", ""))


@pytest.mark.parametrize("way", WAYS)
def test_values_against_their_declaration_are_left_alone(way):
    """Nothing has changed, so nothing is judged."""
    assert evolved(way, of("a: int"), "Bill('text')", of("a: int; b: int = 1")).a == "text"


@pytest.mark.parametrize("way", WAYS)
def test_classes_inside_of_classes_lists_and_dicts_evolve(way):
    inner, more = of("x: int", name="Line"), of("x: float; y: str = 'new'", name="Line")
    outer = of("one: Line; many: list[Line]; named: dict[str, Line]")
    make = "Bill(Line(1), [Line(2), Line(3)], {'k': Line(4)})"
    found = evolved(way, inner + outer, make, more + outer)
    lines = [found.one, *found.many, found.named["k"]]
    assert [repr(line.x) for line in lines] == ["1.0", "2.0", "3.0", "4.0"]
    assert {line.y for line in lines} == {"new"}


def test_numbers_in_a_list_are_widened():
    found = evolved("columns", of("a: list[int]"), "Bill([1, 2])", of("a: list[float]"))
    assert repr(found.a) == "[1.0, 2.0]"
    with pytest.raises(IncompatibleStateError, match="field 'a' of Bill was "):
        evolved("columns", of("a: list[int]"), "Bill([1, 2])", of("a: list[str]"))
    with pytest.raises(IncompatibleStateError, match="field 'a' of Bill was "):
        evolved("columns", of("a: list[int]"), "Bill([1, 2])", of("a: int"))


@pytest.mark.parametrize("way", WAYS)
def test_named_tuples_evolve(way):
    old = "class Bill(NamedTuple):\n    a: int\n    b: str\n"
    new = "@evolves(renamed={'b': 'text'})\nclass Bill(NamedTuple):\n    text: str\n    c: int = 3\n"
    assert tuple(evolved(way, old, "Bill(1, 'x')", new)) == ("x", 3)
    with pytest.raises(IncompatibleStateError, match="Bill has a field 'd'"):
        evolved(way, old, "Bill(1, 'x')", "class Bill(NamedTuple):\n    d: int\n")


@pytest.mark.parametrize("way", WAYS)
def test_a_class_that_restores_itself_is_left_to_it(way):
    own = of("a: int; b: int = 0") + "    def __setstate__(self, state):\n        self.a, self.b = state['a'], 7\n"
    assert vars(evolved(way, own, "Bill(1)", own)) == {"a": 1, "b": 7}
    if way == "columns":
        assert vars(evolved(way, of("a: int"), "Bill(1)", own)) == {"a": 1, "b": 7}


def test_a_class_with_a_new_post_init_is_not_initialised_again():
    new = of("a: int") + "    def __post_init__(self):\n        self.a += 100\n"
    assert evolved("columns", of("a: int"), "Bill(1)", new).a == 1


@pytest.mark.parametrize("way", WAYS)
def test_attributes_besides_the_fields_stay(way):
    bill = version(of("a: int")).Bill(1)
    bill.extra = 9
    written = WAYS[way](bill)
    version(of("a: int; b: int = 2"))
    assert vars(reread(way, written)) == {"a": 1, "b": 2, "extra": 9}


@pytest.mark.parametrize("way", WAYS)
def test_what_has_more_than_fields_is_pickled_whole(way):
    module = version("@dataclass\nclass Bill(dict):\n    a: int = 1\n" + "class Base(NamedTuple):\n    a: int\n")
    bill = module.Bill(a=2)
    bill["item"] = 3
    found = reread(way, WAYS[way](bill))
    assert (type(found), dict(found), found.a) == (module.Bill, {"item": 3}, 2)
    exec("class Extended(Base):\n    pass\n", module.__dict__)
    extended = module.Extended(1)
    extended.more = 2
    found = reread(way, WAYS[way](extended))
    assert (type(found), tuple(found), found.more) == (module.Extended, (1,), 2)


def test_objects_that_refer_to_themselves_are_pickled():
    module = version(of("a: Any"))
    bill = module.Bill(None)
    bill.a = [bill]
    assert loads(dumps(bill)).a[0].a[0].a is not None


def test_a_class_by_value_becomes_the_one_of_today():
    """A class of the user's script is not importable: state has it as it was, the program as it is."""
    written = [way(eval("Bill(1)", by_value(of("a: int")))) for way in (encode_one, dumps)]
    today = by_value(of("a: float; b: int = 2"))["Bill"]
    classes.adopt_classes((today,))
    for found in (decode(*written[0])[0], loads(written[1])):
        assert type(found) is today
        assert repr(vars(found)) == "{'a': 1.0, 'b': 2}"


def test_of_two_classes_of_one_name_neither_stands_for_an_older_one():
    old = eval("Bill(1)", by_value(of("a: int")))
    classes.adopt_classes((by_value(of("a: str"))["Bill"], by_value(of("b: int"))["Bill"]))
    assert type(decode(*encode([old]))[0]) is type(old)


def encode_one(value: Any) -> Any:
    return encode([value])


def by_value(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(HEAD.replace("from __future__ import annotations\n", "") + source, names)
    return names


def test_keys_must_stay_what_they_are():
    old = version(of("a: int", "@dataclass(frozen=True)"))
    table = Table("t")
    table.put(old.Bill(1), "x")
    batch = table.delta(8)
    assert batch is not None
    Table("t").apply(batch)
    version(of("a: int; b: int = 0", "@dataclass(frozen=True)"))
    with pytest.raises(IncompatibleStateError, match="its keys are objects of Bill, whose fields have changed"):
        Table("t").apply(batch)


def test_what_is_declared_must_make_sense():
    with pytest.raises(InvalidArgumentError, match=r"names no class; test_evolution.py:\d+; write it as 'module:Name'"):
        evolves(was="Bill")
    with pytest.raises(TypeMismatchError, match=r"has no fields of its own; .*; put it above @dataclass"):
        evolves(renamed={})(int)
    with pytest.raises(DefinitionError, match=r"names a field 'x', which it does not have; .*; name one of a"):
        version(of("a: int", "@evolves(renamed={'b': 'x'})\n@dataclass"))
    with pytest.raises(DefinitionError, match="calls 'a' a former name, but it is one of today"):
        version(of("a: int; b: int", "@evolves(renamed={'a': 'b'})\n@dataclass"))


def test_state_that_nobody_asks_for_needs_no_class():
    table = Table("op/old")
    table.put("k", version(of("a: int")).Bill(1))
    batch = table.delta(8)
    assert batch is not None
    version("")
    backend = KeyedBackend(8, range(8))
    backend.apply({"op/old": batch})
    assert backend.entries() == {"op/old": 1}
    assert set(backend.snapshot()) == {"op/old"}
    with pytest.raises(IncompatibleStateError, match="state 'op/old' cannot be restored: records or state"):
        backend.table("op/old", lambda: Table("op/old"))
