"""Free-form configuration."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from flintstream.errors import InvalidArgumentError
from flintstream.model.config import (
    CheckpointingMode,
    Configuration,
    ExternalizedCheckpointRetention,
    RuntimeExecutionMode,
)


@pytest.fixture
def configuration() -> Configuration:
    return (
        Configuration()
        .set_string("s", "text")
        .set_integer("i", 3)
        .set_boolean("b", True)
        .set_float("f", 1)
        .set_bytearray("y", bytearray(b"\x00\x01"))
    )


def test_settings_are_read_as_they_were_set(configuration: Configuration) -> None:
    assert configuration.get_string("s", "") == "text"
    assert configuration.get_integer("i", 0) == 3
    assert configuration.get_boolean("b", False) is True
    assert configuration.get_float("f", 0.0) == 1.0
    assert configuration.get_bytearray("y", bytearray()) == bytearray(b"\x00\x01")


def test_defaults_are_given_for_what_is_not_set() -> None:
    empty = Configuration()
    assert empty.get_string("s", "d") == "d"
    assert empty.get_integer("i", 7) == 7
    assert empty.get_boolean("b", True) is True
    assert empty.get_float("f", 2) == 2.0
    assert empty.get_bytearray("y", bytearray(b"z")) == bytearray(b"z")


def test_text_is_read_as_the_type_asked_for() -> None:
    configuration = Configuration.from_dict({"i": "5", "b": "False", "f": "1.5"})
    assert configuration.get_integer("i", 0) == 5
    assert configuration.get_boolean("b", True) is False
    assert configuration.get_float("f", 0.0) == 1.5
    assert configuration.set_boolean("b", True).get_string("b", "") == "true"


@pytest.mark.parametrize(
    "read",
    [
        lambda c: c.get_integer("k", 0),
        lambda c: c.get_boolean("k", False),
        lambda c: c.get_float("k", 0.0),
        lambda c: c.get_bytearray("k", bytearray()),
    ],
)
def test_an_unreadable_setting_is_named(read: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="k is 'maybe'"):
        read(Configuration.from_dict({"k": "maybe"}))


def test_all_settings_as_text(configuration: Configuration) -> None:
    expected = {"s": "text", "i": "3", "b": "true", "f": "1.0", "y": "AAE="}
    assert configuration.to_dict() == expected
    target: dict[str, str] = {"other": "x"}
    configuration.add_all_to_dict(target)
    assert target == {**expected, "other": "x"}
    assert configuration.key_set() == set(expected)


def test_settings_can_be_taken_over_with_a_prefix_and_removed() -> None:
    one = Configuration().set_integer("a", 1)
    two = Configuration().add_all(one).add_all(one, "job.")
    assert two.to_dict() == {"a": "1", "job.a": "1"}
    assert two.contains_key("a")
    assert two.remove_config("a")
    assert not two.remove_config("a")
    assert not two.contains_key("a")


def test_copies_are_equal_and_independent(configuration: Configuration) -> None:
    for other in (
        Configuration(configuration),
        copy.deepcopy(configuration),
        pickle.loads(pickle.dumps(configuration)),
    ):
        assert other == configuration
        assert hash(other) == hash(configuration)
        other.set_integer("i", 4)
        assert other != configuration
    assert configuration.get_integer("i", 0) == 3


def test_a_setting_needs_a_name() -> None:
    with pytest.raises(InvalidArgumentError):
        Configuration().set_string("", "x")


def test_modes_have_pyflinks_names() -> None:
    assert [mode.name for mode in RuntimeExecutionMode] == ["STREAMING", "BATCH", "AUTOMATIC"]
    assert [mode.name for mode in CheckpointingMode] == ["EXACTLY_ONCE", "AT_LEAST_ONCE"]
    assert [mode.name for mode in ExternalizedCheckpointRetention] == [
        "DELETE_ON_CANCELLATION",
        "RETAIN_ON_CANCELLATION",
        "NO_EXTERNALIZED_CHECKPOINTS",
    ]
