"""What is lost and what is doubled in each way in which a sink can work, wherever in the commit the job dies."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest

from flintstream import CollectSink, FileSink, StreamExecutionEnvironment
from flintstream.errors import InvalidArgumentError, UnsupportedError
from flintstream.state.storage import LocalStorage
from tests.capabilities.support import Lists
from tests.delivery.deaths import die_and_recover, run_and_die

BEFORE, AFTER, COMMITTED = "before the manifest", "after the manifest", "after the commit"
ALL = [0, 1, 2, 3, 4, 5]
# Epochs are (0, 1), (2, 3), (4, 5); the job dies in the second.
MODES = [
    # guarantee, isolation, phase, seen at the death, seen at the end
    ("exactly-once", "read_committed", BEFORE, [0, 1], ALL),
    ("exactly-once", "read_committed", AFTER, [0, 1], ALL),
    ("exactly-once", "read_committed", COMMITTED, [0, 1, 2, 3], ALL),
    ("exactly-once", "read_uncommitted", BEFORE, [0, 1, 2, 3], ALL),
    ("exactly-once", "read_uncommitted", AFTER, [0, 1, 2, 3], ALL),
    ("exactly-once", "read_uncommitted", COMMITTED, [0, 1, 2, 3], ALL),
    ("at-least-once", "read_uncommitted", BEFORE, [0, 1, 2, 3], [0, 1, 2, 2, 3, 3, 4, 5]),
    ("at-least-once", "read_uncommitted", AFTER, [0, 1, 2, 3], ALL),
    ("at-least-once", "read_uncommitted", COMMITTED, [0, 1, 2, 3], ALL),
    ("at-most-once", "read_committed", BEFORE, [0, 1], ALL),
    ("at-most-once", "read_committed", AFTER, [0, 1], [0, 1, 4, 5]),
    ("at-most-once", "read_committed", COMMITTED, [0, 1, 2, 3], ALL),
]


@pytest.fixture
def new_env(make_env, tmp_path):
    return lambda: make_env("local", 1, max_records=2, checkpoint_dir=tmp_path / "checkpoint")


@pytest.mark.parametrize(("guarantee", "isolation", "phase", "at_death", "at_end"), MODES)
def test_collected(new_env, guarantee, isolation, phase, at_death, at_end):
    sink = CollectSink()

    def declare(env: StreamExecutionEnvironment) -> None:
        env.from_source(Lists(ALL)).sink_to(sink, guarantee=guarantee, isolation=isolation)

    found = die_and_recover(new_env, declare, phase, lambda: sorted(sink.results))
    assert found == (at_death, at_end)


def lines_in(folder: Path) -> list[int]:
    files = [path for path in folder.rglob("*.json") if ".flintstream" not in path.parts]
    return sorted(json.loads(line)["value"] for path in files for line in path.read_text().splitlines())


@pytest.mark.parametrize(("guarantee", "isolation", "phase", "at_death", "at_end"), MODES)
def test_in_files(new_env, tmp_path, guarantee, isolation, phase, at_death, at_end):
    folder = tmp_path / "out"

    def declare(env: StreamExecutionEnvironment) -> None:
        stream = env.from_source(Lists(ALL))
        stream.sink_to(FileSink.json(folder), guarantee=guarantee, isolation=isolation).uid("out")

    found = die_and_recover(new_env, declare, phase, lambda: lines_in(folder))
    assert found == (at_death, at_end)
    assert not [path for path in (folder / ".flintstream").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("guarantee", "isolation", "phase", "printed"),
    [
        ("at-least-once", "read_committed", BEFORE, "0 1 | 0 1 2 3 4 5"),
        ("at-least-once", "read_committed", AFTER, "0 1 | 2 3 4 5"),
        ("at-least-once", "read_committed", COMMITTED, "0 1 2 3 | 2 3 4 5"),
        ("at-least-once", "read_uncommitted", BEFORE, "0 1 2 3 | 2 3 4 5"),
        ("at-least-once", "read_uncommitted", COMMITTED, "0 1 2 3 | 4 5"),
        ("at-most-once", "read_committed", AFTER, "0 1 | 4 5"),
        ("at-most-once", "read_committed", COMMITTED, "0 1 2 3 | 4 5"),
    ],
)
def test_printed(new_env, capsys, guarantee, isolation, phase, printed):
    def declare(env: StreamExecutionEnvironment) -> None:
        env.from_source(Lists(ALL)).print().set_delivery(guarantee, isolation)

    parts = die_and_recover(new_env, declare, phase, lambda: capsys.readouterr().out.split())
    assert " | ".join(map(" ".join, parts)) == printed


def test_what_a_job_showed_before_it_had_any_manifest_is_taken_back(new_env, tmp_path):
    folder, kept = tmp_path / "out", tmp_path / "out" / "part-of-someone-else.json"
    folder.mkdir()
    kept.write_text('{"value": 9}\n')

    def declare(env: StreamExecutionEnvironment) -> None:
        env.from_source(Lists(ALL)).sink_to(FileSink.json(folder), isolation="read_uncommitted").uid("out")

    found = die_and_recover(new_env, declare, BEFORE, lambda: lines_in(folder), epoch=1)
    assert found == ([0, 1, 9], [0, 1, 2, 3, 4, 5, 9])


def test_an_attempt_that_failed_in_the_same_driver_is_taken_back_at_the_commit(new_env, tmp_path):
    """An epoch whose manifest cannot be written runs again in the same job: its first files go when it commits."""
    folder, tries = tmp_path / "out", []

    env = new_env()
    env.get_checkpoint_config().set_tolerable_checkpoint_failure_number(1)
    env.from_source(Lists(ALL)).sink_to(FileSink.json(folder), isolation="read_uncommitted").uid("out")
    env.add_listener(lambda manifest, *_: tries.append((manifest.epoch, lines_in(folder))))
    with failing_once(2):
        env.execute("job")
    assert tries == [(1, [0, 1]), (2, [0, 1, 2, 3]), (3, ALL)]


def failing_once(epoch: int):
    """Let the first attempt to write an epoch's manifest fail."""
    publish, failures = LocalStorage.publish, iter([True])

    def sometimes(self, path, *rest):
        if path == f"manifests/{epoch:012d}.json" and next(failures, False):
            raise OSError("no space left")
        return publish(self, path, *rest)

    return mock.patch.object(LocalStorage, "publish", sometimes)


