"""The OpenAPI description: it says everything, and the server does what it says, whatever is sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from tests.jobs.rest.served import Served, await_running, serving, submission

ENDLESS = ("/v1/events", "/v1/jobs/{job}/events")
"""Streams have no end, so that a checker would wait for it."""
BOUNDED = settings(
    max_examples=5, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.unsupported_method,
    checks.allow_header_conformance,
]
# What ends the job comes last.
ENDS = re.compile(r"/(restart|stop|cancel)$|^/v1/jobs/\{job\}$")


@pytest.fixture(scope="module")
def description(served: Served) -> dict[str, Any]:
    return served.ask("GET", "/v1/openapi.json").json


def operations(description: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(path, method, each) for path, methods in description["paths"].items() for method, each in methods.items()]


def test_every_operation_is_described(description: dict[str, Any]) -> None:
    for path, method, operation in operations(description):
        assert path.startswith("/v1/"), path
        assert operation.get("description"), (method, path)
        assert "problem+json" in json.dumps(operation["responses"]["422"]), (method, path)
        for parameter in operation.get("parameters", []):
            assert parameter.get("description") or parameter["schema"].get("enum"), (path, parameter["name"])


def test_every_field_of_a_body_is_described(description: dict[str, Any]) -> None:
    schemas = description["components"]["schemas"]
    for name in ("Submission", "SavepointBody", "StopBody", "RescaleBody", "RestartBody"):
        for field, schema in schemas[name]["properties"].items():
            assert schema.get("description"), (name, field)
        assert schemas[name]["examples"]
        assert schemas[name]["additionalProperties"] is False


def test_every_reference_leads_somewhere(description: dict[str, Any]) -> None:
    text = json.dumps(description)
    for part in text.split('"$ref": "#/components/schemas/')[1:]:
        assert part.partition('"')[0] in description["components"]["schemas"]
    assert "HTTPValidationError" not in text


def test_submitting_demands_the_token_and_looking_may_do_without(description: dict[str, Any]) -> None:
    assert description["paths"]["/v1/jobs"]["post"]["security"] == [{"token": []}]
    assert description["paths"]["/v1/jobs"]["get"]["security"] == [{}, {"token": []}]


def test_every_endpoint_of_the_issue_is_there(description: dict[str, Any]) -> None:
    found = {(method.upper(), path.removeprefix("/v1")) for path, method, _ in operations(description)}
    job = "/jobs/{job}"
    assert found >= {
        ("GET", "/overview"), ("GET", "/jobs"), ("POST", "/jobs"), ("GET", job), ("DELETE", job),
        ("POST", f"{job}/cancel"), ("POST", f"{job}/stop"), ("POST", f"{job}/savepoints"),
        ("GET", f"{job}/savepoints"), ("POST", f"{job}/rescale"), ("POST", f"{job}/restart"),
        ("GET", "/operations/{operation}"), ("GET", f"{job}/status"), ("GET", f"{job}/plan"),
        ("GET", f"{job}/graph.svg"), ("GET", f"{job}/epochs"), ("GET", f"{job}/exceptions"),
        ("GET", f"{job}/configuration"), ("GET", job + "/logs/{stream}"), ("GET", f"{job}/events"),
        ("GET", "/events"), ("GET", "/metrics"), ("GET", f"{job}/state"), ("POST", "/session"),
    }  # fmt: skip


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str]]:
    """A manager of its own, since its job may be stopped and forgotten, and one job that runs."""
    with serving(tmp_path_factory.mktemp("fuzzed") / "home", slots=2) as own:
        job = str(own.ask("POST", "/v1/jobs", submission(tmp_path_factory.mktemp("app")), token=True).json["id"])
        await_running(own, job)
        yield own, job


@pytest.mark.slow
def test_whatever_is_sent_is_answered_as_described(fuzzed: tuple[Served, str]) -> None:
    own, job = fuzzed
    schema = schemathesis.openapi.from_dict(own.ask("GET", "/v1/openapi.json").json)
    operations = sorted(
        (each.ok() for each in schema.get_all_operations()), key=lambda each: bool(ENDS.search(each.path))
    )
    tried = 0
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {own.token}"

        def check(case: Case) -> None:
            nonlocal tried
            tried += 1
            for endless in ("follow", "watch", "wait"):
                case.query.pop(endless, None)
            case.call_and_validate(base_url=own.url, session=session, checks=CHECKS, timeout=30)

        for operation in operations:
            if operation.path in ENDLESS:
                continue
            has_job = "{job}" in operation.path
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                for fixed in ({"job": job}, None) if has_job else (None,):
                    # Where nothing is sent, nothing can be wrong with it.
                    with suppress(Unsatisfiable):
                        BOUNDED(given(operation.as_strategy(mode, path_parameters=fixed))(check))()
    assert tried > 200
    assert own.ask("GET", "/v1/jobs").status == 200
