"""Queryable state over HTTP: the endpoints, the client that uses them, and what they refuse."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flintstream import QueryableStateClient
from flintstream.api.queryable import KeyText
from flintstream.errors import InvalidArgumentError, NoManagerError, UnknownJobError, UnknownStateError
from flintstream.testing.sinks import SimulatedCrash
from flintstream.testing.stepped import Line, SteppedJob
from tests.queryable.serving import JOB, ask, keeping, serving

KEYS: list[Any] = ["ann", "an/ne", "bob?", "42", 42, ("de", 7), "watch"]
BASE = f"/v1/jobs/{JOB}/state"
NEVER = "f" * 32


@pytest.fixture
def job(tmp_path: Path) -> Iterator[SteppedJob]:
    with keeping(KEYS, tmp_path, uncommitted=True) as made:
        yield made


@pytest.fixture
def address(job: SteppedJob, tmp_path: Path) -> Iterator[str]:
    with serving(tmp_path, {JOB: str(tmp_path / "checkpoint"), NEVER: None}) as found:
        yield found


@pytest.mark.row(93)
def test_every_endpoint_answers_while_the_job_goes_on(job: SteppedJob, address: str):
    status, found = ask(address, BASE)
    assert status == 200
    assert [(each["operator"], each["name"]) for each in found["states"]] == [("keep", "newest")]
    for number, text in enumerate(["ann", "an%2Fne", "bob%3F", "42"]):
        status, found = ask(address, f"{BASE}/keep/newest/{text}")
        assert (status, found["value"], found["epoch"]) == (200, {"key": number, "n": 1}, 1)
    assert ask(address, f"{BASE}/-/newest/%5B%22de%22%2C7%5D")[1]["key"] == ["de", 7]
    assert ask(address, f"{BASE}/-/newest/watch")[1]["key"] == "watch"
    job.epoch([Line("in", 0, {"key": 0, "n": 2})])
    assert ask(address, f"{BASE}/Queryable/newest/ann")[1]["value"]["n"] == 2
    status, found = ask(address, f"{BASE}/keep/newest", {"keys": ["42", 42, "eve"]})
    assert [(each["found"], each["epoch"]) for each in found["answers"]] == [(True, 2), (True, 2), (False, 2)]
    assert [each["value"] and each["value"]["key"] for each in found["answers"]] == [3, 4, None]
    status, page = ask(address, f"{BASE}/keep/newest?prefix=an&limit=1")
    assert [each["key"] for each in page["entries"]] == ["an/ne"]
    status, page = ask(address, f"{BASE}/keep/newest?prefix=an&limit=1&after={page['after'].replace('/', '%2F')}")
    assert ([each["key"] for each in page["entries"]], page["after"]) == (["ann"], None)
    # Without a version the newest is meant.
    assert ask(address, f"/jobs/{JOB}/state/keep/newest/ann")[0] == 200


def test_what_is_not_there_is_a_problem_document(address: str):
    wanted = {
        f"{BASE}/keep/newest/eve": (404, "unknown-key"),
        f"{BASE}/keep/other/eve": (404, "unknown-state"),
        f"{BASE}/nobody/newest/eve": (404, "unknown-state"),
        f"{BASE}/keep/newest/a/b/c": (404, "unknown-state"),
        f"{BASE}/keep/newest/a/b": (404, "unknown-state"),
        f"/v1/jobs/{'0' * 32}/state": (404, "unknown-job"),
        f"/v1/jobs/{NEVER}/state": (409, "job-state"),
        f"{BASE}/keep/newest/ann?window=soon": (422, "invalid-argument"),
        f"{BASE}/keep/newest/ann?window=0": (422, "invalid-argument"),
        f"{BASE}/keep/newest/ann/watch?window=0": (422, "invalid-argument"),
        f"{BASE}/keep/newest/ann?consistency=dirty": (422, "invalid"),
        f"{BASE}/keep/newest/ann?consistency=": (422, "invalid"),
        f"{BASE}/keep/newest/ann?consistancy=uncommitted": (422, "invalid"),
        f"{BASE}/keep/newest/ann?consistancy": (422, "invalid"),
        f"{BASE}/keep/newest?window=0": (422, "invalid"),
        f"{BASE}/keep/newest?limit=0": (422, "invalid"),
        f"{BASE}/keep/newest?after=%7B": (422, "invalid-argument"),
        f"{BASE}/keep/newest/{'%5B' * 5000}{'%5D' * 5000}": (404, "unknown-key"),
        f"{BASE}/keep/newest/%FF%00": (404, "unknown-key"),
        f"{BASE}/keep/newest/NaN": (404, "unknown-key"),
        f"{BASE}/keep/newest/1e999": (404, "unknown-key"),
    }
    for path, expected in wanted.items():
        status, problem = ask(address, path)
        assert (status, problem["code"]) == expected, path[:100]
        assert problem["detail"] and problem["remedy"]
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    for body in (
        {"keys": [deep]},
        {"keys": []},
        {"keys": ["a"], "more": 1},
        {},
        {"keys": ["a"], "window": "x"},
        {"keys": ["ann"], "window": "0"},
    ):
        status, problem = ask(address, f"{BASE}/keep/newest", body)
        assert status == 422, body


def test_the_client_gives_the_same_answers_over_http_as_over_the_directory(job: SteppedJob, address: str):
    near, far = QueryableStateClient(str(job.folder / "checkpoint")), QueryableStateClient(address, job=JOB)
    assert far.states() == near.states()
    for key in [*KEYS, "eve", KeyText("42"), KeyText("[1]"), KeyText("an/ne")]:
        assert far.get("newest", key) == near.get("newest", key)
        assert far.get("newest", key, operator="keep", consistency="uncommitted") == near.get("newest", key)
    assert far.get_many("newest", KEYS) == near.get_many("newest", KEYS)
    assert far.scan("newest", limit=3) == near.scan("newest", limit=3)
    assert far.scan("newest", prefix="a", after='"an/ne"') == near.scan("newest", prefix="a", after='"an/ne"')
    with pytest.raises(UnknownStateError, match="no state is queryable as 'other'"):
        far.get("other", "a")
    with pytest.raises(UnknownJobError):
        QueryableStateClient(address, job="0" * 32).states()
    with pytest.raises(InvalidArgumentError, match="no window"):
        far.get("newest", "ann", window="soon")
    with pytest.raises(NoManagerError, match="cluster start"):
        QueryableStateClient("http://127.0.0.1:9", job=JOB).states()


def test_what_runs_but_is_not_committed_is_told_to_those_who_want_it(job: SteppedJob, address: str):
    job._dies = True
    with pytest.raises(SimulatedCrash):
        job.epoch([Line("in", 0, {"key": 0, "n": 2})])
    job._dies = False
    path = f"{BASE}/keep/newest/ann"
    assert ask(address, path)[1]["value"]["n"] == 1
    staged = ask(address, f"{path}?consistency=uncommitted")[1]
    assert (staged["value"]["n"], staged["epoch"], staged["committed"]) == (2, 2, False)
    # The epoch begins again: what the broken attempt left is gone at once.
    job.restart()
    seen: list[Any] = []
    run = job._tasks

    def look(context: Any) -> Any:
        seen.append(ask(address, f"{path}?consistency=uncommitted")[1])
        return run(context)

    job._tasks = look
    job.epoch()
    assert [(each["value"]["n"], each["epoch"], each["committed"]) for each in seen] == [(1, 1, True)]
    after = ask(address, f"{path}?consistency=uncommitted")[1]
    assert (after["value"]["n"], after["epoch"], after["committed"]) == (2, 2, True)


def events(address: str, path: str, last: int | None = None) -> Iterator[dict[str, Any]]:
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    with urllib.request.urlopen(urllib.request.Request(f"{address}{path}", headers=headers), timeout=30) as answer:
        number = 0
        for line in answer:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "id":
                number = int(value)
            elif name == "data":
                yield {"id": number, **json.loads(value)}


def test_changes_are_pushed_and_a_watcher_who_comes_back_misses_none(job: SteppedJob, address: str):
    one = events(address, f"{BASE}/keep/newest/ann/watch")
    many = events(address, f"{BASE}/keep/newest?prefix=an&watch=true")
    first, all_of_them = next(one), next(many)
    assert [each["value"]["n"] for each in first["changes"]] == [1]
    assert [each["key"] for each in all_of_them["changes"]] == ["an/ne", "ann"]
    job.epoch([Line("in", 0, {"key": 2, "n": 9})])
    job.epoch([Line("in", 0, {"key": 0, "n": 2})])
    for stream in (one, many):
        event = next(stream)
        assert (event["id"], [(each["key"], each["value"]["n"]) for each in event["changes"]]) == (3, [("ann", 2)])
    one.close()
    job.epoch([Line("in", 0, {"key": 0, "n": 3})])
    again = next(events(address, f"{BASE}/keep/newest/ann/watch", last=3))
    assert (again["id"], again["changes"][0]["value"]["n"]) == (4, 3)
    watched = QueryableStateClient(address, job=JOB).watch("newest", "ann", since=4)
    job.epoch([Line("in", 0, {"key": 0, "n": 4})])
    assert next(watched).value["n"] == 4
    assert ask(address, f"{BASE}/keep/other/ann/watch")[1]["code"] == "unknown-state"