def test_at_most_once_writes_no_output_into_the_checkpoint(new_env, tmp_path):
    def stored(guarantee: str) -> int:
        env, sizes = new_env(), []
        env.set_checkpoint_dir(str(tmp_path / guarantee))
        env.from_source(Lists(["x" * 50_000])).sink_to(CollectSink(), guarantee=guarantee)
        env.add_listener(
            lambda *_: sizes.append(sum(p.stat().st_size for p in (tmp_path / guarantee).rglob("*") if p.is_file()))
        )
        env.execute("job")
        return sizes[-1]

    assert stored("at-most-once") < 20_000 < 50_000 < stored("exactly-once")


def test_state_counts_exactly_once_whatever_sinks_do(new_env):
    sink = CollectSink()

    def declare(env: StreamExecutionEnvironment) -> None:
        env.set_guarantee("at-least-once")
        env.from_source(Lists([("a", 1)] * 6)).key_by(0).sum(1).sink_to(sink)

    _, found = die_and_recover(new_env, declare, BEFORE, lambda: sink.results)
    assert found == [("a", n) for n in (1, 2, 3, 4, 3, 4, 5, 6)]


def test_unknown_words_are_refused_with_the_line(new_env):
    stream = new_env().from_collection([1])
    with pytest.raises(
        InvalidArgumentError, match=r"no guarantee 'twice'; test_modes.py:\d+; use one of 'exactly-once'"
    ):
        stream.sink_to(CollectSink(), guarantee="twice")
    with pytest.raises(InvalidArgumentError, match=r"no isolation 'serializable'; test_modes.py:\d+; use one of"):
        stream.print().set_delivery(isolation="serializable")
    with pytest.raises(InvalidArgumentError, match=r"a job cannot do without any guarantee; test_modes.py:\d+"):
        new_env().set_guarantee("none")


