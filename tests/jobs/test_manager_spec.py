"""What may be submitted, and what is shown of it."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.errors import EnvironmentSetupError, FlintstreamError, InvalidArgumentError
from flintstream.jobs.manager_loop import name_of
from flintstream.jobs.spec import MOST_NAME, JobSpec, token_of
from flintstream.jobs.store import Record
from flintstream.jobs.view import JobView

texts = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=20)


@given(
    arguments=st.lists(st.text(max_size=20).filter(lambda text: "\0" not in text), max_size=5),
    settings=st.dictionaries(texts, st.text(max_size=20).filter(lambda text: "\0" not in text), max_size=5),
    parallelism=st.none() | st.integers(1, 32_768),
    name=st.none() | texts,
    orphans=st.booleans(),
)
def test_a_spec_travels_as_it_is(arguments: Any, settings: Any, parallelism: Any, name: Any, orphans: Any) -> None:
    spec = JobSpec(
        program="app.py",
        arguments=tuple(arguments),
        settings=settings,
        parallelism=parallelism,
        name=name,
        allow_non_restored=orphans,
    )
    assert JobSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def document(**changes: Any) -> dict[str, Any]:
    return {"program": "app.py", **changes}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "not the description of a job"),
        ({}, "either a program or a module"),
        (document(module="app"), "either a program or a module"),
        (document(color="red"), "no color"),
        (document(program=3), "program is of the wrong type"),
        (document(program=""), "program is empty"),
        (document(program="a\nb"), "cannot be printed"),
        (document(arguments="one"), "arguments is of the wrong type"),
        (document(arguments=["a\0b"]), "cannot be printed"),
        (document(settings={"a": 1}), "settings is of the wrong type"),
        (document(settings={"a": "x" * 100_001}), "100001 characters"),
        (document(environment={"A B": "1"}), "cannot be a variable"),
        (document(environment={"FLINTSTREAM_IMPOSED": "{}"}), "cannot be a variable"),
        (document(entry="os; rm"), "entry is"),
        ({"module": "../app"}, "module is"),
        (document(name="x" * 201), "201 characters"),
        (document(name="x\r\ny"), "cannot be printed"),
        (document(parallelism=0), "parallelism is 0"),
        (document(parallelism=True), "wrong type"),
        (document(parallelism=10**9), "parallelism is"),
        (document(allow_non_restored="yes"), "wrong type"),
        (document(settings={"restart-strategy.type": "sometimes"}), "sometimes"),
        (document(settings={"restart-strategy.hope": "1"}), "cannot be set from outside the program"),
        (document(settings={"restart-strategy.fixed-delay.attempts": "3"}), "no effect"),
    ],
)
def test_what_is_no_job_is_refused(given: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        JobSpec.from_json(given)


FIELDS = st.sampled_from(["program", "module", "arguments", "settings", "environment", "parallelism"])
PLAIN = st.none() | st.booleans() | st.integers() | st.text()


@given(st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(FIELDS, inner)))
def test_whatever_is_sent_there_is_one_kind_of_refusal(given: Any) -> None:
    try:
        assert isinstance(JobSpec.from_json(given), JobSpec)
    except FlintstreamError as error:
        assert isinstance(error, InvalidArgumentError)


def test_secrets_are_not_shown() -> None:
    spec = JobSpec(
        program="app.py",
        arguments=("--password", "hush", "--api-token=hush", "redis://me:hush@host"),
        settings={"redis.password": "hush", "spark.hadoop.fs.s3a.secret.key": "hush", "parallelism.default": "2"},
        environment={"AWS_SECRET_ACCESS_KEY": "hush", "LANG": "C"},
    )
    assert "hush" not in repr(spec)[: repr(spec).index("arguments")]
    shown = spec.without_secrets()
    assert "hush" not in json.dumps(shown.to_json())
    assert (shown.settings["parallelism.default"], shown.environment["LANG"]) == ("2", "C")
    view = JobView("a", "job", "RUNNING", 1, None, None, 1, 0, 2, None, None, shown, None, "running")
    assert JobView.from_dict(json.loads(json.dumps({**view.as_dict(), "news": 1}))) == view


def test_a_token_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        (token,) = set(pool.map(lambda _: token_of(tmp_path / "home"), range(32)))
    assert len(token) >= 32
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["token"]
    assert stat.S_IMODE((tmp_path / "home" / "token").stat().st_mode) == 0o600
    (tmp_path / "home" / "token").write_text("\n")
    with pytest.raises(EnvironmentSetupError, match="empty"):
        token_of(tmp_path / "home")


def test_what_a_program_calls_its_job_is_cut_to_what_a_name_may_be() -> None:
    record = Record("0" * 32, "app", 0, 0)
    spec = JobSpec(program="app.py")
    assert name_of(record, spec, {"name": "a\nb\x1b[1m" + "n" * 5000}) == {"name": "a b [1m" + "n" * (MOST_NAME - 7)}
    assert name_of(replace(record, name="a b"), spec, {"name": "a\nb"}) == {}
    assert name_of(record, spec, {"name": "\n"}) == {}
    assert name_of(record, replace(spec, name="mine"), {"name": "theirs"}) == {}
