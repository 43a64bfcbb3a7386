"""Rows 6 and 14 with state: what is broadcast is kept by every instance, however many there are and come to be."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from flintstream import (
    BroadcastProcessFunction,
    CollectSink,
    KeyedBroadcastProcessFunction,
    MapStateDescriptor,
    RuntimeExecutionMode,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
    monotonous,
)
from flintstream.errors import DefinitionError, TypeMismatchError
from tests.capabilities.support import Epochs, Lists, StopAfter, StoppedOnPurpose, collect, run

RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())
SEEN = ValueStateDescriptor("seen")


class Known(BroadcastProcessFunction):
    """Says of every event in which instance it is and which rules there are."""

    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value, ctx):
        yield value, self.subtask, dict(ctx.get_broadcast_state(RULES).items())

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)


class Mortal(Known):
    """Kills its own process once, at one event."""

    def __init__(self, event: int, killed: Path) -> None:
        self._event = event
        self._killed = killed

    def process_element(self, value, ctx):
        if value == self._event and not self._killed.exists():
            self._killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().process_element(value, ctx)


def log_of(rules: int, events: int) -> list[Any]:
    """Return a log with a rule and then some events, again and again; a rule's number is how many there are."""
    return [each for n in range(rules) for each in (("r", n), *((("e", n),) * events))]


def declare(log: list[Any], function: Any = None) -> Any:
    """Return a program that reads a log of events and rules, with events spread over all instances."""

    def program(env: Any, sink: CollectSink) -> None:
        entries = env.from_source(Lists(log)).uid("log")
        rules = entries.filter(lambda e: e[0] == "r").uid("r").map(lambda e: (f"rule {e[1]}", e[1])).uid("rules")
        events = entries.filter(lambda e: e[0] == "e").uid("e").map(lambda e: e[1]).uid("events").rebalance()
        events.connect(rules.broadcast(RULES)).process(function or Known()).uid("known").sink_to(sink)

    return program


def check_known(found: list[Any], rules: int, events: int) -> None:
    """Every event has been seen once, by someone who had all rules up to its own and no other."""
    assert len(found) == rules * events
    for number, _, known in found:
        assert known == {f"rule {n}": n for n in range(number + 1)}


@pytest.mark.row(6, 14)
def test_every_instance_has_every_rule_whatever_the_parallelism_was_and_is(new_env, tmp_path):
    """From 2 to 4 to 1 to 3 instances, each life of the job with several epochs."""
    sink, log = CollectSink(), log_of(rules=15, events=5)
    for parallelism in (2, 4, 1):
        assert not run(new_env(parallelism, max_records=11, checkpoint_dir=tmp_path), sink, declare(log), 2)
    assert run(new_env(3, max_records=11, checkpoint_dir=tmp_path), sink, declare(log))
    check_known(sink.results, 15, 5)
    assert {subtask for _, subtask, _ in sink.results} == {0, 1, 2, 3}


@pytest.mark.row(6)
@pytest.mark.spark
def test_an_instance_whose_process_was_killed_has_every_rule_again(make_env, tmp_path):
    log = log_of(rules=6, events=10)
    env = make_env("spark", 2, max_records=22, checkpoint_dir=tmp_path / "checkpoint")
    sink = CollectSink()
    assert run(env, sink, declare(log, Mortal(4, tmp_path / "killed")))
    assert (tmp_path / "killed").exists()
    check_known(sink.results, 6, 10)


@pytest.mark.row(6)
@pytest.mark.parametrize("parallelism", [1, 3])
def test_what_all_instances_have_is_kept_and_counted_once(new_env, tmp_path, parallelism):
    """Ten rules and then one more in each epoch: an epoch writes what it changed, however many instances have it."""
    env, epochs = new_env(parallelism, max_records=10, checkpoint_dir=tmp_path), Epochs()
    env.add_listener(epochs)
    rest = [each for n in range(10, 13) for each in [("r", n), *[("e", n)] * 9]]
    assert run(env, CollectSink(), declare([*[("r", n) for n in range(10)], *rest]))
    assert [manifest.entries["known"] for manifest in epochs.manifests[:4]] == [10, 11, 12, 13]
    files = [manifest.state["1/all"].files for manifest in epochs.manifests[:4]]
    assert [each[-1].rows for each in files] == [10, 1, 1, 1]
    assert all(after[: len(before)] == before for before, after in itertools.pairwise(files))
    others = [handle for name, handle in epochs.manifests[3].state.items() if name != "1/all"]
    assert len(others) == parallelism and not any(handle.files for handle in others)


