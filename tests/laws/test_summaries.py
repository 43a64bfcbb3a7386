"""Summaries and metrics under the batching law: cuts, partitions, crashes and restarts change nothing of them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream import (
    CollectSink,
    DataStream,
    DistinctCountStateDescriptor,
    KeyedProcessFunction,
    QuantilesStateDescriptor,
    ReservoirStateDescriptor,
    TopKStateDescriptor,
)
from flintstream.state import summary_sketches
from tests.capabilities.support import Lists, StopAfter, StoppedOnPurpose
from tests.laws.runs import Input, run
from tests.laws.test_batching_law import LONG_SPLIT, PLAIN, law, local_env, numbered, ways

pytest.importorskip("datasketches")
pytestmark = pytest.mark.timeout(900)


class Bytes(KeyedProcessFunction):
    """Gives the bytes of all summaries for every record: no smaller difference could be seen."""

    def open(self, runtime_context: Any) -> None:
        descriptors = [
            ReservoirStateDescriptor("sample", 3),
            DistinctCountStateDescriptor("distinct", 0.2),
            QuantilesStateDescriptor("quantiles", compression=10),
            TopKStateDescriptor("top", 1, capacity=2),
        ]
        self.states = [runtime_context.get_summary_state(each) for each in descriptors]

    def process_element(self, value: Any, ctx: Any) -> Any:
        for state in self.states:
            state.add(value["ts"])
        yield value["n"], [state.to_bytes() for state in self.states]
        if value["ts"] == 0:
            for state in self.states:
                state.clear()


def summaries(left: DataStream, right: DataStream) -> dict[str, DataStream]:
    return {"bytes": left.key_by("key").process(Bytes()).uid("bytes")}


@law(12)
@given(split=LONG_SPLIT, way=ways())
def test_summaries_are_a_function_of_the_records(split, way):
    # A block of a few values, so that digests are merged, not only collected.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary_sketches, "BLOCK", 4)
        records = Input(numbered([split]))
        assert run(summaries, records, way, local_env) == run(summaries, records, PLAIN, local_env)


class Counted(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        group = runtime_context.get_metrics_group()
        self.counter, self.meter = group.counter("c"), group.meter("m")
        self.distribution, self.histogram = group.distribution("d"), group.histogram("h")

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.counter.inc(value["ts"])
        self.meter.mark_event()
        self.distribution.update(value["ts"])
        self.histogram.update(value["ts"] - 30)
        yield value


@law(12)
@given(
    split=LONG_SPLIT,
    lives=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 3), st.integers(1, 4)), max_size=3),
    last=st.tuples(st.integers(1, 30), st.integers(1, 3)),
)
def test_metrics_are_a_function_of_the_records(split, lives, last):
    def measured(*lives: Any) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            for max_records, parallelism, stop_after in lives:
                env = local_env(parallelism, max_records=max_records, checkpoint_dir=Path(folder))
                stream = env.from_source(Lists(*numbered([split]))).uid("in").key_by("key").process(Counted())
                stream.uid("counted").sink_to(CollectSink()).uid("out")
                if stop_after is not None:
                    env.add_listener(StopAfter(stop_after))
                try:
                    found = env.execute("law").get_accumulator_result("counted")
                except StoppedOnPurpose:
                    continue
                found["user.m"] = found["user.m"].count  # its rate depends on the clock
                return found
        raise AssertionError("the last life has no end")

    assert measured(*lives, (*last, None)) == measured((1000, 1, None))
