"""A program is explained over REST as by the command line: it runs up to its first execute(), and no further."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from flintstream.errors import FlintstreamError
from flintstream.jobs import explaining
from flintstream.jobs.spec import JobSpec
from tests.jobs.rest.served import PROGRAM, Served


def program(folder: Path, text: str) -> str:
    path = folder / "app.py"
    path.write_text(textwrap.dedent(text))
    return str(path)


def ask(served: Served, body: dict[str, Any], token: bool = True) -> Any:
    return served.ask("POST", "/v1/explain", body, token=token)


def test_a_program_of_this_machine(served: Served, tmp_path: Path) -> None:
    path = program(tmp_path, PROGRAM)
    answer = ask(served, {"program": path, "arguments": [str(tmp_path), "10"], "parallelism": 3})
    assert answer.status == 200, answer.body
    told = answer.json
    assert told["name"] == "counting"
    assert "counts" in told["text"]
    assert told["plan"]["nodes"]
    assert not (tmp_path / "out").exists(), "nothing ran"
    assert list((served.manager.home / "uploads").iterdir()) == [], "nothing is left behind"


def test_a_program_that_is_sent_along(served: Served, tmp_path: Path) -> None:
    path = Path(program(tmp_path, PROGRAM))
    told = served.client.explain(JobSpec(program="app.py", arguments=(str(tmp_path), "10")), upload=path)
    assert told["name"] == "counting"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("print('nothing to do')", "ended before it came to an execute()"),
        ("raise ValueError('no such table')", "ValueError: no such table"),
        ("import time\ntime.sleep(600)", "did not come to an execute() within 1 s"),
    ],
)
def test_a_program_that_does_not_come_to_it(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    slow = explaining.explained
    if "sleep" in text:
        monkeypatch.setattr("flintstream.jobs.rest_jobs.explained", lambda spec, folder: slow(spec, folder, 1.0))
    with pytest.raises(FlintstreamError, match=words.replace("(", r"\(").replace(")", r"\)")):
        served.client.explain(JobSpec(program=program(tmp_path, text)))


def test_it_runs_code_so_it_needs_the_token(served: Served, tmp_path: Path) -> None:
    refused = ask(served, {"program": program(tmp_path, PROGRAM)}, token=False)
    assert (refused.status, refused.json["code"]) == (401, "token")
    missing = ask(served, {"program": str(tmp_path / "none.py")})
    assert missing.status in (400, 422)
    assert "there is no program" in missing.json["detail"]
