"""The error tree: codes, mix-ins, messages, and the promise that every class survives pickling."""

from __future__ import annotations

import inspect
import json
import pickle
from pathlib import Path

import pytest

from flintstream import errors
from flintstream.errors import (
    DefinitionError,
    DuplicateUidError,
    FlintstreamError,
    TypeMismatchError,
    UnknownTagError,
    UnsupportedError,
    UserFunctionError,
    describe,
)

CLASSES = [
    value
    for _, value in inspect.getmembers(errors, inspect.isclass)
    if issubclass(value, FlintstreamError) and value.__module__ == errors.__name__
]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_class_survives_pickling_with_all_its_attributes(cls: type[FlintstreamError]):
    error = cls("what; where; remedy", uid="count", location="job.py:31")
    error.add_note("seen in epoch 7")
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is cls
    assert str(back) == "what; where; remedy"
    assert (back.uid, back.location, back.code) == ("count", "job.py:31", cls.code)
    assert back.__dict__ == error.__dict__
    assert back.__notes__ == ["seen in epoch 7"]


def test_codes_are_unique_and_spelt_with_hyphens():
    codes = [cls.code for cls in CLASSES]
    assert len(set(codes)) == len(codes) > 20
    assert all(code == code.lower() and code.replace("-", "").isalpha() for code in codes)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_the_tree_in_the_docstring_names_every_class(cls: type[FlintstreamError]):
    assert cls.__name__ in (errors.__doc__ or "")


@pytest.mark.parametrize(
    ("cls", "builtin"),
    [
        (DefinitionError, ValueError),
        (DuplicateUidError, ValueError),
        (TypeMismatchError, TypeError),
        (UnknownTagError, LookupError),
        (UnsupportedError, NotImplementedError),
        (UserFunctionError, RuntimeError),
    ],
)
def test_ordinary_except_clauses_catch_them(cls: type[FlintstreamError], builtin: type[Exception]):
    assert issubclass(cls, builtin)


def test_describe_leaves_out_what_is_not_known():
    assert describe("a", "b", "c") == "a; b; c"
    assert describe("a", None, "c") == "a; c"
    assert describe("a") == "a"


def run_user_function() -> UserFunctionError:
    class CannotBePickled(Exception):
        """Local to this function: pickle has no name for it."""

    def user_function(value: int) -> None:
        msg = f"bad value {value}"
        raise CannotBePickled(msg)

    try:
        user_function(3)
    except CannotBePickled as error:
        return UserFunctionError.from_exception(error, operator="map", uid="parse")
    raise AssertionError


def test_a_user_function_error_names_operator_uid_line_and_exception():
    error = run_user_function()
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "raise CannotBeP" in text)
    assert error.location == f"{__file__}:{line}"
    assert (error.operator, error.uid) == ("map", "parse")
    assert error.error_type.endswith("CannotBePickled")
    assert error.error_message == "bad value 3"
    assert "bad value 3; uid 'parse', " in str(error)
    assert "raise CannotBePickled(msg)" in error.user_traceback


def test_a_user_function_error_survives_pickling_where_its_cause_cannot():
    error = run_user_function()
    back = pickle.loads(pickle.dumps(error))
    assert back.__dict__ == error.__dict__
    assert back.__notes__ == [error.user_traceback.rstrip()]


def test_the_location_is_the_users_call_and_not_the_library_it_called():
    try:
        json.loads("{")
    except json.JSONDecodeError as error:
        wrapped = UserFunctionError.from_exception(error, operator="map")
    assert wrapped.location is not None
    assert wrapped.location.startswith(__file__)
    assert "decoder.py" in wrapped.user_traceback


def test_frames_of_the_engine_are_left_out_of_the_users_traceback():
    namespace: dict[str, object] = {}
    engine = compile("def call(f):\n    f()\n", str(Path(errors.__file__).parent / "ops" / "process.py"), "exec")
    exec(engine, namespace)

    def user_function() -> None:
        msg = "boom"
        try:
            raise KeyError(msg)
        except KeyError as inner:
            raise ValueError(msg) from inner

    with pytest.raises(ValueError, match="boom") as caught:
        namespace["call"](user_function)  # type: ignore[operator]
    wrapped = UserFunctionError.from_exception(caught.value, operator="map")
    assert "process.py" not in wrapped.user_traceback
    assert "KeyError" in wrapped.user_traceback
    assert "direct cause" in wrapped.user_traceback
