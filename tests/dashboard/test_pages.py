"""What each page shows, of a made-up manager whose numbers a test can name."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.dashboard import samples
from tests.dashboard.conftest import BLOCKED, JOB, LOST, PHONE, OpenPage, shoot
from tests.dashboard.fake_manager import FakeJob, FakeManager


def test_the_overview_shows_slots_workers_and_jobs(open_page: OpenPage, manager: FakeManager, job: FakeJob) -> None:
    manager.jobs["f" * 32] = FakeJob(samples.view("f" * 32, "nightly totals", "FINISHED"))
    manager.jobs["e" * 32] = FakeJob(samples.view("e" * 32, "broken", "FAILED", error="ValueError: no such sensor"))
    page = open_page(manager.url)
    row = page.get_by_role("row", name="sensor averages")
    expect(row).to_contain_text("running")
    expect(row).to_contain_text("48.2k/s")
    expect(page.get_by_role("row", name="nightly totals")).to_contain_text("finished")
    expect(page.get_by_role("row", name="broken")).to_contain_text("ValueError: no such sensor")
    tiles = page.locator(".tiles")
    expect(tiles).to_contain_text("2 of 4")
    expect(tiles).to_contain_text("Task managers1")
    expect(page.get_by_text("http://127.0.0.1:8081")).to_be_visible()
    expect(page.get_by_text("the Spark of each job")).to_be_visible()
    expect(page.get_by_label("Jobs by status")).to_have_text("1 failed1 finished1 running")
    shoot(page, "fake-overview")


def test_a_manager_without_jobs_says_how_to_start_one(open_page: OpenPage, manager: FakeManager) -> None:
    page = open_page(manager.url)
    expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
    expect(page.get_by_text("flintstream run --detached app.py")).to_be_visible()


def test_many_jobs_can_be_searched(open_page: OpenPage, manager: FakeManager) -> None:
    for number in range(8):
        name = f"{number:032x}"
        manager.jobs[name] = FakeJob(samples.view(name, f"job {number}"))
    page = open_page(manager.url)
    page.get_by_label("Show jobs by name or id").fill("job 5")
    expect(page.get_by_role("link", name=re.compile("^job"))).to_have_count(1)


@pytest.mark.row(130)
def test_the_graph_has_live_numbers_and_marks_the_slow_operator(
    open_page: OpenPage, manager: FakeManager, job: FakeJob, job_url: str
) -> None:
    page = open_page(job_url)
    out = page.locator('.fs-graph text[data-uid="readings"][data-field="records_out_per_second"]')
    expect(out).to_have_text("24.1k/s")
    expect(page.locator(".fs-slow")).to_have_count(0)
    job.status = samples.status(121, 9000.0, slow="means")
    manager.tell()
    expect(out).to_have_text("4.5k/s")
    expect(page.locator(".fs-slow")).to_have_attribute("data-uid", "means")
    expect(page.get_by_text("Slowest operator: mean per sensor, busy 97% of the time.")).to_be_visible()
    expect(page.get_by_text("125,000 records wait in the sources")).to_be_visible()
    shoot(page, "fake-slow-operator")


def test_an_operator_is_chosen_by_pointer_and_by_keyboard(open_page: OpenPage, job_url: str) -> None:
    page = open_page(job_url)
    page.locator('g.fs-operator[data-uid="means"]').click()
    detail = page.get_by_label("Chosen operator")
    expect(detail).to_contain_text("1,200 entries")
    expect(detail.get_by_role("link", name="mean")).to_have_attribute("href", f"#/jobs/{JOB}/state/mean")
    page.locator('g.fs-operator[data-uid="terminal"]').press("Enter")
    expect(detail).to_contain_text("p99 395 ms")
    expect(detail).to_contain_text("samples.py")
    page.go_back()
    expect(detail).to_contain_text("1,200 entries")


def test_the_header_tells_the_guarantee_and_how_the_job_is(open_page: OpenPage, job_url: str) -> None:
    page = open_page(job_url)
    head = page.get_by_role("region", name="Job", exact=True)
    expect(head.get_by_role("heading")).to_have_text("sensor averages")
    expect(head).to_contain_text("running")
    expect(head).to_contain_text("Guaranteeat-least-once")
    expect(head).to_contain_text("5,781,200 in all")
    expect(page).to_have_title(re.compile("^running . sensor averages . Flintstream$"))


PANELS = {
    "performance": ["Throughput", "Latency of to the terminal", "395 ms", "2.6 s behind"],
    "checkpoints": ["402 KiB", "before the upgrade", "/data/savepoints/averages-1", "1,120"],
    "records": ["17", "celsius to mean per sensor", "9,000", "even", "350 ms"],
    "metrics": ["hot readings", "1,234", "gauge", "21.5", "count 3, sum 9, min 2, mean 3, max 4"],
    "configuration": ["averages.py", "--fast", "kafka.password", "******", "/data/checkpoints/averages"],
}


@pytest.mark.parametrize("panel", PANELS)
def test_panels_show_what_the_driver_reported(open_page: OpenPage, job_url: str, panel: str) -> None:
    page = open_page(f"{job_url}/{panel}")
    for text in PANELS[panel]:
        expect(page.locator(".panelhost")).to_contain_text(text)
    shoot(page, f"fake-{panel}")


def test_a_chart_can_be_read_by_keyboard_and_as_a_table(open_page: OpenPage, job_url: str) -> None:
    page = open_page(f"{job_url}/performance")
    chart = page.get_by_role("img", name=re.compile("^Throughput"))
    expect(chart).to_have_attribute("aria-label", re.compile("in now .*k/s, highest"))
    chart.press("ArrowLeft")
    chart.press("ArrowLeft")
    expect(page.get_by_role("img", name=re.compile("^Throughput at "))).to_be_visible()
    figure = page.locator("figure", has_text="Throughput").first
    figure.get_by_text("As a table").click()
    expect(figure.get_by_role("row")).to_have_count(61)


def test_exceptions_name_the_users_line(open_page: OpenPage, manager: FakeManager, job: FakeJob, job_url: str) -> None:
    page = open_page(f"{job_url}/exceptions")
    expect(page.get_by_text("Nothing has failed.")).to_be_visible()
    job.exceptions.append(samples.failure())
    job.view = samples.view(JOB, "sensor averages", attempt=2, restarts=1)
    manager.tell()
    card = page.get_by_role("listitem")
    expect(card).to_contain_text("ZeroDivisionError")
    expect(card).to_contain_text("averages.py:41")
    expect(card).to_contain_text("restarted")
    card.get_by_text("Traceback", exact=True).click()
    expect(card).to_contain_text("in mean")
    expect(page.get_by_role("link", name="Exceptions 1")).to_be_visible()


def test_logs_follow_what_is_written(open_page: OpenPage, job: FakeJob, job_url: str) -> None:
    page = open_page(f"{job_url}/logs")
    log = page.get_by_role("log")
    expect(log).to_contain_text("b 19.0")
    job.logs["out"] += "c 23.5\n"
    expect(log).to_contain_text("c 23.5")
    page.get_by_label("Show lines with this text").fill("b 1")
    expect(log).to_have_text("b 19.0")
    page.get_by_label("Show lines with this text").fill("")
    page.get_by_label("Errors and log").check()
    expect(log).to_have_text("INFO started\n")


def test_state_is_looked_up_scanned_and_watched(
    open_page: OpenPage, manager: FakeManager, job: FakeJob, job_url: str
) -> None:
    page = open_page(f"{job_url}/state", may_say=LOST)
    expect(page.get_by_label("Window")).to_be_hidden()
    answer = page.get_by_label("Answer")
    page.get_by_label("Key", exact=True).fill("kitchen")
    page.get_by_role("button", name="Look up").click()
    expect(answer).to_contain_text("21.5")
    expect(answer).to_contain_text("As of epoch 120, committed")
    page.get_by_label("Read").select_option("uncommitted")
    page.get_by_role("button", name="Look up").click()
    expect(answer).to_contain_text("uncommitted")
    page.get_by_label("Key", exact=True).fill("nobody")
    page.get_by_role("button", name="Look up").click()
    expect(answer).to_contain_text("no value")
    page.get_by_label("Key", exact=True).fill("ki")
    page.get_by_role("button", name="Scan").click()
    expect(answer.get_by_role("row")).to_have_count(3)
    page.get_by_label("Key", exact=True).fill("cellar")
    page.get_by_role("button", name="Watch").click()
    expect(answer.get_by_role("listitem")).to_have_count(1)
    job.values["cellar"] = {"mean": 12.5, "count": 8}
    manager.tell()
    expect(answer.get_by_role("listitem")).to_have_count(2)
    expect(answer.get_by_role("listitem").first).to_contain_text("12.5")
    page.get_by_role("button", name="Stop watching").click()
    shoot(page, "fake-state")


def test_a_job_without_queryable_state_says_how_to_have_some(open_page: OpenPage, job: FakeJob, job_url: str) -> None:
    job.states = []
    page = open_page(f"{job_url}/state")
    expect(page.get_by_text("This job has no queryable state.")).to_be_visible()


def test_a_job_that_has_not_started_shows_that(open_page: OpenPage, manager: FakeManager) -> None:
    waiting = samples.view(JOB, "waits", "CREATED", started_ms=None, attempt=0, parallelism=None, guarantee=None)
    manager.jobs[JOB] = FakeJob(waiting)
    page = open_page(f"{manager.url}/#/jobs/{JOB}")
    expect(page.get_by_text("The graph appears when the job's driver has started.")).to_be_visible()
    for name in PANELS:
        page.get_by_role("navigation", name="Parts of this job").get_by_role("link").filter(
            has_text=re.compile(name, re.I)
        )
        page.goto(f"{manager.url}/#/jobs/{JOB}/{name}")
        expect(page.locator(".panelhost")).not_to_be_empty()
    expect(page.get_by_role("button", name="Take savepoint")).to_be_disabled()


def test_a_failed_job_shows_why(open_page: OpenPage, job: FakeJob, job_url: str) -> None:
    job.view = samples.view(
        JOB, "sensor averages", "FAILED", error="ZeroDivisionError: division by zero\naverages.py:41"
    )
    job.exceptions = [{**samples.failure(), "restarted": False}]
    page = open_page(f"{job_url}/exceptions")
    expect(page.get_by_role("region", name="Job", exact=True)).to_contain_text("division by zero")
    expect(page.get_by_role("listitem")).to_contain_text("ended the job")
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_hidden()
    expect(page.get_by_role("button", name="Restart")).to_be_enabled()
    shoot(page, "fake-failed")


def test_no_such_job_is_a_sentence(open_page: OpenPage, manager: FakeManager) -> None:
    page = open_page(f"{manager.url}/#/jobs/{'9' * 32}", may_say=LOST)
    expect(page.get_by_role("alert")).to_contain_text("See flintstream list.")


HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>&lt;"\''


def test_markup_in_names_stays_text(open_page: OpenPage, manager: FakeManager, job: FakeJob) -> None:
    bad = HOSTILE
    job.view = samples.view(JOB, bad, error=bad)
    operators = [{**each, "name": bad, "location": bad} for each in job.plan["operators"]]
    picture = job.plan["picture"].replace(
        "</svg>",
        '<script>document.title="3"</script><foreignObject><body xmlns="http://www.w3.org/1999/xhtml"/></foreignObject>'
        '<g onclick="document.title=4" class="planted"><a href="javascript:alert(1)"><text>x</text></a></g></svg>',
    )
    job.plan = {**job.plan, "operators": operators, "picture": picture, "configuration": {bad: bad}}
    job.exceptions = [{**samples.failure(), "type": bad, "message": bad, "traceback": bad, "location": bad}]
    job.logs = {"out": bad, "err": bad}
    job.savepoints = [{**samples.savepoints()[0], "comment": bad, "path": bad}]
    job.status = {**job.status, "metrics": {"celsius": {bad: 1}}}
    job.values = {"kitchen": bad}
    page = open_page(manager.url, may_say=BLOCKED)
    expect(page.get_by_role("link", name=bad)).to_be_visible()
    for panel in ("dataflow", *PANELS, "exceptions", "logs", "state"):
        page.goto(f"{manager.url}/#/jobs/{JOB}/{panel}")
        expect(page.get_by_role("heading", name=bad, level=1)).to_be_visible()
        expect(page.locator(".panelhost")).not_to_be_empty()
        assert page.locator("main img, main script, main foreignObject, main [onclick], main svg a").count() == 0
    page.get_by_label("Key", exact=True).fill("kitchen")
    page.get_by_role("button", name="Look up").click()
    expect(page.get_by_label("Answer")).to_contain_text(bad)
    expect(page).to_have_title(re.compile("Flintstream$"))


@pytest.mark.parametrize("size", [PHONE, (1440, 900)], ids=["phone", "desktop"])
def test_huge_names_and_numbers_stay_in_the_page(
    open_page: OpenPage, manager: FakeManager, job: FakeJob, size: tuple[int, int]
) -> None:
    long = "averages_of_everything_" * 9
    job.view = samples.view(JOB, long, parallelism=32_768, restarts=10**9, error="x" * 3000)
    job.plan = {**job.plan, "operators": [{**each, "name": long} for each in job.plan["operators"]]}
    job.status = {**samples.status(10**12, 1e13), "watermark": 9223372036854775807, "watermark_lag_ms": None}
    job.savepoints = [{**samples.savepoints()[0], "path": "/very/long" * 30, "comment": long}]
    page = open_page(manager.url, size)
    expect(page.get_by_role("link", name=long)).to_be_visible()
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    for panel in ("dataflow", *PANELS, "exceptions", "logs", "state"):
        page.goto(f"{manager.url}/#/jobs/{JOB}/{panel}")
        expect(page.get_by_role("heading", level=1)).to_have_text(long)
        expect(page.locator(".panelhost")).not_to_be_empty()
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), panel
    expect(page.get_by_text("end of input").first).to_be_visible()
