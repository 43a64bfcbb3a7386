"""The first five minutes, exactly as the README prints them: each command in one shell, each answer as shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import urllib.request
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADING = "## Five minutes with a job"
END = "--- end of answer ---"


class Step(NamedTuple):
    """A command, and what the page shows as its answer."""

    command: str
    answer: list[str]


def steps() -> list[Step]:
    section = (ROOT / "README.md").read_text().split(HEADING)[1].split("\n## ")[0]
    found: list[Step] = []
    for line in re.findall(r"```console\n(.*?)```", section, re.DOTALL)[0].splitlines():
        if line.startswith("$ "):
            found.append(Step(line[2:], []))
        else:
            found[-1].answer.append(line)
    return found


def as_shown(line: str) -> str:
    """Return a pattern for a line: words with digits, such as ids and ports, may be others of their kind."""
    words = [r"\S+" if re.search(r"\d", word) else re.escape(word) for word in line.split()]
    return r"\s+".join(r".*" if word == re.escape("...") else word for word in words)


class Shell:
    """A shell that is told one command after the other."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self._errors = folder / "errors"
        self._process = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors.open("w"),
            text=True,
            env=environment,
            cwd=folder,
        )

    def run(self, command: str) -> list[str]:
        """Return the lines of a command's answer; it must succeed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{command}\necho '{END}' $?\n")
        self._process.stdin.flush()
        lines: list[str] = []
        while not (line := self._process.stdout.readline()).startswith(END):
            assert line, f"the shell has died: {self._errors.read_text()}"
            lines.append(line.rstrip("\n"))
        assert line.split()[-1] == "0", f"$ {command}\n{lines}\n{self._errors.read_text()}"
        return lines

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.mark.row(79, 145)
@pytest.mark.spark
@pytest.mark.timeout(290)
def test_every_step_works_as_printed(tmp_path):
    scripts = sysconfig.get_path("scripts")
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([scripts, str(Path(sys.executable).parent), os.environ["PATH"]]),
        "FLINTSTREAM_HOME": str(tmp_path / "home"),
        "FLINTSTREAM_PORT": "0",
    }
    shell = Shell(environment, tmp_path)
    done: list[str] = []
    try:
        for step in steps():
            lines = shell.run(step.command)
            done.append(step.command)
            assert len(lines) == len(step.answer), (step, lines)
            for line, shown in zip(lines, step.answer, strict=True):
                assert re.fullmatch(as_shown(shown), line), (line, shown)
            if step.command == "flintstream open":
                with urllib.request.urlopen(lines[0], timeout=30) as page:
                    assert b"<html" in page.read().lower()
    finally:
        if done and not done[-1].startswith("flintstream cluster stop"):
            shell.run("flintstream cluster stop --cancel-jobs")
        shell.close()
    assert [command.split()[1] for command in done if command.startswith("flintstream")] == [
        "cluster",
        "demo",
        "open",
        "cancel",
        "restart",
        "cluster",
    ]


def test_words_with_digits_may_be_others_and_all_else_may_not():
    assert re.fullmatch(as_shown("manager runs at http://127.0.0.1:8081"), "manager runs at http://127.0.0.1:4711")
    assert not re.fullmatch(as_shown("manager runs at http://127.0.0.1:8081"), "manager stands by at http://1")
    assert re.fullmatch(as_shown("job 1d0a starts again from ..."), "job ab12 starts again from /some where/else")
