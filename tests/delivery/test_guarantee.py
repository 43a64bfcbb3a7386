"""What a job promises: the weakest of its sources, its checkpoint directory and its sinks."""

from __future__ import annotations

import pytest

from flintstream import (
    CollectSink,
    DeliveryGuarantee,
    DiscardingSink,
    Guarantee,
    RuntimeExecutionMode,
    Sink,
)
from flintstream.connectors.staged import NoCommitter
from tests.capabilities.support import Lists

EXACTLY, LEAST, MOST, NONE = (
    DeliveryGuarantee.EXACTLY_ONCE,
    DeliveryGuarantee.AT_LEAST_ONCE,
    DeliveryGuarantee.AT_MOST_ONCE,
    DeliveryGuarantee.NONE,
)


class Ticker(Lists):
    """A source that cannot be read again."""

    @property
    def weakness(self) -> str:
        return "is not replayable"


class Plain(Sink):
    """A sink that writes at once and knows no commit."""

    delivery = "at-least-once"

    def create_writer(self, context):
        raise AssertionError

    def create_committer(self):
        return NoCommitter()


class Careless(Plain):
    delivery = "best effort"


@pytest.fixture
def env(make_env, tmp_path):
    return make_env("local", checkpoint_dir=tmp_path)


def test_the_guarantee_of_a_good_job(env):
    env.from_collection([1]).sink_to(DiscardingSink())
    found = env.guarantee()
    assert isinstance(found, Guarantee)
    assert str(found) == "exactly-once: every source is replayable, and every sink commits with the epoch"
    assert [str(sink) for sink in found.sinks] == [str(found)]


def test_a_source_that_cannot_be_read_again_is_named(env):
    env.from_source(Ticker([1]), source_name="ticker").map(str).sink_to(DiscardingSink())
    assert str(env.guarantee()).startswith("at-most-once: source 'ticker' is not replayable (test_guarantee.py:")


def test_only_sources_that_feed_a_sink_weaken_it(env):
    env.from_source(Ticker([1]), source_name="ticker").print().name("ticks")
    env.from_collection([1]).map(str).sink_to(CollectSink()).name("good")
    weak, good = env.guarantee().sinks
    assert (weak.name, weak.guarantee, good.name, good.guarantee) == ("ticks", NONE, "good", EXACTLY)
    assert "'ticker' is not replayable" in weak.reason
    assert "sink 'ticks' is at-least-once" in weak.reason
    assert env.guarantee().guarantee is NONE


def test_a_plain_sink_is_the_weakest_link(env):
    stream = env.from_collection([1])
    stream.sink_to(DiscardingSink())
    stream.sink_to(Plain()).name("plain")
    assert str(env.guarantee()).startswith("at-least-once: sink 'plain' is at-least-once (test_guarantee.py:")
    stream.sink_to(Careless())
    assert env.guarantee().guarantee is NONE


def test_without_a_checkpoint_directory_a_job_begins_anew(make_env):
    env = make_env("local")
    env.from_collection([1]).sink_to(DiscardingSink())
    assert str(env.guarantee()).startswith("at-least-once: without a checkpoint directory a job")
    # A batch job is one epoch: either it is there or not.
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    assert env.guarantee().guarantee is EXACTLY


def test_the_client_and_explain_say_the_same(env, capsys):
    env.from_collection([1]).map(str).print().name("screen")
    promise = str(env.guarantee())
    lines = env.explain().splitlines()
    assert lines[-1] == f"Guarantee: {promise}"
    assert " ".join(lines[-2].split()).startswith("Sink: screen at-least-once, read_committed test_guarantee.py:")
    client = env.execute_async()
    assert str(client.guarantee()) == promise
    client.get_job_execution_result().result(60)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (EXACTLY, EXACTLY, EXACTLY),
        (EXACTLY, LEAST, LEAST),
        (MOST, EXACTLY, MOST),
        (LEAST, LEAST, LEAST),
        (MOST, LEAST, NONE),
        (NONE, EXACTLY, NONE),
        (NONE, MOST, NONE),
    ],
)
def test_two_links_in_a_row(one, other, both):
    assert one.weaker(other) is both
    assert other.weaker(one) is both
