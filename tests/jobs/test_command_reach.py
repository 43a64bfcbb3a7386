"""Which job a word means, and which manager may see which token."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.errors import InvalidArgumentError, NoManagerError, UnknownJobError
from flintstream.jobs import command_reach
from flintstream.jobs.command_reach import Directory, home_of, is_here, manager_at, pick, target_of, token_for
from flintstream.jobs.leader import Leader
from flintstream.jobs.spec import JobSpec
from flintstream.jobs.view import JobView
from tests.unit.values import law

SPEC = JobSpec(program="app.py")


def job(id: str, name: str, status: str = "RUNNING", submitted: int = 0) -> JobView:
    return JobView(id, name, status, submitted, None, None, 0, 0, None, None, None, SPEC, None, "running")


JOBS = [
    job("aa11", "orders"),
    job("aa22", "clicks", "FINISHED", 1),
    job("bb33", "clicks", "RUNNING", 2),
    job("cc44", "old", "FAILED", 3),
    job("cc55", "old", "CANCELED", 4),
    job("dd66", "twice"),
    job("dd77", "twice"),
]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("orders", "aa11"),
        ("aa11", "aa11"),
        ("AA1", "aa11"),
        ("b", "bb33"),
        ("clicks", "bb33"),
        ("aa2", "aa22"),
        ("old", "cc55"),
    ],
)
def test_a_word_means_a_job(text, found):
    assert pick(JOBS, text).id == found


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("nothing", UnknownJobError, "flintstream list"),
        ("", UnknownJobError, "flintstream list"),
        ("aa", InvalidArgumentError, "give more of the id"),
        ("twice", InvalidArgumentError, "dd66 .twice., dd77"),
    ],
)
def test_a_word_that_means_none_or_several_is_refused(text, error, message):
    with pytest.raises(error, match=message):
        pick(JOBS, text)


@law
@given(st.lists(st.text("0123456789abcdef", min_size=4, max_size=4), min_size=1, max_size=8, unique=True), st.data())
def test_the_start_of_an_id_means_it_if_no_other_begins_so(ids, data):
    jobs = [job(each, f"name of {each}") for each in ids]
    wanted = data.draw(st.sampled_from(ids))
    start = wanted[: data.draw(st.integers(1, 4))]
    if sum(each.startswith(start) for each in ids) == 1:
        assert pick(jobs, start).id == wanted
    else:
        with pytest.raises(InvalidArgumentError):
            pick(jobs, start)


@pytest.fixture
def led(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose manager leads at port 4711."""
    leader = Leader("http://127.0.0.1:4711", os.getpid(), "here", 0, 1)
    monkeypatch.setattr(command_reach, "leader_of", lambda home: leader if home == tmp_path else None)
    (tmp_path / "token").write_text("of this home\n")
    monkeypatch.delenv("FLINTSTREAM_TOKEN", raising=False)
    return tmp_path


def test_the_homes_token_is_for_its_own_manager_alone(led: Path, monkeypatch: pytest.MonkeyPatch):
    assert token_for("http://127.0.0.1:4711/", led) == "of this home"
    assert token_for("http://127.0.0.1:4712", led) is None
    assert token_for("http://elsewhere:4711", led) is None
    monkeypatch.setenv("FLINTSTREAM_TOKEN", "given")
    assert token_for("http://elsewhere:4711", led) == "given"


def test_a_manager_knows_our_directories_if_it_is_here_or_shares_the_home(led: Path, tmp_path: Path):
    assert is_here("http://127.0.0.1:99", tmp_path / "other")
    assert is_here("http://localhost:99", tmp_path / "other")
    assert not is_here("http://elsewhere:99", led)
    assert not is_here("http://192.0.2.1:99", led)


def test_what_looks_like_a_path_is_a_directory_whatever_the_manager_has(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(command_reach, "manager_if_any", lambda *_: pytest.fail("no manager needs to be asked"))
    for text in ("./orders", "state/orders", "/x", "s3://bucket/job", ".", ".."):
        assert target_of(text, None, None) == Directory(text)


def test_without_a_manager_a_word_is_a_directory(tmp_path: Path):
    assert target_of("orders", None, str(tmp_path)) == Directory("orders")
    with pytest.raises(NoManagerError, match="flintstream cluster start"):
        manager_at(None, str(tmp_path))


class Fake:
    """A client that only knows jobs."""

    def jobs(self) -> list[JobView]:
        return JOBS


def test_a_word_that_is_both_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(command_reach, "manager_if_any", lambda *_: Fake())
    monkeypatch.chdir(tmp_path)
    for name in ("orders", "state"):
        (tmp_path / name).mkdir()
    with pytest.raises(InvalidArgumentError, match=r"write ./orders or aa11"):
        target_of("orders", None, None)
    assert target_of("state", None, None) == Directory("state")
    with pytest.raises(UnknownJobError):
        target_of("elsewhere", None, None)


def test_the_home_is_what_was_given_else_what_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLINTSTREAM_HOME", str(tmp_path))
    assert home_of(None) == tmp_path
    assert home_of(str(tmp_path / "other")) == tmp_path / "other"
    monkeypatch.delenv("FLINTSTREAM_HOME")
    assert home_of(None) == Path("~/.flintstream").expanduser()


def test_a_shell_is_never_disturbed(led: Path, tmp_path: Path):
    # Nobody listens there: completing a job gives nothing, and says nothing.
    assert command_reach.job_words("http://127.0.0.1:1", str(led)) == []
    assert json.dumps(command_reach.job_words(None, str(tmp_path / "other"))) == "[]"
