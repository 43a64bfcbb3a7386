"""Two managers over one home: the one that stands by answers what it can read, and names the other for the rest."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from flintstream.jobs.spec import JobSpec
from tests.jobs.rest.served import serving, wait_for


def test_a_standby_reads_sends_on_and_takes_over(tmp_path: Path) -> None:
    script = tmp_path / "app.py"
    script.write_text("print('done')\n")
    home = tmp_path / "home"
    with ExitStack() as first, ExitStack() as second:
        leader = first.enter_context(serving(home))
        standby = second.enter_context(serving(home, is_standby=True))
        assert not standby.manager.is_leader
        body = {"program": str(script)}
        answer = standby.ask("POST", "/v1/jobs?x=a%20b", body, token=True)
        assert (answer.status, answer.json["code"]) == (307, "not-leader")
        assert answer.headers["location"] == f"{leader.url}/v1/jobs?x=a%20b"
        assert standby.ask("POST", "/v1/jobs", body).status == 401, "who may not ask is not sent on"

        view = standby.client.submit(JobSpec(program=str(script)))
        uploaded = standby.client.submit(JobSpec(program="app.py"), upload=script)
        wait_for(lambda: leader.manager.job(view.id).has_ended and leader.manager.job(uploaded.id).has_ended)
        assert {each["id"] for each in standby.ask("GET", "/v1/jobs").json["jobs"]} == {view.id, uploaded.id}
        assert standby.ask("GET", f"/v1/jobs/{view.id}/logs/out").json["text"] == "done\n"
        assert standby.ask("GET", "/v1/overview").status == 200
        standby.client.forget(view.id)
        assert [each.id for each in leader.manager.jobs()] == [uploaded.id]
        assert standby.ask("POST", "/v1/session", {"token": standby.token}).status == 204

        first.close()
        wait_for(lambda: standby.manager.is_leader)
        last = standby.client.submit(JobSpec(program=str(script)))
        wait_for(lambda: standby.manager.job(last.id).has_ended)


def test_nobody_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path / "home") as own, monkeypatch.context() as patch:
        patch.setattr(type(own.manager), "is_leader", property(lambda _: False))
        patch.setattr(own.manager, "leader_url", lambda: None)
        answer = own.ask("DELETE", f"/v1/jobs/{'0' * 32}")
        assert (answer.status, answer.json["code"]) == (503, "not-leader")
        assert answer.headers["retry-after"] == "5"
