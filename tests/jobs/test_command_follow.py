"""Following a job: all that it prints, once, whatever comes between; and what is shown of it."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from flintstream.errors import NoManagerError
from flintstream.jobs import command_follow
from flintstream.jobs.command_follow import Link, Tail, follow, last_lines
from flintstream.jobs.command_show import list_row, picture_of, watch
from flintstream.jobs.logs import LogPiece
from flintstream.jobs.spec import JobSpec
from flintstream.jobs.view import JobView

SPEC = JobSpec(program="app.py")


def view(status: str, error: str | None = None) -> JobView:
    return JobView(
        "ab" * 16, "orders", status, 0, 1000, None, 2, 1, 4, "/state", error, SPEC, "exactly-once", "running"
    )


class Fake:
    """A manager whose job prints a little between two looks, and which is sometimes not there."""

    url = "http://127.0.0.1:1"

    def __init__(self, script: list[Any]) -> None:
        self.script = script
        self.printed = {"out": "", "err": ""}
        self.canceled: list[str] = []
        self.status = "RUNNING"

    def job(self, job: str) -> JobView:
        step = self.script.pop(0)
        if isinstance(step, BaseException):
            raise step
        self.status = step[0]
        for stream, text in step[1].items():
            self.printed[stream] += text
        return view(self.status, "it broke" if self.status == "FAILED" else None)

    def log(self, job: str, stream: str, offset: int = 0, limit: int = 4) -> LogPiece:
        text = self.printed[stream][offset : offset + 4]
        size = len(self.printed[stream])
        return LogPiece(text, offset, offset + len(text), size, 0)

    def cancel(self, job: str) -> None:
        self.canceled.append(job)


FOUND: list[Any] = []


def link_to(*managers: Any) -> Link:
    """Return a link that finds one manager after the other."""
    FOUND[:] = managers

    def find() -> Any:
        found = FOUND.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found

    return Link(find)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_follow, "POLL_SECONDS", 0)


def test_both_streams_are_shown_to_the_end(capsys: pytest.CaptureFixture[str]):
    away = NoManagerError("nobody there")
    fake = Fake([
        ("CREATED", {}),
        ("RUNNING", {"out": "one\ntwo\n", "err": "careful\n"}),
        away,
        away,
        ("RUNNING", {"out": "three\n"}),
        ("FINISHED", {"out": "four\n"}),
    ])  # fmt: skip
    others = [fake, NoManagerError("none leads yet"), fake]
    assert follow(link_to(*others), "job") == 0
    # The first was asked for at once; both times that it was away, the one that leads was looked for.
    assert not FOUND
    told = capsys.readouterr()
    assert told.out == "one\ntwo\nthree\nfour\n"
    assert "careful\n" in told.err
    assert told.err.count("waits for a slot") == 1
    assert told.err.count("does not answer") == 1


def test_a_job_that_fails_ends_with_1(capsys: pytest.CaptureFixture[str]):
    assert follow(link_to(Fake([("FAILED", {})])), "job") == 1
    assert "it broke" in capsys.readouterr().err


def test_ctrl_c_cancels(capsys: pytest.CaptureFixture[str]):
    fake = Fake([("RUNNING", {}), KeyboardInterrupt()])
    assert follow(link_to(fake), "job") == 130
    assert fake.canceled == ["job"]


def test_patience_has_an_end(capsys: pytest.CaptureFixture[str]):
    patience = Link(lambda: Fake([]), seconds=-1)  # type: ignore[arg-type, return-value]

    def look() -> None:
        raise NoManagerError("nobody there")

    patience(look)
    with pytest.raises(NoManagerError):
        patience(look)
    # Someone who has come back may leave again.
    patience(lambda: None)
    patience(look)


def test_a_tail_reads_on_where_it_was():
    fake, found = Fake([]), list[str]()
    fake.printed["out"] = "0123456789"
    tail = Tail(link_to(fake), "job", "out", 3)
    assert tail.read(found.append)
    assert "".join(found) == "3456789"
    assert not tail.read(found.append)
    fake.printed["out"] += "x"
    assert tail.read(found.append)
    assert "".join(found) == "3456789x"


def test_last_lines_are_whole():
    assert last_lines("a\nb", 1) == "b"
    assert last_lines("a\nb\n", 0) == ""
    assert last_lines("", 5) == ""


def text_of(picture: Any) -> str:
    stream = io.StringIO()
    Console(file=stream, width=200).print(picture)
    return stream.getvalue()


def test_a_job_is_shown_with_what_is_known_of_it():
    bare = text_of(picture_of(view("INITIALIZING"), {}, {}, 5000))
    assert "orders  INITIALIZING" in bare
    assert "attempt 2 · 1 restarts · parallelism 4 · exactly-once" in bare
    status = {
        "epoch": 7,
        "epoch_seconds": 0.25,
        "records_in": 10,
        "records_in_per_second": 2.5,
        "late": 3,
        "watermark_lag_ms": 1500,
        "checkpoint": {"committed_ms": 4000, "total_bytes": 2048},
        "operators": {"a": {"busy": 0.91, "slowest": True, "state_entries": 12}},
        "sources": {"a": {"lag_records": 99}},
        "sinks": {"b": {"latency_ms": {"p50": 1, "p95": 20, "p99": 30, "max": 4000}}, "c": {"latency_ms": None}},
    }
    plan = {"operators": [{"uid": "a", "name": "Map [not markup]"}, {"uid": "b"}]}
    shown = text_of(picture_of(view("RUNNING"), status, plan, 5000))
    for words in ("epoch 7 (250 ms)", "3 late", "1.5 s behind", "2.0 KiB, 1.0 s old", "a: 99 records behind"):
        assert words in shown
    assert "91 %" in shown
    assert "slowest" in shown
    assert "Map [not markup]" in shown
    assert "4.0 s" in shown
    assert text_of(picture_of(view("FAILED", "it broke"), {"checkpoint": None}, {}, 5000)).count("it broke") == 1


def test_a_line_of_the_list():
    assert list_row(view("RUNNING"), {"records_in_per_second": 12345.0}, 61_000) == (
        "abababab", "orders", "RUNNING", "1970-01-01 00:00:00", "1 min 0 s", "4", "1", "12.3 k",
    )  # fmt: skip


def test_watching_ends_with_the_job(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr("flintstream.jobs.command_show.WATCH_SECONDS", 0)
    looks = [("first", False), ("second", False), ("last", True)]
    watch(lambda: looks.pop(0))
    assert not looks
    assert "last" in capsys.readouterr().out
