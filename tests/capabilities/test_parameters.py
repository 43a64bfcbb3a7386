"""Every accepted parameter changes something: no option is taken and ignored."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from flintstream.api.configure import KEYS
from flintstream.errors import FlintstreamError, UnsupportedError
from tests.capabilities import (  # noqa: F401  # each fills the table
    parameters_async,
    parameters_broadcast,
    parameters_configs,
    parameters_delivery,
    parameters_env,
    parameters_evolution,
    parameters_generated,
    parameters_graph,
    parameters_jobs,
    parameters_joins,
    parameters_keyed,
    parameters_keys,
    parameters_metrics,
    parameters_patterns,
    parameters_queryable,
    parameters_recovery,
    parameters_reference,
    parameters_remote,
    parameters_savepoints,
    parameters_sinks,
    parameters_sources,
    parameters_state,
    parameters_state_tables,
    parameters_streams,
    parameters_summaries,
    parameters_time,
    parameters_timetravel,
    parameters_triggers,
    parameters_ttl,
    parameters_windows,
)
from tests.capabilities.parameters import CASES, REFUSALS, Bench, Case, public_functions, public_parameters


def result_of(bench: Bench, case: Case, value: Any) -> Any:
    try:
        return case.program(bench, value)
    except FlintstreamError as error:
        return type(error)


def check(case: Case, bench: Bench) -> None:
    results = [result_of(bench, case, value) for value, _ in case.expected]
    # `repr` tells 1, 1.0 and True apart.
    assert [(value, repr(result)) for (value, _), result in zip(case.expected, results, strict=True)] == [
        (value, repr(expected)) for value, expected in case.expected
    ]
    assert len(set(map(repr, results))) > 1, f"{case.parameter} makes no difference"


@pytest.mark.parametrize("case", [pytest.param(case, id=case.parameter) for case in CASES if not case.on_spark])
def test_a_parameter_makes_a_difference(case, make_env, tmp_path, capsys):
    check(case, Bench(lambda *args, **settings: make_env("local", *args, **settings), tmp_path, capsys))


@pytest.mark.spark
@pytest.mark.parametrize("case", [pytest.param(case, id=case.parameter) for case in CASES if case.on_spark])
def test_a_parameter_makes_a_difference_on_spark(case, make_env, tmp_path, capsys):
    check(case, Bench(lambda *args, **settings: make_env("spark", *args, **settings), tmp_path, capsys))


@pytest.mark.parametrize("method", REFUSALS)
def test_what_is_refused_is_refused(method, make_env, tmp_path, capsys):
    with pytest.raises(UnsupportedError, match=r"not supported; parameters_\w+\.py:\d+; "):
        REFUSALS[method](Bench(lambda *args, **settings: make_env("local", *args, **settings), tmp_path, capsys))


def test_every_public_parameter_is_in_the_table():
    refused = {
        f"{name}.{parameter}"
        for name, function in public_functions()
        if name in REFUSALS
        for parameter in inspect.signature(function).parameters
    }
    covered = {case.parameter for case in CASES} | refused
    assert sorted(public_parameters() - covered) == []
    assert sorted({f"Configuration[{key!r}]" for key in KEYS} - covered) == []


def test_the_table_has_no_parameters_that_are_gone():
    known = public_parameters() | {f"Configuration[{key!r}]" for key in KEYS}
    assert sorted({case.parameter for case in CASES} - known) == []
    assert sorted(set(REFUSALS) - {name for name, _ in public_functions()}) == []
