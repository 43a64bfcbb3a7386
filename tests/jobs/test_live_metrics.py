"""`/metrics` of a live manager, scraped all the time while the driver of its job is killed and comes back."""

from __future__ import annotations

import os
import signal
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flintstream.jobs.client import Client
from flintstream.jobs.reports import JobFiles
from flintstream.jobs.rest_events import Reports
from flintstream.jobs.server import start_detached, stop_running
from flintstream.jobs.spec import JobSpec, token_of
from flintstream.jobs.view import JobView
from tests.jobs.managed import clear, until
from tests.metrics.prometheus_text import asked_by_grafana, parsed, value

PROGRAM = Path(__file__).parents[1] / "dashboard" / "program.py"
BY_DRIVER = ("bytes_", "busy_", "edge_")
"""What is counted from the start of each driver, and begins anew with it, as Prometheus has it of a process."""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    home = tmp_path / "home"
    yield Client(start_detached(home, port=0, slots=1), token_of(home))
    stop_running(home, cancel_jobs=True)
    clear(home)


class Scraper:
    """Scrapes, and remembers all that it has seen."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/metrics"
        self._totals: dict[Any, float] = {}
        self.families: dict[str, dict[str, Any]] = {}
        self.seen: set[str] = set()

    def scrape(self) -> None:
        """Take in what there is; totals of the whole job may never fall, not even for a moment."""
        with urllib.request.urlopen(self._url, timeout=30) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            self.families = parsed(answer.read().decode())
        self.seen |= set(self.families)
        for name, family in self.families.items():
            if family["kind"] == "counter" and not any(part in name for part in BY_DRIVER):
                for series, total in family["series"].items():
                    assert total >= self._totals.get(series, 0), series
                    self._totals[series] = total

    def until_more_than(self, count: float) -> float:
        """Scrape until sources have read more than that; return how much."""

        def look() -> float | None:
            self.scrape()
            name = "flintstream_job_records_in_total"
            found = value(self.families, name) if name in self.families else 0.0
            return found if found > count else None

        return until(look, f"more than {count} records")


@pytest.mark.row(147)
def test_totals_never_fall_while_a_driver_dies_and_the_next_one_starts(client: Client):
    arguments = (str(int(time.time() * 1000)), "2000")
    job = client.submit(JobSpec(program=str(PROGRAM), arguments=arguments, name="sensor averages")).id
    scraper = Scraper(client.url)
    before = scraper.until_more_than(3_000)
    assert value(scraper.families, "flintstream_job_restarts_total", job_id=job, job_name="sensor averages") == 0
    os.kill(client.plan(job)["pid"], signal.SIGKILL)
    scraper.until_more_than(before + 2_000)
    assert value(scraper.families, "flintstream_job_restarts_total") == 1
    assert value(scraper.families, "flintstream_job_status", status="RUNNING") == 1
    # Whatever Grafana shows of such a job, it finds.
    assert asked_by_grafana() - scraper.seen == set()


def test_a_job_that_has_ended_has_no_speed_though_its_last_report_is_of_one_that_ran(tmp_path: Path):
    spec = JobSpec(program="app.py")
    running = JobView("a" * 32, "job", "RUNNING", 0, 0, None, 1, 0, 1, None, None, spec, None, "running")
    shown = [running]
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "status.json").write_text('{"records_in": 7, "records_in_per_second": 2.5}')
    manager: Any = SimpleNamespace(
        folder=lambda job: tmp_path, status=lambda job: JobFiles(tmp_path).status(shown[-1].status)
    )
    reports = Reports(manager)
    assert reports.status(running)["records_in_per_second"] == 2.5
    # The driver has said its last word by then, so its file stays as it is.
    shown.append(replace(running, status="FINISHED"))
    assert reports.status(shown[-1]) == {"status": "FINISHED", "records_in": 7, "records_in_per_second": 0.0}
