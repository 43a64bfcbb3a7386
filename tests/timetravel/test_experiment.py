"""Versions side by side: one read, their own state, nobody's sink."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream import CollectSink, DataGeneratorSource, FileSource, NumberSequenceSource, experiment, what_if
from flintstream.errors import DefinitionError, InvalidArgumentError, UnsupportedError
from tests.capabilities.support import Epochs, Lists
from tests.timetravel.log import FileLog, filled
from tests.timetravel.programs import orders, totals, windows


class Untouched(CollectSink):
    """A sink of production: whoever makes a writer or a committer of it is wrong here."""

    def create_writer(self, context: Any) -> Any:
        raise AssertionError

    def create_committer(self) -> Any:
        raise AssertionError


@pytest.fixture
def local(make_env: Any) -> Any:
    return lambda **settings: make_env("local", **settings)


def test_two_versions_read_once_and_are_compared_by_key(local, tmp_path):
    log, sink = filled(tmp_path / "log", a=orders(5, 7, -2, 1)), Untouched()
    env, epochs = local(max_records=3), Epochs()
    env.add_listener(epochs)
    found = experiment(env, totals(log, sink), totals(log, sink, is_right=False), key="customer")
    assert epochs.counts("orders", "out") == 4
    assert found.comparisons["out"].same == 1
    assert [(each.key, each.a["paid"], each.b["paid"]) for each in found.comparisons["out"].different] == [
        (("bob",), 3, 7)
    ]
    assert next(found.tagged()) == ("A", "out", {"customer": "bob", "paid": 5})
    assert found.outputs.of("B")[-1] == {"customer": "ann", "paid": 8}
    assert not found.is_same
    assert "bob       3         7" in str(found)


def test_windows_that_are_open_where_the_replay_stops_give_nothing(local, tmp_path):
    """Production has not given them either: with the end of the input they would come half filled."""
    log = filled(tmp_path / "log", a=orders(*[1] * 25))
    given = what_if(local(max_records=4), windows(log, Untouched()))
    assert sorted((row["start"], row["n"]) for row in given["out"]) == [(0, 5), (0, 5), (10_000, 5), (10_000, 5)]
    given = what_if(local(max_records=4), windows(log, Untouched()), until={"a": 15})
    assert sorted((row["start"], row["n"]) for row in given["out"]) == [(0, 5), (0, 5)]
    given = what_if(local(), windows(log, Untouched()), start_from=5000, until=21_000)
    assert sorted((row["start"], row["n"]) for row in given["out"]) == [(0, 2), (0, 3), (10_000, 5), (10_000, 5)]


@pytest.mark.parametrize(("parallelism", "max_records"), [(1, 1), (3, 4), (2, 0)])
def test_a_replay_does_not_depend_on_how_it_is_cut(local, tmp_path, parallelism, max_records):
    log = filled(tmp_path / "log", a=orders(*[1] * 25), b=orders(*[1] * 25, start=500))
    env = local(parallelism=parallelism, max_records=max_records)
    found = experiment(env, windows(log, Untouched()), windows(log, Untouched(), least=9), until={"a": 22, "b": 21})
    rows = sorted((row["customer"], row["start"], row["n"]) for row in found.outputs.of("A"))
    assert rows == [("ann", 0, 10), ("ann", 10_000, 10), ("bob", 0, 10), ("bob", 10_000, 10)]
    assert found.is_same


def test_an_input_that_ends_comes_to_its_end(local):
    def program(env):
        env.from_source(NumberSequenceSource(1, 5)).key_by(lambda n: n % 2).sum(0).sink_to(Untouched()).uid("out")

    assert what_if(local(), program)["out"] == [1, 2, 4, 6, 9]


def test_versions_may_have_other_operators_sinks_and_sources(local, tmp_path):
    log = filled(tmp_path / "log", a=orders(1, 2, 3))

    def other(env):
        numbers = env.from_source(FileLog(log)).uid("orders")
        numbers.map(lambda order: order[1]).sink_to(Untouched()).uid("amounts")
        env.from_source(Lists(["x"])).uid("more").sink_to(Untouched()).uid("letters")

    found = experiment(local(), totals(log, Untouched()), other, key={"out": "customer"}, names=("now", "then"))
    assert {uid: (len(each.only_a), len(each.only_b)) for uid, each in found.comparisons.items()} == {
        "out": (2, 0),
        "amounts": (0, 3),
        "letters": (0, 1),
    }


def test_what_versions_write_can_go_elsewhere_too(local, tmp_path):
    log, mine = filled(tmp_path / "log", a=orders(1, 2)), CollectSink()
    given = what_if(local(), totals(log, Untouched()), into={"out": mine})
    assert mine.results == given["out"] == [{"customer": "bob", "paid": 1}, {"customer": "ann", "paid": 2}]
    both = CollectSink()
    experiment(local(), totals(log, Untouched()), totals(log, Untouched()), into={"B:out": both})
    assert len(both.results) == 2


def test_the_checkpoints_of_production_are_not_touched(local, tmp_path):
    log = filled(tmp_path / "log", a=orders(1, 2))
    env = local(checkpoint_dir=tmp_path / "production")

    def program(env):
        env.set_checkpoint_dir(str(tmp_path / "production"))
        totals(log, Untouched())(env)

    what_if(env, program)
    assert not (tmp_path / "production").exists()


def test_a_log_does_not_hear_of_a_replay(local, tmp_path):
    heard = []

    class Hearing(FileLog):
        def committed(self, positions):
            heard.append(positions)

        def __reduce__(self):
            return FileLog, (self.folder,)

    def program(env):
        env.from_source(Hearing(log), until={"a": 2}).sink_to(CollectSink()).uid("out")

    log = filled(tmp_path / "log", a=orders(1, 2))
    assert len(what_if(local(), program)["out"]) == 2 and not heard
    env = local()
    program(env)
    env.execute()
    assert heard == [{"a": 2}]


def test_dead_letters_do_not_go_to_production_either(local):
    def program(env):
        env.set_on_error(Untouched())
        env.from_collection(["1", "x"]).map(int).sink_to(Untouched()).uid("out")

    given = what_if(local(), program)
    assert given["out"] == [1] and [letter["error"] for letter in given["dead-letters-sink"]] == ["ValueError"]


def executing(env: Any) -> None:
    env.from_collection([1]).print()
    env.execute()


def endless(env: Any) -> None:
    env.from_source(DataGeneratorSource(generator=int, splits=1)).uid("numbers").print()


def watching(env: Any) -> None:
    env.from_source(FileSource.text("x", monitor="1s")).print()


def with_groups(groups: int) -> Any:
    def declare(env: Any) -> None:
        env.set_max_parallelism(groups)
        env.from_source(Lists([1])).uid("numbers").print()

    return declare


@pytest.mark.parametrize(
    ("a", "b", "options", "error", "message"),
    [
        (executing, executing, {}, DefinitionError, r"run by others; test_experiment\.py:\d+; leave out execute"),
        (endless, endless, {}, UnsupportedError, "'DataGeneratorSource' never ends; test_experiment"),
        (watching, watching, {}, UnsupportedError, "'FileSource' never ends"),
        (with_groups(64), with_groups(32), {}, InvalidArgumentError, "differ in max_parallelism"),
        (with_groups(128), endless, {}, DefinitionError, "different sources by uid 'numbers'"),
        (with_groups(1), with_groups(1), {"names": ("A", "A")}, InvalidArgumentError, "two different names"),
        (with_groups(1), with_groups(1), {"names": ("A", "b:c")}, InvalidArgumentError, "without ':'"),
        (with_groups(1), with_groups(1), {"into": {"A:x": CollectSink()}}, InvalidArgumentError, "'A:print-1'"),
        (
            with_groups(1),
            with_groups(1),
            {"savepoint": "x", "start_from": 1},
            InvalidArgumentError,
            "both savepoint and",
        ),
        (lambda env: env.from_collection([1]), endless, {}, DefinitionError, "the job has no sink"),
    ],
)
def test_what_cannot_be_is_refused(local, a, b, options, error, message):
    with pytest.raises(error, match=message):
        experiment(local(), a, b, **options)


def test_sources_without_an_end_are_left_where_it_is_said(local):
    given = what_if(local(), endless, until={"numbers": {0: 3}})
    assert given["print-1"] == [0, 1, 2]
