"""The law of queryable state: every answer is the state at the epoch that it names, whatever happens to the job."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream import QueryableStateClient
from flintstream.engine.query_forms import form_of, hash_of
from tests.queryable.programs import Played

KEYS: list[Any] = ["a", "b", "ab", "", "ä", 1, 2, -7, 10**20, 1.5, ("a", 1), ("a", 2), ("b", 1), None, True]
VALUES = st.one_of(st.integers(-3, 3), st.text("xy", max_size=2), st.tuples(st.integers(0, 3), st.just("t")))
ACTIONS = st.one_of(
    st.tuples(st.just("put"), st.one_of(VALUES, st.none())),
    st.tuples(st.just("add"), VALUES),
    st.tuples(st.just("drop"), st.none()),
    st.tuples(st.just("set"), st.tuples(st.sampled_from("pqr"), VALUES)),
    st.tuples(st.just("unset"), st.sampled_from("pqr")),
    st.tuples(st.just("touch"), VALUES),
)


def steps(keys: Any) -> Any:
    return st.lists(st.tuples(keys, ACTIONS).map(lambda each: (each[0], *each[1])), max_size=12)


FILLERS = [
    (KEYS, [f"filler {number}" for number in range(100)]),
    (KEYS[:5], [f"filler {number}" for number in range(100)]),
    (KEYS[5:8], list(range(1000, 1100))),
    (KEYS[10:13], [("filler", number) for number in range(100)]),
]
"""Keys that change, and others that do not: with many of these, what changes is kept apart, and merged now and then."""
RUNS = st.sampled_from(FILLERS).flatmap(
    lambda kind: st.tuples(
        st.sampled_from([[], kind[1]]),
        st.lists(
            st.tuples(
                steps(st.sampled_from(kind[0])),
                st.sampled_from(["", "", "", "", "", "", "committed", "lost"]),
                st.sampled_from([None, None, 1, 2, 3]),
                st.sampled_from([0, 0, 4, 12]),
            ),
            min_size=1,
            max_size=25,
        ),
    )
)


def answers(client: QueryableStateClient, consistency: str = "committed") -> list[Any]:
    names = ("value", "list", "map", "short", "stale")
    return [a for name in names for a in client.get_many(name, KEYS, consistency=consistency)]


def check(played: Played, found: list[Any]) -> None:
    for number, answer in enumerate(found):
        # Equal keys are one key, and the model's dicts say so as well.
        expected = played.history[answer.epoch][answer.name]
        key = KEYS[number % len(KEYS)]
        assert answer.key == form_of(key)
        assert (answer.found, answer.value) == (key in expected, form_of(expected.get(key))), answer


def check_scan(played: Played, client: QueryableStateClient) -> None:
    for name, expected in played.history[client.get("value", "a").epoch].items():
        found, after = list[Any](), None
        while True:
            page = client.scan(name, limit=3, after=after)
            found += page.entries
            after = page.after
            if after is None:
                break
        assert len(found) == len(expected)
        assert by_key((answer.key, answer.value) for answer in found) == by_key(expected.items())


def by_key(pairs: Any) -> dict[int, Any]:
    """Return values by what equal keys have in common: 1 is True."""
    return {hash_of(form_of(key)): form_of(value) for key, value in pairs}


@settings(max_examples=60)
@given(RUNS)
def test_an_answer_is_the_state_at_its_epoch(run: tuple[list[Any], list[Any]]):
    fillers, epochs = run
    with tempfile.TemporaryDirectory() as folder:
        played = Played(Path(folder))
        played.epoch([step for key in fillers for step in ((key, "put", 0), (key, "add", 1), (key, "set", ("p", 2)))])
        client = QueryableStateClient(played.where)
        lazy = QueryableStateClient(played.where)
        for number, (actions, crash, parallelism, ms) in enumerate(epochs):
            played.advance(ms)
            played.epoch(actions, crash, parallelism)
            if crash == "lost":
                # What ran is not committed, and is told only to those who want that.
                check(played, answers(client))
                check(played, answers(client, "uncommitted"))
                played.job.epoch()
            check(played, answers(client))
            if number % 5 == 4:
                check(played, answers(lazy))  # which has missed some manifests, deleted since
        check(played, answers(client, "uncommitted"))
        check_scan(played, client)
        played.job.stop()


def test_reading_races_with_a_job_that_goes_on(tmp_path: Path):
    played = Played(tmp_path)
    played.epoch([(key, "put", 0) for key in KEYS])
    over = threading.Event()
    seen: list[Any] = []
    failed: list[BaseException] = []

    def read() -> None:
        try:
            client = QueryableStateClient(played.where)
            while not over.is_set():
                seen.extend(answers(client))
                check_pages(client)
        except BaseException as error:
            failed.append(error)

    def check_pages(client: QueryableStateClient) -> None:
        page = client.scan("value", limit=50)
        expected = played.history[page.epoch]["value"]
        assert by_key((each.key, each.value) for each in page.entries) == by_key(expected.items())

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(1, 60):
        played.epoch([(key, "put", number) for key in KEYS[number % 3 :: 3]] + [(KEYS[number % 7], "add", number)])
        if number % 20 == 0:
            played.job.restart(1 + number // 20)
    over.set()
    for thread in threads:
        thread.join(60)
    assert not failed, failed[0]
    assert len({answer.epoch for answer in seen}) > 1
    for start in range(0, len(seen), len(KEYS)):
        check(played, seen[start : start + len(KEYS)])
    played.job.stop()
