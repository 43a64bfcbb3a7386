"""What whoever runs a program imposes on it wins over what the program says."""

from __future__ import annotations

import json

import pytest

from flintstream import StreamExecutionEnvironment
from flintstream.api.environment import IMPOSED_VARIABLE, SETTINGS_VARIABLE


def test_given_settings_yield_to_the_program_and_imposed_ones_do_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(SETTINGS_VARIABLE, json.dumps({"parallelism.default": "3", "pipeline.max-parallelism": "32"}))
    monkeypatch.setenv(IMPOSED_VARIABLE, json.dumps({"parallelism.default": "5"}))
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(2)
    env.from_collection([1]).rebalance().map(str).rebalance().map(str).set_parallelism(4).print()
    plan = env.compile()
    # An operator's own parallelism is the operator's.
    assert [op.parallelism for op in plan.operators][1:3] == [5, 4]
    assert plan.max_parallelism == 32