class Unlike(Known):
    """Wrong: each instance keeps something else."""

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(value[0], value[1] * 10 + self.subtask)


@pytest.mark.row(6)
def test_instances_that_keep_different_things_all_get_what_the_first_one_kept(new_env, tmp_path):
    """It is the program's mistake, as in Flink; but nothing breaks, and nothing is mixed up."""
    sink, log = CollectSink(), [("r", 1), ("r", 2), *[("e", n) for n in range(8)]]
    assert not run(new_env(3, max_records=2, checkpoint_dir=tmp_path), sink, declare(log, Unlike()), 2)
    # On a cluster an instance may be restored in another process after any epoch.
    assert all(known["rule 1"] in (10, 10 + subtask) for _, subtask, known in sink.results)
    begin = len(sink.results)
    assert run(new_env(2, max_records=2, checkpoint_dir=tmp_path), sink, declare(log, Unlike()))
    after = sink.results[begin:]
    assert {subtask for _, subtask, _ in after} == {0, 1}
    assert all(known == {"rule 1": 10, "rule 2": 20} for _, _, known in after)


@pytest.mark.row(14)
def test_in_batch_mode_all_rules_are_there_before_the_first_event(env):
    """As in Flink. The events' source comes first, so in streaming mode they would see none."""
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    events = env.from_collection(list(range(6)))
    rules = env.from_collection([("a", 1), ("b", 2)])
    found = collect(events.rebalance().connect(rules.broadcast(RULES)).process(Known()))
    assert sorted(number for number, _, _ in found) == list(range(6))
    assert all(known == {"a": 1, "b": 2} for _, _, known in found)


class Wrong(KeyedBroadcastProcessFunction):
    """Does one thing that is not allowed."""

    def __init__(self, mistake: str) -> None:
        self._mistake = mistake

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(SEEN)

    def process_element(self, value, ctx):
        self.seen.update(value)
        state = ctx.get_broadcast_state(MapStateDescriptor("rule") if self._mistake == "typo" else RULES)
        if self._mistake == "write":
            state.put("a", 1)
        elif self._mistake == "clear":
            state.clear()

    def process_broadcast_element(self, value, ctx):
        if self._mistake == "read":
            self.seen.value()
        elif self._mistake == "update":
            self.seen.update(1)
        elif self._mistake == "type":
            ctx.get_broadcast_state(RULES).put("a", "one")


@pytest.mark.row(14)
@pytest.mark.parametrize(
    ("mistake", "kind", "message"),
    [
        ("typo", DefinitionError, r"'rule' is not broadcast state of this stream, which has 'rules'; "),
        ("write", DefinitionError, r"'rules' can only be read here; .*process_broadcast_element"),
        ("clear", DefinitionError, r"'rules' can only be read here; "),
        ("read", DefinitionError, r"no key on the broadcast side.*apply_to_keyed_state"),
        ("update", DefinitionError, r"no key on the broadcast side"),
        ("type", TypeMismatchError, r"state 'rules'.*'one'"),
    ],
)
def test_what_a_side_may_not_do_is_refused_with_the_users_line(make_env, mistake, kind, message):
    env = make_env("local")
    rules, events = env.from_collection([1]), env.from_collection([2])
    events.key_by(lambda n: n).connect(rules.broadcast(RULES)).process(Wrong(mistake)).sink_to(CollectSink())
    with pytest.raises(kind, match=message) as raised:
        env.execute()
    assert "test_rows_broadcast.py" in str(raised.value)


def test_a_key_by_is_not_a_partitioner(env):
    """A stream that is partitioned by a function of the user's has no keys, though it was given some."""
    rules = env.from_collection([1]).broadcast(RULES)
    placed = env.from_collection([2]).partition_custom(lambda key, n: 0, lambda n: n)
    with pytest.raises(DefinitionError, match=r"needs keys, and this stream has none; test_rows_broadcast\.py:\d+; "):
        placed.connect(rules).process(Wrong(""))


