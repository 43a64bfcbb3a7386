"""Side outputs' names."""

from __future__ import annotations

import pytest

from flintstream.errors import InvalidArgumentError, TypeMismatchError
from flintstream.model.tags import OutputTag
from flintstream.model.types import Types


def test_tags_with_the_same_id_are_the_same_tag() -> None:
    assert OutputTag("late") == OutputTag("late", Types.INT())
    assert hash(OutputTag("late")) == hash(OutputTag("late", Types.INT()))
    assert OutputTag("late") != OutputTag("early")
    assert OutputTag("late") != "late"


def test_a_tag_keeps_its_type_however_it_was_written() -> None:
    assert OutputTag("a").type_info is None
    assert OutputTag("a", Types.INT()).type_info == Types.INT()
    assert OutputTag("a", [Types.INT()]).type_info == Types.ROW([Types.INT()])
    assert OutputTag("a", int).type_info == Types.LONG()
    assert repr(OutputTag("a", int)) == "OutputTag('a', LONG)"
    assert repr(OutputTag("a")) == "OutputTag('a')"


@pytest.mark.parametrize("tag_id", ["", None])
def test_a_tag_needs_an_id(tag_id: str) -> None:
    with pytest.raises(InvalidArgumentError):
        OutputTag(tag_id)


def test_a_tag_refuses_what_is_no_type() -> None:
    with pytest.raises(TypeMismatchError):
        OutputTag("a", "INT")  # type: ignore[arg-type]
