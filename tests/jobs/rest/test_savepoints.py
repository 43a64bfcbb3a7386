"""One savepoint of a job over REST: shown, compared, checked, tagged, disposed of; by its name, never by a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintstream.errors import FlintstreamError
from tests.jobs.rest.served import Served, await_running, serving, submission


def test_a_savepoint_is_looked_into_and_disposed_of(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as own:
        client = own.client
        job = str(own.ask("POST", "/v1/jobs", submission(tmp_path / "app"), token=True).json["id"])
        await_running(own, job)
        first, second = Path(client.savepoint(job, tags=["one"])), Path(client.savepoint(job))

        found = client.show_savepoint(job, first.name)
        assert (found["job"], found["tags"]) == (client.job(job).name, ["one"])
        assert found["operators"]
        tables = client.diff_savepoints(job, first.name, second.name)
        assert {"uid", "state", "added", "removed", "changed", "same"} <= set(tables[0])
        client.check_savepoint(job, first.name)
        assert client.tag_savepoint(job, first.name, ["two"], "kept")["tags"] == ["two"]
        assert [each["tags"] for each in client.savepoints(job)] == [[], ["two"]]
        assert client.tag_savepoint(job, first.name, [])["comment"] == "kept"

        part = next(first.rglob("*.parquet"))
        part.write_bytes(part.read_bytes()[:-1] + b"x")
        with pytest.raises(FlintstreamError):
            client.check_savepoint(job, first.name)
        client.dispose_savepoint(job, first.name)
        assert not first.exists()
        assert [each["path"] for each in client.savepoints(job)] == [str(second)]
        client.cancel(job)


@pytest.mark.parametrize("name", ["nothing", "..", "%2e%2e", "..%2f..%2fetc", "%2fetc", "a%00b", "a%0ab", "n" * 300])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_what_the_manager_does_not_know_as_a_savepoint_cannot_be_named(
    served: Served, job: str, method: str, name: str
) -> None:
    answer = served.ask(method, f"/v1/jobs/{job}/savepoints/{name}")
    assert answer.status in (400, 404, 405), answer.body
    assert answer.json["detail"]


def test_a_body_that_says_something_else_is_refused(served: Served, job: str) -> None:
    for path, body in (("check", {"deep": True}), ("tags", {"tags": "a"}), ("tags", {"tags": ["a\nb"]})):
        assert served.ask("POST", f"/v1/jobs/{job}/savepoints/x/{path}", body).status == 422