def test_a_job_may_be_stopped_before_any_rule_came(new_env, tmp_path):
    """There is nothing to keep, and nothing is kept; then the first rule comes."""
    sink, log = CollectSink(), [("e", 0), ("e", 0), ("r", 0), ("e", 0)]
    env = new_env(2, max_records=1, checkpoint_dir=tmp_path)
    env.add_listener(StopAfter(2))
    declare(log)(env, sink)
    with pytest.raises(StoppedOnPurpose):
        env.execute()
    assert run(new_env(1, max_records=1, checkpoint_dir=tmp_path), sink, declare(log))
    assert [known for _, _, known in sink.results] == [{}, {}, {"rule 0": 0}]


TEXTS = MapStateDescriptor("texts")


class Keep(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield [text[0] * 3 for text in ctx.get_broadcast_state(TEXTS).values()]

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(TEXTS).put(value[0] % 3, value[1])


@pytest.mark.row(6)
def test_large_broadcast_state_has_files_of_its_own_which_are_deleted_in_the_end(make_env, tmp_path):
    """Every rule is larger than what the driver takes with it; only files that a kept manifest names remain."""
    epochs, sink = Epochs(), CollectSink()
    log = [each for n in range(9) for each in ((n, chr(97 + n) * 100_000), None)]
    for parallelism, stop in ((2, 6), (3, None)):
        env = make_env("local", parallelism, max_records=1, checkpoint_dir=tmp_path)
        entries = env.from_source(Lists(log)).uid("log")
        rules = entries.filter(lambda e: e is not None).uid("rules").broadcast(TEXTS)
        entries.filter(lambda e: e is None).uid("events").connect(rules).process(Keep()).uid("keep").sink_to(sink)
        env.add_listener(epochs)
        if stop is not None:
            env.add_listener(StopAfter(stop))
        with contextlib.suppress(StoppedOnPurpose):
            env.execute()
    names = [[chr(97 + m) * 3 for m in sorted(range(max(0, n - 2), n + 1), key=lambda m: m % 3)] for n in range(9)]
    assert sink.results == names
    found = {path.name for path in (tmp_path / "state").iterdir()}
    named = {Path(file).name for manifest in epochs.manifests[-3:] for file in manifest.files() if "state/" in file}
    assert found == named and all(name.endswith("-all.bin") for name in found) and found


BRIEF = ValueStateDescriptor("brief")
BRIEF.enable_time_to_live(
    StateTtlConfig.new_builder(10).set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.EventTime).build()
)


class Brief(KeyedBroadcastProcessFunction):
    """Keeps the newest value of a key for 10 ms of event time; every rule renews what is left of it."""

    def open(self, runtime_context):
        self.newest = runtime_context.get_state(BRIEF)

    def process_element(self, value, ctx):
        yield value["key"], self.newest.value()
        if value["n"]:
            self.newest.update(value["n"])

    def process_broadcast_element(self, value, ctx):
        ctx.apply_to_keyed_state(BRIEF, lambda key, state: state.update(state.value()) if state.value() else None)


@pytest.mark.row(14)
def test_state_of_keys_expires_beside_broadcast_state_and_a_rule_may_renew_it(make_env):
    """Set at 0 and renewed by the rule of 8, it lives until the watermark has passed 18; without the rule until 10."""
    env = make_env("local")
    log = [
        {"key": "a", "ts": 0, "n": 1},
        {"key": "rule", "ts": 8, "n": 0},
        {"key": "a", "ts": 15, "n": 0},
        {"key": "a", "ts": 16, "n": 0},
        {"key": "a", "ts": 30, "n": 0},
        {"key": "a", "ts": 31, "n": 0},
    ]
    entries = env.from_collection(log).assign_timestamps_and_watermarks(monotonous(on="ts"))
    rules = entries.filter(lambda e: e["key"] == "rule").broadcast(RULES)
    events = entries.filter(lambda e: e["key"] != "rule").key_by("key")
    found = collect(events.connect(rules).process(Brief()))
    assert found == [("a", None), ("a", 1), ("a", 1), ("a", 1), ("a", None)]