def test_the_job_asks_only_those_who_were_told_nothing(new_env):
    env = new_env().set_guarantee("at-most-once")
    stream = env.from_collection([1])
    stream.sink_to(CollectSink()).name("told nothing")
    stream.sink_to(CollectSink(), guarantee="exactly-once").name("told")
    stream.print().name("print")
    found = {sink.name: sink.delivery.guarantee.value for sink in env.guarantee().sinks}
    assert found == {"told nothing": "at-most-once", "told": "exactly-once", "print": "at-most-once"}


def test_a_sink_that_cannot_do_less_does_more(new_env, tmp_path):
    env = new_env().set_guarantee("at-least-once")
    env.from_collection([1]).sink_to(TwoPhase()).name("two phases")
    assert str(env.guarantee().sinks[0].delivery) == "exactly-once, read_committed"


class TwoPhase(CollectSink):
    """A sink as users write them: it says nothing of what it can do."""

    def deliveries(self):
        return super(CollectSink, self).deliveries()


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"guarantee": "at-least-once"}, "cannot be at-least-once"),
        ({"isolation": "read_uncommitted"}, "cannot be read_uncommitted"),
        (
            {"guarantee": "at-most-once", "isolation": "read_uncommitted"},
            "cannot be at-most-once, read_uncommitted",
        ),
    ],
)
def test_what_a_sink_cannot_do_is_refused_when_the_job_is_built(new_env, asked, reason):
    env = new_env()
    env.from_collection([1]).sink_to(TwoPhase(), **asked).name("two phases")
    possible = r"TwoPhase can be exactly-once, read_committed \| at-most-once, read_committed"
    with pytest.raises(UnsupportedError, match=rf"sink 'two phases' {reason}; test_modes.py:\d+; {possible}"):
        env.compile()


def test_a_job_that_must_be_exactly_once_refuses_what_is_less(new_env):
    env = new_env().set_guarantee("exactly-once")
    env.from_collection([1]).print()
    with pytest.raises(UnsupportedError, match="sink 'Print' cannot be exactly-once as the job asks"):
        env.compile()


def test_a_collect_sink_with_a_function_cannot_take_back_what_it_told(new_env):
    env = new_env()
    sink = CollectSink(lambda epoch, values: None)
    env.from_collection([1]).sink_to(sink, guarantee="exactly-once", isolation="read_uncommitted")
    with pytest.raises(UnsupportedError, match="cannot be exactly-once, read_uncommitted"):
        env.compile()


def test_a_function_is_told_early_and_again(new_env):
    told = []
    sink = CollectSink(lambda epoch, values: told.append((epoch, values)))

    def declare(env: StreamExecutionEnvironment) -> None:
        env.from_source(Lists(ALL)).sink_to(sink, guarantee="at-least-once")

    die_and_recover(new_env, declare, BEFORE, lambda: None)
    assert told == [(1, [0, 1]), (2, [2, 3]), (2, [2, 3]), (3, [4, 5])]


def test_an_epoch_that_was_shown_twice_and_never_committed_is_there_once(new_env):
    sink = CollectSink()

    def declare(env: StreamExecutionEnvironment) -> None:
        env.from_source(Lists(ALL)).sink_to(sink, isolation="read_uncommitted")

    env = new_env()
    declare(env)
    run_and_die(env, BEFORE, 2)
    assert sink.results == [0, 1, 2, 3]
    env = new_env()
    declare(env)
    run_and_die(env, BEFORE, 2)
    assert sink.results == [0, 1, 2, 3]
